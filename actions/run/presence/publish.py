"""The publication of a run in its cluster: a companion of its runner, and the removal before the audit.

It has a session of its own, so that no stage waits for it, and follows the journal, so that no stage has to report to
it. A cluster that does not exist yet, is away, refuses, or was destroyed by the teardown costs a line in the runner's
log. Only one thing ends the runner: a record of a higher epoch, which another machine has written that took the run
over.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from importlib import metadata
from pathlib import Path
from typing import Protocol

from actions.base.clock import Clock
from actions.base.errors import AccessError, ConflictError, ConsoleError, MissingError, RefusedError, UnreachableError
from actions.base.executors import in_thread
from actions.base.guard import FencedError
from actions.cloud.eks import token_factory
from actions.cluster.http.errors import ApiConflictError, ApiMissingError
from actions.cluster.kinds import JOB_NAMES
from actions.cluster.objects.client import Document, merge_patch
from actions.run.context.access import ClusterAccess, ClusterConnection
from actions.run.context.operator import present_operator
from actions.run.context.retry import RetryPolicy
from actions.run.context.stage_context import StageContext, known_cluster_uid
from actions.run.journal.elsewhere import elsewhere_sentence, note_elsewhere, takeover_hint
from actions.run.journal.folder import kubeconfig_path
from actions.run.journal.machine import SILENT_COPY_SECONDS, is_same_machine, machine_id
from actions.run.presence.record import (
    BEAT_SECONDS,
    LABELS,
    OLD_SECONDS,
    RemoteRun,
    RunPresence,
    data_of,
    manifest_of,
    presence_of,
    read_run,
    ref_of,
)
from actions.run.state.records import Action, Created
from actions.run.state.view import Goal, RunState, RunView

LOOK_SECONDS = 1.0
"""Between two looks at the journal."""
HELD_SECONDS = 5.0
"""Between two looks at the record of such a machine."""
_TRIES = 3
"""Writes in a row that another write may come before."""
_TAKEN_BACK_SECONDS = 3.0


class PresenceHeldError(RefusedError):
    """The record is of another machine that may live: it is looked at again."""


def program_version() -> str:
    """Return the version of this program; empty if it was not installed."""
    try:
        return metadata.version("eksml-tui")
    except metadata.PackageNotFoundError:
        return ""


class FollowedJournal(Protocol):
    """The part of a runner's journal that the publication reads."""

    def last_seq(self) -> int:
        """Return the number of the newest record, without waiting."""
        ...

    def view_if_readable(self) -> RunView:
        """Return the run as last read, without waiting."""
        ...

    def created(self) -> Created:
        """Return the first record."""
        ...


class PresenceCompanion:
    """The companion of a runner that publishes the run in its cluster.

    Args:
        folder: The run's.
        journal: The run's, as its runner sees it.
        clock: For heartbeats.
    """

    name = "record in the cluster"

    def __init__(self, folder: Path, journal: FollowedJournal, clock: Clock) -> None:
        self._folder = folder
        self._journal = journal
        self._clock = clock
        self._access = ClusterAccess(kubeconfig_path(folder), "", clock, token_factory)
        self._version = ""
        """Resource version of the record as last written or read; empty before that, and if it is gone."""
        self._is_unsure = False
        """The answer to the last write was lost: it may have taken, or may yet."""
        self._published: tuple[object, ...] = ()
        self._seen_seq = -1
        self._next_at = 0.0
        self._machine = ""
        self._other: tuple[str, float] | None = None
        """Heartbeat of another machine at this epoch, and when it was seen first."""

    async def accompany(self) -> None:
        """Publish at each change of state, and every `BEAT_SECONDS`, until cancelled.

        Raises:
            FencedError: Another machine has taken the run over.
            ConsoleError: The cluster does not answer, or refuses; the next call waits before it tries again.
        """
        try:
            while True:
                await self._look()
                await self._clock.sleep(LOOK_SECONDS)
        finally:
            await self._access.aclose()

    async def finish(self, view: RunView) -> None:
        """Publish the run as its runner leaves it; after a teardown, remove what may have been written meanwhile."""
        try:
            if view.state is RunState.TORN_DOWN:
                if self._version or self._is_unsure:
                    async with asyncio.timeout(_TAKEN_BACK_SECONDS):
                        await remove_record(await self._connection(view), view)
            elif known_cluster_uid(view):
                await self._publish(view)
        finally:
            await self._access.aclose()

    async def _look(self) -> None:
        seq, now = self._journal.last_seq(), self._clock.monotonic()
        is_due = now >= self._next_at
        if seq == self._seen_seq and not is_due:
            return
        view = self._journal.view_if_readable()
        if not (self._access.is_possible and known_cluster_uid(view)) or _is_searched(view):
            self._seen_seq = seq
            return
        if not is_due and (self._published == _state_of(view) or not self._published):
            self._seen_seq = seq
            return
        self._next_at, self._published = now + BEAT_SECONDS, ()
        try:
            await self._publish(view)
        except ConsoleError:
            self._version = ""
            await self._access.aclose()  # the next one has the kubeconfig and the credentials of then
            raise
        self._seen_seq, self._published = seq, _state_of(view)

    async def _publish(self, view: RunView) -> None:
        """Write the record, unless another machine has.

        Raises:
            FencedError: The record is of a higher epoch.
            ConsoleError: It cannot be written, or another machine of this epoch may have it.
        """
        connection = await self._connection(view)
        if not self._machine:
            with suppress(OSError):  # a full disk
                self._machine = await in_thread("presence", machine_id, self._folder)
        now = self._clock.now().timestamp()
        presence = presence_of(
            view, now=now, owner=present_operator(), version=program_version(), machine=self._machine
        )
        for _ in range(_TRIES):
            try:
                self._version = await self._written(connection, presence)
            except (ApiConflictError, ApiMissingError):
                self._version = ""
            else:
                return
        raise UnreachableError(f"{ref_of(view.id).describe()} keeps being changed by others.")

    async def _written(self, connection: ClusterConnection, presence: RunPresence) -> str:
        """Write the record once, in the place of the version that is known; return its new version."""
        ref, created = ref_of(presence.id), self._journal.created()
        if not self._version:
            found = await connection.find(ref)
            if found is None:
                self._is_unsure = True
                made = await connection.create(manifest_of(presence, created))
                self._is_unsure = False
                return _version_of(made)
            self._refuse_other(found, presence)
            self._version = _version_of(found)
        change = {"metadata": {"resourceVersion": self._version, "labels": LABELS}} | data_of(presence, created)
        return _version_of(await merge_patch(connection.session, connection.discovery, ref, change))

    def _refuse_other(self, found: Document, presence: RunPresence) -> None:
        """Refuse to write over the record of a later epoch, and note who has the run; or of a machine that may live.

        Raises:
            FencedError: It is of a later epoch.
            PresenceHeldError: It is of another machine at this epoch, which has given a sign lately.
        """
        run = read_run(found)
        other = run.presence if run else None
        if run is None or other is None or other.epoch < presence.epoch:
            return
        if other.epoch == presence.epoch:
            if not is_same_machine(presence.machine, other.machine):
                self._refuse_living(run, other)
            return
        note_elsewhere(self._folder, other.owner, other.epoch)
        raise FencedError(elsewhere_sentence(presence.id, str(other.owner)), hint=takeover_hint(presence.id))

    def _refuse_living(self, run: RemoteRun, other: RunPresence) -> None:
        """Refuse to write over the record of another machine that has a copy of the run, until that is silent.

        Whether it lives is found out by the runner's fence, which ends the runner then.
        """
        now = self._clock.monotonic()
        if self._other is None or self._other[0] != other.heartbeat:
            self._other = other.heartbeat, now
        is_old = self._clock.now().timestamp() - run.seen_at > OLD_SECONDS
        if now - self._other[1] <= SILENT_COPY_SECONDS and not is_old:
            self._next_at = now + HELD_SECONDS
            raise PresenceHeldError(f"{other.owner} had the run at {other.heartbeat}, with a copy of its folder.")

    async def _connection(self, view: RunView) -> ClusterConnection:
        """Return the connection to the run's cluster.

        Raises:
            ConsoleError: There is none; never a `ConflictError`, which would end the runner.
        """
        try:
            return await self._access.open(known_cluster_uid(view))
        except ConflictError as error:
            raise RefusedError(error.message) from error


async def introduce(
    connection: ClusterConnection, view: RunView, created: Created, *, now: float, machine: str
) -> None:
    """Write the record of a run into its cluster that has none of it yet.

    Args:
        connection: To the run's cluster.
        view: The run, whose teardown has not come to its audit.
        created: The first record of its journal.
        now: Seconds since the epoch.
        machine: The identity of this machine's copy.

    Raises:
        ApiConflictError: There is one by now.
        ConsoleError: The cluster does not answer, or the right is missing.
    """
    if not known_cluster_uid(view) or _is_searched(view):
        return
    owner, version = present_operator(), program_version()
    presence = presence_of(view, now=now, owner=owner, version=version, machine=machine)
    await connection.create(manifest_of(presence, created))


async def remove_record(connection: ClusterConnection, view: RunView) -> str:
    """Delete the run's record, unless it is of a later epoch.

    Returns:
        Why it is left, in a line of the audit; empty if it is not.

    Raises:
        ConsoleError: The cluster does not answer.
    """
    ref = ref_of(view.id)
    command = f"kubectl delete configmap {ref.name} -n {ref.namespace}"
    line = f"{ref.describe()}: this user may not delete it; remove it with: {command}"
    for _ in range(_TRIES):
        found = await connection.find(ref)
        if found is None:
            return ""
        run = read_run(found)
        if run is not None and run.presence is not None and run.presence.epoch > view.epoch:
            return ""
        try:
            await connection.delete(ref, uid=str(found["metadata"]["uid"]), version=_version_of(found))
        except ApiConflictError:
            continue
        except (AccessError, RefusedError):
            return line
    found = await connection.find(ref)
    return "" if found is None else line


async def withdraw(context: StageContext, policy: RetryPolicy) -> str | None:
    """Delete the run's record before the audit: nothing of the run is to be left.

    It is done in the audit, and not in the undo of a stage: until then the teardown may fail or wait for long, and the
    run has to be known; and the companion publishes nothing more once the audit is announced in the journal.

    Args:
        context: Of any stage.
        policy: The retries until the cluster first answers.

    Returns:
        As `remove_record`; `None` if the cluster does not answer, or accepts no credentials: then there is none any
        more, or it is to be tried again once the cluster is known to be there.
    """
    if not context.access.is_possible or not known_cluster_uid(context.view):
        return ""
    try:
        return await remove_record(await context.connect(policy), context.view)
    except (UnreachableError, AccessError):
        return None
    except (MissingError, ConflictError):
        return ""  # without a cluster there is no record


def _is_searched(view: RunView) -> bool:
    """Return whether the audit of the teardown has begun."""
    return view.goal is Goal.TEARDOWN and (Action.AUDIT, "") in view.ending


def _state_of(view: RunView) -> tuple[object, ...]:
    """Return what is published at once when it changes."""
    stages = tuple((one.id, one.state, one.attempt) for one in (*view.stages, *view.teardown))
    jobs = sum(item.kind in JOB_NAMES for item in view.owned)
    return view.state, view.epoch, view.owner, stages, jobs


def _version_of(document: Document) -> str:
    return str((document.get("metadata") or {}).get("resourceVersion") or "")

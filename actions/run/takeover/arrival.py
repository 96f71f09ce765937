"""The needs of a run on the machine that it has come to: records, a kubeconfig, objects without a record."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path

import msgspec
from msgspec.structs import replace

from actions.base.clock import Clock
from actions.base.errors import ConsoleError, JournalError
from actions.base.files import expanded
from actions.base.wording import listed
from actions.blueprint.model import Blueprint
from actions.blueprint.operators import operator_manifests
from actions.blueprint.render import RUN_LABEL
from actions.blueprint.source_files import read_manifests
from actions.blueprint.stages import ManifestsStage
from actions.cluster.auth.kubeconfig import ClusterTarget
from actions.cluster.objects.client import ApiResource
from actions.run.context.access import ClusterConnection
from actions.run.context.stage_context import CLUSTER_UID, known_cluster_uid
from actions.run.engine.live_backend import LiveBackend
from actions.run.journal.folder import journal_path
from actions.run.journal.mirrored import MirrorMark, write_mark
from actions.run.journal.reader import load_run
from actions.run.journal.store import Journal
from actions.run.objects.ownership import Inventory, group_of
from actions.run.objects.survey import fetch_kinds, survey, with_owners
from actions.run.stages.kubeconfig import KubeconfigHandler
from actions.run.state.fold import fold
from actions.run.state.records import (
    Body,
    ClusterName,
    ContextChosen,
    Created,
    Identified,
    Operator,
    Output,
    RunAccount,
    TerraformBody,
)
from actions.run.state.view import Goal, OwnedObject, RunView, StageState, StageView, TerraformMemory
from actions.run.takeover.evidence import ApiVersions, FoundObjects, own_objects

APPLYING_KINDS = frozenset({"manifests", "storage"})
"""Kinds of stages all of whose objects stay until the stage is undone."""
_SHOWN = 3


class SetClock:
    """A clock that stands at the time of the record to write.

    Args:
        clock: Keeps the other times.
        at: Seconds since the epoch.
    """

    def __init__(self, clock: Clock, at: float) -> None:
        self._clock = clock
        self.at = at

    def now(self) -> datetime:
        return datetime.fromtimestamp(self.at, UTC)

    def monotonic(self) -> float:
        return self._clock.monotonic()

    async def sleep(self, seconds: float) -> None:
        await self._clock.sleep(seconds)


class ArrivalRecords:
    """The journal of a run without a runner: records with times of their own.

    Args:
        folder: The run's.
        clock: The machine's.
    """

    def __init__(self, folder: Path, clock: Clock) -> None:
        self._clock = clock
        self._times = SetClock(clock, clock.now().timestamp())
        self._journal = Journal(journal_path(folder), self._times)

    def write(self, body: Body, *, stage: str = "", attempt: int = 0, at: float = 0.0) -> None:
        """Append a record.

        Args:
            body: The record.
            stage: The stage that it belongs to, if any.
            attempt: The attempt of that.
            at: Seconds since the epoch; 0.0 for now.
        """
        self._times.at = at or self._clock.now().timestamp()
        self._journal.append(body, stage=stage, attempt=attempt)

    def view(self) -> RunView:
        """Return the run as the newest record leaves it."""
        return fold(self._journal.records())

    def created(self) -> Created:
        """Return the first record.

        Raises:
            JournalError: It is of another kind.
        """
        first = next(iter(self._journal.records()), None)
        if first is None or not isinstance(first.body, Created):
            raise JournalError("The journal does not begin with the run.")
        return first.body

    def newest_at(self, *, before: type[Body]) -> float:
        """Return the time of the newest record, in seconds since the epoch.

        Args:
            before: A kind of record at the end of the journal that does not count.
        """
        found = [record.at for record in self._journal.records() if not isinstance(record.body, before)]
        return found[-1] if found else 0.0

    def contexts(self) -> list[ClusterName]:
        """Return the contexts by which machines have reached the run's cluster, the newest first; none if it is from
        EKS."""
        found: list[ClusterName] = []
        for record in self._journal.records():
            if isinstance(record.body, Created):
                found.append(record.body.cluster)
            elif isinstance(record.body, ContextChosen):
                found.append(replace(found[0], context=record.body.context, kubeconfig=record.body.kubeconfig))
        return [each for each in reversed(found) if each.context or each.kubeconfig]

    def stage(self, stage: StageView) -> StageRecords:
        """Return the journal of one stage, for its handler."""
        return StageRecords(self, stage)

    def close(self) -> None:
        """Close the file."""
        self._journal.close()


class StageRecords:
    """The journal of one stage of a run without a runner; implements `StageJournal`."""

    def __init__(self, records: ArrivalRecords, stage: StageView) -> None:
        self._records = records
        self._stage = stage

    def note(self, text: str) -> None:
        return

    def warn(self, text: str) -> None:
        return

    def trouble(self, text: str) -> None:
        return

    def owned(self) -> Sequence[OwnedObject]:
        return self._records.view().owned_by(self._stage.id)

    async def own(self, item: OwnedObject) -> None:
        self._records.write(item.announcement(), stage=self._stage.id, attempt=max(self._stage.attempt, 1))

    async def deleted(self, item: OwnedObject) -> None:
        self._records.write(item.deletion(), stage=self._stage.id, attempt=max(self._stage.attempt, 1))

    async def terraform(self) -> TerraformMemory:
        return self._records.view().stage(self._stage.id).terraform

    async def remember(self, body: TerraformBody) -> None:
        self._records.write(body, stage=self._stage.id, attempt=max(self._stage.attempt, 1))

    async def identify(self, account: RunAccount) -> None:
        self._records.write(Identified(account))


@contextmanager
def arrival_records(folder: Path, clock: Clock) -> Iterator[ArrivalRecords]:
    """Open the journal of a run without a runner, and close it at the end."""
    records = ArrivalRecords(folder, clock)
    try:
        yield records
    finally:
        records.close()


def put_aside(folder: Path, epoch: int) -> None:
    """Give the folder of a run that has come back to this machine another name, if there is one.

    Args:
        folder: The run's.
        epoch: With which it has come back.
    """
    if folder.exists():
        aside = folder.with_name(f".{folder.name}.before-epoch-{epoch}")
        shutil.rmtree(aside, ignore_errors=True)
        folder.rename(aside)


def mark_arriving(folder: Path, owner: Operator, epoch: int, clock: Clock) -> None:
    """Mark a run that comes to this machine, so that no runner is started for it before all of it is here.

    Args:
        folder: The run's.
        owner: The new one.
        epoch: With which it comes.
        clock: The machine's.

    Raises:
        OSError: The disk is full.
    """
    store = load_run(folder).store
    write_mark(folder, MirrorMark(store, clock.now().timestamp(), epoch=epoch, owner=owner, is_arriving=True))


async def connect_here(
    folder: Path, records: ArrivalRecords, clock: Clock, *, target: ClusterTarget | None
) -> tuple[dict[str, str], ConsoleError | None]:
    """Write the run's kubeconfig on this machine, from EKS or a chosen context, and identify the cluster.

    Args:
        folder: The run's.
        records: Its journal.
        clock: The machine's.
        target: A context of this machine; `None` for what the run began with.

    Returns:
        The outputs of the kubeconfig stage, and the reason if there are none.
    """
    view = records.view()
    stage = next((each for each in view.stages if each.kind == "kubeconfig"), None)
    if stage is None:
        return {}, None
    if target is not None:
        path = str(expanded(target.kubeconfig).absolute()) if target.kubeconfig else ""
        cluster = replace(view.cluster, context=target.context, kubeconfig=path)
        view = replace(view, cluster=cluster)
    backend = LiveBackend(folder, clock)
    try:
        done = await KubeconfigHandler(backend.context(view, stage, records.stage(stage))).perform()
    except ConsoleError as error:
        return {}, error
    finally:
        await backend.aclose()
    return dict(done.outputs), None


async def objects_of(
    connection: ClusterConnection, blueprint: Blueprint, view: RunView, *, since: float
) -> tuple[FoundObjects, tuple[str, ...]]:
    """Search the cluster for objects of a run that its journal does not hold.

    Args:
        connection: The run's cluster.
        blueprint: With the run's preset applied; its manifests name the API versions.
        view: The run.
        since: Nothing older is new to the journal; seconds since the epoch.

    Returns:
        The objects, and a sentence on what could not be searched.
    """
    named = list(_named(blueprint))
    known = await fetch_kinds(connection)
    found = await survey(connection, known.kinds, selector=f"{RUN_LABEL}={view.id}")
    owners = await with_owners(connection, found.entries, Inventory(view.id, view.made_uids))
    recorded = {item.uid for item in view.owned if item.uid} | view.made_uids
    objects = own_objects(
        found.entries,
        run_id=view.id,
        stages={stage.id for stage in view.stages},
        since=since,
        versions=api_versions(known.kinds, named),
        positions={(one.stage, group_of(one.version), one.kind, one.name): place for place, one in enumerate(named)},
        known=frozenset(recorded),
        owners=owners.entries,
    )
    unasked = [item.clause() for item in (*known.unasked, *found.unasked)]
    unread = (f"Objects may be missing: this user {listed(unasked, _SHOWN)}.",) if unasked else ()
    return objects, unread


class NamedObject(msgspec.Struct, frozen=True):
    """An object that a stage of a blueprint applies, as its manifests name it."""

    stage: str
    version: str
    kind: str
    name: str


def api_versions(kinds: Sequence[ApiResource], named: Sequence[NamedObject]) -> ApiVersions:
    """Return the API version of each kind that a cluster serves: that of the blueprint's manifests, if it names one."""
    found = {(group_of(kind.api_version), kind.kind): kind.api_version for kind in kinds}
    for one in named:
        if (group_of(one.version), one.kind) in found:
            found[group_of(one.version), one.kind] = one.version
    return found


def _named(blueprint: Blueprint) -> Iterator[NamedObject]:
    """Yield the objects of a blueprint in the order of its manifests."""
    for stage in blueprint.stages:
        documents = [item.value for file in stage.files for item in read_manifests(blueprint.folder, file)]
        if isinstance(stage, ManifestsStage) and stage.source is not None:
            with suppress(ConsoleError):  # it is in no mirror: the cluster's preferred versions will do
                documents += operator_manifests(stage.source, ())
        for each in documents:
            name = str((each.get("metadata") or {}).get("name", ""))
            yield NamedObject(stage.id, str(each.get("apiVersion", "")), str(each.get("kind", "")), name)


class Searched(msgspec.Struct, frozen=True):
    """The result of a search for what the lost machine did after its last record."""

    left_out: tuple[str, ...] = ()
    """A line on each object that is left alone, with the reason."""
    sentences: tuple[str, ...] = ()
    """On what could not be searched, and what is gone."""


async def record_strays(folder: Path, records: ArrivalRecords, clock: Clock, *, since: float) -> Searched:
    """Record objects that the lost runner made after its last record.

    They carry the run's label and a stage of it, were written by this program, and are younger than that record. If the
    run's journal does not know the run's cluster yet, they tell that this is it, which is recorded, too.

    Args:
        folder: The run's.
        records: Its journal.
        clock: The machine's.
        since: The time of the last record, in seconds since the epoch.

    Raises:
        ConsoleError: The cluster cannot be reached, or accepts no credentials.
    """
    view = records.view()
    backend = LiveBackend(folder, clock)
    try:
        connection = await backend.cluster_of(view)
        if connection is None:
            return Searched()
        context = backend.read_only_context(view)
        found, unread = await objects_of(connection, context.blueprint, view, since=since)
        is_found = bool(found.own) and not known_cluster_uid(view)
        uid = await connection.session.cluster_uid() if is_found else ""
    finally:
        await backend.aclose()
    access = next((stage for stage in view.stages if stage.kind == "kubeconfig"), None)
    if uid and access is not None:
        records.write(Output({CLUSTER_UID: uid}), stage=access.id, attempt=max(access.attempt, 1))
    for one in found.own:
        stage = view.stage(one.item.stage)
        records.write(one.item.announcement(), stage=stage.id, attempt=max(stage.attempt, 1))
    return Searched(found.doubtful, unread or gone_sentences(view, found.uids))


def gone_sentences(view: RunView, present: frozenset[str]) -> tuple[str, ...]:
    """Return a sentence on objects of finished stages that are gone though no record says so; none if none is.

    Jobs end, and nodes go with their pods: they do not count.

    Args:
        view: The run.
        present: Uids of all objects with the run's label.
    """
    done = {stage.id for stage in view.stages if stage.kind in APPLYING_KINDS and stage.state is StageState.SUCCEEDED}
    gone = [
        f"{item.kind} {item.name}"
        for item in view.owned
        if item.stage in done and item.uid and not item.existed and not item.is_deleted and item.uid not in present
    ]
    if view.goal is Goal.TEARDOWN or not gone:
        return ()
    return (
        f"Of what its finished stages have made is gone: {listed(gone, _SHOWN)}. If the earlier machine was tearing "
        "the run down, ask for that again.",
    )

"""The companion that keeps a run's watchdog in its cluster, and takes into the journal what the watchdog has done."""

from __future__ import annotations

from collections.abc import Callable

from msgspec.structs import replace

from actions.base.clock import Clock
from actions.base.errors import ConflictError, ConsoleError, RefusedError, UnreachableError
from actions.base.executors import in_thread
from actions.base.untrusted import one_line, redact
from actions.blueprint.render import RUN_LABEL
from actions.cluster.objects.client import Document, ObjectRef, merge_patch
from actions.run.context.access import ClusterConnection
from actions.run.context.retry import ONCE, RetryPolicy
from actions.run.context.stage_context import StageContext, known_cluster_uid
from actions.run.journal.runner_journal import RunnerJournal
from actions.run.limits.rules import LimitName, is_watchdog
from actions.run.objects.inventory import ref_of_owned
from actions.run.objects.ownership import doubt_about
from actions.run.objects.writes import apply_objects, request_removal, seen
from actions.run.state.records import LimitReached
from actions.run.state.view import Goal, NoticeKind, RunView
from actions.run.store.access import known_store
from actions.run.store.lease_object import lease_name
from actions.run.volume.helper_job import JobRecorder, JournalJobRecorder
from actions.run.watchdog.manifests import NAMESPACE, WatchedObject, manifests_of, watchdog_name, watched_objects
from actions.run.watchdog.script import NOTE, moment_of

LOOK_SECONDS = 15.0
"""Pause between two looks at what the run holds."""
NOTE_SECONDS = 60.0
"""Pause between two looks at what the watchdog has noted."""
IDLE_SECONDS = 12 * 60.0
"""Between the last pod of the watchdog that succeeded and the newest one: at least two in between have not."""
_LONGEST_NOTE = 1000

ContextOf = Callable[[RunView], StageContext]
"""Returns a context whose journal records what belongs to no stage."""


class WatchdogKeeper:
    """The companion of a runner whose run has a watchdog.

    The watchdog exists while the run has jobs that hold accelerators, and names these alone.

    Args:
        journal: Of the run.
        context_of: Makes the context for its objects.
        clock: For the pauses.
    """

    name = "watchdog"

    def __init__(self, journal: RunnerJournal, context_of: ContextOf, clock: Clock) -> None:
        self._journal = journal
        self._context_of = context_of
        self._clock = clock
        self._applied: tuple[float, tuple[WatchedObject, ...], str] | None = None
        self._read_at: float | None = None
        self._idle_reason = ""

    async def accompany(self) -> None:
        """Keep the watchdog as the run needs it, until cancelled.

        Raises:
            ConsoleError: The cluster refuses, or does not answer; the next call tries again.
        """
        while True:
            try:
                await self._look(await self._journal.view())
            except (ConflictError, UnreachableError):  # a CronJob that is there works on
                raise
            except ConsoleError as error:
                self._show(error.sentence())
                raise
            self._show(self._idle_reason)
            await self._clock.sleep(LOOK_SECONDS)

    def _show(self, reason: str) -> None:
        """Show why the watchdog does not work; empty if it does, or there is none."""
        heartbeat = self._journal.heartbeat
        if heartbeat.state.reasons.get(NoticeKind.WATCHDOG_IDLE.value, "") != reason:
            heartbeat.waits_no_more(NoticeKind.WATCHDOG_IDLE)
        if reason:
            heartbeat.waits_for(NoticeKind.WATCHDOG_IDLE, reason)

    async def finish(self, view: RunView) -> None:
        """Remove the watchdog of a run whose jobs are done; its lease is given back, so not as its runner."""
        if view.goal is Goal.TEARDOWN or watched_objects(view) or not any(is_watchdog(item) for item in view.owned):
            return
        context = self._context_of(view)
        recorder = JournalJobRecorder(context.folder, self._clock)
        await _remove_all(view, await context.connect(ONCE), recorder, self._clock)

    async def _look(self, view: RunView) -> None:
        has_any = any(is_watchdog(item) for item in view.owned)
        if view.goal is Goal.TEARDOWN or not (view.limits.watchdog_minutes or has_any) or not known_cluster_uid(view):
            self._idle_reason = ""
            return  # a teardown removes it before its audit
        context = self._context_of(view)
        try:
            connection = await context.connect(ONCE)
            if store := known_store(context.folder).namespace:  # else the run's lease is not there yet
                await self._take_note(view, connection, store)
                await self._keep(view, context, connection, store)
        except ConflictError as error:  # of an object or a cluster; never of the run's lease
            raise RefusedError(error.message, hint=error.hint) from error

    async def _keep(self, view: RunView, context: StageContext, connection: ClusterConnection, store: str) -> None:
        objects = watched_objects(view) if view.limits.watchdog_minutes else ()
        if not objects:
            self._applied, self._idle_reason = None, ""
            await _remove_all(view, connection, context.journal, self._clock)
            return
        wanted = (view.limits.watchdog_minutes, objects, store)
        if wanted != self._applied:
            manifests = await in_thread("watchdog", manifests_of, view, objects, store)
            await apply_objects(context, connection, manifests)
            self._applied = wanted

    async def _take_note(self, view: RunView, connection: ClusterConnection, store: str) -> None:
        """Record once what the watchdog has done, and remove its note; the guard of limits parks the run then."""
        now = self._clock.monotonic()
        if self._read_at is not None and now - self._read_at < NOTE_SECONDS:
            return
        ref = ObjectRef("coordination.k8s.io/v1", "Lease", store, lease_name(view.id))
        note = _note_of(await connection.find(ref))
        if note:
            text = f"The watchdog in the cluster acted: {note}"
            if view.goal in (Goal.FORWARD, Goal.CANCEL) and all(one.text != text for one in view.limits_reached):
                await self._journal.write_at_limit(LimitReached(LimitName.WATCHDOG.value, text))
            change = {"metadata": {"annotations": {NOTE: None}}}
            await merge_patch(connection.session, connection.discovery, ref, change)
        if view.goal in (Goal.FORWARD, Goal.CANCEL):
            self._idle_reason = idle_reason(await connection.find(_cron_of(view.id)), view.id)
        self._read_at = now


def _cron_of(run_id: str) -> ObjectRef:
    return ObjectRef("batch/v1", "CronJob", NAMESPACE, watchdog_name(run_id))


def idle_reason(cron: Document | None, run_id: str) -> str:
    """Return why pods of a CronJob do not end well: a sentence, or empty. All times are of the API server."""
    if cron is None:
        return ""
    metadata, status = cron.get("metadata") or {}, cron.get("status") or {}
    due, made = moment_of(status.get("lastScheduleTime")), moment_of(metadata.get("creationTimestamp"))
    well = moment_of(status.get("lastSuccessfulTime")) or made
    if due is None or well is None or (due - well).total_seconds() < IDLE_SECONDS:
        return ""
    ask = f"kubectl -n {NAMESPACE} describe pods -l {RUN_LABEL}={run_id}"
    return f"No pod of its CronJob has succeeded since {well:%H:%M} UTC. Find out with: {ask}"


def _note_of(document: Document | None) -> str:
    annotations = ((document or {}).get("metadata") or {}).get("annotations") or {}
    return one_line(redact(str(annotations.get(NOTE) or "")), limit=_LONGEST_NOTE)


async def delete_watchdog(context: StageContext, policy: RetryPolicy) -> None:
    """Delete the watchdog of a run that is parked or torn down. What cannot be read or deleted is left to the audit.

    Args:
        context: Of any stage; its journal records what belongs to no stage.
        policy: The retries until the cluster first answers.
    """
    if not any(is_watchdog(item) for item in context.view.owned) or not context.access.is_possible:
        return
    try:
        await _remove_all(context.view, await context.connect(policy), context.journal, context.clock)
    except ConsoleError:
        return


async def _remove_all(view: RunView, connection: ClusterConnection, journal: JobRecorder, clock: Clock) -> None:
    """Delete the watchdog's objects, the CronJob first."""
    for item in reversed([item for item in view.owned if is_watchdog(item)]):
        ref = ref_of_owned(item)
        found = await seen(connection, ref)
        if found is not None and (found.uid == item.uid or not doubt_about(found, item, view.id)):
            await request_removal(connection, ref, found.uid, clock=clock)
        await journal.deleted(replace(item, is_deleted=True))

"""The job stage: starts a workload and follows it to its end."""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from typing import Any

from actions.base.errors import AccessError, ConsoleError, JournalError, MissingError
from actions.base.untrusted import one_line
from actions.blueprint.stages import JobStage
from actions.cluster.objects.client import ObjectRef
from actions.cluster.objects.status_rules import ObjectStatus, WorkState, object_status
from actions.fleet.verdict import verdict_of
from actions.run.context.access import ClusterConnection
from actions.run.context.protocols import Performed, StageFailedError
from actions.run.context.retry import ALIVE, ANSWERED, STAGE, TEARDOWN, PollInterval, retry_unreachable
from actions.run.context.stage_context import StageContext
from actions.run.objects.inventory import is_of_run, ref_of_name, ref_of_owned, wait_command
from actions.run.objects.node_claims import NodeClaimRecorder
from actions.run.objects.node_use import NodeUseRecorder
from actions.run.objects.ownership import entry_of, group_of
from actions.run.objects.undo import delete_objects
from actions.run.objects.writes import apply_objects, uid_of
from actions.run.output.last_lines import read_last_lines
from actions.run.output.reader import OutputReader
from actions.run.stages.log_check import check_log_result
from actions.run.stages.readiness import cause_in, progress_of, restarts_of, troubles_of
from actions.run.state.view import StageState

LOOK_SECONDS = 1.0
_ENDED_WELL = frozenset({"Completed", "JobCompleted"})
_ENDED_BADLY = frozenset({"BackoffLimitExceeded", "DeadlineExceeded", "PodFailurePolicy"})


class JobHandler:
    """The job stage: a Job, PyTorchJob or the like. A workload that vanished is created again only by a retry."""

    def __init__(self, context: StageContext) -> None:
        self._context = context
        self._stage = context.declared(JobStage)
        self._target = ref_of_name(self._stage.target, context.namespace)
        self._last: ObjectStatus | None = None
        self._restarts = 0
        self._cause = ""
        """The reason of the newest restart, from the logs."""

    def describe(self) -> list[str]:
        applies = [f"kubectl apply --server-side -f {file}" for file in self._stage.files]
        return [*applies, wait_command(self._target)]

    async def probe(self) -> Performed | None:
        """Continue to follow the workload, also if it is gone; `None` if it was never created."""
        if not self._made_uid():
            return None
        return await self._finished(await self._context.connect(ALIVE))

    async def prepare(self) -> None:
        if self._context.stage.state is StageState.UNKNOWN and self._made_uid():
            return  # it is followed to its end
        await self._clear_the_way(await self._connect())

    async def perform(self) -> Performed:
        connection = await self._connect()
        await apply_objects(self._context, connection, [*await self._context.secrets(), *self._context.manifests()])
        if not self._made_uid():  # another machine has made one since `prepare` looked
            await self._clear_the_way(connection)
        return await self._finished(connection)

    async def undo(self) -> str:
        connection = await self._context.connect(TEARDOWN)
        return await self._remove(connection)

    async def _connect(self) -> ClusterConnection:
        return await self._context.connect(ALIVE if self._may_live() else STAGE)

    async def _remove(self, connection: ClusterConnection) -> str:
        """Delete the stage's objects, once its logs are read. Returns that, and what is missing of the logs."""
        losses = await read_last_lines(self._context, has_had_pods=partial(self._has_begun, connection))
        return f"{await delete_objects(self._context, connection)} {losses}".strip()

    async def _has_begun(self, connection: ClusterConnection) -> bool:
        """Return whether the workload that the stage has made has run, or is gone."""
        uid = self._made_uid()
        if not uid:
            return False
        found = await connection.find(self._target)
        return found is None or uid_of(found) != uid or object_status(found).state is not WorkState.WAITING

    def _may_live(self) -> bool:
        """Return whether an earlier attempt may have created it, even if it did not record the uid."""
        return any(ref_of_owned(item) == self._target and not item.existed for item in self._context.journal.owned())

    def _made_uid(self) -> str:
        for item in self._context.journal.owned():
            if ref_of_owned(item) == self._target and not item.existed:
                return "" if item.intended_at else item.uid
        return ""

    async def _clear_the_way(self, connection: ClusterConnection) -> None:
        """Refuse a foreign workload of this name; delete our own if it, or its log check, has failed."""
        found = await self._fetch(connection)
        if found is None:
            return
        entry = entry_of(found, group_of(self._target.api_version), self._target.kind)
        if not is_of_run(self._context, entry, self._target):
            refusal = f"{self._target.describe()} is there already"
            if entry.run == self._context.view.id:
                refusal += ", with the run's label, but the run never recorded making it"
            elif entry.run:
                refusal += f", of the run {entry.run}"
            raise StageFailedError(f"{refusal}.", hint="Delete it, or use another namespace.")
        state = object_status(found).state
        if state is WorkState.FAILED or (state is WorkState.FINISHED and self._stage.verdict is not None):
            await self._remove(connection)

    async def _finished(self, connection: ClusterConnection) -> Performed:
        """Follow the workload to its end, and delete what was only to be tried."""
        done = await self._follow(connection)
        if self._stage.is_temporary:
            await delete_objects(self._context, connection)
        return done

    async def _follow(self, connection: ClusterConnection) -> Performed:
        """Follow the workload to its end. Unreachable clusters and expired credentials are retried."""
        recorder, use = NodeClaimRecorder(self._context), NodeUseRecorder(self._context)
        interval = PollInterval(self._context.clock, first_seconds=LOOK_SECONDS)
        limit = self._stage.deadline_seconds
        deadline = self._context.clock.monotonic() + limit if limit else float("inf")
        while True:
            found = await self._fetch(connection)
            if found is None or uid_of(found) != self._made_uid():
                return await self._gone(connection)
            self._last = verdict = object_status(found)
            if verdict.state is WorkState.FINISHED:
                message = verdict.message or f"{self._target.describe()} finished."
                return await check_log_result(self._context, connection, self._stage, message)
            if verdict.state is WorkState.FAILED:
                raise StageFailedError(await self._failure(connection, verdict))
            pods = await self._pods(connection)
            if self._context.clock.monotonic() >= deadline:
                waits = await self._waits_for(connection, progress_of(verdict, pods))
                raise StageFailedError(f"{self._target.describe()} has not ended within {limit} s. {waits}".rstrip())
            await recorder.take(connection, pods)
            await use.take(connection, pods)
            self._context.journal.note(progress_of(verdict, pods))
            self._context.journal.trouble(self._trouble_of(pods))
            await interval.pause()

    async def _waits_for(self, connection: ClusterConnection, progress: str) -> str:
        """Return what the pods wait for in the words of the API: theirs, other objects', those of the last warning."""
        words = [progress]
        with suppress(ConsoleError):
            for ref in map(ref_of_owned, self._context.journal.owned()):
                found = await connection.find(ref) if ref != self._target else None
                status = object_status(found) if found is not None else None
                if status is not None and status.state in (WorkState.WAITING, WorkState.FAILED):
                    words.append(f"{ref.describe()}: {status.words()}")
            events = await _events_of(connection, self._target, self._made_uid())
            words += [str(event.get("message") or "") for event in events if event.get("type") == "Warning"][-1:]
        return one_line(" ".join(word for word in words if word))

    def _trouble_of(self, pods: list[dict[str, Any]]) -> str:
        """Return the trouble of the pods, with its cause as soon as their logs give one."""
        restarts = restarts_of(pods)
        if restarts != self._restarts:
            self._restarts, self._cause = restarts, ""
        name = self._target.name
        found = troubles_of(pods, job=name, now=self._context.clock.now().timestamp())
        if found and not self._cause:
            with suppress(JournalError):
                output = OutputReader(self._context.folder, self._context.stage.id)
                cause = cause_in(output, [one.name for one in found])
                self._cause = cause.headline if cause is not None else ""
        return verdict_of(found, job=name, cause=self._cause)

    async def _fetch(self, connection: ClusterConnection) -> dict[str, Any] | None:
        async def look() -> dict[str, Any] | None:
            return await connection.find(self._target)

        return await retry_unreachable(look, clock=self._context.clock, note=self._context.journal.note, policy=ALIVE)

    async def _pods(self, connection: ClusterConnection) -> list[dict[str, Any]]:
        """Return the stage's pods; none if they cannot be listed at present."""
        selector = self._context.pod_selector(is_of_stage=True)
        try:
            return await connection.pods(namespace=self._target.namespace, label_selector=selector)
        except ConsoleError:
            return []

    async def _gone(self, connection: ClusterConnection) -> Performed:
        """Return the result of a workload that is gone: success only by evidence for it and none of failure."""
        name = self._target.describe()
        reasons = await self._reasons(connection)
        if reasons & _ENDED_BADLY:
            raise StageFailedError(f"{name} failed ({', '.join(sorted(reasons & _ENDED_BADLY))}) and removed itself.")
        if reasons & _ENDED_WELL:
            return Performed(f"{name} finished and removed itself.")
        output = OutputReader(self._context.folder, self._context.stage.id)
        codes = list(output.exit_codes().values())
        if codes and codes[-1] == 0:
            return Performed(f"{name} is gone; its last container ended with 0.")
        has_run = output.has_printed_lines() or (self._last is not None and self._last.state is WorkState.RUNNING)
        if self._stage.gone_is_success and has_run and not any(codes):
            return Performed(f"{name} ran and is gone, as its time to live allows; its end was not observed.")
        raise StageFailedError(
            f"{name} is gone, and its end was not observed.",
            hint="Check whether its results are there; a retry starts it again.",
        )

    async def _reasons(self, connection: ClusterConnection) -> set[str]:
        """Return the reasons in the job's events; none if they may not be read. Retries until there is an answer."""

        async def ask() -> set[str]:
            return await _reasons_of(connection, self._target, self._made_uid())

        try:
            return await retry_unreachable(
                ask, clock=self._context.clock, note=self._context.journal.note, policy=ANSWERED
            )
        except (AccessError, MissingError):
            return set()

    async def _failure(self, connection: ClusterConnection, verdict: ObjectStatus) -> str:
        sentence = f"{self._target.describe()} failed: {verdict.words()}"
        for pod in await self._pods(connection):
            ended = object_status(pod)
            if ended.state is WorkState.FAILED:
                name = pod["metadata"]["name"]
                full_stop = "" if sentence.endswith(".") else "."
                return one_line(f"{sentence}{full_stop} Pod {name}: {ended.words()} {_exit_of(pod)}")
        return sentence


async def _reasons_of(connection: ClusterConnection, ref: ObjectRef, uid: str) -> set[str]:
    """Return the reasons of the events about an object."""
    return {str(event.get("reason") or "") for event in await _events_of(connection, ref, uid)}


async def _events_of(connection: ClusterConnection, ref: ObjectRef, uid: str) -> list[dict[str, Any]]:
    """Return the events about an object, which outlive it by an hour."""
    selector = f"involvedObject.kind={ref.kind},involvedObject.name={ref.name}"
    events = await connection.list_objects("v1", "Event", namespace=ref.namespace, field_selector=selector)
    return [event for event in events if not uid or (event.get("involvedObject") or {}).get("uid") in ("", None, uid)]


def _exit_of(pod: dict[str, Any]) -> str:
    for entry in (pod.get("status") or {}).get("containerStatuses") or ():
        ended = (entry.get("state") or {}).get("terminated") or (entry.get("lastState") or {}).get("terminated")
        if ended and ended.get("exitCode"):
            return f"Container {entry.get('name')} ended with {ended['exitCode']}."
    return ""

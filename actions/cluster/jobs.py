"""The watch of any job of the cluster to its end, with the logs of all its pods, whenever they come and go."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable

import msgspec

from actions.base.clock import Clock
from actions.base.errors import AccessError, MissingError, RefusedError
from actions.cluster.auth.session import KubeSession
from actions.cluster.job_pods import JobPod, JobRef, pods_of_job
from actions.cluster.kinds import find_kind, watched_names
from actions.cluster.logs.batch import LogBatch, batches_of
from actions.cluster.logs.follow import ContainerLog, LogFollower
from actions.cluster.logs.lines import LogCursor, LogLine
from actions.cluster.objects.client import Discovery, ObjectRef, fetch_object
from actions.cluster.state.cluster_state import source_name
from actions.cluster.state.snapshot import ClusterSnapshot
from actions.cluster.watch.health import Health
from actions.fleet.facts import JobReport

LOOK_SECONDS = 0.5
LAST_LINES_SECONDS = 10.0
"""The time that the logs may take to end after the job."""
_ENDED = ("finished", "failed")

OnLines = Callable[[JobPod, str, LogBatch], Awaitable[None] | None]


class JobOutcome(msgspec.Struct, frozen=True):
    """The end of a job.

    Args:
        state: `finished`, `failed`, or `gone` if it was deleted.
        message: The API's message, if there is one.
    """

    state: str
    message: str = ""


class JobWatch:
    """The watch of one job. It keeps the position in each log, so that `run` continues there after a lost connection.

    Used on the session's loop.

    Args:
        job: The job.
        session: Returns the session at the time of the call.
        look: Returns the newest snapshot of the cluster.
        on_lines: Receives the lines of one container, in order; if it returns an awaitable, reading waits for it.
        tail_lines: Returns the number of old lines that the logs of a pod begin with; `None` for all.
        on_report: Receives progress and metrics that are new in the job's status.
        clock: For waits and deadlines.
    """

    def __init__(
        self,
        job: JobRef,
        *,
        session: Callable[[], KubeSession],
        look: Callable[[], ClusterSnapshot | None],
        on_lines: OnLines,
        tail_lines: Callable[[JobPod], int | None],
        on_report: Callable[[JobReport], None],
        clock: Clock,
    ) -> None:
        self.job = job
        self.members: tuple[JobPod, ...] = ()
        """The job's present pods; if it has ended, those that it had last."""
        self._session = session
        self._look = look
        self._on_lines = on_lines
        self._tail_lines = tail_lines
        self._on_report = on_report
        self._reported: JobReport | None = None
        self._clock = clock
        self._cursors: dict[tuple[str, str], LogCursor] = {}
        self._is_done: set[tuple[str, str]] = set()

    async def run(self) -> JobOutcome:
        """Follow until the job has ended or is gone, and its logs with it.

        Raises:
            MissingError: There is no such job.
            RefusedError: It is of a kind that cannot be watched.
            AccessError: The job or a log may not be read, or its end not seen.
        """
        await self.require()
        tasks: dict[tuple[str, str], asyncio.Task[None]] = {}
        try:
            return await self._follow(tasks)
        finally:
            for task in tasks.values():
                task.cancel()
            await asyncio.gather(*tasks.values(), return_exceptions=True)

    async def require(self) -> None:
        """Check that the job exists.

        Raises:
            MissingError: There is none.
            RefusedError: It is of a kind that cannot be watched.
        """
        row = find_kind(self.job.kind)
        if row is None or not row.is_watched:
            raise RefusedError(f"A {self.job.kind} cannot be watched.", hint=f"Watch one of {watched_names()}.")
        session, job = self._session(), self.job
        ref = ObjectRef(row.api_version, row.kind, job.namespace, job.name)
        try:
            await fetch_object(session, Discovery(session), ref)
        except MissingError as error:
            named = row.plural if row.name == row.kind else f"{row.plural}.{row.group}"
            hint = f"List those that there are: kubectl get -A {named}, in the console :{named}."
            raise MissingError(f"There is no {ref.describe()}.", hint=hint) from error

    async def _follow(self, tasks: dict[tuple[str, str], asyncio.Task[None]]) -> JobOutcome:
        end: JobOutcome | None = None
        ended_at = 0.0
        was_seen = False
        while True:
            snapshot = self._look()
            if snapshot is not None:
                self._take(snapshot, tasks)
                workload = snapshot.workloads.get(self.job.key)
                was_seen = was_seen or workload is not None
                if workload is not None and workload.report not in (None, self._reported):
                    self._reported = workload.report
                    self._on_report(workload.report)
                now_ended = JobOutcome("gone") if workload is None and was_seen else None
                if workload is not None and workload.state in _ENDED:
                    now_ended = JobOutcome(workload.state, workload.message)
                if end is None and now_ended is not None:
                    ended_at = self._clock.monotonic()
                end = now_ended
            for task in tasks.values():
                if task.done() and not task.cancelled() and (error := task.exception()) is not None:
                    raise error
            if all(task.done() for task in tasks.values()):
                self._require_seen(snapshot)
            is_late = self._clock.monotonic() - ended_at > LAST_LINES_SECONDS
            if end is not None and (is_late or all(task.done() for task in tasks.values())):
                return end
            await self._clock.sleep(LOOK_SECONDS)

    def _require_seen(self, snapshot: ClusterSnapshot | None) -> None:
        """Check that the end of the job would be seen.

        Raises:
            AccessError: Jobs of its kind may not be listed and watched, and there is no log to follow.
        """
        row = find_kind(self.job.kind)
        if snapshot is None or row is None or self.job.key in snapshot.workloads:
            return
        kind, pods = (snapshot.health.get(name) for name in (source_name(row), "pods"))
        is_read = pods is not None and pods.state is Health.LIVE
        if is_read and kind is not None and kind.state in (Health.FORBIDDEN, Health.UNAUTHORIZED):
            raise AccessError(kind.detail, hint="Without it the end of the job is not seen.")

    def _take(self, snapshot: ClusterSnapshot, tasks: dict[tuple[str, str], asyncio.Task[None]]) -> None:
        members = pods_of_job(self.job, snapshot.pods, snapshot.workloads)
        if members:
            self.members = tuple(members)
        for member in members:
            for container in member.pod.containers:
                key = (f"{member.pod.key} {member.pod.uid}", container)
                if key not in tasks and key not in self._is_done:
                    tasks[key] = asyncio.create_task(self._read(member, container, key))

    async def _read(self, member: JobPod, container: str, key: tuple[str, str]) -> None:
        def deliver(batch: LogBatch) -> Awaitable[None] | None:
            return self._on_lines(member, container, batch)

        pod = member.pod
        source = ContainerLog(pod.namespace, pod.name, container, pod.uid)
        follower = LogFollower(
            self._session(),
            source,
            on_lines=deliver,
            since=self._cursors.get(key),
            tail_lines=self._tail_lines(member),
            clock=self._clock,
        )
        try:
            end = await follower.run()
        finally:
            self._cursors[key] = follower.cursor
        self._is_done.add(key)
        code = "" if end.exit_code is None else f", exit code {end.exit_code}"
        text = f"{container} has ended: {end.reason}{code}"
        (marker,) = batches_of([LogLine(follower.cursor.at_ns, text, is_marker=True)])
        waits = deliver(marker)
        if inspect.isawaitable(waits):
            await waits

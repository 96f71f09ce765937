"""The collector of one stage's output: pods found and followed, accelerators sampled, files counted."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Any

from actions.base.backoff import Backoff
from actions.base.errors import AccessError, ConsoleError, UnreachableError
from actions.base.executors import in_thread
from actions.base.untrusted import clean_text
from actions.blueprint.stages import FileProgress, LoadTool, LogWatch, StageWatch
from actions.cluster.logs.follow import ContainerLog, container_lifecycle
from actions.cluster.remote.exec import run_in_pod
from actions.run.context.access import ClusterConnection
from actions.run.context.retry import ONCE, PollInterval
from actions.run.context.stage_context import StageContext
from actions.run.output.followers import (
    FileFollower,
    FollowerWarnings,
    PodFollower,
    gap_key,
    newest,
    newest_running,
    outcome_of,
    sentence_of,
)
from actions.run.output.streams import AcceleratorSample
from actions.run.output.writer import OutputSource, OutputWriter
from actions.run.state.view import StageState
from actions.telemetry.points import TrainingProgress
from actions.telemetry.tools.devices import NEURON_COMMAND, NVIDIA_COMMAND

SAMPLE_SECONDS = 5.0
"""Interval between two samples of a pod."""
MAX_SAMPLED_PODS = 64

_EXEC_SECONDS = 20.0
_LONGEST_REFUSED_SECONDS = 60.0
_DEVICES = "accelerators"
_FILES = "count of files"
_AT_ONCE = 8
_COMMANDS = {
    LoadTool.NVIDIA_SMI: NVIDIA_COMMAND,
    LoadTool.NEURON_TOP: NEURON_COMMAND,
    LoadTool.NEURON_MONITOR: NEURON_COMMAND,
}
"""The command of each tool. neuron-top has no batch mode; neuron-monitor's records hold what it shows."""


class Sampler:
    """The sampler of one stage's accelerators and file counts. Old samples show failures; a missing right is a warning.

    Args:
        context: The stage.
        watch: The sources to sample.
        writer: Its output.
        open_output: Opens it beside the loop; raises `OSError`.
        warnings: Gets failures that last.
    """

    def __init__(
        self,
        context: StageContext,
        watch: StageWatch,
        writer: OutputWriter,
        open_output: Callable[[], Awaitable[None]],
        warnings: FollowerWarnings,
    ) -> None:
        self._context = context
        self._watch = watch
        self._writer = writer
        self._open_output = open_output
        self._warnings = warnings
        self._due: dict[str, float] = {}
        self._refusals: dict[str, Backoff] = {}
        self._turns = asyncio.Semaphore(_AT_ONCE)

    @property
    def is_wanted(self) -> bool:
        """True if there is anything to sample."""
        return self._watch.accelerator in _COMMANDS or self._watch.progress is not None

    async def sample(self) -> None:
        """Sample all pods that are due.

        Raises:
            ConsoleError: The cluster does not answer.
            OSError: The disk has no space for the sample, or the output cannot be opened.
        """
        await self._open_output()  # a writer that is not open reads its files at the first call, wherever that is
        connection = await self._context.connect(ONCE)
        command = _COMMANDS.get(self._watch.accelerator)
        if command:
            await self._ask_devices(connection, command)
        if self._watch.progress is not None:
            await self._count_files(connection, self._watch.progress)

    async def _ask_devices(self, connection: ClusterConnection, command: tuple[str, ...]) -> None:
        logs = self._watch.logs
        selector = self._watch.devices or (logs.pods or logs.pod if logs else "")
        if not selector:
            return
        pods = await self._due_pods(connection, selector, _DEVICES)
        container = logs.container if logs and not self._watch.devices else ""
        asked = await asyncio.gather(*(self._ask(connection, pod, container, command) for pod in pods))
        if pods:
            self._note_refusal(_DEVICES, next((error for error in asked if isinstance(error, AccessError)), None))

    async def _ask(
        self, connection: ClusterConnection, pod: dict[str, Any], container: str, command: tuple[str, ...]
    ) -> ConsoleError | None:
        """Sample one pod. Returns the error, if it did not answer: its words are the sample then, without a device."""
        refusal: ConsoleError | None = None
        async with self._turns:
            try:
                text = await self._exec(connection, pod, container, command)
            except ConsoleError as error:
                refusal, text = error, error.sentence()
        now = self._context.clock.now().timestamp()
        node = pod["spec"].get("nodeName") or ""
        self._writer.write_sample(pod["metadata"]["name"], AcceleratorSample(now, clean_text(text), node))
        return refusal

    def _note_refusal(self, purpose: str, error: AccessError | None) -> None:
        """Set or clear the warning of a missing right, and grow the pause while it is missing."""
        if error is None:
            self._refusals.pop(purpose, None)
            self._warnings.clear(purpose)
            return
        clock = self._context.clock
        backoff = self._refusals.setdefault(
            purpose, Backoff(clock, first_seconds=2 * SAMPLE_SECONDS, longest_seconds=_LONGEST_REFUSED_SECONDS)
        )
        self._due[purpose] = clock.monotonic() + backoff.next_seconds()
        self._warnings.set(purpose, f"The {purpose} cannot be read: {error.message}")

    async def _count_files(self, connection: ClusterConnection, progress: FileProgress) -> None:
        command = ("find", *map(self._context.text, progress.folders), "-name", f"*{progress.suffix}")
        for pod in (await self._due_pods(connection, progress.pod, _FILES))[:1]:
            metadata, name = pod["metadata"], pod["spec"]["containers"][0]["name"]
            try:
                found = await self._exec(connection, pod, name, command)
            except AccessError as error:
                self._note_refusal(_FILES, error)
                return
            self._note_refusal(_FILES, None)
            total = self._context.text(progress.total)
            count = sum(1 for line in found.splitlines() if line.endswith(progress.suffix))
            source = self._writer.source(metadata["namespace"], metadata["name"], name, metadata["uid"])
            self._writer.write_progress(
                source, TrainingProgress("files", count, int(total) if total.isdigit() else None)
            )

    async def _due_pods(self, connection: ClusterConnection, selector: str, purpose: str) -> list[dict[str, Any]]:
        """Return running pods of the run whose next sample is due."""
        now = self._context.clock.monotonic()
        if self._due.get(purpose, 0.0) > now:
            return []
        pods = await connection.pods(
            namespace=self._context.namespace, label_selector=f"{selector},{self._context.pod_selector()}"
        )
        running = [pod for pod in pods if (pod.get("status") or {}).get("phase") == "Running"]
        if running:
            self._due[purpose] = now + SAMPLE_SECONDS
        return running[:MAX_SAMPLED_PODS]

    async def _exec(
        self, connection: ClusterConnection, pod: dict[str, Any], container: str, command: tuple[str, ...]
    ) -> str:
        metadata = pod["metadata"]
        name = container or pod["spec"]["containers"][0]["name"]
        result = await run_in_pod(
            connection.session, metadata["namespace"], metadata["name"], name, command, deadline_seconds=_EXEC_SECONDS
        )
        return result.text


LOOK_SECONDS = 0.7
"""First pause between two searches for pods."""
LAST_LINES_SECONDS = 8.0
"""Silence of a running container's log after the end of the stage, after which the rest is given up."""
LONGEST_LAST_LINES_SECONDS = 60.0
"""Limit for logs that continue after the end of the stage, as some containers never end; for those of containers that
have ended, whatever their silence; also for a missing right."""
UNREACHABLE_LOGS_SECONDS = 600.0
"""Time that a succeeded stage waits for logs that cannot be reached, or that the disk refuses."""

_INDEX_LABELS = (
    "training.kubeflow.org/replica-index",
    "batch.kubernetes.io/job-completion-index",
    "jobset.sigs.k8s.io/job-global-index",
    "leaderworkerset.sigs.k8s.io/group-index",
    "leaderworkerset.sigs.k8s.io/worker-index",
    "volcano.sh/task-index",
)
_LONGEST_SEARCH_PAUSE_SECONDS = 5.0
_PODS, _FILE, _UNLISTED, _UNSEEN = "pods", "file", "unlisted", "unseen"

Pod = Mapping[str, Any]


@asynccontextmanager
async def watching(context: StageContext, watch: StageWatch) -> AsyncIterator[StageCollector]:
    """Follow logs, accelerators and file counts while the context is open, and the logs a little longer.

    Also when the context ends by an error: the last lines of a failed workload give the reason. Failures here do not
    reach the stage: they are warnings in `context.journal`, and gaps in the collector's `losses`.
    """
    collector = StageCollector(context, watch)
    collector.start()
    try:
        try:
            yield collector
        except ConsoleError:
            await collector.settle(LONGEST_LAST_LINES_SECONDS)
            raise
        await collector.settle(UNREACHABLE_LOGS_SECONDS)
    finally:
        await outcome_of(collector.stop())


class StageCollector:
    """The followers and samples of one stage, each in a task of its own: none of their failures reaches the stage.

    Args:
        context: The stage.
        watch: The sources to collect.
    """

    def __init__(self, context: StageContext, watch: StageWatch) -> None:
        self.losses: tuple[str, ...] = ()
        """The missing parts of the stage's logs, one sentence each; complete once the collector is stopped."""
        self._context = context
        self._logs = watch.logs or LogWatch()
        self._writer = OutputWriter(context.folder, context.stage.id, clock=context.clock)
        self._warnings = FollowerWarnings(context.journal.warn)
        self._sampler = Sampler(context, watch, self._writer, self.open_output, self._warnings)
        self._followers: dict[tuple[str, str], tuple[PodFollower, asyncio.Task[None]]] = {}
        self._ended: set[tuple[str, str]] = set()
        """The containers that had ended when their pods were listed last: their logs have an end to be read."""
        self._is_settled = False
        self._is_read = False
        """The output has been opened once."""
        is_taken_up = context.stage.state is StageState.UNKNOWN or not context.stage.attempt
        self._found = context.journal.owned() if is_taken_up else ()
        """The objects that an earlier runner, here or on another machine, has made for the stage; of a stage that the
        records do not know to have begun, those that a takeover has found."""
        self._searches: list[asyncio.Task[None]] = []
        self._sampling: asyncio.Task[None] | None = None
        has_file = bool(self._logs.file or self._logs.exec)
        self._file = (
            FileFollower(context, self._writer, path=self._logs.file, argv=self._logs.exec) if has_file else None
        )

    def start(self) -> None:
        """Start to search for pods, and to sample."""
        if self._sampler.is_wanted:
            self._sampling = asyncio.create_task(self._endlessly(self._sampler.sample, "samples"))
        if self._logs.pods:
            self._searches.append(asyncio.create_task(self._endlessly(self._find_pods, _PODS)))
        if self._file is not None:
            self._searches.append(asyncio.create_task(self._endlessly(self._read_file, _FILE)))

    async def settle(self, longest_seconds: float) -> None:
        """Wait for the rest of the logs, as long as lines come, within limits.

        Args:
            longest_seconds: Limit while they cannot be reached.
        """
        await self._warned(self._settle(longest_seconds), "end")
        self._is_settled = True

    async def stop(self) -> None:
        """End all followers."""
        followers = [task for _, task in self._followers.values()]
        for task in [*self._searches, *followers, *([self._sampling] if self._sampling else [])]:
            task.cancel()
        await asyncio.gather(*self._searches, *followers, return_exceptions=True)
        if self._sampling is not None:
            await asyncio.gather(self._sampling, return_exceptions=True)
        for place, (follower, task) in self._followers.items():
            if task.cancelled():
                follower.give_up(has_more=not self._is_settled or place in self._ended)
        self.losses = self._writer.losses()
        with suppress(OSError):
            self._writer.close()
        self._context.journal.warn("")

    async def _endlessly(self, look: Callable[[], Coroutine[Any, Any, object]], topic: str) -> None:
        """Call `look` without end; failures become warnings, and the call is repeated."""
        interval = PollInterval(
            self._context.clock, first_seconds=LOOK_SECONDS, longest_seconds=_LONGEST_SEARCH_PAUSE_SECONDS
        )
        while True:
            error = await self._warned(look(), topic)
            if error is None:
                await interval.pause()
            else:
                await interval.pause_after(error if isinstance(error, ConsoleError) else None)

    async def _warned(self, awaitable: Coroutine[Any, Any, object], topic: str) -> Exception | None:
        """Return the failure of a call, if any, and set or clear its warning. The stage reports a silent cluster."""
        found = await outcome_of(awaitable)
        if not isinstance(found, Exception):
            self._warnings.clear(topic)
            return None
        if isinstance(found, AccessError):
            self._warnings.set(topic, f"Logs cannot be read: {sentence_of(found)}")
        elif not isinstance(found, ConsoleError):
            self._warnings.set(topic, f"Logs cannot be kept: {sentence_of(found)}")
        return found

    async def open_output(self) -> None:
        """Read what the output has, in a thread: a runner whose loop parses the log of a day counts as stalled.

        Also if this is cancelled, the thread comes to its end first: nothing else may open the files meanwhile.

        Raises:
            OSError: It cannot be read or written at present.
        """
        if self._is_read:
            return
        opening = asyncio.ensure_future(in_thread("output", self._writer.open))
        try:
            await asyncio.shield(opening)
        finally:
            if not opening.done():
                await asyncio.wait({opening})
        self._is_read = True

    async def _find_pods(self) -> None:
        """Start a follower for every new container that the stage's selector matches."""
        connection = await self._context.connect(ONCE)
        pods = await pods_of(self._context, connection, self._logs.pods)
        await self.open_output()
        self._look_for_unseen(has_pods=bool(pods))
        for pod in pods:
            self._follow(pod)
        self._writer.close_gap(_UNLISTED)

    def _follow(self, pod: Pod) -> None:
        metadata = pod["metadata"]
        name = self._logs.container or pod["spec"]["containers"][0]["name"]
        place = ContainerLog(metadata["namespace"], metadata["name"], name, metadata["uid"])
        lifecycle = container_lifecycle(pod, name)
        if lifecycle.end is not None:
            self._ended.add((place.uid, name))
        if (place.uid, name) in self._followers:
            return
        source = self._writer.source(place.namespace, place.pod, name, place.uid, rank=_rank_of(pod))
        if not source.is_ended:
            self._begin_to_follow(place, source, has_started=lifecycle.has_started)

    def _begin_to_follow(self, place: ContainerLog, source: OutputSource, *, has_started: bool = False) -> None:
        follower = PodFollower(self._context, self._writer, self._warnings, place, source, has_started=has_started)
        self._followers[(place.uid, place.container)] = follower, asyncio.create_task(self._followed(follower))

    async def _followed(self, follower: PodFollower) -> None:
        """Follow one container to its end, across failures."""
        interval = PollInterval(self._context.clock, first_seconds=LOOK_SECONDS)
        while (error := await outcome_of(follower.follow())) is not None:
            follower.fail(error)
            await interval.pause_after()

    async def _settle(self, longest_seconds: float) -> None:
        if self._logs.pods:
            await self._find_last_pods(longest_seconds)
            if self._is_read:  # before that there are no followers, and what it has is not known
                self._mark_vanished_pods()
                await self._end_followers(longest_seconds)
        if self._file is not None:
            await self._end_searches()  # two readers of one file would keep its lines twice
            await self._end_file(self._file)

    async def _find_last_pods(self, longest_seconds: float) -> None:
        """Search once more for pods: a stage that was found done may have ended before the first search."""
        error: Exception | None = None
        began = self._context.clock.monotonic()
        while self._context.clock.monotonic() - began < (
            longest_seconds if self._followers or isinstance(error, OSError) else LAST_LINES_SECONDS
        ):
            try:
                async with asyncio.timeout(LAST_LINES_SECONDS):
                    error = await self._warned(self._find_pods(), _PODS)
            except TimeoutError:
                error = UnreachableError("The cluster did not list its pods in time.")
            if error is None:
                return
            await self._context.clock.sleep(LOOK_SECONDS)
        if error is not None:
            reason = sentence_of(error).rstrip(".")
            self._writer.open_gap(None, _UNLISTED, f"its pods could not be listed at the end: {reason}")

    def _mark_vanished_pods(self) -> None:
        """Record gaps for pods that vanished while the run had no runner, or that another machine's runner followed.

        Also of an earlier attempt, which may have been cancelled while it had no runner.
        """
        if self._context.stage.state is not StageState.UNKNOWN and not self._context.stage.attempt:
            return
        for source in self._writer.sources():
            is_followed = (source.line.uid, source.line.container) in self._followers
            if not is_followed:
                self._tell_vanished(source)

    def _tell_vanished(self, source: OutputSource) -> None:
        """Record the gap of a pod that is gone; of one without a line, its events say if it has begun."""
        line = source.line
        if source.is_ended or not source.is_of_pod or self._writer.has_gap(gap_key(source)):
            return
        if source.line_count:
            self._writer.open_gap(source, gap_key(source), "its pod was gone before its log was read to the end")
        else:
            self._begin_to_follow(ContainerLog(line.namespace, line.pod, line.container, line.uid), source)

    def _tell_unseen(self) -> None:
        self._writer.open_gap(None, _UNSEEN, "its pods were gone before any of their logs was read")

    def _look_for_unseen(self, *, has_pods: bool) -> None:
        """Record a gap if an earlier runner has made pods that are not in the output, and that are gone."""
        sources = self._writer.sources()
        if not self._found or not all(source.is_fresh for source in sources):
            return
        if self._is_remade() or not (sources or has_pods):
            self._tell_unseen()
        elif has_pods:  # they began later than the first look
            self._writer.close_gap(_UNSEEN)

    def _is_remade(self) -> bool:
        """Return whether this runner has made, or is making, an object again which an earlier one had made."""
        before = {item.uid for item in self._found if item.uid}
        return bool(before) and any(item.uid not in before for item in self._context.journal.owned())

    async def _end_followers(self, longest_seconds: float) -> None:
        known, began = -1, self._context.clock.monotonic()
        while open_tasks := [task for _, task in self._followers.values() if not task.done()]:
            has_end = any(place in self._ended for place, (_, task) in self._followers.items() if not task.done())
            count = sum(source.passed_count for source in self._writer.sources())
            passed = self._context.clock.monotonic() - began
            last = LONGEST_LAST_LINES_SECONDS if count > known or has_end else 0.0
            left = max(self._left(longest_seconds), last) - passed
            if left <= 0:
                return
            known = count
            await asyncio.wait(open_tasks, timeout=min(LAST_LINES_SECONDS, left))

    def _left(self, longest_seconds: float) -> float:
        """Return the seconds to wait for followers without rights or answers."""
        failing = [follower for follower, task in self._followers.values() if follower.is_failing and not task.done()]
        if not failing:
            return 0.0
        self._context.journal.note("Waiting for the last lines of its logs.")
        return LONGEST_LAST_LINES_SECONDS if all(follower.is_forbidden for follower in failing) else longest_seconds

    async def _end_file(self, file: FileFollower) -> None:
        file.end_soon()
        began = self._context.clock.monotonic()
        while not file.is_read:
            passed = self._context.clock.monotonic() - began
            left = (LONGEST_LAST_LINES_SECONDS if file.is_failing else LAST_LINES_SECONDS) - passed
            if left <= 0:
                break
            with suppress(TimeoutError):
                async with asyncio.timeout(left):
                    error = await self._warned(self._read_file(), _FILE)
                    if error is None and not file.has_pod:
                        break  # the pod has gone, and its file with it
            await self._context.clock.sleep(LOOK_SECONDS)
        file.finish()

    async def _end_searches(self) -> None:
        for task in self._searches:
            task.cancel()
        await asyncio.gather(*self._searches, return_exceptions=True)

    async def _read_file(self) -> None:
        """Read the file, or the program's output, in the newest pod for it."""
        if self._file is None:
            return
        connection = await self._context.connect(ONCE)
        if self._logs.uid_of:
            self._file.belong_to(newest(await pods_of(self._context, connection, self._logs.uid_of)))
        pods = await pods_of(self._context, connection, self._logs.pod)
        await self.open_output()
        await self._file.follow_in(connection, newest_running(pods), self._logs.container, self._warnings)


async def pods_of(context: StageContext, connection: ClusterConnection, selector: str) -> list[dict[str, Any]]:
    """Return the run's pods that a selector matches."""
    return await connection.pods(namespace=context.namespace, label_selector=f"{selector},{context.pod_selector()}")


def _rank_of(pod: Pod) -> int:
    """Return 0 for the pod whose points are the curve, more for each of the others.

    Of a PyTorchJob the master and the first worker have the same index, and the training operator writes `RANK`.
    """
    labels = pod["metadata"].get("labels") or {}
    variables = (one for container in pod["spec"]["containers"] for one in container.get("env") or ())
    ranks = [one["value"] for one in variables if one.get("name") == "RANK" and one.get("value")]
    numbers = [str(text) for text in ranks[:1] or map(labels.get, _INDEX_LABELS)]
    return sum(int(text) for text in numbers if text.isascii() and text.isdigit() and len(text) < 9)

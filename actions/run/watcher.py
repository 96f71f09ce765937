"""Following the pods that a stage watches, into its spool."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

from actions.base.errors import ConsoleError, UnreachableError
from actions.base.untrusted import clean_text
from actions.blueprint.parts import REFERENCE
from actions.blueprint.render import RUN_LABEL
from actions.blueprint.stages import Accelerator, FileProgress, Watch
from actions.cluster.exec import run_in_pod
from actions.cluster.loglines import LogLine
from actions.cluster.logs import ContainerEnd, LogFollower, LogSource
from actions.cluster.objects import list_objects
from actions.run.access import Connection
from actions.run.patience import Pace
from actions.run.spool import SpooledSource, SpoolWriter
from actions.run.spoolformat import AcceleratorSample
from actions.run.work import StageWork
from actions.telemetry.points import Progress

LOOK_SECONDS = 0.7
"""How often pods are looked for, at first."""
SAMPLE_SECONDS = 5.0
"""How often a pod is asked for its accelerators and files."""
MAX_SAMPLED_PODS = 64
LAST_LINES_SECONDS = 8.0
"""How long the logs may take to end after the stage has."""

_RANK_LABELS = ("training.kubeflow.org/replica-index", "batch.kubernetes.io/job-completion-index")
_COMMANDS = {Accelerator.NVIDIA_SMI: ("nvidia-smi",), Accelerator.NEURON_TOP: ("neuron-ls", "--json-output")}
_FULL_DISK_PAUSE_SECONDS = 5.0

Pod = Mapping[str, Any]


@asynccontextmanager
async def watching(work: StageWork, watch: Watch) -> AsyncIterator[None]:
    """Follow logs, accelerators and file counts while the context is open, and the logs a little longer."""
    writer = SpoolWriter(work.folder, work.stage.id)
    watcher = _Watcher(work, watch, writer)
    tasks = [asyncio.create_task(watcher.follow_pods()), asyncio.create_task(watcher.sample())]
    try:
        yield
        await watcher.settle()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await watcher.stop()
        writer.close()


class _Watcher:
    """One stage's followers. Failures of a follower never reach the stage."""

    def __init__(self, work: StageWork, watch: Watch, writer: SpoolWriter) -> None:
        self._work = work
        self._watch = watch
        self._writer = writer
        self._followers: dict[tuple[str, str], asyncio.Task[None]] = {}
        self._running: dict[str, tuple[Pod, SpooledSource]] = {}

    async def follow_pods(self) -> None:
        """Begin to follow every container that the stage's selector finds. Endless."""
        selector = self._watch.logs.pods if self._watch.logs else ""
        pace = Pace(self._work.clock, first_seconds=LOOK_SECONDS)
        while selector:
            try:
                connection = await self._work.connect()
                self._take(connection, await self._pods(connection, selector))
            except ConsoleError:
                pass  # no cluster yet, or none at present: the stage itself says so
            await pace.pause()

    async def sample(self) -> None:
        """Ask pods for their accelerators and files, each now and then. Endless."""
        if self._watch.accelerator not in _COMMANDS and self._watch.progress is None:
            return
        due: dict[str, float] = {}
        while True:
            await self._work.clock.sleep(LOOK_SECONDS)
            now = self._work.clock.monotonic()
            for uid, (_, source) in list(self._running.items())[:MAX_SAMPLED_PODS]:
                if due.get(uid, 0.0) <= now:
                    due[uid] = now + SAMPLE_SECONDS
                    await self._sample_pod(source)

    async def settle(self) -> None:
        """Wait for the logs of containers that have ended, but not for ever."""
        open_tasks = [task for task in self._followers.values() if not task.done()]
        if open_tasks:
            await asyncio.wait(open_tasks, timeout=LAST_LINES_SECONDS)

    async def stop(self) -> None:
        """End all followers."""
        for task in self._followers.values():
            task.cancel()
        await asyncio.gather(*self._followers.values(), return_exceptions=True)

    async def _pods(self, connection: Connection, selector: str) -> list[dict[str, Any]]:
        return await list_objects(
            connection.session,
            connection.discovery,
            "v1",
            "Pod",
            namespace=self._work.namespace,
            label_selector=f"{selector},{RUN_LABEL}={self._work.view.id}",
        )

    def _take(self, connection: Connection, pods: list[dict[str, Any]]) -> None:
        container = self._watch.logs.container if self._watch.logs else ""
        running: dict[str, tuple[Pod, SpooledSource]] = {}
        for pod in pods:
            metadata = pod["metadata"]
            name = container or pod["spec"]["containers"][0]["name"]
            place = LogSource(metadata["namespace"], metadata["name"], name, metadata["uid"])
            source = self._writer.source(place.namespace, place.pod, name, place.uid, rank=_rank_of(metadata))
            if (pod.get("status") or {}).get("phase") == "Running":
                running[metadata["uid"]] = (pod, source)
            if not source.is_ended and (place.uid, name) not in self._followers:
                follower = self._follow(connection, place, source)
                self._followers[(place.uid, name)] = asyncio.create_task(follower)
        self._running = running

    async def _follow(self, connection: Connection, place: LogSource, source: SpooledSource) -> None:
        def keep(lines: list[LogLine]) -> None:
            self._writer.write_lines(source, lines)

        while True:
            follower = LogFollower(
                connection.session, place, on_lines=keep, since=source.cursor, clock=self._work.clock
            )
            try:
                end = await follower.run()
                self._end(source, end)
                return
            except UnreachableError:
                await self._work.clock.sleep(LOOK_SECONDS)
            except ConsoleError as error:
                self._writer.write_lines(source, [LogLine(source.cursor.at_ns, f"-- {error.message} --", True)])
                return
            except OSError:
                await self._work.clock.sleep(_FULL_DISK_PAUSE_SECONDS)

    def _end(self, source: SpooledSource, end: ContainerEnd) -> None:
        self._writer.write_end(source, end.exit_code, end.reason)

    async def _sample_pod(self, source: SpooledSource) -> None:
        """One round for one pod. A failure is left for the next round; the sample's age tells."""
        command = _COMMANDS.get(self._watch.accelerator)
        try:
            if command:
                output = await self._exec(source, command)
                now = self._work.clock.now().timestamp()
                self._writer.write_sample(source.line.pod, AcceleratorSample(now, clean_text(output)))
            if self._watch.progress:
                await self._count_files(source, self._watch.progress)
        except (ConsoleError, OSError):
            return

    async def _count_files(self, source: SpooledSource, progress: FileProgress) -> None:
        found = await self._exec(source, ("find", *progress.folders, "-name", f"*{progress.suffix}"))
        total = REFERENCE.sub(lambda match: str(self._work.binding.everything[match[1]]), progress.total)
        count = sum(1 for line in found.splitlines() if line.endswith(progress.suffix))
        self._writer.write_progress(source, Progress("files", count, int(total) if total.isdigit() else None))

    async def _exec(self, source: SpooledSource, command: tuple[str, ...]) -> str:
        connection = await self._work.connect()
        line = source.line
        result = await run_in_pod(connection.session, line.namespace, line.pod, line.container, command)
        return (result.stdout or result.stderr).decode("utf-8", "replace")


def _rank_of(metadata: Pod) -> int:
    labels = metadata.get("labels") or {}
    return next((int(labels[name]) for name in _RANK_LABELS if str(labels.get(name, "")).isdigit()), 0)

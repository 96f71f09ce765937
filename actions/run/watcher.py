"""Following what a stage watches into its spool: logs of pods or files in them, accelerators, counts of files."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Any

from actions.base.errors import ConsoleError, UnreachableError
from actions.blueprint.render import RUN_LABEL
from actions.blueprint.stages import LogWatch, Watch
from actions.cluster.logbatch import LogBatch
from actions.cluster.loglines import LogLine
from actions.cluster.logs import ContainerEnd, LogFollower, LogSource
from actions.run.access import Connection
from actions.run.filewatch import FileWatch, follow_once, newest, newest_running
from actions.run.patience import Pace
from actions.run.sampler import Sampler
from actions.run.spool import SpooledSource, SpoolWriter
from actions.run.work import StageWork

LOOK_SECONDS = 0.7
"""How often pods are looked for, at first."""
LAST_LINES_SECONDS = 8.0
"""How long the logs may be silent after the stage has ended, until the rest is given up."""
LONGEST_LAST_LINES_SECONDS = 60.0
"""How long they may go on: some containers of a stage that has ended never do."""

_RANK_LABELS = ("training.kubeflow.org/replica-index", "batch.kubernetes.io/job-completion-index")
_FULL_DISK_PAUSE_SECONDS = 5.0

Pod = Mapping[str, Any]


@asynccontextmanager
async def watching(work: StageWork, watch: Watch) -> AsyncIterator[None]:
    """Follow logs, accelerators and file counts while the context is open, and the logs a little longer.

    Also when the context ends by an error: the last lines of what has failed say why.
    """
    writer = SpoolWriter(work.folder, work.stage.id)
    watcher, sampler = _Watcher(work, watch, writer), Sampler(work, watch, writer)
    sampling = asyncio.create_task(sampler.sample())
    watcher.start()
    try:
        try:
            yield
        except ConsoleError:
            await watcher.settle()
            raise
        await watcher.settle()
    finally:
        sampling.cancel()
        await asyncio.gather(sampling, return_exceptions=True)
        await watcher.stop()
        writer.close()


class _Watcher:
    """One stage's followers. Failures of a follower never reach the stage."""

    def __init__(self, work: StageWork, watch: Watch, writer: SpoolWriter) -> None:
        self._work = work
        self._logs = watch.logs or LogWatch()
        self._writer = writer
        self._followers: dict[tuple[str, str], asyncio.Task[None]] = {}
        self._searches: list[asyncio.Task[None]] = []
        has_file = bool(self._logs.file or self._logs.exec)
        path = work.text(self._logs.file)
        self._file = FileWatch(work, writer, path=path, argv=self._logs.exec) if has_file else None

    def start(self) -> None:
        """Begin to look for pods."""
        if self._logs.pods:
            self._searches.append(asyncio.create_task(self._follow_pods()))
        if self._file is not None:
            self._searches.append(asyncio.create_task(self._follow_file()))

    async def _follow_pods(self) -> None:
        """Begin to follow every container that the stage's selector finds. Endless."""
        pace = Pace(self._work.clock, first_seconds=LOOK_SECONDS)
        while True:
            await self._find_pods()
            await pace.pause()

    async def _find_pods(self) -> None:
        try:
            connection = await self._work.connect()
            self._take(connection, await pods_of(self._work, connection, self._logs.pods))
        except ConsoleError:
            pass  # no cluster yet, or none at present: the stage itself says so

    async def _follow_file(self) -> None:
        """Read the file, or what the program prints, in whatever pod there is for it. Endless."""
        pace = Pace(self._work.clock, first_seconds=LOOK_SECONDS)
        while True:
            await self._read_file()
            await pace.pause()

    async def settle(self) -> None:
        """Wait for the logs of containers that have ended, for as long as lines come, but not for ever."""
        if self._logs.pods:
            with suppress(TimeoutError):
                async with asyncio.timeout(LAST_LINES_SECONDS):
                    await self._find_pods()  # a stage that is found done may have ended before its pods were looked for
            await self._end_followers()
        if self._file is not None:
            await self._end_searches()  # two readers of one file would keep its lines twice
            self._file.end_soon()
            with suppress(TimeoutError):
                async with asyncio.timeout(LAST_LINES_SECONDS):
                    while await self._read_file() and not self._file.is_read:  # the pod may just have gone
                        await self._work.clock.sleep(LOOK_SECONDS)
            self._file.finish()

    async def _end_followers(self) -> None:
        known, end = -1, self._work.clock.monotonic() + LONGEST_LAST_LINES_SECONDS
        while (count := sum(source.line_count for source in self._writer.sources())) > known:
            known = count
            left = min(LAST_LINES_SECONDS, end - self._work.clock.monotonic())
            open_tasks = [task for task in self._followers.values() if not task.done()]
            if open_tasks and left > 0:
                await asyncio.wait(open_tasks, timeout=left)

    async def stop(self) -> None:
        """End all followers."""
        await self._end_searches()
        for task in self._followers.values():
            task.cancel()
        await asyncio.gather(*self._followers.values(), return_exceptions=True)

    async def _end_searches(self) -> None:
        for task in self._searches:
            task.cancel()
        await asyncio.gather(*self._searches, return_exceptions=True)

    async def _read_file(self) -> bool:
        """Read for a while. Returns whether there may be more: a pod to read in, or no cluster to ask at present."""
        if self._file is None:
            return False
        try:
            connection = await self._work.connect()
            if self._logs.uid_of:
                self._file.belong_to(newest(await pods_of(self._work, connection, self._logs.uid_of)))
            pods = await pods_of(self._work, connection, self._logs.pod)
            await follow_once(self._file, connection, pods, self._logs.container)
        except ConsoleError:
            return True
        return newest_running(pods) is not None

    def _take(self, connection: Connection, pods: list[dict[str, Any]]) -> None:
        for pod in pods:
            metadata = pod["metadata"]
            name = self._logs.container or pod["spec"]["containers"][0]["name"]
            place = LogSource(metadata["namespace"], metadata["name"], name, metadata["uid"])
            source = self._writer.source(place.namespace, place.pod, name, place.uid, rank=_rank_of(metadata))
            if not source.is_ended and (place.uid, name) not in self._followers:
                follower = self._follow(connection, place, source)
                self._followers[(place.uid, name)] = asyncio.create_task(follower)

    async def _follow(self, connection: Connection, place: LogSource, source: SpooledSource) -> None:
        def keep(batch: LogBatch) -> None:
            self._writer.write(source, batch)

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


async def pods_of(work: StageWork, connection: Connection, selector: str) -> list[dict[str, Any]]:
    """The run's pods that a selector finds."""
    return await connection.pods(namespace=work.namespace, label_selector=f"{selector},{RUN_LABEL}={work.view.id}")


def _rank_of(metadata: Pod) -> int:
    labels = metadata.get("labels") or {}
    return next((int(labels[name]) for name in _RANK_LABELS if str(labels.get(name, "")).isdigit()), 0)

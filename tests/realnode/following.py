"""The product's follower of a log beside a test, and what it has been given."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from actions.base.errors import ConsoleError
from actions.cluster.auth.kubeconfig import ClusterTarget
from actions.cluster.auth.session import KubeSession
from actions.cluster.logs.batch import LogBatch
from actions.cluster.logs.follow import ContainerEnd, ContainerLog, LogFollower, LogObserver
from actions.cluster.remote.exec import ExecResult, run_in_pod
from tests.realnode.running import real_nodes


@dataclass
class Followed(LogObserver):
    """A log of numbers, as it has been read so far."""

    numbers: list[int] = field(default_factory=list)
    markers: dict[int, list[str]] = field(default_factory=dict)
    """By the number before them."""
    failures: list[str] = field(default_factory=list)
    """The sentence of each attempt that failed."""
    end: ContainerEnd | None = None

    def failing(self, error: ConsoleError) -> None:
        self.failures.append(error.message)

    def take(self, batch: LogBatch) -> None:
        """Take lines of the follower."""
        for line in batch:
            if line.is_marker:
                self.markers.setdefault(self.newest, []).append(line.text)
            else:
                self.numbers.append(int(line.text))

    @property
    def newest(self) -> int:
        return self.numbers[-1] if self.numbers else -1

    def unmarked(self) -> list[tuple[int, int]]:
        """Return the neighbours between which lines are lost, doubled or out of order without a marker."""
        pairs = zip([-1, *self.numbers], self.numbers, strict=False)
        return [(one, two) for one, two in pairs if two != one + 1 and not (two > one and one in self.markers)]


@contextmanager
def following(namespace: str, pod: str, container: str = "main") -> Iterator[Followed]:
    """Follow the log of a container in a thread, until the context is left."""
    followed, over = Followed(), threading.Event()
    thread = threading.Thread(
        target=lambda: asyncio.run(_follow(ContainerLog(namespace, pod, container), followed, over))
    )
    thread.start()
    try:
        yield followed
    finally:
        over.set()
        thread.join()


async def _follow(source: ContainerLog, followed: Followed, over: threading.Event) -> None:
    session = await KubeSession.connect(ClusterTarget(Path(real_nodes().kubeconfig)))
    try:
        work = asyncio.create_task(LogFollower(session, source, on_lines=followed.take, observer=followed).run())
        ended = asyncio.create_task(asyncio.to_thread(over.wait))
        await asyncio.wait((work, ended), return_when=asyncio.FIRST_COMPLETED)
        if work.done():
            followed.end = work.result()
        work.cancel()
        await asyncio.gather(work, ended, return_exceptions=True)
    finally:
        await session.aclose()


def execute(namespace: str, pod: str, *argv: str, container: str = "main") -> ExecResult:
    """Run a program in a container, as the console does."""

    async def work() -> ExecResult:
        session = await KubeSession.connect(ClusterTarget(Path(real_nodes().kubeconfig)))
        try:
            return await run_in_pod(session, namespace, pod, container, argv)
        finally:
            await session.aclose()

    return asyncio.run(work())

"""Where the log pane's lines come from: any pod of the cluster, followed while somebody looks."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol

from actions.base.clock import Clock
from actions.base.errors import MissingError
from actions.fleet.facts import PodFacts
from tui.live.cluster_feed import ClusterFeed

if TYPE_CHECKING:
    from actions.cluster.loglines import LogCursor, LogLine

TAIL_LINES = 2_000
"""Old lines that a pod's log begins with."""
QUEUED_LINES = 20_000
"""So many lines wait for the pane; then reading waits."""


class Gathered(NamedTuple):
    """One line, cleaned, with where it comes from."""

    text: str
    source: str
    at_ns: int
    is_marker: bool = False


class LogFeed(Protocol):
    """Lines for the log pane, oldest first. Used on the loop only."""

    @property
    def title(self) -> str:
        """Whose log it is."""
        ...

    @property
    def has_more(self) -> bool:
        """Whether it is worth asking again at once."""
        ...

    def take(self, limit: int) -> Sequence[Gathered]:
        """At most `limit` lines that were not taken before."""
        ...


class PodLogFeed:
    """All containers of one pod, over the API.

    Args:
        cluster: Whose pod.
        pod: The pod.
        container: Only this one; empty for all.
        clock: Time.
        changed: Called when lines have come.
    """

    def __init__(
        self, cluster: ClusterFeed, pod: PodFacts, *, container: str, clock: Clock, changed: Callable[[], None]
    ) -> None:
        self.pod = pod
        self.title = f"{pod.key} {container}".strip()
        self._cluster = cluster
        self._containers = (container,) if container else pod.containers
        self._clock = clock
        self._changed = changed
        self._lines: deque[Gathered] = deque()
        self._has_room = asyncio.Event()
        self._cursors: dict[str, LogCursor] = {}

    @property
    def has_more(self) -> bool:
        """Whether lines wait."""
        return bool(self._lines)

    def take(self, limit: int) -> Sequence[Gathered]:
        """The oldest lines that wait."""
        taken = [self._lines.popleft() for _ in range(min(limit, len(self._lines)))]
        self._has_room.set()
        return taken

    async def run(self, live: Callable[[], None]) -> None:
        """Follow until every container has ended for good.

        Args:
            live: Called when the first line has come.

        Raises:
            ConsoleError: The log may not be read.
        """
        if not self._containers:
            raise MissingError(f"Pod {self.pod.key} has no container.")
        async with asyncio.TaskGroup() as tasks:
            for container in self._containers:
                tasks.create_task(self._follow(container, live))

    async def _follow(self, container: str, live: Callable[[], None]) -> None:
        from actions.cluster.logs import LogFollower, LogSource

        async def queue(lines: list[LogLine]) -> None:
            live()
            await self._queue(container, lines)

        follower = LogFollower(
            self._cluster.session,
            LogSource(self.pod.namespace, self.pod.name, container, self.pod.uid),
            on_lines=queue,
            since=self._cursors.get(container),
            tail_lines=TAIL_LINES,
            clock=self._clock,
        )
        try:
            end = await follower.run()
        finally:
            self._cursors[container] = follower.cursor
        word = end.reason if end.exit_code is None else f"{end.reason}, exit code {end.exit_code}"
        self._lines.append(Gathered(f"{container} has ended: {word}", container, 0, is_marker=True))
        self._changed()

    async def _queue(self, container: str, lines: list[LogLine]) -> None:
        self._lines.extend(Gathered(line.text, container, line.at_ns, line.is_marker) for line in lines)
        self._changed()
        while len(self._lines) > QUEUED_LINES:
            self._has_room.clear()
            await self._has_room.wait()

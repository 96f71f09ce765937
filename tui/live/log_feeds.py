"""Where the log pane's lines come from: any pod of the cluster, followed while somebody looks."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from actions.base.clock import Clock
from actions.base.errors import MissingError
from actions.cluster.logs.batch import marker_of, records_of
from actions.fleet.facts import PodFacts
from tui.live.cluster_feed import ClusterFeed

if TYPE_CHECKING:
    from actions.cluster.logs.batch import LogBatch
    from actions.cluster.logs.lines import LogCursor

TAIL_LINES = 2_000
"""Old lines that a pod's log begins with."""
QUEUED_LINES = 20_000
"""So many lines wait for the pane; then reading waits."""


class SourceNames:
    """Numbers for the names of those who say something, as records carry them."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}
        self._names: list[str] = []

    def number_of(self, name: str) -> int:
        """The number of a name, also of a new one."""
        known = self._numbers.get(name)
        if known is None:
            known = self._numbers[name] = len(self._names)
            self._names.append(name)
        return known

    def name_of(self, number: int) -> str:
        """The name that has a number."""
        return self._names[number]


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

    @property
    def holds_back(self) -> bool:
        """Whether it has lines whose turn has not come yet: it is worth asking again after a while."""
        ...

    def take(self, limit: int) -> list[bytes]:
        """About `limit` lines that were not taken before, as records of `actions.cluster.logs.batch`."""
        ...

    def source_of(self, number: int) -> str:
        """Who says the lines with that number."""
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
        self._lines: list[bytes] = []
        self._names = SourceNames()
        self._has_room = asyncio.Event()
        self._cursors: dict[str, LogCursor] = {}

    @property
    def has_more(self) -> bool:
        """Whether lines wait."""
        return bool(self._lines)

    @property
    def holds_back(self) -> bool:
        """Never: the lines of a pod come as they are read."""
        return False

    def take(self, limit: int) -> list[bytes]:
        """The oldest lines that wait."""
        taken = self._lines[:limit]
        del self._lines[:limit]
        self._has_room.set()
        return taken

    def source_of(self, number: int) -> str:
        """The container."""
        return self._names.name_of(number)

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
        from actions.cluster.logs.follow import LogFollower, LogSource

        async def queue(batch: LogBatch) -> None:
            live()
            await self._queue(container, batch)

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
        number = self._names.number_of(container)
        self._lines.append(marker_of(f"{container} has ended: {word}", number, follower.cursor.at_ns))
        self._changed()

    async def _queue(self, container: str, batch: LogBatch) -> None:
        self._lines += records_of(batch, self._names.number_of(container))
        self._changed()
        while len(self._lines) > QUEUED_LINES:
            self._has_room.clear()
            await self._has_room.wait()

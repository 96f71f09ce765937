"""The feeds of log lines: followed pods, merged by timestamp, pumped in short slices."""

from __future__ import annotations

import asyncio
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol

from actions.base.clock import Clock
from actions.base.errors import MissingError, RefusedError
from actions.cluster.logs.batch import marker_of, stamp_in, tagged_lines
from actions.cluster.logs.lines import LogCursor, ns_of, stamp_of
from actions.fleet.facts import PodFacts
from tui.feeds.cluster import ClusterFeed

if TYPE_CHECKING:
    from actions.cluster.logs.batch import LogBatch


TAIL_LINES = 2_000
"""Number of old lines at the beginning of a pod's log."""
QUEUED_LINES = 20_000
"""Maximum number of lines that wait for the pane; then reading waits."""


class SourceNames:
    """Source names by number, as records carry the numbers."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}
        self._names: list[str] = []

    def number_of(self, name: str) -> int:
        """Return the number of a name; a new name gets the next one."""
        known = self._numbers.get(name)
        if known is None:
            known = self._numbers[name] = len(self._names)
            self._names.append(name)
        return known

    def name_of(self, number: int) -> str:
        """Return the name of a number."""
        return self._names[number]


class LogFeed(Protocol):
    """A source of lines for the log pane, oldest first. Used on the loop only."""

    @property
    def title(self) -> str:
        """The name of the log."""
        ...

    @property
    def has_more(self) -> bool:
        """True if more lines can be taken at once."""
        ...

    @property
    def holds_back(self) -> bool:
        """True if lines wait for older ones, so that more can be taken after a while."""
        ...

    def take(self, limit: int) -> list[bytes]:
        """Take about `limit` new lines, as records of `actions.cluster.logs.batch`."""
        ...

    def source_of(self, number: int) -> str:
        """Return the source name of a source number."""
        ...


class LogBegin(NamedTuple):
    """The place where the log of a pod begins."""

    tail: int = TAIL_LINES
    """Number of old lines; not for `since_ns`."""
    since_ns: int = 0
    """Nanoseconds since the epoch: all lines from then on. 0 for the last lines."""
    is_previous: bool = False
    """The container before the last restart, which is not followed."""


FROM_THE_TAIL = LogBegin()


class PodLogFeed:
    """The logs of all containers of one pod, over the API.

    Args:
        cluster: The pod's cluster.
        pod: The pod.
        container: Only this one; empty for all.
        clock: Time.
        changed: Called for new lines.
        begin: The place where it begins.
    """

    def __init__(
        self,
        cluster: ClusterFeed,
        pod: PodFacts,
        *,
        container: str,
        clock: Clock,
        changed: Callable[[], None],
        begin: LogBegin = FROM_THE_TAIL,
    ) -> None:
        self.pod = pod
        previous = "before its restart" if begin.is_previous else ""
        self.title = " ".join(word for word in (pod.key, container, previous) if word)
        self._begin = begin
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
        """True if lines wait."""
        return bool(self._lines)

    @property
    def holds_back(self) -> bool:
        """Return false: the lines of a pod come as they are read."""
        return False

    def take(self, limit: int) -> list[bytes]:
        """Take the oldest waiting lines."""
        taken = self._lines[:limit]
        del self._lines[:limit]
        self._has_room.set()
        return taken

    def source_of(self, number: int) -> str:
        """Return the container."""
        return self._names.name_of(number)

    async def run(self, live: Callable[[], None]) -> None:
        """Follow the log until every container has ended for good.

        Args:
            live: Called for the first line.

        Raises:
            ConsoleError: The log may not be read.
        """
        if not self._containers:
            raise MissingError(f"Pod {self.pod.key} has no container.")
        async with asyncio.TaskGroup() as tasks:
            for container in self._containers:
                tasks.create_task((self._read_previous if self._begin.is_previous else self._follow)(container, live))

    async def _read_previous(self, container: str, live: Callable[[], None]) -> None:
        """Read what the container before the last restart has written; one that has not restarted is named."""
        from actions.cluster.logs.batch import batches_of
        from actions.cluster.logs.follow import ContainerLog, read_log

        source = ContainerLog(self.pod.namespace, self.pod.name, container)
        since = LogCursor(self._begin.since_ns, 0) if self._begin.since_ns else None
        tail = None if since else self._begin.tail
        try:
            lines = await read_log(self._cluster.session, source, tail_lines=tail, since=since, previous=True)
        except (MissingError, RefusedError):
            text = f"{container} has no log before a restart"
            at_ns = round(self._clock.now().timestamp() * 1e9)
            self._lines.append(marker_of(text, self._names.number_of(container), at_ns))
            lines = []
        live()
        for batch in batches_of(lines):
            await self._queue(container, batch)
        self._changed()

    async def _follow(self, container: str, live: Callable[[], None]) -> None:
        from actions.cluster.logs.follow import ContainerLog, LogFollower

        async def queue(batch: LogBatch) -> None:
            live()
            await self._queue(container, batch)

        follower = LogFollower(
            self._cluster.session,
            ContainerLog(self.pod.namespace, self.pod.name, container, self.pod.uid),
            on_lines=queue,
            since=self._cursors.get(container) or LogCursor(self._begin.since_ns, 0),
            tail_lines=self._begin.tail,
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
        self._lines += tagged_lines(batch, self._names.number_of(container))
        self._changed()
        while len(self._lines) > QUEUED_LINES:
            self._has_room.clear()
            await self._has_room.wait()


PAUSE_SECONDS = 0.005
"""Pause between two slices, for other work of the loop."""
_SLICE_SECONDS = 0.004
"""Time of a slice after which no further piece is begun; a piece takes about as long."""
_PIECE_LINES = 1_000

Sink = Callable[[list[bytes], Callable[[int], str]], None]


class LogPump:
    """A pump of one feed's lines into a sink.

    Args:
        feed: The source of lines.
        sink: Called with records, and a function from source number to name.
        clock: Time.
    """

    def __init__(self, feed: LogFeed, sink: Sink, *, clock: Clock) -> None:
        self.feed = feed
        self._sink = sink
        self._clock = clock

    def drain(self) -> bool:
        """Move one slice; return whether another one should follow soon.

        Raises:
            JournalError: The feed's source cannot be read.
        """
        stop = self._clock.monotonic() + _SLICE_SECONDS
        while True:
            self._sink(self.feed.take(_PIECE_LINES), self.feed.source_of)
            if not self.feed.has_more:
                return False
            if self._clock.monotonic() >= stop:
                return True


HOLD_NS = 1_000_000_000
_COMPACT_AFTER = 10_000


class TimeOrder:
    """A merge of lines by time, which holds the newest second back until newer lines, or none, have come.

    Lines with the same time keep the order in which they were put. A line that is more than a second late stays where
    it arrived. Lines are records of `actions.cluster.logs.batch`.

    Args:
        capacity: Maximum number of lines; beyond it the oldest are dropped and counted. `None` for no limit.
    """

    def __init__(self, capacity: int | None = None) -> None:
        self.dropped = 0
        self._capacity = capacity
        self._held: list[bytes] = []
        self._taken = 0
        """Number of lines at the front of `_held` that are already taken."""
        self._newest = b""

    @property
    def newest_ns(self) -> int:
        """The latest timestamp that was put; 0 before the first."""
        return ns_of(self._newest) if self._newest else 0

    def put(self, records: Sequence[bytes]) -> None:
        """Add lines, sorted into the held ones."""
        if not records:
            return
        held = self._held
        place = bisect_right(held, min(map(stamp_in, records)), lo=self._taken, key=stamp_in)
        held[place:] = sorted([*held[place:], *records], key=stamp_in)  # ascending runs, which the sort only merges
        self._newest = max(self._newest, stamp_in(held[-1]))
        if self._capacity is not None and len(self) > self._capacity:
            self.dropped += len(self) - self._capacity
            self._advance(len(held) - self._capacity)

    def take(self, limit: int, *, is_quiet: bool) -> list[bytes]:
        """Take the lines from the front before which no earlier line is expected any more.

        Args:
            limit: Maximum number of lines.
            is_quiet: No line has come for a while, so none is held back.
        """
        return self.take_before(None if is_quiet else stamp_of(self.newest_ns - HOLD_NS), limit)

    def take_before(self, stamp: bytes | None, limit: int) -> list[bytes]:
        """Take the lines from the front that are older than `stamp`; all for `None`.

        Args:
            stamp: A time in the form of `actions.cluster.logs.lines`.
            limit: Maximum number of lines.
        """
        held = self._held
        end = len(held) if stamp is None else bisect_left(held, stamp, lo=self._taken, key=stamp_in)
        end = min(end, self._taken + limit)
        taken = held[self._taken : end]
        self._advance(end)
        return taken

    def _advance(self, taken: int) -> None:
        self._taken = taken
        if taken > _COMPACT_AFTER or taken == len(self._held):
            del self._held[:taken]
            self._taken = 0

    def __len__(self) -> int:
        """Return the number of waiting lines."""
        return len(self._held) - self._taken

"""Lines of many logs, put into the order of their timestamps while they come."""

from __future__ import annotations

import heapq

from tui.live.log_feeds import Gathered

HOLD_NS = 1_000_000_000


class TimeOrder:
    """Holds the newest second back until something newer, or nothing, has come.

    Lines of the same moment stay in the order in which they were put. What is later than a second stands where it
    arrived.

    Args:
        capacity: Beyond so many lines the oldest are dropped, and counted; `None` for no limit.
    """

    def __init__(self, capacity: int | None = None) -> None:
        self.dropped = 0
        self._capacity = capacity
        self._held: list[tuple[int, int, Gathered]] = []
        self._count = 0
        self._newest = 0

    @property
    def newest_ns(self) -> int:
        """The latest timestamp that was put; 0 before the first."""
        return self._newest

    def put(self, line: Gathered) -> None:
        """Take a line."""
        self._count += 1
        self._newest = max(self._newest, line.at_ns)
        heapq.heappush(self._held, (line.at_ns, self._count, line))
        if self._capacity is not None and len(self._held) > self._capacity:
            heapq.heappop(self._held)
            self.dropped += 1

    def take(self, limit: int, *, is_quiet: bool) -> list[Gathered]:
        """Take from the front what nothing earlier can come before any more, as far as one can know.

        Args:
            limit: Most lines.
            is_quiet: Nothing has come for a while: nothing is held back.
        """
        before = self._newest + 1 if is_quiet else self._newest - HOLD_NS
        taken: list[Gathered] = []
        while self._held and len(taken) < limit and self._held[0][0] < before:
            taken.append(heapq.heappop(self._held)[2])
        return taken

    def __len__(self) -> int:
        """Lines that wait."""
        return len(self._held)

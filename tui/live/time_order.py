"""Lines of many logs, put into the order of their timestamps while they come."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence

from actions.cluster.logs.batch import stamp_in
from actions.cluster.logs.lines import ns_of, stamp_of

HOLD_NS = 1_000_000_000
_COMPACT_AFTER = 10_000


class TimeOrder:
    """Holds the newest second back until something newer, or nothing, has come.

    Lines of the same moment stay in the order in which they were put. What is later than a second stands where it
    arrived. Lines are records of `actions.cluster.logs.batch`.

    Args:
        capacity: Beyond so many lines the oldest are dropped, and counted; `None` for no limit.
    """

    def __init__(self, capacity: int | None = None) -> None:
        self.dropped = 0
        self._capacity = capacity
        self._held: list[bytes] = []
        self._taken = 0
        """So many at the front of `_held` are gone."""
        self._newest = b""

    @property
    def newest_ns(self) -> int:
        """The latest timestamp that was put; 0 before the first."""
        return ns_of(self._newest) if self._newest else 0

    def put(self, records: Sequence[bytes]) -> None:
        """Take lines, which are sorted as far as they go together with those that are held."""
        if not records:
            return
        held = self._held
        place = bisect_right(held, min(map(stamp_in, records)), lo=self._taken, key=stamp_in)
        held[place:] = sorted([*held[place:], *records], key=stamp_in)  # of ascending runs: the sort only merges them
        self._newest = max(self._newest, stamp_in(held[-1]))
        if self._capacity is not None and len(self) > self._capacity:
            self.dropped += len(self) - self._capacity
            self._advance(len(held) - self._capacity)

    def take(self, limit: int, *, is_quiet: bool) -> list[bytes]:
        """Take from the front what nothing earlier can come before any more, as far as one can know.

        Args:
            limit: Most lines.
            is_quiet: Nothing has come for a while: nothing is held back.
        """
        return self.take_before(None if is_quiet else stamp_of(self.newest_ns - HOLD_NS), limit)

    def take_before(self, stamp: bytes | None, limit: int) -> list[bytes]:
        """Take from the front what is older than a moment; `None`: everything.

        Args:
            stamp: The moment, in the form of `actions.cluster.logs.lines`.
            limit: Most lines.
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
        """Lines that wait."""
        return len(self._held) - self._taken

"""The lines that a spool holds behind lost ones: they are not taken again when the log is read again."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from actions.cluster.logs.batch import LogBatch
from actions.cluster.logs.lines import STAMP_BYTES, START, LogCursor, LogLine, stamp_of

PlacedLine = tuple[LogLine, int]
"""A line of a file, and where in the file it ends."""


class KeptRange(msgspec.Struct):
    """Consecutive lines of one log, all of which are in the spool.

    `first` tells the first one: its stamp and text; of a line of a file, see `key_of`. `begin` and `end` are where in
    the file the first and the last one end.
    """

    first: bytes
    last: LogCursor = START
    begin: int = 0
    end: int = 0


def key_of(text: bytes, end: int) -> bytes:
    """The key that tells a line of a file from others."""
    return b"%d\t%s" % (end, text)


class KeptRanges:
    """The ranges of one log, in order.

    Args:
        ranges: All of them.
    """

    def __init__(self, ranges: Sequence[KeptRange]) -> None:
        self._ranges = list(ranges)
        self._is_inside = False
        self._left = 0

    @property
    def is_passed(self) -> bool:
        """True if what is read now stands behind all of them."""
        return not self._ranges

    def copy(self) -> KeptRanges:
        """The same, to be gone on with separately."""
        other = KeptRanges(self._ranges)
        other._is_inside, other._left = self._is_inside, self._left
        return other

    def missing(self, batch: LogBatch) -> LogBatch | None:
        """The lines that are in none of the ranges; `None` if there are none."""
        if batch.is_marker or not self._ranges:
            return batch
        lines = [line for line in batch.lines if self._is_missing(line)]
        return LogBatch(b"\n".join(lines) + b"\n") if lines else None

    def missing_lines(self, lines: Sequence[PlacedLine]) -> list[PlacedLine]:
        """The same of lines of a file."""
        return [placed for placed in lines if self._is_missing_at(placed[1])]

    def _is_missing(self, line: bytes) -> bool:
        stamp = line[:STAMP_BYTES]
        while self._ranges:
            kept = self._ranges[0]
            first, last = kept.first[:STAMP_BYTES], stamp_of(kept.last.at_ns)
            if not self._is_inside:
                if stamp < first or (stamp == first and line != kept.first):
                    return True
                self._is_inside, self._left = True, kept.last.seen
            if stamp < last:
                return False
            if stamp == last and self._left:
                self._left -= 1
                return False
            self._ranges.pop(0)
            self._is_inside = False
        return True

    def _is_missing_at(self, end: int) -> bool:
        if end == 0:  # the file begins anew
            self._ranges.clear()
        while self._ranges:
            kept = self._ranges[0]
            if end <= kept.end:
                return end < kept.begin
            self._ranges.pop(0)
        return True

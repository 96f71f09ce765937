"""Which lines of a log buffer match a pattern, found in slices that never hold up the screen."""

from __future__ import annotations

import re
from array import array
from bisect import bisect_left, bisect_right
from itertools import accumulate

from actions.base.patterns import SearchPattern
from tui.widgets.log_buffer import LogBuffer

_INVISIBLE = re.compile(rb"\x1b\[[0-9;:]*m|^[^\n]*\r(?=[^\r\n])|\r+$", re.MULTILINE)


class LineSearch:
    """The numbers of matching lines, oldest first; complete up to line `scanned`.

    It looks at what is visible: colours are no part of the text, and of a progress bar only its last state is.
    New lines are taken up by further calls of `advance`; forgotten ones by `forget_before`.

    Args:
        buffer: Where to look.
        pattern: See `SearchPattern`; with a leading `!` the lines that do *not* match.
    """

    def __init__(self, buffer: LogBuffer, pattern: str) -> None:
        self.pattern = pattern
        self.is_inverse = pattern.startswith("!") and len(pattern) > 1
        self._regex = SearchPattern(pattern[1:] if self.is_inverse else pattern)
        self.matches = array("Q")
        self.scanned = buffer.start
        self._buffer = buffer

    @property
    def is_complete(self) -> bool:
        """Whether every line held has been looked at."""
        return self.scanned >= self._buffer.end

    def advance(self, *, slice_bytes: int = 1024 * 1024) -> bool:
        """Look at about `slice_bytes` more (a few milliseconds a megabyte); `True` when complete."""
        self.forget_before(self._buffer.start)
        for first, data in self._buffer.blocks_from(self.scanned):
            self.scanned = self._scan(first, data)
            slice_bytes -= len(data)
            if slice_bytes <= 0:
                break
        return self.is_complete

    def forget_before(self, number: int) -> None:
        """Drop matches among lines that the buffer forgot."""
        if self.matches and self.matches[0] < number:
            del self.matches[: bisect_left(self.matches, number)]

    def after(self, number: int) -> int | None:
        """The first match after line `number`."""
        index = bisect_right(self.matches, number)
        return self.matches[index] if index < len(self.matches) else None

    def before(self, number: int) -> int | None:
        """The last match before line `number`."""
        index = bisect_left(self.matches, number)
        return self.matches[index - 1] if index else None

    def rank(self, number: int) -> int:
        """How many matches come before line `number`."""
        return bisect_left(self.matches, number)

    def spans(self, visible: str) -> list[tuple[int, int]]:
        """Where the pattern stands in a visible text: non-empty `(start, end)` in characters."""
        return [] if self.is_inverse else self._regex.spans(visible)

    def _scan(self, first: int, data: bytes) -> int:
        if b"\x1b" in data or b"\r" in data:
            data = _INVISIBLE.sub(b"", data)
        ends = list(accumulate(len(line) + 1 for line in data.split(b"\n")[:-1]))
        found = array("Q")
        at, start_in = 0, self._regex.start_in
        while at < len(data) and (start := start_in(data, at)) is not None:
            index = bisect_right(ends, start)
            if index >= len(ends):
                break
            found.append(first + index)
            at = ends[index]
        self.matches.extend(_complement(found, first, len(ends)) if self.is_inverse else found)
        return first + len(ends)


def _complement(found: array[int], first: int, count: int) -> array[int]:
    hit = set(found)
    return array("Q", (number for number in range(first, first + count) if number not in hit))

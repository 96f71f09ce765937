"""Which lines of a buffer are walked through: all, or those that a filter lets pass."""

from __future__ import annotations

from typing import Protocol

from tui.widgets.line_search import LineSearch
from tui.widgets.log_buffer import LogBuffer


class LogWindow(Protocol):
    """A walk over line numbers. `None` means that there is no such line."""

    @property
    def count(self) -> int:
        """How many lines there are to walk."""
        ...

    def at_or_after(self, number: int) -> int | None:
        """The first line that is not before `number`."""
        ...

    def before(self, number: int) -> int | None:
        """The last line before `number`; with the buffer's `end`, the last of all."""
        ...

    def rank(self, number: int) -> int:
        """How many lines come before `number`."""
        ...


class AllLines:
    """Every line that the buffer holds."""

    def __init__(self, buffer: LogBuffer) -> None:
        self._buffer = buffer

    @property
    def count(self) -> int:
        """Lines held."""
        return self._buffer.end - self._buffer.start

    def at_or_after(self, number: int) -> int | None:
        """The line itself, or the oldest one."""
        number = max(number, self._buffer.start)
        return number if number < self._buffer.end else None

    def before(self, number: int) -> int | None:
        """The line in front of it, or the newest one."""
        number = min(number, self._buffer.end) - 1
        return number if number >= self._buffer.start else None

    def rank(self, number: int) -> int:
        """Its distance from the oldest line."""
        return max(0, min(number, self._buffer.end) - self._buffer.start)


class MatchingLines:
    """The lines that a search has found so far."""

    def __init__(self, search: LineSearch) -> None:
        self._search = search

    @property
    def count(self) -> int:
        """Matches so far."""
        return len(self._search.matches)

    def at_or_after(self, number: int) -> int | None:
        """The next match."""
        return self._search.after(number - 1)

    def before(self, number: int) -> int | None:
        """The match in front."""
        return self._search.before(number)

    def rank(self, number: int) -> int:
        """Matches in front."""
        return self._search.rank(number)

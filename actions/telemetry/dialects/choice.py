"""Which dialects a record is shown to: those that have a mark in it, found once for all records of the same outline."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from actions.telemetry.dialects.dialect import Dialect
from actions.telemetry.outlines import remembered


class DialectChoice:
    """Chooses among dialects by their marks.

    Args:
        dialects: In the order in which they are asked.
    """

    def __init__(self, dialects: Sequence[Dialect]) -> None:
        self._dialects = dialects
        self._marked = remembered(self._find)

    def of(self, outline: str, *, waiting: Collection[Dialect] = ()) -> Sequence[Dialect]:
        """Those that a record is shown to, in their order.

        Args:
            outline: The record's.
            waiting: Dialects that want to see every record.
        """
        if not waiting:
            return self._marked(outline)
        return [one for one in self._dialects if one in waiting or _has_mark(one, outline)]

    def _find(self, outline: str) -> list[Dialect]:
        return [one for one in self._dialects if _has_mark(one, outline)]


def _has_mark(dialect: Dialect, outline: str) -> bool:
    return any(mark in outline for mark in dialect.marks)

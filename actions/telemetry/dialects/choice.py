"""Which dialects a record is shown to: those that have a mark in it, found once for all records of the same shape."""

from __future__ import annotations

from collections.abc import Sequence

from actions.telemetry.dialects.dialect import Dialect
from actions.telemetry.sieve import signs_but

_MOST_SHAPES = 512
_LONGEST_SHAPE = 512


class DialectChoice:
    """Chooses among dialects by their marks.

    Args:
        dialects: In the order in which they are asked.
    """

    def __init__(self, dialects: Sequence[Dialect]) -> None:
        self._dialects = dialects
        self._dropped = signs_but("".join(mark for dialect in dialects for mark in dialect.marks))
        self._known: dict[bytes, list[Dialect]] = {}

    def of(self, text: str, *, waiting: Dialect | None = None) -> Sequence[Dialect]:
        """Those that a record is shown to, in their order.

        Args:
            text: The record.
            waiting: A dialect that wants to see every record.
        """
        if waiting is not None or len(text) > _LONGEST_SHAPE:
            return [one for one in self._dialects if one is waiting or _has_mark(one, text)]
        shape = text.encode("utf-8", "replace").translate(None, self._dropped)
        known = self._known.get(shape)
        if known is None:
            if len(self._known) >= _MOST_SHAPES:
                self._known.clear()
            seen = shape.decode()  # what any line of this shape may hold, not only this one
            known = self._known[shape] = [one for one in self._dialects if _has_mark(one, seen)]
        return known


def _has_mark(dialect: Dialect, text: str) -> bool:
    return any(mark in text for mark in dialect.marks)

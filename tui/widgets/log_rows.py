"""Which rows of which lines stand on the screen of a log view."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from tui.widgets.log_window import LogWindow


class Row(NamedTuple):
    """One row on the screen: part `part` of line `line`; parts are the pieces of a wrapped line."""

    line: int
    part: int


HeightOf = Callable[[int], int]
"""Rows that a line takes, at least 1."""


def rows_from(window: LogWindow, height_of: HeightOf, anchor: Row, count: int) -> list[Row]:
    """Up to `count` rows from `anchor` downwards; if its line is not there, from the next one."""
    rows: list[Row] = []
    line = window.at_or_after(anchor.line)
    part = anchor.part if line == anchor.line else 0
    while line is not None and len(rows) < count:
        rows += (Row(line, index) for index in range(min(part, height_of(line) - 1), height_of(line)))
        line, part = window.at_or_after(line + 1), 0
    return rows[:count]


def rows_before(window: LogWindow, height_of: HeightOf, anchor: Row, count: int) -> list[Row]:
    """Up to `count` rows directly above `anchor`, top one first."""
    rows = [Row(anchor.line, index) for index in reversed(range(anchor.part))]
    line = window.before(anchor.line)
    while line is not None and len(rows) < count:
        rows += (Row(line, index) for index in reversed(range(height_of(line))))
        line = window.before(line)
    return rows[:count][::-1]


def moved(window: LogWindow, height_of: HeightOf, anchor: Row, rows: int) -> Row:
    """The anchor `rows` further down, or up if negative; it stops at the ends."""
    if rows < 0:
        above = rows_before(window, height_of, anchor, -rows)
        return above[0] if above else anchor
    below = rows_from(window, height_of, anchor, rows + 1)
    return below[-1] if below else anchor

"""Columns of a table: what they show, which of them fit, how wide."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Generic, Literal, TypeVar

import msgspec

from tui.present.cells import CellValue, text_of

RowT = TypeVar("RowT")

SortKey = str | int | float | tuple[str | int | float, ...]
"""What rows are ordered by. A column returns one shape of it for all rows."""


class Column(msgspec.Struct, Generic[RowT], frozen=True):
    """One column.

    `cell` is called for visible rows only, so it may format; `sort_key` for every row at each sort, so it should
    only look.
    """

    id: str
    title: str
    cell: Callable[[RowT], CellValue]
    width: int
    """Terminal columns that it needs; the least width of a flexible one."""
    flex: int = 0
    """Share of the room that is left over; 0 keeps `width`."""
    limit: int = 0
    """Greatest width of a flexible column; 0 for no limit."""
    align: Literal["left", "right"] = "left"
    drop: int = 0
    """When the table is too narrow the column with the highest number goes first; 0 never goes."""
    sort_key: Callable[[RowT], SortKey] | None = None
    """Defaults to the text of the cell."""

    keeps_ends: bool = False
    """A text that is too long is cut in its middle; for cells that are a plain text."""

    source: Callable[[RowT], object] | None = None
    """Of a row, the one object that `cell` looks at: while it is the same, the cell is not asked again."""

    def key_of(self, row: RowT) -> SortKey:
        """What `row` is ordered by in this column."""
        return text_of(self.cell(row)) if self.sort_key is None else self.sort_key(row)


class Fitted(msgspec.Struct, Generic[RowT], frozen=True):
    """A column with the width that it got."""

    column: Column[RowT]
    width: int


GAP = 1
"""Blank terminal columns between two columns."""


def fit_columns(columns: Sequence[Column[RowT]], width: int) -> tuple[Fitted[RowT], ...]:
    """Choose the columns that fit into `width` terminal columns, in their order, with their widths.

    Droppable columns go, highest `drop` first and rightmost first among equals, until the rest fits; what is left
    over goes to flexible columns by share. If even the undroppable ones do not fit, the last one is cut.
    """
    kept = list(columns)
    while _needed(kept) > width and (victim := max(enumerate(kept), key=_first_to_go, default=None)) is not None:
        if victim[1].drop == 0:
            break
        del kept[victim[0]]
    widths = _stretch(kept, width - _needed(kept))
    return _cut(kept, widths, width)


def _first_to_go(item: tuple[int, Column[RowT]]) -> tuple[int, int]:
    return item[1].drop, item[0]


def _needed(columns: Sequence[Column[RowT]]) -> int:
    return sum(column.width for column in columns) + GAP * max(0, len(columns) - 1)


def _stretch(columns: Sequence[Column[RowT]], spare: int) -> list[int]:
    widths = [column.width for column in columns]
    growing = [index for index, column in enumerate(columns) if column.flex > 0]
    while spare > 0 and growing:
        shares = sum(columns[index].flex for index in growing)
        given = 0
        for index in list(growing):
            column = columns[index]
            share = max(1, spare * column.flex // shares)
            room = column.limit - widths[index] if column.limit else share
            step = min(share, room, spare - given)
            widths[index] += step
            given += step
            if column.limit and widths[index] >= column.limit:
                growing.remove(index)
        if given == 0:
            break
        spare -= given
    return widths


def _cut(columns: Sequence[Column[RowT]], widths: Sequence[int], width: int) -> tuple[Fitted[RowT], ...]:
    fitted: list[Fitted[RowT]] = []
    room = width
    for column, wanted in zip(columns, widths, strict=True):
        if room <= 0:
            break
        fitted.append(Fitted(column, min(wanted, room)))
        room -= wanted + GAP
    return tuple(fitted)

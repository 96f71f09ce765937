"""How a table draws its header, rows and footer."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Generic, TypeVar

from rich.style import Style
from textual.strip import Strip

from tui.present.cells import Cells, CellValue, Span, Tone, fit
from tui.widgets.columns import GAP, Column, Fitted, fit_columns
from tui.widgets.row_order import RowOrder
from tui.widgets.stripes import StripWidget

RowT = TypeVar("RowT")

KEPT_STRIPS = 500
_GAP = Span(" " * GAP)


class TableFace(Generic[RowT]):
    """The columns as they fit the present width, and the finished rows.

    A finished row is kept as long as its row object, the width and the styles are the same.
    """

    def __init__(self, columns: Sequence[Column[RowT]]) -> None:
        self.columns = tuple(columns)
        self.fitted: tuple[Fitted[RowT], ...] = ()
        self._width = -1
        self._strips: dict[tuple[str, Style], tuple[RowT, Strip]] = {}
        self._cells: dict[str, list[tuple[CellValue, Cells]]] = {}

    def fit_to(self, width: int) -> None:
        """Choose the columns for `width` terminal columns."""
        if width != self._width:
            self._width = width
            self.fitted = fit_columns(self.columns, width)
            self.forget()

    def forget(self) -> None:
        """Drop finished rows."""
        self._strips.clear()
        self._cells.clear()

    def column_named(self, column_id: str) -> Column[RowT] | None:
        """The column with that id, fitting or not."""
        return next((column for column in self.columns if column.id == column_id), None)

    def column_at(self, x: int) -> Column[RowT] | None:
        """The column that a click at `x` meets."""
        left = 0
        for fitted in self.fitted:
            left += fitted.width + GAP
            if x < left:
                return fitted.column
        return None

    def row(self, painter: StripWidget, key: str, row: RowT, base: Style) -> Strip:
        """The line of one row on `base`."""
        known = self._strips.get((key, base))
        if known is not None and known[0] is row:
            return known[1]
        if len(self._strips) > KEPT_STRIPS:
            self.forget()
        strip = painter.paint(self._cells_of(key, row), self._width, base)
        self._strips[key, base] = (row, strip)
        return strip

    def _cells_of(self, key: str, row: RowT) -> Cells:
        """The cells of one row; of a row that changed, those that say the same are not laid out again."""
        known = self._cells.get(key) or [("", ())] * len(self.fitted)
        laid: list[tuple[CellValue, Cells]] = []
        for fitted, (before, there) in zip(self.fitted, known, strict=True):
            value = fitted.column.cell(row)
            is_there = there and value == before
            laid.append((value, there if is_there else self._laid_out(fitted, value)))
        self._cells[key] = laid
        return tuple(chain.from_iterable(cells for _, cells in laid))

    def _laid_out(self, fitted: Fitted[RowT], value: CellValue) -> Cells:
        return (*fit(value, fitted.width, align_right=fitted.column.align == "right"), _GAP)

    def header(self, order: RowOrder[RowT]) -> Cells:
        """Titles, with an arrow at the sort column."""
        cells: list[Span] = []
        for fitted in self.fitted:
            column = fitted.column
            title = Span(column.title)
            if column is order.column:
                title = Span(column.title + ("▼" if order.is_reversed else "▲"), Tone.ACCENT)
            cells += fit(title, fitted.width, align_right=column.align == "right")
            cells.append(_GAP)
        return tuple(cells)

    def footer(self, order: RowOrder[RowT], *, position: int, noun: str) -> Cells:
        """Where the cursor is, how many rows there are, what is filtered, what did not fit."""
        total, shown = len(order.rows), len(order.keys)
        count = f"{total:,} {noun}" if total == shown else f"{shown:,} of {total:,} {noun}"
        cells = [Span(f"{position + 1:,} · {count}" if shown else count, Tone.MUTED)]
        if order.needle:
            cells.append(Span(f"  /{order.needle}", Tone.ACCENT))
        hidden = len(self.columns) - len(self.fitted)
        if hidden:
            cells.append(Span(f"  +{hidden} column{'s' * (hidden > 1)} when wider", Tone.MUTED))
        return tuple(cells)

"""The drawing of a table: header, rows, footer."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from itertools import chain
from typing import Generic, TypeVar

import msgspec
from rich.segment import Segment
from rich.style import Style
from textual.geometry import Region
from textual.strip import Strip

from actions.base.wording import folded
from tui.present.cells import Cells, CellValue, Span, Tone, fit, fit_ends, width_of
from tui.widgets.base import LineWidget
from tui.widgets.table_model import GAP, Column, Fitted, RowOrder, fit_columns

RowT = TypeVar("RowT")

KEPT_ROWS = 500
_GAP = Span(" " * GAP)


class _Laid(msgspec.Struct, Generic[RowT], frozen=True):
    """A row with the cells of its columns, and their layout."""

    row: RowT
    columns: list[tuple[CellValue, Cells]]


class TableRenderer(Generic[RowT]):
    """The columns that fit the present width, and the finished rows.

    A finished row is cached as long as its row object, the width and the styles are the same.
    """

    def __init__(self, columns: Sequence[Column[RowT]]) -> None:
        self.columns = tuple(columns)
        self.fitted: tuple[Fitted[RowT], ...] = ()
        self._width = -1
        self._used = 0
        self._drawn: dict[tuple[str, Style], tuple[RowT, list[Segment]]] = {}
        self._laid: dict[str, _Laid[RowT]] = {}

    def fit_to(self, width: int) -> None:
        """Choose the columns for `width` terminal columns."""
        if width != self._width:
            self._width = width
            self.fitted = fit_columns(self.columns, width)
            self._used = sum(fitted.width + GAP for fitted in self.fitted)
            self.forget()

    def forget(self) -> None:
        """Drop finished rows."""
        self._drawn.clear()
        self._laid.clear()

    def column_named(self, column_id: str) -> Column[RowT] | None:
        """Return the column with that id, even if it does not fit."""
        return next((column for column in self.columns if column.id == column_id), None)

    def column_at(self, x: int) -> Column[RowT] | None:
        """Return the column at `x`, if any."""
        left = 0
        for fitted in self.fitted:
            left += fitted.width + GAP
            if x < left:
                return fitted.column
        return None

    def row(self, painter: LineWidget, key: str, row: RowT, base: Style) -> list[Segment]:
        """Draw one row on `base`, in the fitted width."""
        known = self._drawn.get((key, base))
        if known is not None and known[0] is row:
            return known[1]
        if len(self._drawn) > KEPT_ROWS:
            self.forget()
        segments = painter.segments(chain.from_iterable(cells for _, cells in self._lay(key, row).columns), base)
        if self._used < self._width:
            segments.append(Segment(" " * (self._width - self._used), base))
        elif self._used > self._width:
            segments = list(Strip(segments).adjust_cell_length(self._width, base))
        self._drawn[key, base] = (row, segments)
        return segments

    def part(self, painter: LineWidget, key: str, row: RowT, base: Style, *, left: int, right: int) -> Strip:
        """Draw columns `[left, right)` of one row on `base`."""
        cells: list[Span] = []
        x = begin = end = 0
        for fitted, (_, laid) in zip(self.fitted, self._lay(key, row).columns, strict=True):
            if x < right and x + fitted.width + GAP > left:
                begin = begin if cells else x
                cells += laid
                end = x + fitted.width + GAP
            x += fitted.width + GAP
        return Strip(painter.segments(cells, base), end - begin).crop_extend(left - begin, right - begin, base)

    def differences(self, visible: Sequence[str], updated: Collection[str], rows: Mapping[str, RowT]) -> list[Region]:
        """Return the regions of the table that changed, in the visible updated rows; the header is line 0."""
        spans = [(y, self._difference(key, rows[key])) for y, key in enumerate(visible, start=1) if key in updated]
        return [Region(left, y, right - left, 1) for y, (left, right) in spans if right > left]

    def _difference(self, key: str, row: RowT) -> tuple[int, int]:
        """Return the columns in which a changed row differs from the last one under its key."""
        known = self._laid.get(key)
        if known is None:
            return 0, self._width
        left = right = x = 0
        for fitted, (before, _), (after, _) in zip(
            self.fitted, known.columns, self._lay(key, row).columns, strict=True
        ):
            if before != after:
                left = left if right else x
                right = min(x + fitted.width + GAP, self._width)
            x += fitted.width + GAP
        return left, right

    def _lay(self, key: str, row: RowT) -> _Laid[RowT]:
        """Lay out the cells of a row; unchanged cells of a changed row are not laid out again."""
        known = self._laid.get(key)
        if known is not None and known.row is row:
            return known
        columns: list[tuple[CellValue, Cells]] = []
        for place, fitted in enumerate(self.fitted):
            source = fitted.column.source
            if known is not None and source is not None and source(known.row) is source(row):
                columns.append(known.columns[place])
                continue
            value = fitted.column.cell_of(row, fitted.width)
            if known is not None and known.columns[place][0] == value:
                columns.append(known.columns[place])
            else:
                columns.append((value, self._laid_out(fitted, value)))
        self._laid[key] = laid = _Laid(row, columns)
        return laid

    def _laid_out(self, fitted: Fitted[RowT], value: CellValue) -> Cells:
        if fitted.column.keeps_ends and isinstance(value, str | Span):
            return (*fit_ends(value, fitted.width), _GAP)
        return (*fit(value, fitted.width, align_right=fitted.column.align == "right"), _GAP)

    def header(self, order: RowOrder[RowT]) -> Cells:
        """Draw the titles, with an arrow at the sort column: in the gap behind a title that fills its column."""
        cells: list[Span] = []
        for fitted in self.fitted:
            column = fitted.column
            is_sorted = column is order.column
            arrow = ("▼" if order.is_reversed else "▲") if is_sorted else ""
            is_full = len(column.title) >= fitted.width
            title = Span(
                column.title if is_full else f"{column.title}{arrow}", Tone.ACCENT if is_sorted else Tone.PLAIN
            )
            cells += fit(title, fitted.width, align_right=column.align == "right")
            cells.append(Span(arrow, Tone.ACCENT) if is_full and arrow else _GAP)
        return tuple(cells)

    def footer(self, order: RowOrder[RowT], *, position: int, noun: str) -> Cells:
        """Draw the cursor's position, the number of rows, the filter, and the number of columns that do not fit.

        Without rows it is empty: the reason stands in their place, and they may be unknown instead of none.
        """
        total, shown = len(order.rows), len(order.keys)
        if not total:
            return (Span(f"/{order.needle}", Tone.ACCENT),) if order.needle else ()
        named = noun if total != 1 else _singular(noun)
        count = f"{total:,} {named}" if total == shown else f"{shown:,} · {total:,} {named}"
        if shown:
            count = f"{position + 1:,} of {count}"
        cells = [Span(count, Tone.MUTED)]
        if order.needle:
            cells.append(Span(f"  /{order.needle}", Tone.ACCENT))
        hidden = len(self.columns) - len(self.fitted)
        if hidden:
            more = f"  +{hidden} column{'s' * (hidden > 1)}"
            whole = f"  {hidden} column{'s do' if hidden > 1 else ' does'} not fit"
            cells.append(Span(whole if width_of(tuple(cells)) + len(whole) <= self._width else more, Tone.MUTED))
        return tuple(cells)


def nothing_line(order: RowOrder[RowT], y: int, width: int, *, empty: str) -> Cells:
    """Draw the reason why there is no row (`empty`) or none matches; blank below existing rows."""
    if order.keys:
        return ()
    said = f"Nothing here matches {order.needle!r}." if order.rows else empty
    lines = folded(said, max(1, width))
    return (Span(lines[y], Tone.MUTED),) if y < len(lines) else ()


def _singular(noun: str) -> str:
    """Return the singular of a table's noun: `node` of `nodes`, `way to pay` of `ways to pay`."""
    first, *rest = noun.split(" ")
    return " ".join([first.removesuffix("s"), *rest])

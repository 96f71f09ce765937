"""The table for live data: thousands of rows by key, of which only the visible ones are formatted."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar, Generic, TypeVar

from rich.segment import Segment
from textual import events
from textual.binding import Binding, BindingType
from textual.geometry import Region
from textual.reactive import reactive
from textual.strip import Strip
from textual.timer import Timer

from tui.present.cells import text_of
from tui.widgets.base import NavigableWidget, ResolvedStyles, WidgetMessage
from tui.widgets.table_model import Column, RowChanges, RowCursor, RowOrder
from tui.widgets.table_renderer import TableRenderer, nothing_line

RowT = TypeVar("RowT")

RESORT_SECONDS = 1.0
SMALL_TABLE = 1_000
"""Up to so many rows, the table sorts at once when rows come or go."""


class KeyedTable(NavigableWidget, Generic[RowT], can_focus=True):
    """Rows by key under a header, with a cursor that stays on its row when the order changes.

    Pass all rows whenever the data changed; unchanged rows cost nothing, and hidden ones are not formatted:

        table = KeyedTable(NODE_COLUMNS, key=lambda node: node.name, noun="nodes", sort="name")
        table.reconcile(rows)

    For a table of many rows use `update_rows`, which takes only the changed ones.

    Rows are values (frozen, compared with `==`; an unchanged row should be the same object). Changed values reorder
    rows at most once a second, and not while the operator moves the cursor; removed rows vanish at once.

    Args:
        columns: Left to right.
        key: Identity of a row.
        search: Returns the text that the filter matches; by default the text of all columns.
        noun: Name of the rows in the footer: "nodes".
        sort: Id of the first sort column; empty sorts by key.
        reverse: Sort in descending order.
        empty: Text shown while there is no row at all.
    """

    HAS_TERMINAL_COLOURS = False
    PARTS = (*NavigableWidget.PARTS, "table--header", "table--cursor", "table--footer", "table--marked")
    COMPONENT_CLASSES: ClassVar[set[str]] = set(PARTS)
    DEFAULT_CSS = """
    KeyedTable { width: 1fr; height: 1fr; }
    KeyedTable > .table--header { text-style: bold; background: $panel; }
    KeyedTable > .table--marked { color: $text-accent; text-style: bold; }
    KeyedTable > .table--cursor { background: $foreground 12%; }
    KeyedTable:focus > .table--cursor { background: $primary 35%; text-style: bold; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "choose", "open", id="table.choose", show=False),
        Binding("full_stop", "sort_next(1)", "next sort column", id="table.sort_next", show=False),
        Binding("comma", "sort_next(-1)", "previous sort column", id="table.sort_previous", show=False),
        Binding("semicolon", "reverse", "reverse order", id="table.reverse", show=False),
    ]

    filter_text: reactive[str] = reactive("", repaint=False)
    """See `tui.settings.filters`; it has been read without an error."""
    empty: reactive[str] = reactive("")
    """The text shown while there is no row at all."""

    @dataclass
    class Selected(WidgetMessage):
        """The operator opened a row: enter, or a double click."""

        key: str

    @dataclass
    class Highlighted(WidgetMessage):
        """The cursor moved to another row; `key` is empty when no row is left."""

        key: str

    def __init__(
        self,
        columns: Sequence[Column[RowT]],
        *,
        key: Callable[[RowT], str],
        search: Callable[[RowT], str] | None = None,
        noun: str = "rows",
        sort: str = "",
        reverse: bool = False,
        empty: str = "",
        id: str | None = None,
        classes: str | None = None,
    ) -> None:
        super().__init__(id=id, classes=classes)
        self._renderer = TableRenderer(columns)
        self._order: RowOrder[RowT] = RowOrder(key=key, search=search or _text_of_columns(columns))
        self._order.sort_on(self._renderer.column_named(sort), reverse=reverse)
        self._cursor = RowCursor()
        self._noun = noun
        self.marks: frozenset[str] = frozenset()
        """Keys of rows that are drawn as marked."""
        self.set_reactive(KeyedTable.empty, empty)
        self._announced = ""
        self._sorted_at = self._moved_at = -RESORT_SECONDS
        self._resort_timer: Timer | None = None

    @property
    def selected_key(self) -> str:
        """The key of the row under the cursor; empty without rows."""
        return self._cursor.key

    @property
    def selected_row(self) -> RowT | None:
        """The row under the cursor."""
        return self._order.rows.get(self._cursor.key)

    @property
    def shown_keys(self) -> Sequence[str]:
        """The keys that pass the filter, in order."""
        return tuple(self._order.keys)

    @property
    def sort_state(self) -> tuple[str, bool]:
        """The id of the sort column (empty: by key), and whether the order is reversed."""
        column = self._order.column
        return (column.id if column else ""), self._order.is_reversed

    def reconcile(self, rows: Iterable[RowT]) -> None:
        """Replace all rows; repaint the visible differences."""
        self._follow(self._order.replace(rows))

    def update_rows(self, rows: Iterable[RowT], gone: Collection[str] = ()) -> None:
        """Take new and changed rows, and the keys of removed ones."""
        self._follow(self._order.update_rows(rows, gone))

    def select(self, key: str) -> bool:
        """Move the cursor to `key`; return `False` if it is not shown."""
        found = self._cursor.seek(key)
        self._show_cursor()
        return found

    def sort_by(self, column_id: str, *, reverse: bool = False, columns: Sequence[Column[RowT]] | None = None) -> None:
        """Sort by a column; an empty id sorts by key. `columns` replace those that there are."""
        if columns is not None:
            self._renderer = TableRenderer(columns)
        self._order.sort_on(self._renderer.column_named(column_id), reverse=reverse)
        self._rearrange()

    def watch_filter_text(self, text: str) -> None:
        """Show the rows that pass the filter."""
        self._order.needle = text
        self._rearrange()

    @property
    def page_lines(self) -> int:
        """The number of rows between header and footer."""
        return max(1, self.size.height - 2)

    def step(self, lines: int) -> None:
        """Move the cursor."""
        self._moved_at = _loop_seconds()
        before, top = self._cursor.index, self._cursor.top
        self._cursor.place(self._cursor.index + lines)
        if self._cursor.top == top:
            width, places = self.size.width, (before - top + 1, self._cursor.index - top + 1, self.size.height - 1)
            self._show_cursor(*(Region(0, y, width, 1) for y in dict.fromkeys(places)))
        else:
            self._show_cursor()

    def jump(self, *, to_end: bool) -> None:
        """Move the cursor to the first or the last row."""
        self.step(len(self._order.keys) if to_end else -len(self._order.keys))

    def scroll_lines(self, lines: int) -> None:
        """Scroll; the cursor moves only at the edge of the visible rows."""
        self._moved_at = _loop_seconds()
        self._cursor.scroll(lines)
        self._show_cursor()

    def action_choose(self) -> None:
        """Post that the row under the cursor was opened."""
        if self._cursor.key:
            self.post_message(self.Selected(self, self._cursor.key))

    def action_sort_next(self, direction: int) -> None:
        """Sort by the next visible column; a table of objects has none before they are read."""
        columns = [fitted.column for fitted in self._renderer.fitted] or list(self._renderer.columns)
        if not columns:
            return
        current = self._order.column
        at = columns.index(current) + direction if current in columns else 0
        self.sort_by(columns[at % len(columns)].id)

    def action_reverse(self) -> None:
        """Reverse the order."""
        self.sort_by(self.sort_state[0], reverse=not self._order.is_reversed)

    def on_click(self, event: events.Click) -> None:
        """Handle a click: on the header sort by its column, or reverse; on a row move the cursor there, or open it."""
        at = event.get_content_offset(self)
        if at is None:
            return
        index = self._cursor.top + at.y - 1
        if at.y == 0 and (column := self._renderer.column_at(at.x)) is not None:
            self.sort_by(column.id, reverse=column is self._order.column and not self._order.is_reversed)
        elif 1 <= at.y <= self.page_lines and index < len(self._order.keys):
            self.step(index - self._cursor.index)
            if event.chain > 1:
                self.action_choose()

    def on_resize(self) -> None:
        """Keep the cursor visible."""
        self._cursor.resize(self.page_lines)
        self.refresh()

    def restyled(self, before: ResolvedStyles | None) -> None:
        """Drop finished rows, unless only the styles of parts changed: rows are kept by the one that they lie on."""
        if before is None or before.tones != self.resolved_styles.tones:
            self._renderer.forget()

    def render_part(self, y: int, left: int, right: int) -> Strip:
        """Render header, rows or footer; of a row only the requested cells, as often only one of them changed."""
        (width, height), resolved_styles, order = self.size, self.resolved_styles, self._order
        self._renderer.fit_to(width - 1)
        index = self._cursor.top + y - 1
        if y == 0:
            strip = self.paint(self._renderer.header(order), width, resolved_styles.parts["table--header"])
        elif y == height - 1:
            footer = self._renderer.footer(order, position=self._cursor.index, noun=self._noun)
            strip = self.paint(footer, width, resolved_styles.parts["table--footer"])
        elif index >= len(order.keys):
            strip = self.paint(nothing_line(order, y - 1, width - 1, empty=self.empty), width)
        else:
            key = order.keys[index]
            is_marked = key in self.marks
            base = resolved_styles.parts["table--marked"] if is_marked else resolved_styles.base
            if index == self._cursor.index:
                base = resolved_styles.parts["table--cursor"]
            if right < width:
                return self._renderer.part(self, key, order.rows[key], base, left=left, right=right)
            row = self._renderer.row(self, key, order.rows[key], base)
            rail = self.rail_segment(y - 1, top=self._cursor.top, count=len(order.keys), height=self._cursor.height)
            strip = Strip([*row, Segment("✓", resolved_styles.parts["table--marked"]) if is_marked else rail], width)
        return strip.crop(left, right)

    def _follow(self, changes: RowChanges) -> None:
        """Show changes: at once in visible rows, in the new order when a sort is due."""
        if not changes:
            return
        if changes.has_moved and len(self._order.rows) <= SMALL_TABLE:
            self._rearrange()
            return
        if changes.has_moved:
            self._order.drop_missing()
            self._cursor.follow(self._order.keys)
            self.refresh()
        else:
            regions = self._renderer.differences(self._cursor.visible(), changes.updated, self._order.rows)
            if regions:
                self.refresh(*regions)
        if changes.is_disordered:
            self._sort_when_due()

    def _rearrange(self) -> None:
        """Filter and sort at once."""
        self._sorted_at = _loop_seconds()
        self._order.arrange()
        self._cursor.follow(self._order.keys)
        self._show_cursor()

    def _sort_when_due(self) -> None:
        """Sort now if the last sort is long ago and the cursor rests, else arm one timer."""
        if self._resort_timer is not None:
            return
        wait = max(self._sorted_at, self._moved_at) + RESORT_SECONDS - _loop_seconds()
        if wait <= 0:
            self._rearrange()
            return

        def fired() -> None:
            self._resort_timer = None
            self._sort_when_due()

        self._resort_timer = self.set_timer(wait, fired)

    def _show_cursor(self, *regions: Region) -> None:
        self.refresh(*regions)
        if self._cursor.key != self._announced:
            self._announced = self._cursor.key
            self.post_message(self.Highlighted(self, self._announced))


def _loop_seconds() -> float:
    return asyncio.get_running_loop().time()


def _text_of_columns(columns: Sequence[Column[RowT]]) -> Callable[[RowT], str]:
    return lambda row: " ".join(text_of(column.cell(row)) for column in columns)

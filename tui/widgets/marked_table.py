"""A table whose rows can be marked, and whose columns can change."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, TypeVar

from textual.binding import Binding, BindingType

from tui.widgets.base import WidgetMessage
from tui.widgets.table import KeyedTable
from tui.widgets.table_model import Column
from tui.widgets.table_renderer import TableRenderer

RowT = TypeVar("RowT")


class MarkedTable(KeyedTable[RowT]):
    """A `KeyedTable` with marks, for commands on several rows at once.

    A mark belongs to an object, not to its name: it is dropped when the object is gone, also if another one comes under
    the same key.

    Args:
        columns: Left to right.
        identify: Identity of the object of a row; empty for rows that cannot be marked.
        options: Those of `KeyedTable`.
    """

    BINDINGS: ClassVar[list[BindingType]] = [Binding("space", "mark", "mark", id="table.mark", show=False)]

    @dataclass
    class MarksChanged(WidgetMessage):
        """Rows were marked, or marks were dropped."""

        count: int

    def __init__(
        self, columns: Sequence[Column[RowT]], *, identify: Callable[[RowT], str] | None = None, **options: Any
    ) -> None:
        super().__init__(columns, **options)
        self._identify = identify
        self._identities: dict[str, str] = {}

    @property
    def marked_rows(self) -> list[RowT]:
        """The marked rows, in the order of the table; those that the filter hides come last."""
        shown = [key for key in self.shown_keys if key in self.marks]
        hidden = sorted(self.marks.difference(shown))
        return [self._order.rows[key] for key in (*shown, *hidden) if key in self._order.rows]

    def action_mark(self) -> None:
        """Mark the row under the cursor, or drop its mark, and go to the next row."""
        row = self.selected_row
        identity = self._identify(row) if row is not None and self._identify is not None else ""
        if not identity:
            return
        if self._identities.pop(self.selected_key, None) is None:
            self._identities[self.selected_key] = identity
        self._show_marks()
        self.step(1)

    @property
    def can_mark(self) -> bool:
        """True if rows of this table can be marked."""
        return self._identify is not None

    def go_to_mark(self, *, down: bool) -> bool:
        """Move the cursor to the next marked row, or the one before, round at the ends; return whether there is one."""
        keys = list(self.shown_keys)
        marked = [place for place, key in enumerate(keys) if key in self.marks]
        if not marked:
            return False
        at = keys.index(self.selected_key) if self.selected_key in keys else -1
        ahead = [place for place in marked if (place > at if down else place < at)]
        self.select(keys[(ahead or marked)[0 if down else -1]])
        return True

    def clear_marks(self) -> bool:
        """Drop all marks; return whether there were any."""
        had_marks = bool(self._identities)
        self._identities.clear()
        if had_marks:
            self._show_marks()
        return had_marks

    def reconcile(self, rows: Iterable[RowT]) -> None:
        """Replace all rows; marks of objects that are gone are dropped."""
        super().reconcile(rows)
        self._drop_lost_marks()

    def update_rows(self, rows: Iterable[RowT], gone: Collection[str] = ()) -> None:
        """Take new and changed rows, and the keys of removed ones; marks of objects that are gone are dropped."""
        super().update_rows(rows, gone)
        self._drop_lost_marks()

    def set_columns(self, columns: Sequence[Column[RowT]], *, sort: tuple[str, bool] | None = None) -> None:
        """Show other columns of the same rows.

        Args:
            columns: Left to right.
            sort: As `sort_state`; by default the one that there is. Without a column of its id rows are sorted by key.
        """
        self._renderer = TableRenderer(columns)
        name, is_reversed = self.sort_state if sort is None else sort
        column = self._renderer.column_named(name)
        self._order.sort_on(column, reverse=is_reversed and (column is not None or not name))
        self._rearrange()

    def redraw(self) -> None:
        """Format the visible rows again: a cell depends on the time."""
        self._renderer.forget()
        self.refresh()

    def _drop_lost_marks(self) -> None:
        if not self._identities or self._identify is None:
            return
        rows, identify = self._order.rows, self._identify
        lost = [k for k, identity in self._identities.items() if k not in rows or identify(rows[k]) != identity]
        for key in lost:
            del self._identities[key]
        if lost:
            self._show_marks()

    def _show_marks(self) -> None:
        self.marks = frozenset(self._identities)
        self.post_message(self.MarksChanged(self, len(self.marks)))
        self.refresh()

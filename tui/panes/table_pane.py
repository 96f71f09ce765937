"""The base of panes that are one table."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import ClassVar, Generic, TypeVar

from textual.app import ComposeResult

from actions.base.errors import MissingError
from actions.command.verbs import nearest_hint
from tui.live.desk import Desk
from tui.live.health import FeedHealth, FeedState
from tui.panes.pane import Pane
from tui.widgets.columns import Column
from tui.widgets.table import KeyedTable

RowT = TypeVar("RowT")


class TablePane(Pane, Generic[RowT]):
    """One table with filter and order."""

    NOUN: ClassVar[str] = "rows"
    SORT: ClassVar[str] = ""
    IS_REVERSED: ClassVar[bool] = False
    EMPTY: ClassVar[str] = ""
    READING: ClassVar[str] = ""
    """Said before the first picture; empty for the usual sentence."""

    def __init__(
        self,
        desk: Desk,
        columns: Sequence[Column[RowT]],
        *,
        key: Callable[[RowT], str],
        search: Callable[[RowT], str],
        empty: str = "",
    ) -> None:
        super().__init__(desk)
        self._columns = tuple(columns)
        self._nothing = empty or self.EMPTY
        self.table: KeyedTable[RowT] = KeyedTable(
            columns,
            key=key,
            search=search,
            noun=self.NOUN,
            sort=self.SORT,
            reverse=self.IS_REVERSED,
            empty=self._nothing,
        )

    def compose(self) -> ComposeResult:
        """The table alone; subclasses may put lines above it."""
        yield self.table

    def show_health(self, health: FeedHealth) -> None:
        """At the border, and, while there is no row, in full in their place."""
        super().show_health(health)
        is_troubled = health.state in (FeedState.WAITING, FeedState.REFUSED)
        if health.state is FeedState.STARTING:
            self.table.empty = self.READING or f"Reading the {self.NOUN}."
        else:
            self.table.empty = health.detail if is_troubled and health.detail else self._nothing

    def show_rows(self, rows: Iterable[RowT]) -> None:
        """Hand the table its rows."""
        self.table.reconcile(rows)

    def amend_rows(self, rows: Iterable[RowT], gone: Collection[str]) -> None:
        """Hand the table the rows that differ, and the keys of those that are gone."""
        self.table.amend(rows, gone)

    def line_of(self, row: RowT) -> str:
        """The command line that goes into `row`; empty if there is nothing inside."""
        del row
        return ""

    def narrow(self, text: str) -> None:
        """Filter the table."""
        self.table.filter_text = text

    @property
    def narrowed_by(self) -> str:
        """The table's filter."""
        return self.table.filter_text

    def order(self, column: str, *, descending: bool) -> None:
        """Sort the table.

        Raises:
            MissingError: No such column; the message names those that are.
        """
        known = {c.id for c in self._columns} | {c.title.lower() for c in self._columns}
        found = next((c for c in self._columns if column.lower() in (c.id, c.title.lower())), None)
        if found is None:
            raise MissingError(f"{self.CONTEXT} has no column {column!r}.", hint=nearest_hint(column.lower(), known))
        self.table.sort_by(found.id, reverse=descending)

    def focus_content(self) -> None:
        """Put the focus on the table."""
        self.table.focus()

    def on_keyed_table_selected(self, event: KeyedTable.Selected) -> None:
        """Go into the chosen row."""
        event.stop()
        row = self.table.selected_row
        line = "" if row is None else self.line_of(row)
        if line:
            self.post_message(self.Entered(line))

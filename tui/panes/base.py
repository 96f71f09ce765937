"""The base classes of panes: a bordered widget that refreshes from its feeds, and one with a single table."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar, Generic, TypeVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.message import Message
from textual.widget import Widget

from actions.base.errors import MissingError, RefusedError
from actions.command.verbs import nearest_hint
from tui.feeds.services import ConsoleServices
from tui.feeds.supervisor import FeedHealth, FeedState
from tui.present.cells import fit_ends, text_of, width_of
from tui.present.subject import Subject
from tui.settings.keys import KeyContext, keys_of
from tui.widgets.table import KeyedTable
from tui.widgets.table_model import Column


def bindings_of(context: KeyContext) -> list[BindingType]:
    """Return the bindings of one context; each has the screen run its line.

    Keys that are no commands (`ASIDES`) become the screen's action of that name.
    """
    bindings: list[BindingType] = []
    for row in keys_of(context):
        if row.does == "enter":
            continue  # the focused widget posts the selection itself
        action = f"screen.{row.does.replace('-', '_')}" if row.is_aside else f"screen.run_line({row.does!r})"
        bindings.append(Binding(",".join(row.keys), action, row.label, id=row.id, show=False))
    return bindings


_BORDER_ENDS = 6
"""Columns of a border that its texts cannot use."""


class Pane(Widget):
    """A bordered widget that shows one thing and changes nothing: commands go to the screen as lines.

    Its border has the title and the health of its source. `refresh_data` is called on the loop while the pane is
    visible, at most ten times a second and only after a change; a pane remembers the revision it showed and does
    nothing for the same one.

    Args:
        services: The feeds that it reads.
    """

    CONTEXT: ClassVar[KeyContext]
    BINDINGS: ClassVar[list[BindingType]] = []
    DEFAULT_CSS = """
    Pane { width: 1fr; height: 1fr; layout: vertical; border: round $foreground 25%; }
    Pane > .totals { height: 2; padding: 0 1; }
    """

    @dataclass
    class Entered(Message):
        """The operator opened the selection; `line` is the command line for it."""

        line: str

    def __init__(self, services: ConsoleServices) -> None:
        super().__init__(id=self.CONTEXT.value)
        self.services = services
        self.border_title = self.CONTEXT.value
        self._health_label = ""

    @abstractmethod
    def refresh_data(self) -> None:
        """Read the feeds and show what changed."""

    def subject(self) -> Subject | None:
        """Return the selected object, for commands that name none."""
        return None

    def show_target(self, of: str) -> None:
        """Show `of`; its meaning depends on the pane.

        Raises:
            ConsoleError: The pane cannot show it.
        """
        if of:
            raise RefusedError(f"The {self.CONTEXT} pane shows one thing only; it cannot show {of!r}.")

    def filter(self, text: str) -> None:
        """Show only what matches `text`; empty shows all.

        Raises:
            RefusedError: The pane has nothing to filter.
        """
        raise RefusedError(f"The {self.CONTEXT} pane has nothing to filter.")

    @property
    def active_filter(self) -> str:
        """The active filter; empty for none."""
        return ""

    def order(self, column: str, *, descending: bool) -> None:
        """Sort by a column.

        Raises:
            ConsoleError: The pane has nothing to sort, or no such column.
        """
        raise RefusedError(f"The {self.CONTEXT} pane has nothing to sort.", hint="Focus a pane with a table.")

    def on_mount(self) -> None:
        """Request the first paint."""
        self.services.ticker.request_paint()

    def take_focus(self) -> None:
        """Focus the widget that takes this pane's keys, once the pane is mounted."""
        if self.is_mounted:
            self.focus_content()
        else:
            self.call_after_refresh(self.focus_content)

    def focus_content(self) -> None:
        """Focus the widget that takes this pane's keys."""
        self.focus()

    def show_health(self, health: FeedHealth) -> None:
        """Show the health of the source in the border; data that is not live is dimmed."""
        label = self.services.label_of(health)
        room = self.size.width - _BORDER_ENDS
        if width_of(label) > room > 0:
            label = text_of(fit_ends(label, room))  # the remedy is at the end
        if label != self._health_label:
            self._health_label = label
            self.border_subtitle = Content(label)  # setting it repaints the whole pane
        self.set_class(health.state in (FeedState.WAITING, FeedState.REFUSED), "-stale")


RowT = TypeVar("RowT")


class TablePane(Pane, Generic[RowT]):
    """A pane with one table, which can be filtered and sorted."""

    NOUN: ClassVar[str] = "rows"
    SORT: ClassVar[str] = ""
    IS_REVERSED: ClassVar[bool] = False
    EMPTY: ClassVar[str] = ""
    READING: ClassVar[str] = ""
    """Text before the first snapshot; empty for the default one."""

    def __init__(
        self,
        services: ConsoleServices,
        columns: Sequence[Column[RowT]],
        *,
        key: Callable[[RowT], str],
        search: Callable[[RowT], str],
        empty: str = "",
    ) -> None:
        super().__init__(services)
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
        """Yield the table; subclasses may add lines above it."""
        yield self.table

    def show_health(self, health: FeedHealth) -> None:
        """Show the health in the border, and, while there are no rows, in full in their place."""
        super().show_health(health)
        is_troubled = health.state in (FeedState.WAITING, FeedState.REFUSED)
        if health.state is FeedState.STARTING:
            self.table.empty = self.READING or f"Reading the {self.NOUN}."
        else:
            self.table.empty = health.detail if is_troubled and health.detail else self._nothing

    def show_rows(self, rows: Iterable[RowT]) -> None:
        """Give the table all its rows."""
        self.table.reconcile(rows)

    def update_rows(self, rows: Iterable[RowT], gone: Collection[str]) -> None:
        """Give the table the changed rows, and the keys of those that are gone."""
        self.table.update_rows(rows, gone)

    def line_of(self, row: RowT) -> str:
        """Return the command line that opens `row`; empty if it cannot be opened."""
        del row
        return ""

    def filter(self, text: str) -> None:
        """Filter the table."""
        self.table.filter_text = text

    @property
    def active_filter(self) -> str:
        """The table's active filter."""
        return self.table.filter_text

    def order(self, column: str, *, descending: bool) -> None:
        """Sort the table.

        Raises:
            MissingError: There is no such column; the message names the columns.
        """
        known = {c.id for c in self._columns} | {c.title.lower() for c in self._columns}
        found = next((c for c in self._columns if column.lower() in (c.id, c.title.lower())), None)
        if found is None:
            raise MissingError(f"{self.CONTEXT} has no column {column!r}.", hint=nearest_hint(column.lower(), known))
        self.table.sort_by(found.id, reverse=descending)

    def focus_content(self) -> None:
        """Focus the table."""
        self.table.focus()

    def on_keyed_table_selected(self, event: KeyedTable.Selected) -> None:
        """Open the chosen row."""
        event.stop()
        row = self.table.selected_row
        line = "" if row is None else self.line_of(row)
        if line:
            self.post_message(self.Entered(line))

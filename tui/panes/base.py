"""The bases of panes: a bordered widget that reads its feed when asked, and one that is a single table."""

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
    """The bindings of one context; each asks the screen to carry its line out.

    Keys that only the screen knows what to do with (`ASIDES`) become the screen's action of that name.
    """
    bindings: list[BindingType] = []
    for row in keys_of(context):
        if row.does == "enter":
            continue  # the focused widget says what was chosen
        action = f"screen.{row.does.replace('-', '_')}" if row.is_aside else f"screen.run_line({row.does!r})"
        bindings.append(Binding(",".join(row.keys), action, row.label, id=row.id, show=False))
    return bindings


_BORDER_ENDS = 6
"""Columns of a border that its texts leave free."""


class Pane(Widget):
    """A pane shows one thing and acts on nothing: what the operator wants goes to the screen as a line.

    Its border has the title and the health of its source. `refresh_data` is called on the loop while the pane is
    visible, at most ten times a second and only after a change; a pane keeps the revision it showed and does
    nothing for the same one.

    Args:
        desk: What the picture is made from.
    """

    CONTEXT: ClassVar[KeyContext]
    BINDINGS: ClassVar[list[BindingType]] = []
    DEFAULT_CSS = """
    Pane { width: 1fr; height: 1fr; layout: vertical; border: round $foreground 25%; }
    Pane > .totals { height: 2; padding: 0 1; }
    """

    @dataclass
    class Entered(Message):
        """The operator goes into what is selected; `line` is the command line that does it."""

        line: str

    def __init__(self, services: ConsoleServices) -> None:
        super().__init__(id=self.CONTEXT.value)
        self.services = services
        self.border_title = self.CONTEXT.value
        self._health_label = ""

    @abstractmethod
    def refresh_data(self) -> None:
        """Look at the sources and show what changed."""

    def subject(self) -> Subject | None:
        """What is selected, for commands that name no object."""
        return None

    def show_target(self, of: str) -> None:
        """Show `of`: what that is depends on the pane.

        Raises:
            ConsoleError: The pane cannot.
        """
        if of:
            raise RefusedError(f"The {self.CONTEXT} pane shows one thing only; it cannot show {of!r}.")

    def filter(self, text: str) -> None:
        """Show only what matches `text`; empty shows all.

        Raises:
            RefusedError: There is nothing to narrow.
        """
        raise RefusedError(f"The {self.CONTEXT} pane has nothing to filter.")

    @property
    def active_filter(self) -> str:
        """The filter that is on; empty for none."""
        return ""

    def order(self, column: str, *, descending: bool) -> None:
        """Order by a column.

        Raises:
            ConsoleError: There is nothing to order, or no such column.
        """
        raise RefusedError(f"The {self.CONTEXT} pane has nothing to sort.", hint=f"It cannot sort by {column!r}.")

    def on_mount(self) -> None:
        """Have the first picture drawn."""
        self.services.ticker.request_paint()

    def take_focus(self) -> None:
        """Put the focus where keys of this pane are meant to go; of a pane that is still being made, when it is."""
        if self.is_mounted:
            self.focus_content()
        else:
            self.call_after_refresh(self.focus_content)

    def focus_content(self) -> None:
        """Put the focus on the widget that takes this pane's keys."""
        self.focus()

    def show_health(self, health: FeedHealth) -> None:
        """Tell at the border how the source is doing; what is not live is dimmed and says so in words."""
        label = self.services.label_of(health)
        room = self.size.width - _BORDER_ENDS
        if width_of(label) > room > 0:
            label = text_of(fit_ends(label, room))  # what to do about it stands at the end
        if label != self._health_label:
            self._health_label = label
            self.border_subtitle = Content(label)  # setting it repaints the whole pane
        self.set_class(health.state in (FeedState.WAITING, FeedState.REFUSED), "-stale")


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

    def update_rows(self, rows: Iterable[RowT], gone: Collection[str]) -> None:
        """Hand the table the rows that differ, and the keys of those that are gone."""
        self.table.update_rows(rows, gone)

    def line_of(self, row: RowT) -> str:
        """The command line that goes into `row`; empty if there is nothing inside."""
        del row
        return ""

    def filter(self, text: str) -> None:
        """Filter the table."""
        self.table.filter_text = text

    @property
    def active_filter(self) -> str:
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

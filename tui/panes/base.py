"""The base classes of panes: a bordered widget that refreshes from its feeds, and one with a single table."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Generic, TypeVar

from msgspec.structs import replace
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.message import Message

from actions.base.errors import MissingError, RefusedError, nearest_hint
from tui.feeds.services import ConsoleServices
from tui.feeds.supervisor import FeedHealth, FeedState
from tui.panes.clusters import cluster_names
from tui.present.cells import fit_ends, text_of, width_of
from tui.present.subject import Subject
from tui.settings.filters import parse_filter
from tui.settings.keys import KeyContext, keys_of
from tui.terminal.clipboard import Clipping
from tui.textual_private import GuardedWidget, set_border_subtitle
from tui.widgets.marked_table import MarkedTable
from tui.widgets.table import KeyedTable
from tui.widgets.table_model import Column


def bindings_of(context: KeyContext) -> list[BindingType]:
    """Return the bindings of one context; each has the screen run its line.

    Keys that are not commands (`ASIDES`) become the screen's action of that name.
    """
    bindings: list[BindingType] = []
    for row in keys_of(context):
        if row.does == "enter":
            continue  # the focused widget posts the selection itself
        action = f"screen.{row.does.replace('-', '_')}" if row.is_aside else f"screen.run_line({row.does!r})"
        bindings.append(Binding(",".join(row.keys), action, row.label, id=row.id, show=False))
    return bindings


ON_OFF = ("on", "off")
"""The values of what is switched."""

_BORDER_ENDS = 6
"""Columns of a border that its texts cannot use."""
_TITLE_ENDS = 4


class Pane(GuardedWidget):
    """A bordered widget that shows one thing and changes nothing: commands go to the screen as lines.

    Its border has the title and the health of its source. `refresh_data` is called on the loop while the pane is
    visible, at most ten times a second and only after a change; a pane remembers the revision it showed and does
    nothing for the same one.

    Args:
        services: The feeds that it reads.
    """

    CONTEXT: ClassVar[KeyContext]
    OPTIONS: ClassVar[Mapping[str, tuple[str, ...]]] = {}
    """The names that `set` takes here, with the values of each."""
    BINDINGS: ClassVar[list[BindingType]] = []
    ONLY: ClassVar[str] = ""
    """At the border, before the name of the cluster on screen: the pane is of that one, and several are followed."""
    DEFAULT_CSS = """
    Pane { width: 1fr; height: 1fr; layout: vertical; border: round $foreground 25%; }
    Pane > .totals { height: 2; padding: 0 1; }
    Pane.-stale { border-subtitle-color: $warning; }
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

    def entitle(self, title: str) -> None:
        """Set the title at the border, where the run on screen has its short name.

        Where there is no room, only the end of that stands before its stage and job.
        """
        view, room = self.services.runs.view, self.size.width - _TITLE_ENDS
        if view is not None and view.id in title:
            services = self.services
            short = services.runs.names.get(view.id) or services.remote.names.get(view.id, view.id)
            named = title.replace(view.id, short)
            is_whole = width_of(named) <= room or room <= 0 or title.startswith(view.id)
            title = named if is_whole else title.replace(view.id, f"…{short.rpartition('-')[2]}")
        if self.border_title != Content(title).markup:  # setting it repaints the whole pane
            self.border_title = Content(title)

    @abstractmethod
    def refresh_data(self) -> None:
        """Read the feeds and show what changed."""

    def has_nothing(self) -> bool:
        """Return whether the pane certainly has nothing to show now; called also while it is hidden."""
        return False

    def subject(self) -> Subject | None:
        """Return the selected object, for commands that name none."""
        return None

    def subject_in_sight(self) -> Subject | None:
        """Return the object of commands that only look: also one that the cursor was put on for the operator."""
        return self.subject()

    def clipping(self, column: str) -> Clipping:
        """Return what `copy` copies: the name of the selected object.

        Args:
            column: Title of a table's column, for its cell; empty for the name.

        Raises:
            ConsoleError: Nothing is selected, or there is no such column.
        """
        if column:
            raise RefusedError(f"The {self.CONTEXT} pane has no columns.", hint="Focus a pane with a table.")
        subject = self.subject()
        if subject is None:
            raise MissingError("Nothing is selected.", hint="Put the cursor on a row.")
        return Clipping(subject.name, f"the name {subject.name}")

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
            RefusedError: The pane has nothing to filter, as `WITHOUT_FILTER` has it.
        """
        raise RefusedError(f"The {self.CONTEXT} pane has nothing to filter.")

    @property
    def active_filter(self) -> str:
        """The active filter; empty for none."""
        return ""

    def leave(self) -> bool:
        """Go back from what the pane shows in the place of its usual content; return whether there was anything."""
        return False

    def marked(self) -> tuple[Subject, ...]:
        """Return the marked objects; a command that takes several is meant for all of them."""
        return ()

    @property
    def names(self) -> Sequence[str]:
        """The names that stand for objects of the pane on the command line."""
        return ()

    def named(self, name: str) -> Subject | None:
        """Return the one object of the pane that a name without a kind stands for; `None` if it is none or several."""
        return None

    def clear_marks(self) -> bool:
        """Drop all marks; return whether there were any."""
        return False

    def mark(self, action: str) -> None:
        """Mark what the cursor is on or drop its mark (`toggle`), go to a mark (`next`, `previous`), or `clear` all.

        Raises:
            ConsoleError: The pane has nothing to mark, or no mark.
        """
        raise RefusedError(f"The {self.CONTEXT} pane has nothing to mark.", hint="Focus a table or the logs pane.")

    def set_option(self, option: str, value: str) -> None:
        """Set one of `OPTIONS`; without a value, take the next one, as its key does."""

    def move_axis(self, move: str) -> None:
        """Zoom the x axis of the chart, move along it, or move its cursor, by a word of the command `axis`.

        Raises:
            ConsoleError: The pane has no chart, or it has no curve.
        """
        raise RefusedError("The focused pane has no axis.", hint="Focus the charts pane.")

    def order(self, column: str, *, descending: bool) -> None:
        """Sort by a column.

        Raises:
            ConsoleError: The pane has nothing to sort, or no such column.
        """
        raise RefusedError(f"The {self.CONTEXT} pane has nothing to sort.", hint="Focus a pane with a table.")

    @property
    def column_titles(self) -> tuple[str, ...]:
        """The titles of all columns that can be shown."""
        return ()

    def choose_columns(self, titles: Sequence[str]) -> None:
        """Show only these columns.

        Raises:
            ConsoleError: The pane has no columns, or no such column.
        """
        raise RefusedError(f"The {self.CONTEXT} pane has no columns.", hint="Focus a pane with a table.")

    def on_mount(self) -> None:
        """Request the first paint."""
        self.services.ticker.request_paint()

    def take_focus(self) -> None:
        """Focus the widget that takes this pane's keys, once the pane is mounted."""
        if self.is_mounted:
            self.focus_content()
        else:
            self.call_after_refresh(_focus_if_current, self)

    def focus_content(self) -> None:
        """Focus the widget that takes this pane's keys."""
        self.focus()

    def show_health(self, health: FeedHealth) -> None:
        """Show the health of the source in the border; data that is not live is dimmed."""
        label = self.services.label_of(health)
        if self.ONLY and len(self.services.clusters) > 1:
            name = cluster_names(self.services)[self.services.followed.on_screen.key]
            label = " · ".join(filter(None, (f"{self.ONLY} {name}", label)))
        room = self.size.width - _BORDER_ENDS
        if width_of(label) > room > 0:
            label = text_of(fit_ends(label, room))  # the remedy is at the end
        if label != self._health_label:
            self._health_label = label
            set_border_subtitle(self, Content(label))
        self.set_class(health.state in (FeedState.WAITING, FeedState.REFUSED) or bool(health.as_of), "-stale")


def _focus_if_current(pane: Pane) -> None:
    if pane.has_class("-current"):  # else another pane was put in front of it meanwhile, and the keys are its own
        pane.focus_content()


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
        identify: Callable[[RowT], str] | None = None,
    ) -> None:
        super().__init__(services)
        self._title = self.CONTEXT.value
        self._columns = self._all_columns = tuple(columns)
        self._nothing = empty or self.EMPTY
        self.table: MarkedTable[RowT] = MarkedTable(
            columns,
            identify=identify,
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

    def retitle(self, title: str) -> None:
        """Show another title; behind it stands the number of marked rows."""
        self._title = title
        count = len(self.table.marks)
        self.border_title = Content(f"{title} · {count} marked" if count else title)

    def clear_marks(self) -> bool:
        """Drop all marks; return whether there were any."""
        return self.table.clear_marks()

    def mark(self, action: str) -> None:
        """Mark the row under the cursor or drop its mark (`toggle`), go to a marked row, or `clear` all marks.

        Raises:
            ConsoleError: Rows of this pane cannot be marked, or none is.
        """
        if not self.table.can_mark:
            super().mark(action)
        if action == "toggle":
            self.table.action_mark()
        elif action == "clear":
            self.clear_marks()
        elif not self.table.go_to_mark(down=action == "next"):
            raise MissingError("No row is marked.", hint="Mark one with space, or :mark.")

    def on_marked_table_marks_changed(self, event: MarkedTable.MarksChanged) -> None:
        """Show the number of marked rows."""
        event.stop()
        self.retitle(self._title)

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
        """Filter the table.

        Raises:
            ParameterError: The filter cannot be read.
            RefusedError: It has selectors, which only a server can apply.
        """
        if parse_filter(text).has_selectors:
            kind = self.CONTEXT if self.CONTEXT in (KeyContext.NODES, KeyContext.EVENTS) else KeyContext.PODS
            raise RefusedError(
                f"The {self.CONTEXT} pane cannot select by label or field.",
                hint=f"Show the kind itself, :objects {kind} labels=app=web, there :columns label:app adds a column.",
            )
        self.table.filter_text = text

    @property
    def column_titles(self) -> tuple[str, ...]:
        """The titles of all columns that can be shown."""
        return tuple(column.title for column in self._all_columns)

    @property
    def shown_titles(self) -> tuple[str, ...]:
        """The titles of the columns that are shown now."""
        return tuple(column.title for column in self._columns)

    def choose_columns(self, titles: Sequence[str]) -> None:
        """Show these columns, in this order; none for all of them.

        Raises:
            MissingError: There is no such column; the message names the columns.
        """
        self._require_columns(titles, self.column_titles)
        by_title = {column.title.lower(): column for column in self._all_columns}
        self._columns = tuple(replace(by_title[title.lower()], drop=0) for title in titles) or self._all_columns
        self.table.set_columns(self._columns)

    def _require_columns(self, titles: Sequence[str], known: Sequence[str]) -> None:
        lowered = {title.lower() for title in known}
        missing = next((title for title in titles if title.lower() not in lowered), None)
        if missing is not None:
            hint = f"It has {', '.join(known)}." if known else "It has none yet."
            raise MissingError(f"{self.CONTEXT} has no column {missing!r}.", hint=hint)

    @property
    def active_filter(self) -> str:
        """The table's active filter."""
        return self.table.filter_text

    def order(self, column: str, *, descending: bool) -> None:
        """Sort the table.

        Raises:
            MissingError: There is no such column; the message names the columns.
        """
        self.table.sort_by(self._column(column).id, reverse=descending)

    def clipping(self, column: str) -> Clipping:
        """Return the name of the selected row's object, or the text of a cell."""
        if not column:
            return super().clipping("")
        found, row = self._column(column), self.table.selected_row
        if row is None:
            raise MissingError("Nothing is selected.", hint="Put the cursor on a row.")
        text = text_of(found.cell(row))
        return Clipping(text, f"{found.title} {text}")

    def _column(self, name: str) -> Column[RowT]:
        """Return a column by id or title.

        Raises:
            MissingError: There is none; the message names the columns.
        """
        known = {c.id for c in self._columns} | {c.title.lower() for c in self._columns}
        found = next((c for c in self._columns if name.lower() in (c.id, c.title.lower())), None)
        if found is None:
            raise MissingError(f"{self.CONTEXT} has no column {name!r}.", hint=nearest_hint(name.lower(), known))
        return found

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

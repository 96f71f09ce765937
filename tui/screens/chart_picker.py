"""The screen on which charts are picked: a line for each metric of the log, with its newest value."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from typing import ClassVar

from msgspec.structs import replace
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.screen import ModalScreen

from tui.present.cells import CellValue, Span, Tone
from tui.present.charts.metrics import ChartRow
from tui.widgets.base import Lines
from tui.widgets.table import KeyedTable
from tui.widgets.table_model import Column

_Row = tuple[int, ChartRow]
_HINT = (Span(" space show or hide   a all or none   enter done   esc as before", Tone.MUTED),)


class ChartPicker(ModalScreen[None]):
    """The charts of a log, to show or to hide; enter shows those with a mark, or without any the one under the cursor.

    Args:
        title: The title.
        rows: The charts.
        submit: Starts a command line.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q", "leave", "back", show=False),
        Binding("space", "mark", "show or hide", show=False),
        Binding("a", "mark_all", "all or none", show=False),
    ]

    def __init__(self, title: str, rows: Sequence[ChartRow], submit: Callable[[str], None]) -> None:
        super().__init__()
        self._title = title
        self._rows = list(enumerate(rows))
        self._submit = submit
        self._table: KeyedTable[_Row] = KeyedTable(_COLUMNS, key=lambda row: f"{row[0]:06}", noun="charts")

    def compose(self) -> ComposeResult:
        """Yield the charts, and the keys."""
        self._table.border_title = Content(self._title)
        yield self._table
        yield Lines([_HINT], id="viewer-keys")

    def on_mount(self) -> None:
        """Show the rows, and focus them."""
        self._table.reconcile(self._rows)
        self._table.focus()

    def on_keyed_table_selected(self, event: KeyedTable.Selected) -> None:
        """Show what is marked, and close the screen."""
        event.stop()
        here = self._table.selected_row
        wanted = [row for row in self._rows if row[1].is_shown] or ([here] if here is not None else [])
        if not wanted:
            return
        self.dismiss(None)
        self._submit(f"chart {shlex.quote(','.join(row[1].chart.name for row in wanted) + ',')}")

    def action_mark(self) -> None:
        """Show or hide the chart under the cursor, and go to the next one."""
        here = self._table.selected_row
        if here is not None:
            self._rows[here[0]] = here[0], replace(here[1], is_shown=not here[1].is_shown)
            self._table.reconcile(self._rows)
            self._table.step(1)

    def action_mark_all(self) -> None:
        """Show all charts; if all are shown, none."""
        is_wanted = not all(row.is_shown for _, row in self._rows)
        self._rows = [(place, replace(row, is_shown=is_wanted)) for place, row in self._rows]
        self._table.reconcile(self._rows)

    def action_leave(self) -> None:
        """Close the screen."""
        self.dismiss(None)


def _name(row: _Row) -> CellValue:
    mark = Span("✓ ", Tone.GOOD) if row[1].is_shown else Span("· ", Tone.MUTED)
    return (mark, Span(row[1].chart.label or row[1].chart.name))


_COLUMNS: tuple[Column[_Row], ...] = (
    Column("chart", "CHART", _name, width=24, flex=2, sort_key=lambda row: row[0]),
    Column("newest", "NEWEST", lambda row: row[1].newest, width=12, flex=3),
    Column("points", "POINTS", lambda row: str(row[1].points), width=6, align="right", drop=1),
)

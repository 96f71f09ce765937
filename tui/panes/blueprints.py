"""The blueprints pane: the catalogue, and details of the selected blueprint."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from textual.app import ComposeResult

from tui.feeds.services import CATALOGUE, ConsoleServices
from tui.panes.base import TablePane, bindings_of
from tui.present import blueprints
from tui.present.subject import Subject
from tui.settings.keys import KeyContext
from tui.widgets.base import Lines
from tui.widgets.table import KeyedTable
from tui.widgets.table_model import Column

if TYPE_CHECKING:
    from actions.blueprint.model import Blueprint

COLUMNS: tuple[Column[Blueprint], ...] = (
    Column("id", "BLUEPRINT", lambda blueprint: blueprint.id, width=18, flex=1, limit=30),
    Column("title", "TITLE", lambda blueprint: blueprint.title, width=24, flex=3),
    Column("stages", "STAGES", lambda blueprint: str(len(blueprint.stages)), width=6, align="right"),
    Column("expects", "EXPECTED", blueprints.expectation_cell, width=12),
    Column("cluster", "CLUSTER", lambda blueprint: blueprint.cluster.name, width=16, drop=1),
    Column("region", "REGION", lambda blueprint: blueprint.cluster.region, width=10, drop=2),
)


class BlueprintsPane(TablePane["Blueprint"]):
    """The catalogue of blueprints; opening one shows its launch form."""

    CONTEXT = KeyContext.BLUEPRINTS
    BINDINGS: ClassVar = bindings_of(KeyContext.BLUEPRINTS)
    DEFAULT_CSS = """
    BlueprintsPane > Lines { height: auto; max-height: 40%; padding: 0 1; border-top: solid $foreground 15%; }
    """
    NOUN = "blueprints"
    EMPTY = "Reading the blueprints."

    def __init__(self, services: ConsoleServices) -> None:
        super().__init__(services, COLUMNS, key=lambda blueprint: blueprint.id, search=blueprints.search_text)
        self._detail = Lines()

    def compose(self) -> ComposeResult:
        """Yield the table, and the details of the selected blueprint below it."""
        yield self.table
        yield self._detail

    def refresh_data(self) -> None:
        """Show the catalogue once it is read, with the folders that could not be read."""
        self.show_health(self.services.supervisor.health(CATALOGUE))
        self.show_rows(self.services.blueprints.found)
        self._show_detail()

    def on_resize(self) -> None:
        """Wrap the details for the new width."""
        self._show_detail()

    def subject(self) -> Subject | None:
        """Return the blueprint under the cursor."""
        return Subject("Blueprint", self.table.selected_key) if self.table.selected_key else None

    def line_of(self, row: Blueprint) -> str:
        """Return the command that opens the launch form."""
        return f"launch {row.id}"

    def on_keyed_table_highlighted(self, event: KeyedTable.Highlighted) -> None:
        """Show the details of the blueprint under the cursor."""
        event.stop()
        self._show_detail()

    def _show_detail(self) -> None:
        width = max(20, self.size.width - 4)
        self._detail.show(blueprints.detail(self.table.selected_row, self.services.blueprints.broken, width=width))

"""The blueprints pane: the catalogue, and details of the selected blueprint."""

from __future__ import annotations

from typing import ClassVar

import msgspec
from textual.app import ComposeResult

from actions.blueprint.launch_plan import CostSummary
from actions.blueprint.model import Blueprint
from tui.feeds.services import CATALOGUE, ConsoleServices
from tui.panes.base import TablePane, bindings_of
from tui.present import blueprints, cost
from tui.present.subject import Subject
from tui.settings.keys import KeyContext
from tui.widgets.base import Lines
from tui.widgets.table import KeyedTable
from tui.widgets.table_model import Column


class BlueprintRow(msgspec.Struct, frozen=True):
    """A row of the catalogue, with the figures of its launch; `None` until they are computed."""

    blueprint: Blueprint
    cost: CostSummary | None


COLUMNS: tuple[Column[BlueprintRow], ...] = (
    Column("id", "BLUEPRINT", lambda row: row.blueprint.id, width=16, flex=1, limit=30),
    Column("accelerators", "ACCEL", lambda row: cost.accelerators_text(row.cost), width=11),
    Column(
        "hourly",
        "$/H",
        lambda row: cost.launch_rate_text(row.cost),
        width=11,
        align="right",
        sort_key=lambda row: cost.launch_rate_key(row.cost),
    ),
    Column(
        "cost",
        "COST",
        lambda row: cost.launch_cost_text(row.cost),
        width=22,
        align="right",
        sort_key=lambda row: cost.launch_cost_key(row.cost),
    ),
    Column(
        "expects",
        "EXPECTED",
        lambda row: cost.launch_time_text(row.cost),
        width=8,
        align="right",
        sort_key=lambda row: row.cost.high_seconds if row.cost else 0.0,
    ),
    Column("title", "TITLE", lambda row: row.blueprint.title, width=24, flex=3, drop=1),
    Column("stages", "STAGES", lambda row: str(len(row.blueprint.stages)), width=6, align="right", drop=4),
    Column("cluster", "CLUSTER", lambda row: row.blueprint.cluster.name, width=20, drop=3),
    Column("region", "REGION", lambda row: row.blueprint.cluster.region, width=10, drop=2),
)


class BlueprintsPane(TablePane[BlueprintRow]):
    """The catalogue of blueprints; opening one shows its launch form."""

    CONTEXT = KeyContext.BLUEPRINTS
    BINDINGS: ClassVar = bindings_of(KeyContext.BLUEPRINTS)
    DEFAULT_CSS = """
    BlueprintsPane > Lines { height: auto; max-height: 40%; padding: 0 1; border-top: solid $foreground 15%; }
    """
    NOUN = "blueprints"
    EMPTY = "Reading the blueprints."

    def __init__(self, services: ConsoleServices) -> None:
        super().__init__(
            services,
            COLUMNS,
            key=lambda row: row.blueprint.id,
            search=lambda row: blueprints.search_text(row.blueprint),
        )
        self._detail = Lines()

    def compose(self) -> ComposeResult:
        """Yield the table, and the details of the selected blueprint below it."""
        yield self.table
        yield self._detail

    def refresh_data(self) -> None:
        """Show the catalogue once it is read, with the folders that could not be read."""
        self.show_health(self.services.supervisor.health(CATALOGUE))
        services, catalogue = self.services, self.services.blueprints.found
        services.home.plan(catalogue, services.settings.preferred_preset)
        self.show_rows([BlueprintRow(one, services.home.costs.get(one.id)) for one in catalogue])
        self._show_detail()

    def on_resize(self) -> None:
        """Wrap the details for the new width."""
        self._show_detail()

    def subject(self) -> Subject | None:
        """Return the blueprint under the cursor."""
        return Subject("Blueprint", self.table.selected_key) if self.table.selected_key else None

    def line_of(self, row: BlueprintRow) -> str:
        """Return the command that opens the launch form."""
        return f"launch {row.blueprint.id}"

    def on_keyed_table_highlighted(self, event: KeyedTable.Highlighted) -> None:
        """Show the details of the blueprint under the cursor."""
        event.stop()
        self._show_detail()

    def _show_detail(self) -> None:
        width = max(20, self.size.width - 4)
        row = self.table.selected_row
        shown = row.blueprint if row is not None else None
        self._detail.show(blueprints.detail(shown, self.services.blueprints.broken, width=width))

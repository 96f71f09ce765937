"""The cost pane: all that is paid for by the hour, nodes by type and purchase option."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult

from tui.feeds.followed import each_once
from tui.feeds.services import ConsoleServices
from tui.panes.base import TablePane, bindings_of
from tui.panes.clusters import health_of_all
from tui.present import cost
from tui.present.cost import CostRow
from tui.settings.keys import KeyContext
from tui.widgets.base import Lines
from tui.widgets.table_model import Column

COLUMNS: tuple[Column[CostRow], ...] = (
    Column("type", "TYPE", lambda row: row.what or "?", width=14, flex=1, limit=40),
    Column("bought", "BOUGHT", lambda row: row.bought or ("?" if row.nodes else "-"), width=10, drop=2),
    Column("region", "REGION", lambda row: row.region or ("?" if row.nodes else "-"), width=10, drop=4),
    Column("pool", "POOL", lambda row: row.pool or "-", width=12, flex=1, limit=28, drop=3),
    Column("nodes", "NODES", cost.count_cell, width=5, align="right", sort_key=cost.count_key),
    Column("each", "$/H EACH", cost.each_cell, width=9, align="right"),
    Column("hourly", "$/H", cost.hourly_cell, width=10, align="right", sort_key=cost.hourly_key),
    Column("monthly", "$/MONTH", cost.monthly_cell, width=12, align="right", sort_key=cost.hourly_key, drop=1),
    Column("idle", "IDLE $/H", cost.idle_cell, width=10, align="right"),
    Column("source", "SOURCE", cost.source_cell, width=24, flex=2, drop=5),
)


class CostPane(TablePane[CostRow]):
    """The total cost, and its parts, most expensive first."""

    DEFAULT_CSS = "CostPane > .totals { height: auto; min-height: 2; max-height: 3; }"
    CONTEXT = KeyContext.COST
    BINDINGS: ClassVar = bindings_of(KeyContext.COST)
    NOUN = "ways to pay"
    SORT = "hourly"
    IS_REVERSED = True
    EMPTY = "No node yet."
    READING = "Reading the nodes."

    def __init__(self, services: ConsoleServices) -> None:
        super().__init__(services, COLUMNS, key=lambda row: row.key, search=cost.search_text)
        self._totals = Lines(classes="totals")
        self._shown: object = None

    def compose(self) -> ComposeResult:
        """Yield the totals above the table."""
        yield self._totals
        yield self.table

    def refresh_data(self) -> None:
        """Recompute the sums."""
        services, paid = self.services, self.services.paid.now()
        self.show_health(health_of_all(services, "nodes"))
        if paid is self._shown:
            return
        snapshots = [(one, snapshot) for one in each_once(services.clusters) if (snapshot := one.feed.snapshot())]
        nodes = [
            (node, costs[name])
            for one, snapshot in snapshots
            for costs in (one.costs.costs(snapshot),)
            for name, node in snapshot.nodes.items()
        ]
        self._totals.show(cost.total_lines(paid, (node for node, _ in nodes)))
        if not snapshots:
            return
        self._shown = paid
        self.show_rows(cost.cost_rows(nodes, paid.things, {**services.remote.names, **services.runs.names}))

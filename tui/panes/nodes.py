"""The nodes pane: capacity, requests and cost of every node."""

from __future__ import annotations

from collections.abc import Iterable
from operator import attrgetter
from typing import TYPE_CHECKING, ClassVar

from msgspec.structs import replace

from tui.feeds.services import ConsoleServices
from tui.panes.base import TablePane, bindings_of
from tui.present import nodes
from tui.present.nodes import NodeRow
from tui.present.subject import Subject
from tui.settings.keys import KeyContext
from tui.widgets.table_model import Column

if TYPE_CHECKING:
    from actions.cluster.state.snapshot import ClusterSnapshot

_LONGEST_NAME = 46
_node, _cost = attrgetter("node"), attrgetter("cost")

COLUMNS: tuple[Column[NodeRow], ...] = (
    Column(
        "name",
        "NAME",
        nodes.name_cell,
        width=14,
        flex=2,
        limit=_LONGEST_NAME,
        source=_node,
        keeps_ends=True,
    ),
    Column("type", "TYPE", lambda row: row.node.instance_type or "?", width=12, flex=1, limit=16, source=_node),
    Column("pods", "PODS", nodes.pods_cell, width=6, align="right", drop=3, sort_key=lambda row: row.usage.pods),
    Column(
        "cpu",
        "CPU",
        nodes.cpu_cell,
        width=13,
        flex=2,
        limit=32,
        drop=2,
        sort_key=lambda row: row.usage.requested.cpu_milli,
        sized=nodes.cpu_cell,
    ),
    Column(
        "memory",
        "MEMORY",
        nodes.memory_cell,
        width=17,
        flex=2,
        limit=36,
        drop=6,
        sort_key=lambda row: row.usage.requested.memory_bytes,
        sized=nodes.memory_cell,
    ),
    Column(
        "accel",
        "ACCEL",
        nodes.accelerator_cell,
        width=9,
        flex=1,
        limit=22,
        sort_key=lambda row: row.accelerators,
        sized=nodes.accelerator_cell,
    ),
    Column("efa", "EFA", nodes.efa_cell, width=5, drop=8, sort_key=lambda row: row.node.allocatable.efa),
    Column("price", "$/H", nodes.price_cell, width=6, align="right", sort_key=nodes.price_key, source=_cost),
    Column(
        "idle",
        "IDLE $/H",
        nodes.idle_cell,
        width=9,
        align="right",
        drop=4,
        sort_key=lambda row: row.cost.idle_accelerators,
        source=_cost,
    ),
    Column("capacity", "BOUGHT", nodes.market_cell, width=10, drop=7, source=_node),
    Column("zone", "ZONE", lambda row: row.node.zone or "-", width=11, drop=9, source=_node),
    Column("pool", "POOL", lambda row: row.node.pool or "-", width=12, flex=1, limit=24, drop=10, source=_node),
    Column("state", "STATE", nodes.state_cell, width=11, flex=1, limit=19, source=_node),
)


class NodesPane(TablePane[NodeRow]):
    """All nodes, those with the most accelerators first."""

    CONTEXT = KeyContext.NODES
    BINDINGS: ClassVar = bindings_of(KeyContext.NODES)
    NOUN = "nodes"
    SORT = "accel"
    IS_REVERSED = True
    EMPTY = "No node yet."

    def __init__(self, services: ConsoleServices) -> None:
        super().__init__(
            services,
            COLUMNS,
            key=lambda row: row.node.name,
            search=nodes.search_text,
            identify=lambda row: row.node.uid,
        )
        self._longest = 0
        """Width of the longest name so far."""
        self._rows: dict[str, NodeRow] = {}
        self._shown: ClusterSnapshot | None = None

    def refresh_data(self) -> None:
        """Show the nodes of a new snapshot."""
        self.show_health(self.services.health("nodes"))
        snapshot = self.services.cluster.snapshot()
        if snapshot is None or snapshot is self._shown:
            return
        changes = snapshot.changes_since(self._shown)
        self._shown = snapshot
        costs = self.services.fleet.costs(snapshot)
        if changes is None:
            self._rows = nodes.node_rows(snapshot.nodes.values(), snapshot.usage, costs, self._rows)
            self._make_room(self._rows.values())
            self.show_rows(self._rows.values())
            return
        known = [snapshot.nodes[name] for name in changes.nodes if name in snapshot.nodes]
        changed = nodes.node_rows(known, snapshot.usage, costs, self._rows)
        gone = [name for name in changes.nodes if name not in snapshot.nodes]
        self._make_room(changed.values())
        self._rows |= changed
        for name in gone:
            self._rows.pop(name, None)
        self.update_rows(changed.values(), gone)

    def _make_room(self, rows: Iterable[NodeRow]) -> None:
        """Have the columns at the end give way to names that are longer than the room that they have."""
        longest = min(_LONGEST_NAME, max((len(nodes.name_cell(row)) for row in rows), default=0))
        if longest <= self._longest:
            return
        self._longest = longest
        was_chosen = self._columns != self._all_columns
        self._all_columns = tuple(
            replace(column, wanted=longest) if column.id == "name" else column for column in self._all_columns
        )
        if not was_chosen:
            self._columns = self._all_columns
            self.table.set_columns(self._columns)

    def subject(self) -> Subject | None:
        """Return the node under the cursor."""
        return Subject("Node", self.table.selected_key) if self.table.selected_key else None

    def marked(self) -> tuple[Subject, ...]:
        """Return the marked nodes."""
        return tuple(Subject("Node", row.node.name, uid=row.node.uid) for row in self.table.marked_rows)

    def line_of(self, row: NodeRow) -> str:
        """Return the command that opens the node's pods."""
        return f"open pods of={row.node.name}"

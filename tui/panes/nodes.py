"""The nodes pane: capacity, requests and cost of every node."""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from operator import attrgetter
from typing import TYPE_CHECKING, ClassVar

from msgspec.structs import replace
from textual.app import ComposeResult

from tui.feeds.followed import FollowedCluster, each_once
from tui.feeds.services import ConsoleServices
from tui.panes.base import TablePane, bindings_of
from tui.panes.clusters import cluster_facts, health_of_all
from tui.present import nodes
from tui.present.cells import Cells, Span, Tone
from tui.present.home.clusters import total_lines
from tui.present.nodes import NodeCluster, NodeRow
from tui.present.subject import Subject
from tui.settings.keys import KeyContext
from tui.widgets.base import Lines
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


CLUSTER_COLUMN: Column[NodeRow] = Column(
    "cluster",
    "CLUSTER",
    nodes.cluster_cell,
    width=12,
    flex=1,
    limit=24,
    source=attrgetter("cluster"),
    keeps_ends=True,
)
"""First where several clusters are followed."""


_TOTAL_LINES = 8


def _as_many_as_fit(totals: list[Cells]) -> list[Cells]:
    """Return the first lines; the last one counts the clusters of the others, if there are any."""
    left = len(totals) - _TOTAL_LINES + 1
    if left <= 1:
        return totals
    return [*totals[:-left], (Span(f"and {left} more clusters, which home lists", Tone.MUTED),)]


class NodesPane(TablePane[NodeRow]):
    """All nodes of all clusters that are followed, those with the most accelerators first; above them the totals."""

    DEFAULT_CSS = "NodesPane > .totals { height: auto; }"
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
            key=lambda row: row.key,
            search=nodes.search_text,
            identify=lambda row: row.node.uid,
        )
        self._longest = 0
        """Width of the longest name so far."""
        self._totals = Lines(classes="totals")
        self._parts: dict[str, _Part] = {}
        """By the key of the cluster."""

    def compose(self) -> ComposeResult:
        """Yield the totals of several clusters above the table."""
        yield self._totals
        yield self.table

    def refresh_data(self) -> None:
        """Show the nodes of new snapshots."""
        services = self.services
        self.show_health(health_of_all(services, "nodes"))
        clusters = cluster_facts(services)
        self._totals.show(_as_many_as_fit(total_lines(clusters)))
        self._use_columns(CLUSTER_COLUMN in self._all_columns, is_several=bool(clusters))
        marks = {one.key: NodeCluster(one.key, one.name, one.is_live) for one in clusters}
        counted = each_once(services.clusters)
        left = self._parts.keys() - {cluster.key for cluster in counted}
        gone = [row.key for key in left for row in self._parts.pop(key).rows.values()]
        changed: list[NodeRow] = []
        for cluster in counted:
            part = self._parts.setdefault(cluster.key, _Part())
            rows, lost = part.follow(cluster, marks.get(cluster.key))
            changed += rows
            gone += lost
        self._make_room(changed)
        if changed or gone:
            self.update_rows(changed, gone)

    def _use_columns(self, has_cluster: bool, *, is_several: bool) -> None:
        """Show the column of the cluster where there are several."""
        if has_cluster is is_several:
            return
        was_chosen = self._columns != self._all_columns
        others = self._all_columns[1:] if has_cluster else self._all_columns
        self._all_columns = (CLUSTER_COLUMN, *others) if is_several else others
        if not was_chosen:
            self._columns = self._all_columns
            self.table.set_columns(self._columns)

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
        row = self.table.selected_row
        return None if row is None else Subject("Node", row.node.name, uid=row.node.uid, cluster=row.context)

    def marked(self) -> tuple[Subject, ...]:
        """Return the marked nodes."""
        rows = self.table.marked_rows
        return tuple(Subject("Node", row.node.name, uid=row.node.uid, cluster=row.context) for row in rows)

    def line_of(self, row: NodeRow) -> str:
        """Return the command that opens the node's pods."""
        return f"open pods of={row.node.name}" + (f" context={shlex.quote(row.context)}" if row.context else "")


class _Part:
    """The rows of one cluster, by the name of the node, and the snapshot that they are of."""

    def __init__(self) -> None:
        self.rows: dict[str, NodeRow] = {}
        self._shown: ClusterSnapshot | None = None
        self._mark: NodeCluster | None = None

    def follow(self, cluster: FollowedCluster, mark: NodeCluster | None) -> tuple[list[NodeRow], list[str]]:
        """Take over the newest snapshot.

        Args:
            cluster: The cluster.
            mark: What its rows show of it; `None` if it is the only one.

        Returns:
            The rows that are new or have changed, and the keys of those that are gone.
        """
        snapshot, is_same = cluster.feed.snapshot(), mark == self._mark
        if snapshot is None or (snapshot is self._shown and is_same):
            return [], []
        changes = snapshot.changes_since(self._shown) if is_same else None
        before, self._shown, self._mark = self.rows, snapshot, mark if not is_same else self._mark
        names = snapshot.nodes.keys() | before.keys() if changes is None else changes.nodes
        known = [node for name in names if (node := snapshot.nodes.get(name)) is not None]
        rows = nodes.node_rows(known, snapshot.usage, cluster.costs.costs(snapshot), before, self._mark)
        self.rows = rows if changes is None else {**before, **rows}
        for name in names - rows.keys():
            self.rows.pop(name, None)
        keys = {row.key for row in rows.values()}  # others than before, where there is a second cluster now
        lost = [row.key for name in names if (row := before.get(name)) is not None and row.key not in keys]
        return [row for name, row in rows.items() if before.get(name) is not row], lost

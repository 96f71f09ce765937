"""The cost of the fleet, as rows of a table by type and purchase option; the cost of a launch in a few words."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import TYPE_CHECKING

import msgspec

from actions.base.wording import duration_range
from actions.fleet.cost import FleetCost, NodeCost, total_of
from actions.fleet.facts import NodeFacts
from actions.fleet.node_report import price_source
from actions.fleet.prices import Price
from actions.fleet.quantity import HOURS_PER_MONTH, UNKNOWN, bounded, format_usd
from tui.present.cells import Cells, CellValue, Span, Tone
from tui.present.run import holders_of

if TYPE_CHECKING:  # the first frame needs none of them
    from actions.blueprint.launch_plan import CostSummary
    from actions.cluster.state.snapshot import ClusterSnapshot
    from actions.run.state.view import RunView


class CostRow(msgspec.Struct, frozen=True):
    """The nodes of one type, purchase option, region and pool."""

    instance_type: str
    capacity_type: str
    region: str
    pool: str
    price: Price | None
    total: FleetCost

    @property
    def key(self) -> str:
        """The key of the row."""
        return "/".join((self.instance_type, self.capacity_type, self.region, self.pool))


def cost_rows(nodes: Iterable[NodeFacts], costs: Mapping[str, NodeCost]) -> list[CostRow]:
    """Return one row for each group of nodes that are bought alike.

    Args:
        nodes: All nodes, each once.
        costs: The cost of every node, by name.
    """
    groups: defaultdict[tuple[str, str, str, str], list[NodeCost]] = defaultdict(list)
    for node in nodes:
        groups[node.instance_type, node.capacity_type, node.region, node.pool].append(costs[node.name])
    return [CostRow(*group, price=members[0].price, total=total_of(members)) for group, members in groups.items()]


def nodes_of(view: RunView, snapshot: ClusterSnapshot) -> list[NodeFacts]:
    """Return the nodes that a run has made: of its NodeClaims, its NodePools and its node groups.

    A node of a pool of that name that is older than the run is another one's.
    """
    made = [item for item in view.owned if not (item.existed or item.is_deleted)]
    uids = {item.uid for item in made if item.kind == "NodeClaim" and item.uid}
    claimed = {claim.node for claim in snapshot.claims.values() if claim.uid in uids and claim.node}
    pools = {item.name for item in made if item.kind == "NodePool"}
    outputs = [stage.outputs or {} for stage in holders_of(view)]
    pools |= {output["node_group_name"] for output in outputs if "node_group_name" in output}
    return [
        node
        for node in snapshot.nodes.values()
        if node.name in claimed or (node.pool in pools and node.created_at >= view.created_at)
    ]


def held_cost(view: RunView, snapshot: ClusterSnapshot, costs: Mapping[str, NodeCost]) -> FleetCost:
    """Return the cost of the nodes that a run has made.

    Args:
        view: The run.
        snapshot: Its cluster.
        costs: The cost of every node, by name.
    """
    return total_of(costs[node.name] for node in nodes_of(view, snapshot))


def bought_text(nodes: Iterable[NodeFacts]) -> str:
    """Return how many nodes are bought in which way, the commonest first: `8 nodes: 6 on-demand, 1 spot, 1 unknown`."""
    ways = Counter(node.capacity_type or "unknown" for node in nodes)
    parts = ", ".join(f"{count} {way}" for way, count in ways.most_common())
    return f"{ways.total()} node{'s' * (ways.total() != 1)}" + (f": {parts}" if parts else "")


def search_text(row: CostRow) -> str:
    """Return the text that a filter matches."""
    return row.key


def each_cell(row: CostRow) -> CellValue:
    """The hourly price of one node."""
    return Span("?", Tone.WARN) if row.price is None else f"{row.price.usd_per_hour:.4f}"


def hourly_cell(row: CostRow) -> CellValue:
    """The hourly price of all nodes of the row."""
    return Span("?", Tone.WARN) if row.price is None else format_usd(row.total.usd_per_hour)


def monthly_cell(row: CostRow) -> CellValue:
    """The price of 730 hours."""
    return Span("?", Tone.WARN) if row.price is None else format_usd(row.total.usd_per_hour * HOURS_PER_MONTH)


def idle_cell(row: CostRow) -> CellValue:
    """The hourly cost of accelerators that no pod requests."""
    if not row.total.idle_accelerators:
        return Span("-", Tone.MUTED)
    return Span("?" if row.total.idle_unpriced else f"{format_usd(row.total.idle_usd_per_hour)}!", Tone.WARN)


def source_cell(row: CostRow) -> CellValue:
    """The source of the price, and its date."""
    return Span("unknown", Tone.WARN) if row.price is None else Span(price_source(row.price), Tone.MUTED)


def hourly_key(row: CostRow) -> float:
    """The sort key of the hourly price: unknown ones count as the highest."""
    return float("inf") if row.price is None else float(row.total.usd_per_hour)


def total_lines(cost: FleetCost | None, nodes: Iterable[NodeFacts] = ()) -> list[Cells]:
    """Return the lines above the table.

    Args:
        cost: The sum; `None` before there is a list of nodes.
        nodes: All nodes, each once.
    """
    if cost is None:
        return [(Span("No total before the nodes are known.", Tone.MUTED),)]
    lines: list[Cells] = [
        (Span(cost.hourly_text, Tone.STRONG), Span(f"   {cost.monthly_text}")),
        (Span(bought_text(nodes)),),
    ]
    if cost.idle_text:
        lines.append((Span(cost.idle_text, Tone.WARN if cost.idle_accelerators else Tone.GOOD),))
    return lines


_WHOLE_DOLLARS = 100
_PENDING = "…"


def accelerators_text(cost: CostSummary | None) -> str:
    """Return number and model of the accelerators of a launch; `…` while it is planned, `-` without any."""
    return _PENDING if cost is None else cost.accelerators or "-"


def launch_rate_text(cost: CostSummary | None) -> str:
    """Return the dearest hour of a launch: `≥ $13.08/h`."""
    if cost is None:
        return _PENDING
    if cost.usd_per_hour is None:
        return UNKNOWN
    return bounded(f"{dollars(cost.usd_per_hour)}/h", is_lower_bound=cost.is_lower_bound)


def launch_cost_text(cost: CostSummary | None) -> str:
    """Return the expected cost of a launch: `≥ $1,027–1,359`."""
    if cost is None:
        return _PENDING
    if cost.usd_low is None or cost.usd_high is None:
        return UNKNOWN
    low, high = dollars(cost.usd_low), dollars(cost.usd_high)
    span = low if low == high else f"{low}–{high.removeprefix('$')}"
    return bounded(span, is_lower_bound=cost.is_lower_bound)


def launch_time_text(cost: CostSummary | None) -> str:
    """Return the expected time of a launch: `5d–6d`."""
    return _PENDING if cost is None else duration_range(cost.low_seconds, cost.high_seconds)


def dollars(amount: Decimal) -> str:
    """Return an amount without cents where they do not matter: `$1,027`, `$13.08`."""
    return f"${amount:,.0f}" if amount >= _WHOLE_DOLLARS else format_usd(amount)


def launch_rate_key(cost: CostSummary | None) -> float:
    """The sort key of the dearest hour: unknown ones count as the highest."""
    return float("inf") if cost is None or cost.usd_per_hour is None else float(cost.usd_per_hour)


def launch_cost_key(cost: CostSummary | None) -> float:
    """The sort key of the expected cost: unknown ones count as the highest."""
    return float("inf") if cost is None or cost.usd_high is None else float(cost.usd_high)

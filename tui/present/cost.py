"""The cost of the fleet, as rows of a table by type and purchase option."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping

import msgspec

from actions.fleet.cost import FleetCost, NodeCost, total_of
from actions.fleet.facts import NodeFacts
from actions.fleet.node_report import price_source
from actions.fleet.prices import Price
from actions.fleet.quantity import HOURS_PER_MONTH, format_usd
from tui.present.cells import Cells, CellValue, Span, Tone


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
        return [(Span("Waiting for the list of nodes.", Tone.MUTED),)]
    lines: list[Cells] = [
        (Span(cost.hourly_text, Tone.STRONG), Span(f"   {cost.monthly_text}")),
        (Span(bought_text(nodes)),),
    ]
    if cost.idle_text:
        lines.append((Span(cost.idle_text, Tone.WARN if cost.idle_accelerators else Tone.GOOD),))
    return lines

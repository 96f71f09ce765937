"""Everything that is paid for by the hour, as rows of a table; the cost of a launch in a few words."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import TYPE_CHECKING

import msgspec

from actions.base.wording import duration_range
from actions.fleet.cost import FleetCost, HourlyCost, NodeCost, total_of
from actions.fleet.facts import NodeFacts
from actions.fleet.node_report import price_source
from actions.fleet.prices import Price
from actions.fleet.quantity import HOURS_PER_MONTH, UNKNOWN, bounded, format_dollars, format_range, format_usd
from actions.run.paid import Paid, PaidThing
from tui.present.cells import Cells, CellValue, Span, Tone

if TYPE_CHECKING:  # the first frame needs none of them
    from actions.blueprint.launch_plan import CostSummary


class CostRow(msgspec.Struct, frozen=True):
    """Things that are paid for alike: the nodes of one type, purchase option, region and pool, or a thing of a run."""

    what: str
    """The instance type, or the title of the thing."""
    bought: str
    region: str
    pool: str
    """Of nodes; of anything else the run that pays for it."""
    hourly: HourlyCost
    source: str
    """Of the price."""
    price: Price | None = None
    """Of one node."""
    nodes: FleetCost | None = None
    """`None` for anything else."""
    is_in_doubt: bool = False
    """It may exist, and is in no sum."""

    @property
    def key(self) -> str:
        """The key of the row."""
        return "/".join((self.what, self.bought, self.region, self.pool))


def cost_rows(
    nodes: Iterable[tuple[NodeFacts, NodeCost]],
    things: Iterable[PaidThing] = (),
    names: Mapping[str, str] | None = None,
) -> list[CostRow]:
    """Return one row for each group of nodes that are bought alike, and one for all else that runs pay for.

    Args:
        nodes: All nodes, each once, with their costs.
        things: All that is paid for beside them.
        names: Short names of runs.
    """
    groups: defaultdict[tuple[str, str, str, str], list[NodeCost]] = defaultdict(list)
    for node, cost in nodes:
        groups[node.instance_type, node.capacity_type, node.region, node.pool].append(cost)
    rows = []
    for group, members in groups.items():
        total, price = total_of(members), members[0].price
        source = "" if price is None else price_source(price)
        rows.append(CostRow(*group, total.hourly, source, price, total))
    for one in things:
        hourly = HourlyCost(one.usd_per_hour or Decimal(0), is_known=one.usd_per_hour is not None)
        run, source = (names or {}).get(one.run, one.run), "at its launch" if hourly.is_known else ""
        rows.append(CostRow(one.title, one.state, "", run, hourly, source, is_in_doubt=not one.is_certain))
    return rows


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
    if row.nodes is None:
        return Span("-", Tone.MUTED)
    return Span("?", Tone.WARN) if row.price is None else f"{row.price.usd_per_hour:.4f}"


def hourly_cell(row: CostRow) -> CellValue:
    """The hourly price of the row; that of what may exist, and is in no sum, is dim."""
    return _usd_cell(row, 1)


def monthly_cell(row: CostRow) -> CellValue:
    """The price of 730 hours."""
    return _usd_cell(row, HOURS_PER_MONTH)


def _usd_cell(row: CostRow, hours: int) -> CellValue:
    if not row.hourly.is_known:
        return Span("?", Tone.WARN)
    text = format_usd(row.hourly.usd * hours)
    return Span(f"({text})", Tone.MUTED) if row.is_in_doubt else text


def count_cell(row: CostRow) -> CellValue:
    """The number of nodes."""
    return Span("-", Tone.MUTED) if row.nodes is None else str(row.nodes.nodes)


def count_key(row: CostRow) -> int:
    """The sort key of the number of nodes."""
    return 0 if row.nodes is None else row.nodes.nodes


def idle_cell(row: CostRow) -> CellValue:
    """The hourly cost of accelerators that no pod requests."""
    if row.nodes is None or not row.nodes.idle_accelerators:
        return Span("-", Tone.MUTED)
    idle = row.nodes.idle
    return Span(f"{format_usd(idle.usd)}!" if idle.is_known else "?", Tone.WARN)


def source_cell(row: CostRow) -> CellValue:
    """The source of the price, and its date."""
    return Span(row.source, Tone.MUTED) if row.source else Span("unknown", Tone.WARN)


def hourly_key(row: CostRow) -> float:
    """The sort key of the hourly price: unknown ones count as the highest."""
    return float(row.hourly.usd) if row.hourly.is_known else float("inf")


def total_lines(paid: Paid, nodes: Iterable[NodeFacts] = ()) -> list[Cells]:
    """Return the lines above the table.

    Args:
        paid: All that is paid for.
        nodes: All nodes, each once.
    """
    cost = paid.nodes
    if cost is None and not paid.things:
        return [(Span("No total before the nodes are known.", Tone.MUTED),)]
    lines: list[Cells] = [(Span(paid.hourly.text, Tone.STRONG), Span(f"   {paid.hourly.monthly_text}"))]
    if paid.parts:
        lines[0] += (Span(f"   {', '.join(paid.parts)}", Tone.MUTED),)
    if cost is None:
        return lines
    lines.append((Span(bought_text(nodes)),))
    if cost.idle_text:
        lines.append((Span(cost.idle_text, Tone.WARN if cost.idle_accelerators else Tone.GOOD),))
    return lines


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
    return bounded(f"{format_dollars(cost.usd_per_hour)}/h", is_lower_bound=bool(cost.left_out))


def launch_cost_text(cost: CostSummary | None) -> str:
    """Return the expected cost of a launch: `$1,027–1,359 + traffic`."""
    if cost is None:
        return _PENDING
    if cost.usd_low is None or cost.usd_high is None:
        return UNKNOWN
    return format_range(cost.usd_low, cost.usd_high, cost.left_out, is_whole=True)


def launch_time_text(cost: CostSummary | None) -> str:
    """Return the expected time of a launch: `5d–6d`."""
    return _PENDING if cost is None else duration_range(cost.low_seconds, cost.high_seconds)


def launch_rate_key(cost: CostSummary | None) -> float:
    """The sort key of the dearest hour: unknown ones count as the highest."""
    return float("inf") if cost is None or cost.usd_per_hour is None else float(cost.usd_per_hour)


def launch_cost_key(cost: CostSummary | None) -> float:
    """The sort key of the expected cost: unknown ones count as the highest."""
    return float("inf") if cost is None or cost.usd_high is None else float(cost.usd_high)

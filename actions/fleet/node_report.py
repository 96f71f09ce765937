"""The report of `eksml-tui nodes`: a table for people, and JSON of a stable schema, whose keys are in docs/commands.md.

An unknown number is null, never 0; a sum is of what is known, and null when nothing is. Keys are added, never renamed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from decimal import Decimal
from types import MappingProxyType

import msgspec

from actions.base.clock import timestamp_of
from actions.base.decoding import json_document
from actions.base.wording import aligned
from actions.fleet.cost import CostModel, FleetCost, NodeCost, total_of
from actions.fleet.facts import UNUSED, NodeFacts, NodeUsage, Resources, state_of
from actions.fleet.prices import Price
from actions.fleet.quantity import UNKNOWN, format_bytes, format_cpu, percent_of
from actions.fleet.totals import FleetTotals, TotalsSum

BAR_CELLS = 40

_Amount = Callable[[Resources], int]

RESOURCES: tuple[tuple[str, _Amount, Callable[[int], str]], ...] = (
    ("cpu", lambda amount: amount.cpu_milli, format_cpu),
    ("memory", lambda amount: amount.memory_bytes, format_bytes),
    ("gpu", lambda amount: amount.gpu, str),
    ("neuron", lambda amount: amount.neuron, str),
    ("efa", lambda amount: amount.efa, str),
)
"""Name, how to read it from `Resources`, how to write it."""

_ALWAYS = ("cpu", "memory")

Json = dict[str, object]


Labels = Mapping[str, Mapping[str, str | None]]
"""The values of labels by name, by uid of a node; of all nodes the same names."""


class NodeLine(msgspec.Struct, frozen=True):
    """One node of a report.

    Args:
        node: The node.
        use: What pods request of it.
        cost: Its cost.
        labels: Values of the labels that were asked for, by name; `None` for none.
        cluster: The name of its cluster, in a report of several; else empty.
    """

    node: NodeFacts
    use: NodeUsage
    cost: NodeCost
    labels: Mapping[str, str | None] | None = None
    cluster: str = ""

    def document(self) -> Json:
        """Return the node with the keys of the schema."""
        return ({"cluster": self.cluster} if self.cluster else {}) | node_document(
            self.node, self.use, self.cost, self.labels
        )


def node_lines(
    nodes: Iterable[NodeFacts],
    usage: Mapping[str, NodeUsage],
    model: CostModel,
    *,
    labels: Labels = MappingProxyType({}),
    cluster: str = "",
) -> list[NodeLine]:
    """Return the nodes of one cluster: accelerated ones first, then by pool and name.

    Args:
        nodes: Each once.
        usage: By node name.
        model: Prices.
        labels: Columns of labels.
        cluster: See `NodeLine`.
    """
    lines = []
    for node in sorted(nodes, key=lambda node: (not has_accelerators(node), node.pool, node.name)):
        use = usage.get(node.name, UNUSED)
        lines.append(NodeLine(node, use, model.node_cost(node, use), labels.get(node.uid), cluster))
    return lines


def has_accelerators(node: NodeFacts) -> bool:
    """True if it offers GPUs or Neuron devices."""
    return node.allocatable.accelerators > 0


def nodes_table(ordered: Sequence[NodeLine], *, head: Sequence[str] = (), is_bare: bool = False) -> str:
    """Summary lines with a bar for each resource, then one line for each node.

    Args:
        ordered: In the order of lines.
        head: Lines in the place of the summary.
        is_bare: Without summary and sources, for a program that reads lines.

    Returns:
        Lines without colours, the last one ended by a newline. Requests are `requested/allocatable`; a dash stands for
        a resource that the node does not have. A resource that no node has gets no column.
    """
    if not ordered:
        return "\n".join(head or ["No nodes."]) + "\n"
    costs = [line.cost for line in ordered]
    present = _present([line.node for line in ordered])
    names, clusters = ordered[0].labels or {}, ["CLUSTER"] * bool(ordered[0].cluster)
    lines = aligned(
        [[*clusters, *_heading(present), *map(label_title, names)], *(_row(one, present) for one in ordered)]
    )
    if not is_bare:
        lines = [*(head or _summary(ordered, total_of(costs), present)), "", *lines, "", *_sources(costs)]
    return "\n".join(lines) + "\n"


def label_title(name: str) -> str:
    """Return the title of the column of a label, as kubectl's `-L` has it: its name without the domain."""
    return name.rpartition("/")[2].upper()


def bar_of(part: int, whole: int, cells: int = BAR_CELLS) -> str:
    """A bar of `cells` characters, full at `part` ≥ `whole`; never empty where something is requested."""
    percent = percent_of(part, whole) or 0.0
    full = min(cells, max(round(cells * percent / 100), 1 if part > 0 else 0))
    return "█" * full + "░" * (cells - full)


def _present(nodes: Sequence[NodeFacts]) -> list[tuple[str, _Amount, Callable[[int], str]]]:
    return [
        resource for resource in RESOURCES if resource[0] in _ALWAYS or any(resource[1](n.allocatable) for n in nodes)
    ]


def _summary(
    lines: Sequence[NodeLine],
    cost: FleetCost,
    present: Sequence[tuple[str, _Amount, Callable[[int], str]]],
) -> list[str]:
    total = totals_of_lines(lines)
    cells = []
    for name, amount, written in present:
        part, whole = amount(total.requested), amount(total.allocatable)
        percent = percent_of(part, whole)
        share = "  -  " if percent is None else f"{percent:.1f}%"
        cells.append([name, f"{written(part)}/{written(whole)}", share, bar_of(part, whole)])
    not_ready = total.nodes - total.ready
    head = f"{total.nodes} nodes" + (f" ({not_ready} not ready)" if not_ready else "") + f", {total.pods} pods"
    money = f"{cost.hourly.text} | {cost.hourly.monthly_text}"
    return [f"{head} | {money}", *([cost.idle_text] if cost.idle_text else []), *aligned(cells)]


def _heading(present: Sequence[tuple[str, _Amount, Callable[[int], str]]]) -> list[str]:
    resources = [name.upper() for name, _, _ in present]
    return ["NAME", "TYPE", "ZONE", "CAPACITY", "POOL", "PODS", *resources, "$/HOUR", "STATE"]


def _row(line: NodeLine, present: Sequence[tuple[str, _Amount, Callable[[int], str]]]) -> list[str]:
    node, use, cost = line.node, line.use, line.cost
    pods = f"{use.pods}/{node.pods_allocatable}" if node.pods_allocatable else str(use.pods)
    resources = []
    for _, amount, written in present:
        part, whole = amount(node.requested(use)), amount(node.allocatable)
        resources.append(f"{written(part)}/{written(whole)}" if part or whole else "-")
    price = f"{cost.price.usd_per_hour:.4f}" if cost.price else UNKNOWN
    facts = [node.name, node.instance_type, node.zone, node.capacity_type, node.pool]
    of_labels = (line.labels or {}).values()
    cells = [*(fact or "-" for fact in facts), pods, *resources, price, state_of(node)]
    return [*([line.cluster] if line.cluster else []), *cells, *(value or "-" for value in of_labels)]


def _sources(costs: Iterable[NodeCost]) -> list[str]:
    known = {cost.price.source: cost.price for cost in costs if cost.price}
    if not known:
        return ["No price is known."]
    return [f"Prices: {price_source(price)}" for _, price in sorted(known.items())]


def price_source(price: Price) -> str:
    """Source and date of a price: `Karpenter static price table 1d927085, 2026-07-20`."""
    return f"{price.source}, {price.as_of.isoformat() if price.as_of else 'undated'}"


SCHEMA = "eksml-nodes/1"


def nodes_json(
    ordered: Sequence[NodeLine],
    *,
    region: str | None = "",
    leaves_out_claims: bool = False,
    clusters: Sequence[Json] = (),
) -> str:
    """Render the fleet as one JSON document of two-space indents, the last line ended by a newline.

    Args:
        ordered: In the order of the document.
        region: The region of the cluster, empty if unknown; `None` of several.
        leaves_out_claims: A cluster has ResourceClaims, and their devices are in no number.
        clusters: The clusters, if they are several.
    """
    document = {
        "schema": SCHEMA,
        "region": region,
        "summary": summary_document(ordered) | {"leaves_out_claims": leaves_out_claims},
        **({"clusters": clusters} if clusters else {}),
        "nodes": [line.document() for line in ordered],
    }
    return json_document(document)


def totals_of_lines(lines: Iterable[NodeLine]) -> FleetTotals:
    """Sum the nodes of a report up, which may be of several clusters."""
    found = TotalsSum()
    for line in lines:
        found.add(line.node, line.use)
    return found.total()


def summary_document(lines: Sequence[NodeLine]) -> Json:
    """Return the sums of nodes with the keys of the schema."""
    total, cost = totals_of_lines(lines), total_of(line.cost for line in lines)
    return {
        "nodes": total.nodes,
        "ready": total.ready,
        "pods": total.pods,
        "requested": _resources(total.requested),
        "allocatable": _resources(total.allocatable),
        "usd_per_hour": _number(cost.usd_per_hour) if cost.hourly.is_known else None,
        "usd_per_month": _number(cost.usd_per_month) if cost.hourly.is_known else None,
        "unpriced": cost.unpriced,
        "accelerators": cost.accelerators,
        "idle_accelerators": cost.idle_accelerators,
        "idle_usd_per_hour": _number(cost.idle_usd_per_hour) if cost.idle.is_known else None,
        "idle_unpriced": cost.idle_unpriced,
        "text": cost.hourly.text,
    }


def node_document(
    node: NodeFacts, use: NodeUsage, cost: NodeCost, labels: Mapping[str, str | None] | None = None
) -> Json:
    """Return one node with the keys of the schema, and its labels, if some were asked for."""
    return {
        "name": node.name,
        "instance_type": node.instance_type,
        "region": node.region,
        "zone": node.zone,
        "capacity_type": node.capacity_type,
        "pool": node.pool,
        "state": state_of(node),
        "ready": node.is_ready,
        "schedulable": node.is_schedulable,
        "pods": use.pods,
        "pods_allocatable": node.pods_allocatable,
        "requested": _resources(node.requested(use)),
        "allocatable": _resources(node.allocatable),
        "accelerators": cost.accelerators,
        "idle_accelerators": cost.idle_accelerators,
        "idle_usd_per_hour": _number(cost.idle_usd_per_hour),
        "price": _price(cost.price),
        "created_at": timestamp_of(node.created_at or None),
        "version": node.version,
    } | ({} if labels is None else {"labels": dict(labels)})


def _price(price: Price | None) -> Json | None:
    if price is None:
        return None
    as_of = price.as_of.isoformat() if price.as_of else None
    return {"usd_per_hour": _number(price.usd_per_hour), "source": price.source, "as_of": as_of}


def _resources(amount: Resources) -> Json:
    return {field: getattr(amount, field) for field in amount.__struct_fields__}


def _number(amount: Decimal | None) -> float | None:
    return None if amount is None else round(float(amount), 6)

"""The answer of `eksml-tui nodes`, as a table for people."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from actions.fleet.cost import CostModel, FleetCost, NodeCost, total_of
from actions.fleet.facts import NOTHING, UNUSED, NodeFacts, NodeUsage, Resources
from actions.fleet.nodestate import state_of
from actions.fleet.prices import Price
from actions.fleet.quantity import UNKNOWN, format_bytes, format_cpu, percent_of

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


def sorted_nodes(nodes: Iterable[NodeFacts]) -> list[NodeFacts]:
    """Accelerated nodes first, then by pool and name."""
    return sorted(nodes, key=lambda node: (not has_accelerators(node), node.pool, node.name))


def has_accelerators(node: NodeFacts) -> bool:
    """Whether it offers GPUs or Neuron devices."""
    return node.allocatable.gpu > 0 or node.allocatable.neuron > 0


def nodes_table(nodes: Iterable[NodeFacts], usage: Mapping[str, NodeUsage], model: CostModel) -> str:
    """Summary lines with a bar for each resource, then one line for each node.

    Args:
        nodes: Each once.
        usage: By node name.
        model: Prices.

    Returns:
        Lines without colours, the last one ended by a newline. Requests are `requested/allocatable`; a dash stands for
        a resource that the node does not have. A resource that no node has gets no column.
    """
    ordered = sorted_nodes(nodes)
    if not ordered:
        return "No nodes.\n"
    used = [usage.get(node.name, UNUSED) for node in ordered]
    costs = [model.node_cost(node, use) for node, use in zip(ordered, used, strict=True)]
    present = _present(ordered)
    lines = _summary(ordered, used, total_of(costs), present)
    rows = [_row(node, use, cost, present) for node, use, cost in zip(ordered, used, costs, strict=True)]
    lines += ["", *_aligned([_heading(present), *rows])]
    lines += ["", *_sources(costs)]
    return "\n".join(lines) + "\n"


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
    nodes: Sequence[NodeFacts],
    used: Sequence[NodeUsage],
    cost: FleetCost,
    present: Sequence[tuple[str, _Amount, Callable[[int], str]]],
) -> list[str]:
    offered, requested = NOTHING, NOTHING
    for node, use in zip(nodes, used, strict=True):
        offered, requested = offered.plus(node.allocatable), requested.plus(use.requested)
    cells = []
    for name, amount, written in present:
        part, whole = amount(requested), amount(offered)
        percent = percent_of(part, whole)
        share = "  -  " if percent is None else f"{percent:.1f}%"
        cells.append([name, f"{written(part)}/{written(whole)}", share, bar_of(part, whole)])
    not_ready = sum(not node.is_ready for node in nodes)
    pods = sum(use.pods for use in used)
    head = f"{len(nodes)} nodes" + (f" ({not_ready} not ready)" if not_ready else "") + f", {pods} pods"
    money = f"{cost.hourly_text} | {cost.monthly_text}"
    return [f"{head} | {money}", *([cost.idle_text] if cost.idle_text else []), *_aligned(cells)]


def _heading(present: Sequence[tuple[str, _Amount, Callable[[int], str]]]) -> list[str]:
    resources = [name.upper() for name, _, _ in present]
    return ["NAME", "TYPE", "ZONE", "CAPACITY", "POOL", "PODS", *resources, "$/HOUR", "STATE"]


def _row(
    node: NodeFacts,
    use: NodeUsage,
    cost: NodeCost,
    present: Sequence[tuple[str, _Amount, Callable[[int], str]]],
) -> list[str]:
    pods = f"{use.pods}/{node.pods_allocatable}" if node.pods_allocatable else str(use.pods)
    resources = []
    for _, amount, written in present:
        part, whole = amount(use.requested), amount(node.allocatable)
        resources.append(f"{written(part)}/{written(whole)}" if part or whole else "-")
    price = f"{cost.price.usd_per_hour:.4f}" if cost.price else UNKNOWN
    facts = [node.name, node.instance_type, node.zone, node.capacity_type, node.pool]
    return [*(fact or "-" for fact in facts), pods, *resources, price, state_of(node)]


def _aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]


def _sources(costs: Iterable[NodeCost]) -> list[str]:
    known = {cost.price.source: cost.price for cost in costs if cost.price}
    if not known:
        return ["No price is known."]
    return [f"Prices: {price_source(price)}" for _, price in sorted(known.items())]


def price_source(price: Price) -> str:
    """Source and date of a price: `Karpenter static price table 1d927085, 2026-07-20`."""
    return f"{price.source}, {price.as_of.isoformat() if price.as_of else 'undated'}"

"""Nodes as rows of a table: capacity, requests, cost."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

import msgspec

from actions.fleet.cost import NodeCost
from actions.fleet.facts import UNUSED, NodeFacts, NodeUsage, Resources, state_of
from actions.fleet.quantity import format_bytes, format_cpu
from tui.present.cells import Cells, CellValue, Span, Tone, meter

_ABSENT = Span("-", Tone.MUTED)
_LEAST_METER = 3
_CPU_TEXT = len("127.9/127.9")
_MEMORY_TEXT = len("822.5Mi/14.2Gi")
_COUNT_TEXT = len("16/16")
_DOMAINS = (".compute.internal", ".ec2.internal")


class NodeCluster(msgspec.Struct, frozen=True):
    """The cluster of a row, where several are followed.

    Args:
        context: Its context.
        name: As it is shown.
        is_live: Its rows are of now; else as last seen.
    """

    context: str
    name: str
    is_live: bool


class NodeRow(msgspec.Struct, frozen=True):
    """A row of the node table."""

    node: NodeFacts
    usage: NodeUsage
    cost: NodeCost
    cluster: NodeCluster | None = None
    """`None` where one cluster alone is followed."""

    @property
    def context(self) -> str:
        """The context of its cluster; empty where one alone is followed."""
        return self.cluster.context if self.cluster is not None else ""

    @property
    def key(self) -> str:
        """The key of the row."""
        return f"{self.node.name} {self.cluster.context}" if self.cluster is not None else self.node.name

    @property
    def accelerators(self) -> int:
        """The number of GPUs and Neuron devices of the node."""
        return self.node.allocatable.accelerators


def node_rows(
    nodes: Iterable[NodeFacts],
    usage: Mapping[str, NodeUsage],
    costs: Mapping[str, NodeCost],
    known: Mapping[str, NodeRow],
    cluster: NodeCluster | None = None,
) -> dict[str, NodeRow]:
    """Return rows by node name; a row whose facts are the same objects as before is the same object.

    Args:
        nodes: All nodes, each once.
        usage: Requests of a node's pods, by its name.
        costs: The cost of every node, by name.
        known: The result of the previous call.
        cluster: Theirs, where several are followed.
    """
    rows: dict[str, NodeRow] = {}
    for node in nodes:
        use = usage.get(node.name, UNUSED)
        cost = costs[node.name]
        row = known.get(node.name)
        is_same = row is not None and row.node is node and row.usage is use and row.cost is cost
        if row is None or not is_same or row.cluster is not cluster:
            row = NodeRow(node, use, cost, cluster)
        rows[node.name] = row
    return rows


def search_text(row: NodeRow) -> str:
    """Return the text that a filter on nodes matches."""
    node = row.node
    cluster = row.cluster.name if row.cluster is not None else ""
    return " ".join((cluster, node.name, node.instance_type, node.zone, node.capacity_type, node.pool, state_of(node)))


def cluster_cell(row: NodeRow) -> CellValue:
    """The cluster; with `?` if it does not answer, so that the row is of the past."""
    if row.cluster is None or row.cluster.is_live:
        return row.cluster.name if row.cluster is not None else ""
    return Span(f"? {row.cluster.name}", Tone.WARN)


def name_cell(row: NodeRow) -> str:
    """The node's name; of EC2's private DNS names only the host part, as the rest is the same for all."""
    name = row.node.name
    return name.partition(".")[0] if name.endswith(_DOMAINS) else name


def state_cell(row: NodeRow) -> Cells:
    """The state after a glyph: `● Ready`. Of a ready node that takes no pods, the reason: `◐ Cordoned`."""
    word = state_of(row.node)
    if word == "Ready":
        return (Span("● ", Tone.GOOD), Span(word))
    if row.node.is_ready:
        return (Span("◐ ", Tone.WARN), Span(word.removeprefix("Ready,"), Tone.WARN))
    return (Span("✗ ", Tone.BAD), Span(word, Tone.BAD))


def market_cell(row: NodeRow) -> CellValue:
    """The purchase option; spot is highlighted, as the node can be reclaimed at any moment."""
    bought = row.node.capacity_type
    return Span(bought, Tone.WARN) if bought == "spot" else bought or _ABSENT


def pods_cell(row: NodeRow) -> str:
    """Pods on the node, of its maximum."""
    return f"{row.usage.pods}/{row.node.pods_allocatable}" if row.node.pods_allocatable else str(row.usage.pods)


def cpu_cell(row: NodeRow, width: int = 0) -> CellValue:
    """Requested of allocatable CPU, after a bar that takes the rest of `width` columns."""
    return _share(row, lambda amount: amount.cpu_milli, format_cpu, width, _CPU_TEXT)


def memory_cell(row: NodeRow, width: int = 0) -> CellValue:
    """Requested of allocatable memory, after a bar that takes the rest of `width` columns."""
    return _share(row, lambda amount: amount.memory_bytes, format_bytes, width, _MEMORY_TEXT)


def accelerator_cell(row: NodeRow, width: int = 0) -> CellValue:
    """Requested of allocatable GPUs, or of Neuron devices on a node that has those, after a bar as wide as fits."""
    if row.node.allocatable.neuron and not row.node.allocatable.gpu:
        return _share(row, lambda amount: amount.neuron, str, width, _COUNT_TEXT)
    return _share(row, lambda amount: amount.gpu, str, width, _COUNT_TEXT)


def efa_cell(row: NodeRow) -> CellValue:
    """Requested of allocatable EFA interfaces."""
    part, whole = row.usage.requested.efa, row.node.allocatable.efa
    return f"{part}/{whole}" if part or whole else _ABSENT


def price_cell(row: NodeRow) -> CellValue:
    """Dollars an hour; `?` for an unknown price."""
    if row.cost.price is None:
        return Span("?", Tone.WARN)
    price = row.cost.price.usd_per_hour
    return f"{price:.3f}" if price < 100 else f"{price:.2f}"


def price_key(row: NodeRow) -> float:
    """The sort key of the price: unknown ones count as the highest."""
    return float(row.cost.price.usd_per_hour) if row.cost.price else float("inf")


def idle_cell(row: NodeRow) -> CellValue:
    """Dollars an hour for accelerators that no pod requests."""
    idle = row.cost.idle_usd_per_hour
    if not row.cost.idle_accelerators:
        return _ABSENT
    return Span("?" if idle is None else f"{idle:.2f}!", Tone.WARN)


def _share(
    row: NodeRow, amount: Callable[[Resources], int], written: Callable[[int], str], width: int, usual: int
) -> CellValue:
    """Return a bar and `part/whole`; bars of one column are equally long if their texts are not longer than `usual`."""
    part, whole = amount(row.node.requested(row.usage)), amount(row.node.allocatable)
    if not part and not whole:
        return _ABSENT
    text = f"{written(part)}/{written(whole)}"
    cells = max(_LEAST_METER, width - 1 - usual)
    if width:
        cells = min(cells, width - 1 - len(text))
    return (*meter(part, whole, cells=cells), Span(f" {text}")) if cells > 0 else text

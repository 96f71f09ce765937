"""The hourly cost of a fleet, as far as it is known.

Idle cost is a definition, not a bill: of a node's price, the share of its accelerators that no pod has requested. A
node without accelerators has no idle cost; CPU and memory are not weighed. A node whose price is unknown has an unknown
idle cost and is counted as unpriced.

Devices are the larger of what the node offers and what its instance type has, so that a GPU that the device plugin has
not offered (yet, or any more) counts as idle: it is paid for. Requests above that number count as that number.

Source: requests as the scheduler counts them; OpenCost specification 2024-10, idle = asset cost - workload cost.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from decimal import Decimal

import msgspec

from actions.base.wording import counted
from actions.fleet.facts import UNUSED, NodeFacts, NodeUsage, Resources
from actions.fleet.instance_types import InstanceTable
from actions.fleet.prices import Price, PriceBook
from actions.fleet.quantity import HOURS_PER_MONTH, bounded, format_hourly, format_usd

_NOTHING = Decimal(0)
_MOST_KNOWN = 4096


class NodeCost(msgspec.Struct, frozen=True, cache_hash=True):
    """The hourly cost of one node."""

    price: Price | None
    accelerators: int
    """GPUs and Neuron devices that are paid for."""
    idle_accelerators: int
    """Devices that no pod requests."""

    @property
    def idle_usd_per_hour(self) -> Decimal | None:
        """The share of the price that is idle; `None` if the price is unknown and something is idle."""
        if not self.idle_accelerators:
            return _NOTHING
        if self.price is None:
            return None
        return self.price.usd_per_hour * self.idle_accelerators / self.accelerators


class HourlyCost(msgspec.Struct, frozen=True):
    """An hourly sum of what has a known price."""

    usd: Decimal
    is_lower_bound: bool = False
    """Something that costs, or may, is not in it."""
    is_known: bool = True
    """False if no price is known of anything in it."""

    @property
    def text(self) -> str:
        """`$82.27/h`, `≥ $82.27/h`, `?`."""
        return format_hourly(self.usd if self.is_known else None, is_lower_bound=self.is_lower_bound)

    @property
    def monthly_text(self) -> str:
        """730 hours of it: `$60,057.10/month`, `≥ $60,057.10/month`, `?`."""
        if not self.is_known:
            return "?"
        return bounded(f"{format_usd(self.usd * HOURS_PER_MONTH)}/month", is_lower_bound=self.is_lower_bound)


class FleetCost(msgspec.Struct, frozen=True):
    """The hourly cost of a set of nodes. A sum is of the known; the count beside it is of the nodes left out."""

    nodes: int
    unpriced: int
    usd_per_hour: Decimal
    accelerators: int
    idle_accelerators: int
    idle_usd_per_hour: Decimal
    idle_unpriced: int
    """Nodes with idle accelerators and no known price."""

    @property
    def usd_per_month(self) -> Decimal:
        """730 hours of it."""
        return self.usd_per_hour * HOURS_PER_MONTH

    @property
    def hourly(self) -> HourlyCost:
        """The sum; a lower bound if no price is known of some."""
        is_known = not self.unpriced or self.unpriced < self.nodes
        return HourlyCost(self.usd_per_hour, bool(self.unpriced), is_known)

    @property
    def idle(self) -> HourlyCost:
        """The part of it that is idle."""
        is_known = not self.idle_unpriced or bool(self.idle_usd_per_hour)
        return HourlyCost(self.idle_usd_per_hour, bool(self.idle_unpriced), is_known)

    @property
    def idle_text(self) -> str:
        """`$4.25/h idle (3 of 8 accelerators)`, `all 8 accelerators in use`; empty in a fleet without accelerators."""
        if not self.accelerators:
            return ""
        if not self.idle_accelerators:
            return f"all {counted(self.accelerators, 'accelerator')} in use"
        return f"{self.idle.text} idle ({self.idle_accelerators} of {counted(self.accelerators, 'accelerator')})"


class CostModel:
    """Prices nodes by the tables that ship with the program.

    Args:
        prices: The known prices.
        instances: The known instance types.
        region: The region of nodes without a label for it.
    """

    def __init__(self, prices: PriceBook, instances: InstanceTable, *, region: str = "") -> None:
        self._prices = prices
        self._instances = instances
        self._region = region
        self._known: dict[tuple[str | int, ...], NodeCost] = {}

    @classmethod
    def load(cls, *, region: str = "") -> CostModel:
        """The tables that ship with the program, with the operator's own prices.

        Raises:
            FormatError: A table is damaged.
            UsageError: The operator's prices are wrong.
        """
        return cls(PriceBook.usual(), InstanceTable.load(), region=region)

    def node_cost(self, node: NodeFacts, usage: NodeUsage = UNUSED) -> NodeCost:
        """The cost of one node under the requests on it; one object for all nodes that cost the same."""
        offered, asked = node.allocatable, node.requested(usage)
        place = (node.instance_type, node.region or self._region, node.capacity_type)
        key = (*place, offered.gpu, offered.neuron, asked.gpu, asked.neuron)
        cost = self._known.get(key)
        if cost is None:
            if len(self._known) >= _MOST_KNOWN:
                self._known.clear()
            cost = self._known[key] = self._cost_of(*place, offered=offered, asked=asked)
        return cost

    def _cost_of(self, kind: str, region: str, capacity: str, *, offered: Resources, asked: Resources) -> NodeCost:
        known = self._instances.find(kind)
        gpus = max(offered.gpu, known.gpus if known else 0)
        neurons = max(offered.neuron, known.neuron_devices if known else 0)
        idle = max(gpus - asked.gpu, 0) + max(neurons - asked.neuron, 0)
        return NodeCost(self._prices.price_of(kind, region, capacity), gpus + neurons, idle)

    def fleet_cost(self, nodes: Iterable[NodeFacts], usage: Mapping[str, NodeUsage]) -> FleetCost:
        """The cost of all `nodes`.

        Args:
            nodes: Each once.
            usage: By node name; a node that is not in it has no pods.
        """
        return total_of(self.node_cost(node, usage.get(node.name, UNUSED)) for node in nodes)


class CostSum:
    """A running sum over nodes, so that one node's change does not cost a pass over all.

    Kept as counts of equal costs, of which a fleet has few: so it is exact whatever was put in and taken out.
    """

    def __init__(self) -> None:
        self._counts: dict[NodeCost, int] = {}

    def add(self, cost: NodeCost) -> None:
        """Put a node in."""
        self._counts[cost] = self._counts.get(cost, 0) + 1

    def drop(self, cost: NodeCost) -> None:
        """Take a node out that was put in."""
        left = self._counts.pop(cost) - 1
        if left:
            self._counts[cost] = left

    def total(self) -> FleetCost:
        """The sum as it is."""
        nodes = unpriced = accelerators = idle = idle_unpriced = 0
        hourly = idle_hourly = _NOTHING
        for cost, count in self._counts.items():
            nodes += count
            accelerators += count * cost.accelerators
            idle += count * cost.idle_accelerators
            if cost.price is None:
                unpriced += count
            else:
                hourly += count * cost.price.usd_per_hour
            idle_share = cost.idle_usd_per_hour
            if idle_share is None:
                idle_unpriced += count
            else:
                idle_hourly += count * idle_share
        return FleetCost(nodes, unpriced, hourly, accelerators, idle, idle_hourly, idle_unpriced)


def total_of(costs: Iterable[NodeCost]) -> FleetCost:
    """Sum the costs of single nodes."""
    found = CostSum()
    for cost in costs:
        found.add(cost)
    return found.total()


def sum_of_costs(parts: Iterable[FleetCost]) -> FleetCost:
    """Sum the costs of several sets of nodes, no node in two of them."""
    whole = total_of(())
    for part in parts:
        whole = FleetCost(**{name: getattr(whole, name) + getattr(part, name) for name in whole.__struct_fields__})
    return whole

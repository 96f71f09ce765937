"""What a fleet costs an hour, as far as it is known.

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

from actions.fleet.facts import UNUSED, NodeFacts, NodeUsage
from actions.fleet.instances import InstanceTable
from actions.fleet.prices import Price, PriceBook
from actions.fleet.quantity import HOURS_PER_MONTH, format_hourly, format_usd

_NOTHING = Decimal(0)
_SMALLEST = Decimal("1e-12")


class NodeCost(msgspec.Struct, frozen=True):
    """What one node costs."""

    price: Price | None
    accelerators: int
    """GPUs and Neuron devices that are paid for."""
    idle_accelerators: int
    """Of them, not requested."""

    @property
    def idle_usd_per_hour(self) -> Decimal | None:
        """The share of the price that is idle; `None` if the price is unknown and something is idle."""
        if not self.idle_accelerators:
            return _NOTHING
        if self.price is None:
            return None
        return self.price.usd_per_hour * self.idle_accelerators / self.accelerators


class FleetCost(msgspec.Struct, frozen=True):
    """What a set of nodes costs. A sum is of what is known; the count beside it says how many nodes it leaves out."""

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
    def hourly_text(self) -> str:
        """`$82.27/h (+3 unpriced)`; `? (3 unpriced)` when no price is known."""
        return format_hourly(self._known(self.usd_per_hour, self.unpriced), unpriced=self.unpriced)

    @property
    def monthly_text(self) -> str:
        """`$60,057.10/month`, with `≥` before it where nodes are left out, `?` when no price is known."""
        known = self._known(self.usd_per_month, self.unpriced)
        if known is None:
            return "?"
        return f"{'≥ ' if self.unpriced else ''}{format_usd(known)}/month"

    @property
    def idle_text(self) -> str:
        """`$4.25/h idle (3 of 8 accelerators)`; empty in a fleet without accelerators."""
        if not self.accelerators:
            return ""
        known = None if self.idle_unpriced and not self.idle_usd_per_hour else self.idle_usd_per_hour
        sum_text = format_hourly(known, unpriced=self.idle_unpriced)
        return f"{sum_text} idle ({self.idle_accelerators} of {self.accelerators} accelerators)"

    def _known(self, amount: Decimal, unpriced: int) -> Decimal | None:
        return None if unpriced and unpriced == self.nodes else amount


class CostModel:
    """Prices nodes by the tables that ship with the program.

    Args:
        prices: What is known of prices.
        instances: What is known of instance types.
        region: Where a node runs that does not say so.
    """

    def __init__(self, prices: PriceBook, instances: InstanceTable, *, region: str = "") -> None:
        self._prices = prices
        self._instances = instances
        self._region = region

    @classmethod
    def load(cls, *, region: str = "") -> CostModel:
        """Both tables as they ship with the program.

        Raises:
            FormatError: A table is damaged.
        """
        return cls(PriceBook.load(), InstanceTable.load(), region=region)

    def node_cost(self, node: NodeFacts, usage: NodeUsage = UNUSED) -> NodeCost:
        """The cost of one node under the requests on it."""
        kind = self._instances.find(node.instance_type)
        gpus = max(node.allocatable.gpu, kind.gpus if kind else 0)
        neurons = max(node.allocatable.neuron, kind.neuron_devices if kind else 0)
        idle = max(gpus - usage.requested.gpu, 0) + max(neurons - usage.requested.neuron, 0)
        price = self._prices.price_of(node.instance_type, node.region or self._region, node.capacity_type)
        return NodeCost(price, gpus + neurons, idle)

    def fleet_cost(self, nodes: Iterable[NodeFacts], usage: Mapping[str, NodeUsage]) -> FleetCost:
        """The cost of all `nodes`.

        Args:
            nodes: Each once.
            usage: By node name; a node that is not in it has no pods.
        """
        return total_of(self.node_cost(node, usage.get(node.name, UNUSED)) for node in nodes)


class CostSum:
    """A running sum over nodes, so that one node's change does not cost a pass over all.

    Amounts are decimal and shares are rounded to a fixed place, so that taking out what was put in leaves nothing
    behind.
    """

    def __init__(self) -> None:
        self._nodes = self._unpriced = self._accelerators = self._idle = self._idle_unpriced = 0
        self._hourly = self._idle_hourly = _NOTHING

    def add(self, cost: NodeCost) -> None:
        """Put a node in."""
        self._count(cost, 1)

    def drop(self, cost: NodeCost) -> None:
        """Take a node out that was put in."""
        self._count(cost, -1)

    def total(self) -> FleetCost:
        """The sum as it is."""
        return FleetCost(
            self._nodes,
            self._unpriced,
            self._hourly,
            self._accelerators,
            self._idle,
            self._idle_hourly,
            self._idle_unpriced,
        )

    def _count(self, cost: NodeCost, sign: int) -> None:
        self._nodes += sign
        self._accelerators += sign * cost.accelerators
        self._idle += sign * cost.idle_accelerators
        if cost.price is None:
            self._unpriced += sign
        else:
            self._hourly += sign * cost.price.usd_per_hour
        idle_share = cost.idle_usd_per_hour
        if idle_share is None:
            self._idle_unpriced += sign
        else:
            self._idle_hourly += sign * idle_share.quantize(_SMALLEST)


def total_of(costs: Iterable[NodeCost]) -> FleetCost:
    """Sum the costs of single nodes."""
    found = CostSum()
    for cost in costs:
        found.add(cost)
    return found.total()

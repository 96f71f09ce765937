"""The sums of a fleet: nodes, pods, requested and allocatable resources; summed once, or kept as a running sum."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from actions.fleet.facts import NOTHING, UNUSED, NodeFacts, NodeUsage, Resources


class FleetTotals(msgspec.Struct, frozen=True):
    """The sums of all nodes."""

    nodes: int = 0
    ready: int = 0
    """Nodes whose kubelet reports them as ready, whether they take pods or not."""
    pods: int = 0
    """Pods on nodes, without ended ones."""
    requested: Resources = Resources()
    allocatable: Resources = Resources()


class ResourcesSum:
    """A running sum of amounts. Its fields are written out: a loop over their names takes three times as long."""

    __slots__ = ("cpu_milli", "efa", "gpu", "memory_bytes", "neuron", "neuron_cores")

    def __init__(self) -> None:
        self.cpu_milli = self.memory_bytes = self.gpu = self.neuron = self.efa = self.neuron_cores = 0

    def add(self, amount: Resources, sign: int = 1) -> None:
        """Put an amount in; with -1, take it out."""
        if amount is NOTHING:
            return
        self.cpu_milli += sign * amount.cpu_milli
        self.memory_bytes += sign * amount.memory_bytes
        self.gpu += sign * amount.gpu
        self.neuron += sign * amount.neuron
        self.efa += sign * amount.efa
        self.neuron_cores += sign * amount.neuron_cores

    def total(self) -> Resources:
        """The sum as it is."""
        return Resources(self.cpu_milli, self.memory_bytes, self.gpu, self.neuron, self.efa, self.neuron_cores)


class TotalsSum:
    """A running sum over nodes, so that one node's change does not cost a pass over all."""

    def __init__(self) -> None:
        self._nodes = self._ready = self._pods = 0
        self._requested, self._allocatable = ResourcesSum(), ResourcesSum()

    def add(self, node: NodeFacts, usage: NodeUsage) -> None:
        """Put a node in."""
        self._count(node, usage, 1)

    def drop(self, node: NodeFacts, usage: NodeUsage) -> None:
        """Take a node out that was put in with the same usage."""
        self._count(node, usage, -1)

    def total(self) -> FleetTotals:
        """The sums as they are."""
        return FleetTotals(self._nodes, self._ready, self._pods, self._requested.total(), self._allocatable.total())

    def _count(self, node: NodeFacts, usage: NodeUsage, sign: int) -> None:
        self._nodes += sign
        self._ready += sign * node.is_ready
        self._pods += sign * usage.pods
        self._requested.add(node.requested(usage), sign)
        self._allocatable.add(node.allocatable, sign)


def totals_of(nodes: Iterable[NodeFacts], usage: Mapping[str, NodeUsage]) -> FleetTotals:
    """Sum nodes up.

    Args:
        nodes: Each once.
        usage: By node name; a node that is not in it has no pods.
    """
    found = TotalsSum()
    for node in nodes:
        found.add(node, usage.get(node.name, UNUSED))
    return found.total()


def sum_of_totals(parts: Iterable[FleetTotals]) -> FleetTotals:
    """Sum the totals of several fleets, no node in two of them."""
    whole = FleetTotals()
    for part in parts:
        whole = FleetTotals(
            whole.nodes + part.nodes,
            whole.ready + part.ready,
            whole.pods + part.pods,
            whole.requested.plus(part.requested),
            whole.allocatable.plus(part.allocatable),
        )
    return whole

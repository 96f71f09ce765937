"""The sums of a fleet: nodes, pods, requested and allocatable resources; summed once, or kept as a running sum."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from actions.fleet.facts import UNUSED, NodeFacts, NodeUsage, Resources


class FleetTotals(msgspec.Struct, frozen=True):
    """The sums of all nodes."""

    nodes: int = 0
    ready: int = 0
    """Nodes whose kubelet reports them as ready, whether they take pods or not."""
    pods: int = 0
    """Pods on nodes, without ended ones."""
    requested: Resources = Resources()
    allocatable: Resources = Resources()


class TotalsSum:
    """A running sum over nodes, so that one node's change does not cost a pass over all."""

    def __init__(self) -> None:
        self._nodes = self._ready = self._pods = 0
        self._requested = [0] * len(_FIELDS)
        self._allocatable = [0] * len(_FIELDS)

    def add(self, node: NodeFacts, usage: NodeUsage) -> None:
        """Put a node in."""
        self._count(node, usage, 1)

    def drop(self, node: NodeFacts, usage: NodeUsage) -> None:
        """Take a node out that was put in with the same usage."""
        self._count(node, usage, -1)

    def total(self) -> FleetTotals:
        """The sums as they are."""
        return FleetTotals(
            self._nodes, self._ready, self._pods, Resources(*self._requested), Resources(*self._allocatable)
        )

    def _count(self, node: NodeFacts, usage: NodeUsage, sign: int) -> None:
        self._nodes += sign
        self._ready += sign * node.is_ready
        self._pods += sign * usage.pods
        for sums, amount in ((self._requested, node.requested(usage)), (self._allocatable, node.allocatable)):
            for place, name in enumerate(_FIELDS):
                sums[place] += sign * getattr(amount, name)


_FIELDS = Resources.__struct_fields__


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

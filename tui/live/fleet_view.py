"""What the fleet costs, kept up with the cluster's picture."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from actions.fleet.cost import CostModel, CostSum, FleetCost, NodeCost
from actions.fleet.facts import UNUSED, NodeFacts, NodeUsage

if TYPE_CHECKING:
    from actions.cluster.state.snapshot import ClusterSnapshot


class FleetView:
    """Costs of single nodes and of all, computed anew only for nodes whose facts changed.

    Args:
        model: Prices.
    """

    def __init__(self, model: CostModel) -> None:
        self._model = model
        self._shown: ClusterSnapshot | None = None
        self._known: dict[str, tuple[NodeFacts, NodeUsage]] = {}
        self._costs: dict[str, NodeCost] = {}
        self._sum = CostSum()

    def costs(self, snapshot: ClusterSnapshot) -> Mapping[str, NodeCost]:
        """The cost of every node, by name. Follows the picture: it is not to be kept."""
        self._follow(snapshot)
        return self._costs

    def total(self, snapshot: ClusterSnapshot) -> FleetCost:
        """The cost of all nodes."""
        self._follow(snapshot)
        return self._sum.total()

    def _follow(self, snapshot: ClusterSnapshot) -> None:
        if snapshot is self._shown:
            return
        changes = snapshot.changes_since(self._shown)
        self._shown = snapshot
        names: Iterable[str] = changes.nodes if changes else self._known.keys() | snapshot.nodes.keys()
        for name in names:
            self._look(name, snapshot.nodes.get(name), snapshot.usage.get(name, UNUSED))

    def _look(self, name: str, node: NodeFacts | None, usage: NodeUsage) -> None:
        before = self._known.get(name)
        if before is not None and before[0] is node and before[1] is usage:
            return
        if before is not None:
            del self._known[name]
            self._sum.drop(self._costs.pop(name))
        if node is not None:
            self._known[name] = (node, usage)
            self._costs[name] = cost = self._model.node_cost(node, usage)
            self._sum.add(cost)

"""What the fleet costs, kept per revision of the cluster's picture."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from actions.fleet.cost import CostModel, FleetCost, NodeCost, total_of
from actions.fleet.facts import UNUSED, NodeFacts, NodeUsage

if TYPE_CHECKING:
    from actions.cluster.state import ClusterSnapshot


class FleetView:
    """Costs of single nodes and of all, computed anew only for nodes whose facts changed.

    Args:
        model: Prices.
    """

    def __init__(self, model: CostModel) -> None:
        self._model = model
        self._revision = -1
        self._known: dict[str, tuple[NodeFacts, NodeUsage, NodeCost]] = {}
        self._costs: dict[str, NodeCost] = {}
        self._total: FleetCost | None = None

    def costs(self, snapshot: ClusterSnapshot) -> Mapping[str, NodeCost]:
        """The cost of every node, by name."""
        self._follow(snapshot)
        return self._costs

    def total(self, snapshot: ClusterSnapshot) -> FleetCost:
        """The cost of all nodes."""
        self._follow(snapshot)
        if self._total is None:
            self._total = total_of(self._costs.values())
        return self._total

    def _follow(self, snapshot: ClusterSnapshot) -> None:
        if snapshot.revision == self._revision:
            return
        self._revision = snapshot.revision
        known = self._known
        new: dict[str, tuple[NodeFacts, NodeUsage, NodeCost]] = {}
        is_same = len(known) == len(snapshot.nodes)
        for name, node in snapshot.nodes.items():
            usage = snapshot.usage.get(name, UNUSED)
            entry = known.get(name)
            if entry is None or entry[0] is not node or entry[1] is not usage:
                entry = (node, usage, self._model.node_cost(node, usage))
                is_same = False
            new[name] = entry
        if not is_same:
            self._known = new
            self._costs = {name: entry[2] for name, entry in new.items()}
            self._total = None

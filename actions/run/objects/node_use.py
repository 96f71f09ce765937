"""The part of a cluster's own nodes that the pods of a stage take, by which the run's use of them is priced."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import msgspec

from actions.base.errors import AccessError, ConsoleError, MissingError
from actions.base.executors import in_thread
from actions.cluster.objects.client import ObjectRef
from actions.cluster.state.decode import decode_node
from actions.fleet.cost import CostModel
from actions.fleet.fit import share_of
from actions.fleet.placement import NodeSpace, requests_of, space_of
from actions.run.context.access import ClusterConnection
from actions.run.context.stage_context import StageContext
from actions.run.state.records import NODE_CLAIM, NodesUsed

_OVER = ("Succeeded", "Failed")
_FINEST = Decimal("0.000001")

Pod = dict[str, Any]


class _Node(msgspec.Struct, frozen=True):
    """A node that was there: its space, and its price an hour; `None` for what is not known of it."""

    space: NodeSpace | None = None
    usd_per_hour: Decimal | None = None


class NodeUseRecorder:
    """The recorder of the parts of nodes that were there which a stage's scheduled pods take: of each change.

    Nodes that were started for the run are not among them: their claims have records. Nothing is recorded of a cluster
    that the run has made: it pays for all of that.
    """

    def __init__(self, context: StageContext) -> None:
        self._context = context
        self._nodes: dict[str, _Node | None] = {}
        self._last = NodesUsed()

    async def take(self, connection: ClusterConnection, pods: Sequence[Pod]) -> None:
        """Record the nodes that `pods` are on, if that has changed. Calls the API only for new nodes."""
        if not self._context.view.existing_cluster:
            return
        wanted: dict[str, list[Pod]] = {}
        for pod in pods:
            name = str((pod.get("spec") or {}).get("nodeName") or "")
            if name and (pod.get("status") or {}).get("phase") not in _OVER:
                wanted.setdefault(name, []).append(pod)
        try:
            for name in wanted.keys() - self._nodes.keys():
                self._nodes[name] = await self._look_at(connection, name)
        except ConsoleError:
            return  # the next call tries again
        found = {name: node for name in wanted if (node := self._nodes[name]) is not None}
        costs = [_cost(node, wanted[name]) for name, node in found.items()]
        known = [cost for cost in costs if cost is not None]
        now = NodesUsed(len(found), str(sum(known, Decimal(0)).quantize(_FINEST)), len(costs) - len(known))
        if now != self._last:
            await self._context.journal.remember(now)
            self._last = now

    async def _look_at(self, connection: ClusterConnection, name: str) -> _Node | None:
        """Return what is known of a node; `None` if it was started for the run."""
        try:
            document = await connection.fetch(ObjectRef("v1", "Node", "", name))
        except (AccessError, MissingError):
            return _Node()
        ours = {item.uid for item in self._context.journal.owned() if item.kind == NODE_CLAIM and not item.existed}
        if any(owner.get("uid") in ours for owner in document["metadata"].get("ownerReferences") or ()):
            return None
        model = await in_thread("prices", CostModel.load, region=self._context.view.cluster.region)
        price = model.node_cost(decode_node(msgspec.Raw(msgspec.json.encode(document)))).price
        return _Node(space_of(document), None if price is None else price.usd_per_hour)


def _cost(node: _Node, pods: Sequence[Pod]) -> Decimal | None:
    if node.space is None or node.usd_per_hour is None:
        return None
    share = min(1.0, sum(share_of(requests_of(pod), node.space) for pod in pods))
    return node.usd_per_hour * Decimal(str(share))

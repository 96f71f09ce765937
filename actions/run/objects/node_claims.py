"""The Karpenter nodes that were provisioned for the run's pods."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from actions.base.clock import stamp_seconds
from actions.base.errors import ConsoleError, MissingError
from actions.cluster.objects.client import ObjectRef
from actions.run.context.access import ClusterConnection
from actions.run.context.stage_context import StageContext
from actions.run.objects.contents import DeletionGuard
from actions.run.objects.inventory import inventory_of, owned_of
from actions.run.objects.ownership import RUNS, entry_of
from actions.run.objects.survey import ObjectListing
from actions.run.objects.writes import uid_of
from actions.run.state.records import NODE_CLAIM

NODE_CLAIM_VERSION = "karpenter.sh/v1"

Pod = dict[str, Any]


class NodeClaimRecorder:
    """The recorder of NodeClaims whose nodes have carried a pod of the stage; it records each once.

    A claim older than the run is recorded as one that existed, and is never deleted.
    """

    def __init__(self, context: StageContext) -> None:
        self._context = context
        self._nodes: set[str] = set()

    async def take(self, connection: ClusterConnection, pods: Sequence[Pod]) -> None:
        """Record the claims of the nodes that `pods` run on. Calls the API only for new nodes."""
        fresh = {node for pod in pods if (node := _node_of(pod)) and node not in self._nodes}
        if not fresh:
            return
        try:
            claims = await list_claims(connection)
            ours = await self._nodes_of_run(connection, [pod for pod in pods if _node_of(pod) in fresh])
        except MissingError:
            self._nodes |= fresh  # no Karpenter has made them
            return
        except ConsoleError:
            return  # the nodes stay new, so the next call tries again
        known = {item.uid for item in self._context.journal.owned()}
        for claim in claims:
            if (claim.get("status") or {}).get("nodeName") in ours and uid_of(claim) not in known:
                ref = ObjectRef(NODE_CLAIM_VERSION, NODE_CLAIM, "", claim["metadata"]["name"])
                existed = stamp_seconds(claim["metadata"].get("creationTimestamp")) < self._context.view.created_at - 1
                await self._context.journal.own(owned_of(self._context, ref, uid=uid_of(claim), existed=existed))
        self._nodes |= ours

    async def _nodes_of_run(self, connection: ClusterConnection, pods: Sequence[Pod]) -> set[str]:
        """Return the nodes of those pods that are the run's by more than their labels."""
        entries = [entry_of(pod, "", "Pod") for pod in pods]
        contents = await DeletionGuard(self._context, connection, inventory_of(self._context)).judged(
            ObjectListing(tuple(entries))
        )
        standings = {one.entry.uid: one.standing for one in contents.judged}
        return {_node_of(pod) for pod in pods if standings[uid_of(pod)] in RUNS}


async def list_claims(connection: ClusterConnection) -> list[dict[str, Any]]:
    """Return all NodeClaims of the cluster.

    Raises:
        MissingError: The cluster has no Karpenter.
    """
    return await connection.list_objects(NODE_CLAIM_VERSION, NODE_CLAIM)


def _node_of(pod: Pod) -> str:
    return str((pod.get("spec") or {}).get("nodeName") or "")

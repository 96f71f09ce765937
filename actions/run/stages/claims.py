"""Which Karpenter nodes came for the run's pods."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from actions.base.clock import parse_rfc3339
from actions.base.errors import ConsoleError
from actions.cluster.objects import ObjectRef
from actions.run.access import Connection
from actions.run.stages.objects import NODE_CLAIM, owned_of, uid_of
from actions.run.work import StageWork

NODE_CLAIM_VERSION = "karpenter.sh/v1"


class ClaimLedger:
    """Records each NodeClaim whose node has carried a pod of the stage, once.

    A claim that is older than the run is recorded as one that existed: it is never deleted.
    """

    def __init__(self, work: StageWork) -> None:
        self._work = work
        self._nodes: set[str] = set()

    async def take(self, connection: Connection, pods: Sequence[dict[str, Any]]) -> None:
        """Look at the nodes that `pods` are on. Asks the API only about nodes that are new."""
        nodes = {str(pod["spec"]["nodeName"]) for pod in pods if (pod.get("spec") or {}).get("nodeName")}
        fresh = nodes - self._nodes
        if not fresh:
            return
        try:
            claims = await list_claims(connection)
        except ConsoleError:
            return  # asked again with the next look, as the nodes stay new
        known = {item.uid for item in self._work.journal.owned()}
        for claim in claims:
            if (claim.get("status") or {}).get("nodeName") in fresh and uid_of(claim) not in known:
                ref = ObjectRef(NODE_CLAIM_VERSION, NODE_CLAIM, "", claim["metadata"]["name"])
                existed = _created_at(claim) < self._work.view.created_at - 1
                await self._work.journal.own(owned_of(self._work, ref, uid=uid_of(claim), existed=existed))
        self._nodes |= fresh


async def list_claims(connection: Connection) -> list[dict[str, Any]]:
    """All NodeClaims of the cluster.

    Raises:
        MissingError: The cluster has no Karpenter.
    """
    return await connection.list_objects(NODE_CLAIM_VERSION, NODE_CLAIM)


def _created_at(document: dict[str, Any]) -> float:
    stamp = document["metadata"].get("creationTimestamp")
    return parse_rfc3339(stamp).timestamp() if stamp else 0.0

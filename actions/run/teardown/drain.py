"""The drain of nodes that were provisioned for the run's pods, before anything is removed that they need for it."""

from __future__ import annotations

from typing import Any

from actions.base.errors import AccessError, ConflictError, MissingError
from actions.base.wording import counted
from actions.cluster.objects.client import ObjectRef
from actions.cluster.objects.status_rules import WorkState, object_status
from actions.run.context.access import ClusterConnection
from actions.run.context.protocols import StageFailedError
from actions.run.context.retry import TEARDOWN, wait_until
from actions.run.context.stage_context import StageContext
from actions.run.objects.contents import SETTLE_SECONDS, DeletionGuard
from actions.run.objects.inventory import inventory_of
from actions.run.objects.node_claims import NODE_CLAIM_VERSION, list_claims
from actions.run.objects.ownership import HARMLESS, Entry, Ownership, entry_of
from actions.run.objects.survey import ObjectListing
from actions.run.state.records import NODE_CLAIM
from actions.run.state.view import OwnedObject, RunView

DRAIN_SECONDS = 1800.0
_LOOK_SECONDS = 1.0
_OF_EVERY_NODE = frozenset({"DaemonSet", "Node"})

Claim = dict[str, Any]


async def drain_nodes(context: StageContext, *, is_own_cluster: bool) -> str:
    """Delete the run's NodeClaims and wait until they are gone.

    The run's are those that were created for its pods; in a cluster of its own, all of them. One whose node has pods of
    others is left to Karpenter.

    Args:
        context: Of any stage, with the journal that records the deletions.
        is_own_cluster: The run has made the cluster.

    Returns:
        The result, in one line.

    Raises:
        StageFailedError: Nodes still exist after half an hour.
        UnreachableError: The cluster does not answer.
    """
    if not context.access.is_possible:
        return "The run has no cluster."
    drain = _Drain(context, await context.connect(TEARDOWN), is_own_cluster=is_own_cluster)
    await wait_until(
        drain.look,
        clock=context.clock,
        note=context.journal.note,
        timeout=lambda left: StageFailedError(left, hint="Check what holds the nodes, then retry."),
        deadline_seconds=DRAIN_SECONDS,
        interval_seconds=_LOOK_SECONDS,
    )
    if drain.is_unseen:
        return "This user may not list node claims, and the run recorded none: nodes are left to Karpenter."
    await _record(context, drain.kept)
    done = f"{counted(len(drain.deleted), 'node')} drained." if drain.deleted else "No nodes to drain."
    return f"{done} Left to Karpenter, as others use them: {', '.join(sorted(drain.kept))}." if drain.kept else done


class _Drain:
    """The drain in progress.

    `deleted` are the names of deleted NodeClaims, `kept` of those whose nodes had pods of others when last read;
    `is_unseen` is true where they may not be listed.
    """

    def __init__(self, context: StageContext, connection: ClusterConnection, *, is_own_cluster: bool) -> None:
        self.deleted: set[str] = set()
        self.kept: set[str] = set()
        self.is_unseen = False
        self._connection = connection
        self._is_own_cluster = is_own_cluster
        self._wanted = {item.uid for item in _owned_claims(context.view) if not item.existed}
        self._judge = DeletionGuard(context, connection, inventory_of(context))
        self._clock = context.clock
        self._patient_until = context.clock.monotonic() + SETTLE_SECONDS

    async def look(self) -> str:
        """Delete claims whose nodes are unused by others. Returns a sentence on what is left; empty if all are gone."""
        try:
            claims = await list_claims(self._connection)
        except MissingError:
            return ""
        except AccessError:
            if self._is_own_cluster or self._wanted:
                raise
            self.is_unseen = True  # Karpenter removes a node that is empty
            return ""
        left, self.kept = [], set()
        for claim in claims:
            entry = entry_of(claim, "karpenter.sh", NODE_CLAIM)
            if self._is_own_cluster or entry.uid in self._wanted:
                left += await self._delete_unused(claim, entry)
        return f"{len(left)} node claims are left: {', '.join(left)}." if left else ""

    async def _delete_unused(self, claim: Claim, entry: Entry) -> list[str]:
        """Delete a claim unless others use its node. Returns its name if it is waited for."""
        if entry.is_going:
            self.deleted.add(entry.name)
            return [entry.name]
        standings = await self._standings_on(str((claim.get("status") or {}).get("nodeName") or ""))
        if Ownership.FOREIGN in standings or (Ownership.ORPHAN in standings and not self._is_patient()):
            self.kept.add(entry.name)
            return []
        if Ownership.ORPHAN not in standings:
            ref = ObjectRef(NODE_CLAIM_VERSION, NODE_CLAIM, "", entry.name)
            try:
                await self._connection.delete(ref, uid=entry.uid, version=entry.version)
            except ConflictError:
                return [entry.name]  # it has changed since it was read: try again
            self.deleted.add(entry.name)
        return [entry.name]

    def _is_patient(self) -> bool:
        """Return whether pods whose owners are gone are still expected to follow them."""
        return self._clock.monotonic() < self._patient_until

    async def _standings_on(self, node: str) -> set[Ownership]:
        """Return the ownership of a node's pods, except pods that every node has and pods that have ended.

        Raises:
            StageFailedError: It cannot be determined.
        """
        if not node:
            return set()
        pods = await self._connection.list_objects("v1", "Pod", field_selector=f"spec.nodeName={node}")
        working = [
            pod for pod in pods if not _is_of_every_node(pod) and object_status(pod).state is not WorkState.FINISHED
        ]
        contents = await self._judge.judged(ObjectListing(tuple(entry_of(pod, "", "Pod") for pod in working)))
        if contents.unasked:
            unasked = ", ".join(item.clause() for item in contents.unasked)
            raise StageFailedError(
                f"The owners of the pods on {node} are unknown, as this user {unasked}.",
                hint="Ask for the rights of `eksml-tui print rbac`, then retry.",
            )
        return {one.standing for one in contents.judged if one.standing not in HARMLESS}


def _owned_claims(view: RunView) -> list[OwnedObject]:
    return [item for item in view.owned if item.kind == NODE_CLAIM and not item.is_deleted]


async def _record(context: StageContext, kept: set[str]) -> None:
    for item in _owned_claims(context.view):
        if item.name not in kept and not item.existed:
            await context.journal.deleted(item)


def _is_of_every_node(pod: dict[str, Any]) -> bool:
    return any(owner.get("kind") in _OF_EVERY_NODE for owner in pod["metadata"].get("ownerReferences") or ())

"""Letting the nodes go that came for the run's pods, before anything that they need to leave is removed."""

from __future__ import annotations

from typing import Any

from actions.base.errors import ConflictError, MissingError
from actions.cluster.objects.client import ObjectRef
from actions.cluster.objects.status_rules import WorkState, object_status
from actions.run.context.access import ClusterConnection
from actions.run.context.protocols import StageFailedError
from actions.run.context.retry import TEARDOWN, wait_until
from actions.run.context.stage_context import StageContext
from actions.run.objects.contents import SETTLE_SECONDS, DeletionGuard
from actions.run.objects.inventory import inventory_of
from actions.run.objects.node_claims import NODE_CLAIM, NODE_CLAIM_VERSION, list_claims
from actions.run.objects.ownership import HARMLESS, Entry, Ownership, entry_of
from actions.run.objects.survey import ObjectListing
from actions.run.state.view import OwnedObject, RunView

DRAIN_SECONDS = 1800.0
_LOOK_SECONDS = 1.0
_OF_EVERY_NODE = frozenset({"DaemonSet", "Node"})

Claim = dict[str, Any]


async def drain_nodes(context: StageContext, *, is_own_cluster: bool) -> str:
    """Delete the run's NodeClaims and wait until they are gone.

    The run's are those that came for its pods; in a cluster of its own, all of them. One that carries somebody else's
    pods is left to Karpenter.

    Args:
        context: With the journal under which deletions are recorded; its stage does not matter.
        is_own_cluster: The run has made the cluster.

    Returns:
        What was done, in one line.

    Raises:
        StageFailedError: Nodes are still there after half an hour.
        UnreachableError: The cluster does not answer.
    """
    if not context.access.is_possible:
        return "There is no cluster to look at."
    drain = _Drain(context, await context.connect(TEARDOWN), is_own_cluster=is_own_cluster)
    await wait_until(
        drain.look,
        clock=context.clock,
        note=context.journal.note,
        timeout=lambda words: StageFailedError(words, hint="Look at what holds the nodes, then retry."),
        deadline_seconds=DRAIN_SECONDS,
        interval_seconds=_LOOK_SECONDS,
    )
    await _record(context, drain.kept)
    said = f"{len(drain.let_go)} nodes let go." if drain.let_go else "No nodes to let go."
    return f"{said} Left to Karpenter, for others use them: {', '.join(sorted(drain.kept))}." if drain.kept else said


class _Drain:
    """The run's NodeClaims on their way out.

    `let_go` are the names of those that were deleted, `kept` of those that carried others' pods at the last look.
    """

    def __init__(self, context: StageContext, connection: ClusterConnection, *, is_own_cluster: bool) -> None:
        self.let_go: set[str] = set()
        self.kept: set[str] = set()
        self._connection = connection
        self._is_own_cluster = is_own_cluster
        self._wanted = {item.uid for item in _owned_claims(context.view) if not item.existed}
        self._judge = DeletionGuard(context, connection, inventory_of(context))
        self._clock = context.clock
        self._patient_until = context.clock.monotonic() + SETTLE_SECONDS

    async def look(self) -> str:
        """Delete what may go. Returns what is still there, in words; empty when all have gone."""
        try:
            claims = await list_claims(self._connection)
        except MissingError:
            return ""
        words, self.kept = [], set()
        for claim in claims:
            entry = entry_of(claim, "karpenter.sh", NODE_CLAIM)
            if self._is_own_cluster or entry.uid in self._wanted:
                words += await self._let_go(claim, entry)
        return f"{len(words)} node claims are left: {', '.join(words)}." if words else ""

    async def _let_go(self, claim: Claim, entry: Entry) -> list[str]:
        """Delete a claim unless others use its node. Returns its name if it is waited for."""
        if entry.is_going:
            self.let_go.add(entry.name)
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
                return [entry.name]  # it was changed since it was looked at: look again
            self.let_go.add(entry.name)
        return [entry.name]

    def _is_patient(self) -> bool:
        """Return whether pods whose owners are gone are still expected to follow them."""
        return self._clock.monotonic() < self._patient_until

    async def _standings_on(self, node: str) -> set[Ownership]:
        """The standings of a node's pods, without those that are part of every node and those that have ended.

        Raises:
            StageFailedError: It cannot be told.
        """
        if not node:
            return set()
        pods = await self._connection.list_objects("v1", "Pod", field_selector=f"spec.nodeName={node}")
        working = [
            pod for pod in pods if not _is_of_every_node(pod) and object_status(pod).state is not WorkState.FINISHED
        ]
        contents = await self._judge.judged(ObjectListing(tuple(entry_of(pod, "", "Pod") for pod in working)))
        if contents.unasked:
            said = ", ".join(one.clause() for one in contents.unasked)
            raise StageFailedError(
                f"It cannot be told whose pods are on {node}, as this user {said}.",
                hint="Ask for the rights of assets/rbac.yaml, then retry.",
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

"""Letting the nodes go that came for the run's pods, before anything that they need to leave is removed."""

from __future__ import annotations

from typing import Any

from actions.base.errors import MissingError
from actions.cluster.conditions import WorkState, verdict_of
from actions.cluster.objects import ObjectRef
from actions.run.access import Connection
from actions.run.handler import StageFailedError
from actions.run.patience import wait_until
from actions.run.stages.claims import NODE_CLAIM_VERSION, list_claims
from actions.run.stages.objects import NODE_CLAIM, is_of_run, ref_of_owned, uid_of
from actions.run.view import OwnedObject, RunView
from actions.run.work import StageWork

DRAIN_SECONDS = 1800.0
_LOOK_SECONDS = 1.0

Claim = dict[str, Any]


async def drain_nodes(work: StageWork, *, is_own_cluster: bool) -> str:
    """Delete the run's NodeClaims and wait until they are gone.

    The run's are those that came for its pods; in a cluster of its own, all of them. One that carries somebody else's
    pods is left to Karpenter.

    Args:
        work: With the journal under which deletions are recorded; its stage does not matter.
        is_own_cluster: The run has made the cluster.

    Returns:
        What was done, in one line.

    Raises:
        StageFailedError: Nodes are still there after half an hour.
        UnreachableError: The cluster does not answer.
    """
    if not work.access.is_possible:
        return "There is no cluster to look at."
    connection = await work.connect()
    wanted = _claims_of(work.view)
    seen: set[str] = set()
    kept: set[str] = set()

    async def look() -> str:
        try:
            claims = await list_claims(connection)
        except MissingError:
            return ""
        mine = [claim for claim in claims if is_own_cluster or uid_of(claim) in wanted]
        going = []
        for claim in mine:
            if await _is_used_by_others(work, connection, claim):
                kept.add(claim["metadata"]["name"])
                continue
            seen.add(claim["metadata"]["name"])
            going.append(claim["metadata"]["name"])
            if not claim["metadata"].get("deletionTimestamp"):
                ref = ObjectRef(NODE_CLAIM_VERSION, NODE_CLAIM, "", claim["metadata"]["name"])
                await connection.delete(ref, uid=uid_of(claim))
        return f"{len(going)} node claims are left: {', '.join(going)}." if going else ""

    await wait_until(
        look,
        clock=work.clock,
        note=work.journal.note,
        timeout=lambda words: StageFailedError(words, hint="Look at what holds the nodes, then retry."),
        deadline_seconds=DRAIN_SECONDS,
        interval_seconds=_LOOK_SECONDS,
    )
    _record(work, kept)
    said = f"{len(seen)} nodes let go." if seen else "No nodes to let go."
    return f"{said} Left to Karpenter, for others use them: {', '.join(sorted(kept))}." if kept else said


def _claims_of(view: RunView) -> set[str]:
    return {item.uid for item in _owned_claims(view) if not item.existed}


def _owned_claims(view: RunView) -> list[OwnedObject]:
    return [item for item in view.owned if item.kind == NODE_CLAIM and not item.is_deleted]


def _record(work: StageWork, kept: set[str]) -> None:
    for item in _owned_claims(work.view):
        if ref_of_owned(item).name not in kept and not item.existed:
            work.journal.deleted(item)


async def _is_used_by_others(work: StageWork, connection: Connection, claim: Claim) -> bool:
    """Whether pods run there that are neither the run's nor part of every node."""
    node = str((claim.get("status") or {}).get("nodeName") or "")
    if not node:
        return False
    pods = await connection.list_objects("v1", "Pod", field_selector=f"spec.nodeName={node}")
    return any(_is_foreign(pod, work.view.id) for pod in pods)


def _is_foreign(pod: dict[str, Any], run_id: str) -> bool:
    owners = {owner.get("kind") for owner in pod["metadata"].get("ownerReferences") or ()}
    is_over = verdict_of(pod).state is WorkState.FINISHED
    return not (is_of_run(pod, run_id) or is_over or owners & {"DaemonSet", "Node"})

"""Letting the nodes go that came for the run's pods, before anything that they need to leave is removed."""

from __future__ import annotations

from typing import Any

from actions.base.errors import MissingError
from actions.cluster.conditions import WorkState, verdict_of
from actions.cluster.objects import ObjectRef
from actions.run.access import Connection
from actions.run.handler import StageFailedError
from actions.run.patience import TEARDOWN, wait_until
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
    drain = _Drain(work, await work.connect(TEARDOWN), is_own_cluster=is_own_cluster)
    await wait_until(
        drain.look,
        clock=work.clock,
        note=work.journal.note,
        timeout=lambda words: StageFailedError(words, hint="Look at what holds the nodes, then retry."),
        deadline_seconds=DRAIN_SECONDS,
        interval_seconds=_LOOK_SECONDS,
    )
    await _record(work, drain.kept)
    said = f"{len(drain.let_go)} nodes let go." if drain.let_go else "No nodes to let go."
    return f"{said} Left to Karpenter, for others use them: {', '.join(sorted(drain.kept))}." if drain.kept else said


class _Drain:
    """The run's NodeClaims on their way out. `let_go` and `kept` are names, of all that have been seen."""

    def __init__(self, work: StageWork, connection: Connection, *, is_own_cluster: bool) -> None:
        self.let_go: set[str] = set()
        self.kept: set[str] = set()
        self._work = work
        self._connection = connection
        self._is_own_cluster = is_own_cluster
        self._wanted = _claims_of(work.view)

    async def look(self) -> str:
        """Delete what may go. Returns what is still there, in words; empty when all have gone."""
        try:
            claims = await list_claims(self._connection)
        except MissingError:
            return ""
        going = []
        for claim in claims:
            if not self._is_own_cluster and uid_of(claim) not in self._wanted:
                continue
            name = claim["metadata"]["name"]
            if await _is_used_by_others(self._work, self._connection, claim):
                self.kept.add(name)
                continue
            self.let_go.add(name)
            going.append(name)
            if not claim["metadata"].get("deletionTimestamp"):
                await self._connection.delete(ObjectRef(NODE_CLAIM_VERSION, NODE_CLAIM, "", name), uid=uid_of(claim))
        return f"{len(going)} node claims are left: {', '.join(going)}." if going else ""


def _claims_of(view: RunView) -> set[str]:
    return {item.uid for item in _owned_claims(view) if not item.existed}


def _owned_claims(view: RunView) -> list[OwnedObject]:
    return [item for item in view.owned if item.kind == NODE_CLAIM and not item.is_deleted]


async def _record(work: StageWork, kept: set[str]) -> None:
    for item in _owned_claims(work.view):
        if ref_of_owned(item).name not in kept and not item.existed:
            await work.journal.deleted(item)


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

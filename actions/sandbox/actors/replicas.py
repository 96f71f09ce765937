"""ReplicaSets: a number of pods of one template."""

from __future__ import annotations

from actions.sandbox.actors.client import ApiClient
from actions.sandbox.actors.controller import Controller
from actions.sandbox.actors.kinds import (
    PODS,
    REPLICA_SETS,
    Document,
    is_deleting,
    key_of,
)
from actions.sandbox.actors.podcontrol import PodControl, is_pod_ready, phase_of, pod_of, suffix
from actions.sandbox.actors.watching import Caches


class ReplicaSetController(Controller):
    """Keeps as many pods as each ReplicaSet asks for."""

    def __init__(self, client: ApiClient, caches: Caches) -> None:
        super().__init__()
        self._client = client
        self._caches = caches
        self._pods = PodControl(client, caches, REPLICA_SETS, source="replicaset-controller")
        caches[REPLICA_SETS].listen(lambda one: self.wake(key_of(one)))
        self.wake_owners(REPLICA_SETS, [caches[PODS]])

    async def reconcile(self, key: str) -> float | None:
        """Make or remove pods, then report."""
        replica_set = self._caches[REPLICA_SETS].get(key)
        if replica_set is None or is_deleting(replica_set):
            return None
        pods = self._active(replica_set)
        wanted = int(replica_set["spec"].get("replicas", 1))
        for _ in range(wanted - len(pods)):
            name = f"{replica_set['metadata']['name']}-{suffix()}"
            await self._pods.create(replica_set, pod_of(replica_set["spec"]["template"], name))
        for pod in sorted(pods, key=is_pod_ready)[: max(0, len(pods) - wanted)]:
            await self._pods.delete(replica_set, pod)
        pods = self._active(replica_set)
        ready = sum(is_pod_ready(pod) for pod in pods)
        status = {
            "replicas": len(pods),
            "fullyLabeledReplicas": len(pods),
            "readyReplicas": ready or None,
            "availableReplicas": ready or None,
            "observedGeneration": replica_set["metadata"].get("generation", 1),
        }
        if not _has(replica_set, status):
            await self._client.patch_status(REPLICA_SETS, replica_set, status)
        return None

    def _active(self, replica_set: Document) -> list[Document]:
        pods = self._caches[PODS].of_owner(replica_set)
        return [pod for pod in pods if phase_of(pod) not in ("Succeeded", "Failed") and not is_deleting(pod)]


def _has(document: Document, status: Document) -> bool:
    """Whether the object's status says this already; `None` means absent."""
    old = document.get("status") or {}
    return all(old.get(name) == value for name, value in status.items())

"""Deployments and ReplicaSets: a number of pods of the newest template."""

from __future__ import annotations

import copy

from actions.sandbox.actors.client import ApiClient
from actions.sandbox.actors.conditions import condition, with_condition
from actions.sandbox.actors.controller import Controller
from actions.sandbox.actors.kinds import (
    DEPLOYMENTS,
    PODS,
    REPLICA_SETS,
    Document,
    is_deleting,
    key_of,
    owner_of,
    owner_reference,
)
from actions.sandbox.actors.podcontrol import PodControl, is_pod_ready, phase_of, pod_of, suffix, template_hash
from actions.sandbox.actors.watching import Caches

_HASH = "pod-template-hash"
_REVISION = "deployment.kubernetes.io/revision"


class ReplicaSetController(Controller):
    """Keeps as many pods as each ReplicaSet asks for."""

    def __init__(self, client: ApiClient, caches: Caches) -> None:
        super().__init__()
        self._client = client
        self._caches = caches
        self._pods = PodControl(client, caches, REPLICA_SETS, source="replicaset-controller")
        caches[REPLICA_SETS].listen(lambda one: self.wake(key_of(one)))
        caches[PODS].listen(self._on_pod)

    def _on_pod(self, pod: Document) -> None:
        owner = owner_of(pod)
        if owner is not None and owner["kind"] == "ReplicaSet":
            self.wake(f"{pod['metadata']['namespace']}/{owner['name']}")

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


class DeploymentController(Controller):
    """Keeps one ReplicaSet of the newest template at the asked size and the older ones at zero, all at once."""

    def __init__(self, client: ApiClient, caches: Caches) -> None:
        super().__init__()
        self._client = client
        self._caches = caches
        caches[DEPLOYMENTS].listen(lambda one: self.wake(key_of(one)))
        caches[REPLICA_SETS].listen(self._on_replica_set)

    def _on_replica_set(self, replica_set: Document) -> None:
        owner = owner_of(replica_set)
        if owner is not None and owner["kind"] == "Deployment":
            self.wake(f"{replica_set['metadata']['namespace']}/{owner['name']}")

    async def reconcile(self, key: str) -> float | None:
        """Make or scale ReplicaSets, then report."""
        deployment = self._caches[DEPLOYMENTS].get(key)
        if deployment is None or is_deleting(deployment):
            return None
        mark = template_hash(deployment["spec"]["template"])
        name = f"{deployment['metadata']['name']}-{mark}"
        owned = self._caches[REPLICA_SETS].of_owner(deployment)
        current = next((one for one in owned if one["metadata"]["name"] == name), None)
        wanted = int(deployment["spec"].get("replicas", 1))
        if current is None:
            made = await self._client.create(REPLICA_SETS, _replica_set(deployment, name, mark, wanted, len(owned) + 1))
            if made is not None:
                self._caches[REPLICA_SETS].upsert(made)
                message = f"Scaled up replica set {name} from 0 to {wanted}"
                await self._client.record(
                    deployment, DEPLOYMENTS, "ScalingReplicaSet", message, source="deployment-controller"
                )
        elif int(current["spec"].get("replicas", 1)) != wanted:
            await self._client.patch(REPLICA_SETS, key_of(current), {"spec": {"replicas": wanted}})
        for other in owned:
            if other is not current and int(other["spec"].get("replicas", 1)):
                await self._client.patch(REPLICA_SETS, key_of(other), {"spec": {"replicas": 0}})
        await self._report(deployment, name, wanted)
        return None

    async def _report(self, deployment: Document, name: str, wanted: int) -> None:
        owned = self._caches[REPLICA_SETS].of_owner(deployment)
        statuses = {one["metadata"]["name"]: one.get("status") or {} for one in owned}
        total = sum(int(status.get("replicas") or 0) for status in statuses.values())
        ready = sum(int(status.get("readyReplicas") or 0) for status in statuses.values())
        updated = int(statuses.get(name, {}).get("replicas") or 0)
        now = self._client.timestamp()
        conditions = list((deployment.get("status") or {}).get("conditions") or ())
        is_available = ready >= wanted
        for new in (
            condition("Available", is_available, *_availability(is_available), now),
            condition("Progressing", True, *_progress(deployment, name, is_complete=ready >= wanted), now),
        ):
            conditions = with_condition(conditions, {"lastUpdateTime": now} | new)
        status = {
            "observedGeneration": deployment["metadata"].get("generation", 1),
            "replicas": total or None,
            "updatedReplicas": updated or None,
            "readyReplicas": ready or None,
            "availableReplicas": ready or None,
            "unavailableReplicas": max(0, wanted - ready) or None,
            "conditions": conditions,
        }
        if not _has(deployment, status):
            await self._client.patch_status(DEPLOYMENTS, deployment, status)


def _availability(is_available: bool) -> tuple[str, str]:
    if is_available:
        return "MinimumReplicasAvailable", "Deployment has minimum availability."
    return "MinimumReplicasUnavailable", "Deployment does not have minimum availability."


def _progress(deployment: Document, name: str, *, is_complete: bool) -> tuple[str, str]:
    if is_complete:
        return "NewReplicaSetAvailable", f'ReplicaSet "{name}" has successfully progressed.'
    return "ReplicaSetUpdated", f'ReplicaSet "{name}" is progressing.'


def _replica_set(deployment: Document, name: str, mark: str, replicas: int, revision: int) -> Document:
    template = copy.deepcopy(deployment["spec"]["template"])
    metadata = template.setdefault("metadata", {})
    metadata["labels"] = (metadata.get("labels") or {}) | {_HASH: mark}
    selector = copy.deepcopy(deployment["spec"]["selector"])
    selector["matchLabels"] = (selector.get("matchLabels") or {}) | {_HASH: mark}
    return {
        "metadata": {
            "name": name,
            "namespace": deployment["metadata"]["namespace"],
            "labels": metadata["labels"],
            "annotations": {_REVISION: str(revision)},
            "ownerReferences": [owner_reference(deployment)],
        },
        "spec": {"replicas": replicas, "selector": selector, "template": template},
    }


def _has(document: Document, status: Document) -> bool:
    """Whether the object's status says this already; `None` means absent."""
    old = document.get("status") or {}
    return all(old.get(name) == value for name, value in status.items())

"""Deployments, and the ReplicaSets that keep their pods: from an old template to the newest, a few pods at a time."""

from __future__ import annotations

import copy
import math

import msgspec

from actions.sandbox.clientkit.cache import Caches
from actions.sandbox.clientkit.client import ApiClient
from actions.sandbox.clientkit.conditions import condition, with_condition
from actions.sandbox.clientkit.controller import Controller
from actions.sandbox.clientkit.kinds import (
    DEPLOYMENTS,
    PODS,
    REPLICA_SETS,
    Document,
    is_deleting,
    key_of,
    owner_reference,
)
from actions.sandbox.controllers.core.pods import PodControl, is_pod_ready, phase_of, pod_of, suffix, template_hash

_HASH = "pod-template-hash"
_REVISION = "deployment.kubernetes.io/revision"
_SOURCE = "deployment-controller"
_SHARE = "25%"


class ReplicaSetSize(msgspec.Struct, frozen=True):
    """The size of a ReplicaSet: pods wanted, there, and ready."""

    wanted: int
    there: int = 0
    ready: int = 0


def next_sizes(deployment: Document, new: ReplicaSetSize, old: list[ReplicaSetSize]) -> tuple[int, list[int]]:
    """Return the numbers of pods for the new ReplicaSet and for the old ones, after the next step.

    Source: k8s.io/kubernetes `pkg/controller/deployment/rolling.go`, `recreate.go`.
    """
    spec = deployment["spec"]
    replicas = int(spec.get("replicas", 1))
    if spec.get("paused"):
        return (new.wanted if old else replicas), [one.wanted for one in old]
    strategy = spec.get("strategy") or {}
    if strategy.get("type") == "Recreate":
        return (0 if any(one.there for one in old) else replicas), [0 for _ in old]
    surge, missing = limits_of(strategy.get("rollingUpdate") or {}, replicas)
    total = new.wanted + sum(one.wanted for one in old)
    grown = min(replicas, new.wanted + max(0, replicas + surge - total))
    removable = total - (replicas - missing) - max(0, new.wanted - new.ready)
    spare = new.ready + sum(one.ready for one in old) - (replicas - missing)
    shrunk = []
    for one in old:
        idle = min(max(0, one.wanted - one.ready), max(0, removable))
        busy = min(one.wanted - idle, max(0, spare), max(0, removable - idle))
        removable, spare = removable - idle - busy, spare - busy
        shrunk.append(one.wanted - idle - busy)
    return grown, shrunk


def limits_of(settings: Document, replicas: int) -> tuple[int, int]:
    """Return how many pods may be too many, and how many may be missing, during an update."""
    surge = _share(settings.get("maxSurge", _SHARE), replicas, is_up=True)
    missing = _share(settings.get("maxUnavailable", _SHARE), replicas, is_up=False)
    return surge, missing if surge or missing else 1


def _share(value: int | str, replicas: int, *, is_up: bool) -> int:
    if isinstance(value, int):
        return value
    share = int(value.removesuffix("%")) * replicas / 100
    return math.ceil(share) if is_up else math.floor(share)


class DeploymentController(Controller):
    """Makes a ReplicaSet of each template and shifts pods to the newest by the deployment's strategy."""

    def __init__(self, client: ApiClient, caches: Caches) -> None:
        super().__init__()
        self._client = client
        self._caches = caches
        caches[DEPLOYMENTS].listen(lambda one: self.wake(key_of(one)))
        self.wake_owners(DEPLOYMENTS, [caches[REPLICA_SETS]])

    async def reconcile(self, key: str) -> float | None:
        """Make or scale ReplicaSets, then report."""
        deployment = self._caches[DEPLOYMENTS].get(key)
        if deployment is None or is_deleting(deployment):
            return None
        name = f"{deployment['metadata']['name']}-{template_hash(deployment['spec']['template'])}"
        owned = self._caches[REPLICA_SETS].of_owner(deployment)
        current = next((one for one in owned if one["metadata"]["name"] == name), None)
        old = sorted((one for one in owned if one is not current), key=_revision_of)
        if current is None and not deployment["spec"].get("paused"):
            made = await self._client.create(REPLICA_SETS, _replica_set(deployment, name))
            if made is not None:
                self._caches[REPLICA_SETS].upsert(made)
                current = made
        await self._scale(deployment, current, old)
        await self._number(deployment, current, old)
        await self._forget(deployment, old)
        await self._report(deployment, name)
        return None

    async def _scale(self, deployment: Document, current: Document | None, old: list[Document]) -> None:
        new = _size_of(current) if current is not None else ReplicaSetSize(0)
        grown, shrunk = next_sizes(deployment, new, [_size_of(one) for one in old])
        if current is not None:
            await self._resize(deployment, current, grown)
        for one, size in zip(old, shrunk, strict=True):
            await self._resize(deployment, one, size)

    async def _resize(self, deployment: Document, replica_set: Document, size: int) -> None:
        before = _size_of(replica_set).wanted
        if before == size:
            return
        changed = await self._client.patch(REPLICA_SETS, key_of(replica_set), {"spec": {"replicas": size}})
        if changed is not None:
            self._caches[REPLICA_SETS].upsert(changed)
        verb, name = "up" if size > before else "down", replica_set["metadata"]["name"]
        message = f"Scaled {verb} replica set {name} from {before} to {size}"
        await self._client.record_event(deployment, DEPLOYMENTS, "ScalingReplicaSet", message, source=_SOURCE)

    async def _number(self, deployment: Document, current: Document | None, old: list[Document]) -> None:
        """Give the newest ReplicaSet the highest revision, and the Deployment the same."""
        if current is None:
            return
        revision = _revision_of(current)
        highest = max((_revision_of(one) for one in old), default=0)
        if revision <= highest:
            revision = highest + 1
            change = {"metadata": {"annotations": {_REVISION: str(revision)}}}
            await self._client.patch(REPLICA_SETS, key_of(current), change)
        if _revision_of(deployment) != revision:
            change = {"metadata": {"annotations": {_REVISION: str(revision)}}}
            await self._client.patch(DEPLOYMENTS, key_of(deployment), change)

    async def _forget(self, deployment: Document, old: list[Document]) -> None:
        """Delete the oldest empty ReplicaSets beyond the history that is kept."""
        kept = int(deployment["spec"].get("revisionHistoryLimit", 10))
        empty = [one for one in old if not _size_of(one).wanted and not _size_of(one).there]
        for one in empty[: max(0, len(empty) - kept)]:
            await self._client.delete(REPLICA_SETS, key_of(one))

    async def _report(self, deployment: Document, name: str) -> None:
        wanted = int(deployment["spec"].get("replicas", 1))
        sizes = {one["metadata"]["name"]: _size_of(one) for one in self._caches[REPLICA_SETS].of_owner(deployment)}
        total, ready = sum(one.there for one in sizes.values()), sum(one.ready for one in sizes.values())
        updated = sizes[name].there if name in sizes else 0
        _, missing = limits_of((deployment["spec"].get("strategy") or {}).get("rollingUpdate") or {}, wanted)
        is_complete = updated == total == wanted and ready >= wanted
        now = self._client.timestamp()
        conditions = list((deployment.get("status") or {}).get("conditions") or ())
        is_available = ready >= wanted - missing
        for new in (
            condition("Available", is_available, *_availability(is_available), now),
            condition("Progressing", True, *_progress(name, is_complete=is_complete), now),
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
        before = deployment.get("status") or {}
        if any(before.get(field) != value for field, value in status.items()):
            await self._client.patch_status(DEPLOYMENTS, deployment, status)


def _size_of(replica_set: Document) -> ReplicaSetSize:
    status = replica_set.get("status") or {}
    return ReplicaSetSize(
        int(replica_set["spec"].get("replicas", 1)),
        int(status.get("replicas") or 0),
        int(status.get("availableReplicas") or 0),
    )


def _revision_of(document: Document) -> int:
    return int((document["metadata"].get("annotations") or {}).get(_REVISION, 0))


def _availability(is_available: bool) -> tuple[str, str]:
    if is_available:
        return "MinimumReplicasAvailable", "Deployment has minimum availability."
    return "MinimumReplicasUnavailable", "Deployment does not have minimum availability."


def _progress(name: str, *, is_complete: bool) -> tuple[str, str]:
    if is_complete:
        return "NewReplicaSetAvailable", f'ReplicaSet "{name}" has successfully progressed.'
    return "ReplicaSetUpdated", f'ReplicaSet "{name}" is progressing.'


def _replica_set(deployment: Document, name: str) -> Document:
    """The ReplicaSet of the present template, empty as yet."""
    mark = name.rpartition("-")[2]
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
            "ownerReferences": [owner_reference(deployment)],
        },
        "spec": {"replicas": 0, "selector": selector, "template": template},
    }


class ReplicaSetController(Controller):
    """Keeps the number of pods that each ReplicaSet specifies."""

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
    """Return whether the object has this status already; `None` means absent."""
    old = document.get("status") or {}
    return all(old.get(name) == value for name, value in status.items())

"""The status of a RayCluster, as KubeRay concludes it from the cluster's pods and its Service.

Source: recordings of KubeRay 1.1.1. Once ready, a cluster stays ready whatever becomes of its pods; a reason stays
when what it told of has passed.
"""

from __future__ import annotations

from collections.abc import Sequence

from actions.sandbox.actors.kinds import Document, labels_of
from actions.sandbox.actors.podcontrol import phase_of
from actions.sandbox.actors.ray_names import HEAD, NODE_TYPE, WORKER
from actions.sandbox.actors.ray_resources import desired_pods, desired_resources, least_replicas, most_replicas

EMPTY: Document = {"desiredCPU": "0", "desiredGPU": "0", "desiredMemory": "0", "desiredTPU": "0", "head": {}}
"""What is written where nothing is known."""
_SILENT = ("lastUpdateTime", "observedGeneration", "desiredCPU", "desiredMemory", "desiredGPU", "desiredTPU")
"""Fields whose change alone is not worth an update."""


def concluded(cluster: Document, pods: Sequence[Document], service: Document | None, now: str) -> Document:
    """The whole status that follows from what is there. Empty and zero fields are absent."""
    old = cluster.get("status") or {}
    sums = desired_resources(cluster)
    workers = [pod for pod in pods if labels_of(pod).get(NODE_TYPE) == WORKER]
    status: Document = {
        "desiredCPU": sums.get("cpu", "0"),
        "desiredMemory": sums.get("memory", "0"),
        "desiredGPU": next((amount for name, amount in sums.items() if name.endswith("gpu")), "0"),
        "desiredTPU": sums.get("google.com/tpu", "0"),
        "availableWorkerReplicas": sum(phase_of(pod) == "Running" for pod in workers),
        "desiredWorkerReplicas": desired_pods(cluster),
        "minWorkerReplicas": least_replicas(cluster),
        "maxWorkerReplicas": most_replicas(cluster),
        "endpoints": _endpoints(service),
        "state": _state(cluster, pods, str(old.get("state") or "")),
        "reason": old.get("reason"),
        "observedGeneration": cluster["metadata"].get("generation", 1),
        "lastUpdateTime": now,
    }
    return {name: value for name, value in status.items() if value} | {"head": _head(pods, service)}


def is_news(cluster: Document, status: Document) -> bool:
    """Whether a status says more than what the cluster has."""
    return _told(cluster.get("status") or {}) != _told(status)


def replacing(old: Document, new: Document) -> Document:
    """The merge patch that makes `new` of `old`, maps within it included."""
    change: Document = dict.fromkeys((name for name in old if name not in new), None)
    for name, value in new.items():
        before = old.get(name)
        change[name] = replacing(before, value) if isinstance(before, dict) and isinstance(value, dict) else value
    return change


def _told(status: Document) -> Document:
    return {name: value for name, value in status.items() if name not in _SILENT and value}


def _state(cluster: Document, pods: Sequence[Document], state: str) -> str:
    if cluster["spec"].get("suspend") and not pods:
        return "suspended"
    return "ready" if pods and all(map(_is_up, pods)) else state


def _is_up(pod: Document) -> bool:
    conditions = (pod.get("status") or {}).get("conditions") or ()
    is_unready = any(one["type"] == "Ready" and one["status"] != "True" for one in conditions)
    return phase_of(pod) == "Running" and not is_unready


def _endpoints(service: Document | None) -> Document:
    ports = service["spec"].get("ports") or () if service else ()
    return {port["name"]: str(port.get("nodePort") or port.get("targetPort") or port["port"]) for port in ports}


def _head(pods: Sequence[Document], service: Document | None) -> Document:
    heads = [pod for pod in pods if labels_of(pod).get(NODE_TYPE) == HEAD]
    address = (heads[0].get("status") or {}).get("podIP") if len(heads) == 1 else None
    service_address = service["spec"].get("clusterIP") if service else None
    return {name: value for name, value in (("podIP", address), ("serviceIP", service_address)) if value}

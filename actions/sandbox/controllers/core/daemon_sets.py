"""DaemonSets: one pod on every node that it fits."""

from __future__ import annotations

from actions.fleet.placement import is_ready, selects, tolerates
from actions.sandbox.clientkit.cache import Caches
from actions.sandbox.clientkit.client import ApiClient
from actions.sandbox.clientkit.controller import Controller
from actions.sandbox.clientkit.kinds import DAEMON_SETS, NODES, PODS, Document, is_deleting, key_of, labels_of
from actions.sandbox.controllers.core.pods import PodControl, is_pod_ready, phase_of, pod_of, suffix

_TOLERATED = (
    ("node.kubernetes.io/not-ready", "NoExecute"),
    ("node.kubernetes.io/unreachable", "NoExecute"),
    ("node.kubernetes.io/disk-pressure", "NoSchedule"),
    ("node.kubernetes.io/memory-pressure", "NoSchedule"),
    ("node.kubernetes.io/pid-pressure", "NoSchedule"),
    ("node.kubernetes.io/unschedulable", "NoSchedule"),
)


class DaemonSetController(Controller):
    """Reconciles DaemonSets; a pod names its node by affinity, and the scheduler puts it there."""

    def __init__(self, client: ApiClient, caches: Caches) -> None:
        super().__init__()
        self._client = client
        self._caches = caches
        self._pods = PodControl(client, caches, DAEMON_SETS, source="daemonset-controller")
        caches[DAEMON_SETS].listen(lambda one: self.wake(key_of(one)))
        self.wake_owners(DAEMON_SETS, [caches[PODS]])
        caches[NODES].listen(lambda _: self.wake_each(caches[DAEMON_SETS]))

    async def reconcile(self, key: str) -> float | None:
        """Keep a pod on each node that fits, none elsewhere, and write the status."""
        daemon_set = self._caches[DAEMON_SETS].get(key)
        if daemon_set is None or is_deleting(daemon_set):
            return None
        wanted = {node["metadata"]["name"] for node in self._caches[NODES].objects.values() if _fits(daemon_set, node)}
        pods = {_node_of(pod): pod for pod in self._caches[PODS].of_owner(daemon_set) if not is_deleting(pod)}
        for node in sorted(wanted - pods.keys()):
            await self._pods.create(daemon_set, _pod(daemon_set, node))
        for node, pod in pods.items():
            if node not in wanted or phase_of(pod) in ("Succeeded", "Failed"):
                await self._pods.delete(daemon_set, pod)
        await self._report(daemon_set, wanted)
        return None

    async def _report(self, daemon_set: Document, wanted: set[str]) -> None:
        pods = [pod for pod in self._caches[PODS].of_owner(daemon_set) if _node_of(pod) in wanted]
        ready = sum(is_pod_ready(pod) for pod in pods)
        generation = daemon_set["metadata"].get("generation", 1)
        status = {
            "currentNumberScheduled": len(pods),
            "desiredNumberScheduled": len(wanted),
            "numberMisscheduled": 0,
            "numberReady": ready,
            "numberAvailable": ready or None,
            "numberUnavailable": (len(wanted) - ready) or None,
            "updatedNumberScheduled": len(pods) or None,
            "observedGeneration": generation,
        }
        old = daemon_set.get("status") or {}
        if any(old.get(name) != value for name, value in status.items()):
            await self._client.patch_status(DAEMON_SETS, daemon_set, status)


def _fits(daemon_set: Document, node: Document) -> bool:
    """Return whether a node is to have a pod: ready, selected, its taints tolerated."""
    if is_deleting(node) or not is_ready(node):
        return False
    pod = {"spec": daemon_set["spec"]["template"]["spec"] | {"tolerations": _tolerations(daemon_set)}}
    taints = node["spec"].get("taints") or ()
    return selects(pod, labels_of(node)) and all(tolerates(pod, taint) for taint in taints)


def _tolerations(daemon_set: Document) -> list[Document]:
    own = daemon_set["spec"]["template"]["spec"].get("tolerations") or []
    return [*own, *({"key": key, "operator": "Exists", "effect": effect} for key, effect in _TOLERATED)]


def _pod(daemon_set: Document, node: str) -> Document:
    pod = pod_of(daemon_set["spec"]["template"], f"{daemon_set['metadata']['name']}-{suffix()}")
    pod["spec"]["tolerations"] = _tolerations(daemon_set)
    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}
    required = {"nodeSelectorTerms": [term]}
    affinity = pod["spec"].get("affinity") or {}
    pod["spec"]["affinity"] = affinity | {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}
    return pod


def _node_of(pod: Document) -> str:
    """The node that a daemon's pod is on, or is meant for."""
    if pod["spec"].get("nodeName"):
        return str(pod["spec"]["nodeName"])
    affinity = (pod["spec"].get("affinity") or {}).get("nodeAffinity") or {}
    terms = (affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or {}).get("nodeSelectorTerms") or [{}]
    fields = terms[0].get("matchFields") or [{"values": [""]}]
    return str(fields[0]["values"][0])

"""KubeRay's RayCluster controller, as version 1.1.1 behaves, and the status that it derives.

Source: the real KubeRay 1.1.1, started with `--enable-batch-scheduler`. It acts only while its Deployment has a
ready pod and the PodGroup CRD is there: without that CRD the real one reconciles no RayCluster at all. Once ready, a
cluster stays ready whatever becomes of its pods; a reason stays when its cause has passed.
"""

from __future__ import annotations

from collections.abc import Sequence

from actions.base.errors import ConsoleError
from actions.cluster.http.errors import ApiError
from actions.sandbox.clientkit.cache import Caches
from actions.sandbox.clientkit.client import ApiClient
from actions.sandbox.clientkit.conditions import is_true
from actions.sandbox.clientkit.controller import Controller
from actions.sandbox.clientkit.kinds import (
    DEFINITIONS,
    POD_GROUPS,
    PODS,
    RAY_CLUSTERS,
    SERVICES,
    Document,
    is_deleting,
    key_of,
    labels_of,
    uid_of,
)
from actions.sandbox.controllers.core.operators import KubernetesOperator
from actions.sandbox.controllers.core.pods import phase_of
from actions.sandbox.controllers.ray.objects import (
    CLUSTER,
    GROUP,
    HEAD,
    NODE_TYPE,
    WORKER,
    desired_pods,
    desired_resources,
    groups_of,
    head_service,
    head_service_name,
    is_gang,
    least_replicas,
    most_replicas,
    pod_group,
    pod_group_name,
    pods_of,
)
from actions.sandbox.controllers.ray.pods import head_pod, worker_pod

EMPTY: Document = {"desiredCPU": "0", "desiredGPU": "0", "desiredMemory": "0", "desiredTPU": "0", "head": {}}
"""The resources in a status while they are not known."""
_SILENT = ("lastUpdateTime", "observedGeneration", "desiredCPU", "desiredMemory", "desiredGPU", "desiredTPU")
"""Fields whose change alone is not worth an update."""


def ray_cluster_status(cluster: Document, pods: Sequence[Document], service: Document | None, now: str) -> Document:
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
    """Return whether a status differs from the cluster's in more than its time."""
    return _comparable(cluster.get("status") or {}) != _comparable(status)


def replacing(old: Document, new: Document) -> Document:
    """The merge patch that makes `new` of `old`, maps within it included."""
    change: Document = dict.fromkeys((name for name in old if name not in new), None)
    for name, value in new.items():
        before = old.get(name)
        change[name] = replacing(before, value) if isinstance(before, dict) and isinstance(value, dict) else value
    return change


def _comparable(status: Document) -> Document:
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


KUBERAY = "kuberay-operator/kuberay-operator"
_SOURCE = "raycluster-controller"
_NOT_ENDED = "nil"


class _Stopped(ConsoleError):
    """A pass over a cluster ends early; its message is the reason that the status shows."""


class RayClusterController(Controller):
    """Reconciles RayClusters.

    Args:
        client: The API.
        caches: Of RayClusters, pods, Services, PodGroups, CRDs and Deployments.
    """

    def __init__(self, client: ApiClient, caches: Caches) -> None:
        super().__init__()
        self._client = client
        self._caches = caches
        self._operator = KubernetesOperator(caches, KUBERAY)
        caches[RAY_CLUSTERS].listen(lambda cluster: self.wake(key_of(cluster)))
        self.wake_owners(RAY_CLUSTERS, [caches[kind] for kind in (PODS, SERVICES, POD_GROUPS)])
        self._operator.on_change(lambda: self.wake_each(caches[RAY_CLUSTERS]))
        caches[DEFINITIONS].listen(lambda _: self.wake_each(caches[RAY_CLUSTERS]))

    async def reconcile(self, key: str) -> float | None:
        """Bring a cluster forward in the operator's order: Service, PodGroup, head, workers, status."""
        cluster = self._caches[RAY_CLUSTERS].get(key)
        if cluster is None or is_deleting(cluster) or not self._operator.is_ready or not self._knows_gangs():
            return None
        await self._serve(cluster)
        try:
            await self._bring_pods(cluster)
        except ConsoleError as error:
            await self._fail(cluster, error.status.message if isinstance(error, ApiError) else error.message)
            raise
        await self._report(cluster)
        return None

    def _knows_gangs(self) -> bool:
        definition = self._caches[DEFINITIONS].get(f"{POD_GROUPS.plural}.scheduling.volcano.sh")
        return definition is not None and is_true(definition, "Established")

    async def _serve(self, cluster: Document) -> None:
        wanted = head_service(cluster)
        if self._caches[SERVICES].get(key_of(wanted)) is None:
            made = await self._client.create(SERVICES, wanted)
            if made is not None:
                self._caches[SERVICES].upsert(made)
                await self._record(cluster, "Created", f"Created service {wanted['metadata']['name']}")

    async def _bring_pods(self, cluster: Document) -> None:
        if cluster["spec"].get("suspend"):
            await self._suspend(cluster)
            return
        if is_gang(cluster):
            await self._gather(cluster)
        await self._bring_head(cluster)
        for group in groups_of(cluster):
            await self._bring_workers(cluster, group)

    async def _suspend(self, cluster: Document) -> None:
        for pod in self._pods(cluster):
            if not is_deleting(pod):
                await self._client.delete(PODS, key_of(pod), uid=uid_of(pod))
        namespace, name = cluster["metadata"]["namespace"], cluster["metadata"]["name"]
        await self._record(cluster, "Deleted", f"Deleted Pods for RayCluster {namespace}/{name} due to suspension")

    async def _gather(self, cluster: Document) -> None:
        """Make the PodGroup, or bring it up to date with the number of workers."""
        wanted = pod_group(cluster)
        known = self._caches[POD_GROUPS].get(f"{cluster['metadata']['namespace']}/{pod_group_name(cluster)}")
        if known is None:
            made = await self._client.create(POD_GROUPS, wanted)
        elif known["spec"].get("minMember") != wanted["spec"]["minMember"]:
            gone = dict.fromkeys(known["spec"].get("minResources") or {}, None)
            resources = gone | wanted["spec"]["minResources"]
            change = {"spec": {"minMember": wanted["spec"]["minMember"], "minResources": resources}}
            made = await self._client.patch(POD_GROUPS, key_of(known), change)
        else:
            return
        if made is not None:
            self._caches[POD_GROUPS].upsert(made)

    async def _bring_head(self, cluster: Document) -> None:
        heads = [pod for pod in self._pods(cluster) if labels_of(pod).get(NODE_TYPE) == HEAD]
        if not heads:
            name = await self._make_pod(head_pod(cluster))
            await self._record(cluster, "Created", f"Created head pod {name}")
        elif why := _ended_for_good(heads[0], HEAD):
            await self._remove_ended(cluster, heads[0], HEAD)
            raise _Stopped(why)

    async def _bring_workers(self, cluster: Document, group: Document) -> None:
        pods = [pod for pod in self._pods(cluster) if labels_of(pod).get(GROUP) == group["groupName"]]
        ended = [pod for pod in pods if _ended_for_good(pod, WORKER)]
        for pod in ended:
            await self._remove_ended(cluster, pod, WORKER)
        if ended:
            raise _Stopped(f"Delete {len(ended)} unhealthy worker Pods.")
        named = set((group.get("scaleStrategy") or {}).get("workersToDelete") or ())
        for pod in [pod for pod in pods if pod["metadata"]["name"] in named]:
            await self._client.delete(PODS, key_of(pod), uid=uid_of(pod))
            await self._record(cluster, "Deleted", f"Deleted pod {pod['metadata']['name']}")
        alive = [pod for pod in pods if pod["metadata"]["name"] not in named]
        for _ in range(pods_of(group) - len(alive)):
            await self._make_pod(worker_pod(cluster, group))
            await self._record(cluster, "Created", "Created worker pod ")
        for pod in alive[: max(0, len(alive) - pods_of(group))]:
            if not is_deleting(pod):
                await self._client.delete(PODS, key_of(pod), uid=uid_of(pod))
            await self._record(cluster, "Deleted", f"Deleted Pod {pod['metadata']['name']}")

    async def _make_pod(self, pod: Document) -> str:
        made = await self._client.create(PODS, pod)
        if made is None:
            return ""
        self._caches[PODS].upsert(made)
        return str(made["metadata"]["name"])

    async def _remove_ended(self, cluster: Document, pod: Document, role: str) -> None:
        if await self._client.delete(PODS, key_of(pod), uid=uid_of(pod)):
            self._caches[PODS].remove(pod)
            await self._record(
                cluster,
                "Deleted",
                f"Deleted {role} Pod {pod['metadata']['name']}; Pod status: {phase_of(pod)}; Pod restart policy: "
                f"{pod['spec'].get('restartPolicy')}; Ray container terminated status: {_ending(pod)}",
            )

    async def _fail(self, cluster: Document, reason: str) -> None:
        """Write first the state, then the reason, as two updates; then the event."""
        for change in ({"state": "failed"}, {"state": "failed", "reason": reason}):
            known = self._caches[RAY_CLUSTERS].get(key_of(cluster)) or cluster
            status = known.get("status") or {}
            if any(status.get(name) != value for name, value in change.items()):
                await self._put(known, (EMPTY if not status else {}) | change)
        await self._client.record_event(
            cluster, RAY_CLUSTERS, "PodReconciliationError", reason, source=_SOURCE, is_warning=True
        )

    async def _report(self, cluster: Document) -> None:
        service = self._caches[SERVICES].get(
            f"{cluster['metadata']['namespace']}/{head_service_name(cluster['metadata']['name'])}"
        )
        known = self._caches[RAY_CLUSTERS].get(key_of(cluster)) or cluster
        status = ray_cluster_status(known, self._pods(cluster), service, self._client.timestamp())
        if is_news(known, status):
            await self._put(known, replacing(known.get("status") or {}, status))

    async def _put(self, cluster: Document, change: Document) -> None:
        updated = await self._client.patch_status(RAY_CLUSTERS, cluster, change)
        if updated is not None:
            self._caches[RAY_CLUSTERS].upsert(updated)

    def _pods(self, cluster: Document) -> list[Document]:
        namespace = cluster["metadata"]["namespace"]
        found = self._caches[PODS].labelled(**{CLUSTER: cluster["metadata"]["name"]})
        return [pod for pod in found if pod["metadata"]["namespace"] == namespace]

    async def _record(self, cluster: Document, reason: str, message: str) -> None:
        await self._client.record_event(cluster, RAY_CLUSTERS, reason, message, source=_SOURCE)


def _ended_for_good(pod: Document, role: str) -> str:
    """Return why an ended pod will not be started again; empty if it has not ended, or is started again."""
    policy, phase, name = pod["spec"].get("restartPolicy", "Always"), phase_of(pod), pod["metadata"]["name"]
    if policy == "Always" or is_deleting(pod):
        return ""
    if phase in ("Failed", "Succeeded"):
        return (
            f"The {role} Pod {name} status is {phase} which is a terminal state and it will not restart. KubeRay will "
            "delete the Pod and create new Pods in the next reconciliation if necessary."
        )
    ended = _ending(pod)
    if phase != "Running" or ended == _NOT_ENDED:
        return ""
    return (
        f"The Pod status of the {role} Pod {name} is {phase}, and the Ray container terminated status is {ended}. The "
        f"container is unable to restart due to its restart policy {policy}, so KubeRay will delete it."
    )


def _ending(pod: Document) -> str:
    """Return the end of the Ray container in Go's notation."""
    statuses = (pod.get("status") or {}).get("containerStatuses") or [{}]
    ended = (statuses[0].get("state") or {}).get("terminated")
    if not ended:
        return _NOT_ENDED
    values = {
        "ExitCode": ended.get("exitCode", 0),
        "Signal": ended.get("signal", 0),
        "Reason": ended.get("reason", ""),
        "Message": ended.get("message", ""),
        "StartedAt": ended.get("startedAt", "0001-01-01 00:00:00 +0000 UTC"),
        "FinishedAt": ended.get("finishedAt", "0001-01-01 00:00:00 +0000 UTC"),
        "ContainerID": ended.get("containerID", ""),
    }
    return "&ContainerStateTerminated{" + "".join(f"{name}:{value}," for name, value in values.items()) + "}"

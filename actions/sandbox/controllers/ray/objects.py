"""The objects that KubeRay makes for a RayCluster besides pods, with the names, labels and sums that it gives.

The head's Service, the PodGroup; replicas of groups, and sums of what containers request.

Source: the real KubeRay 1.1.1 (also `desired*` of the status, `minMember` and `minResources` of the PodGroup).
"""

from __future__ import annotations

from collections.abc import Mapping

from actions.sandbox.clientkit.kinds import Document, owner_reference
from actions.sandbox.model.quantities import sum_quantities

CLUSTER = "ray.io/cluster"
NODE_TYPE = "ray.io/node-type"
GROUP = "ray.io/group"
SCHEDULER = "ray.io/scheduler-name"
PRIORITY_CLASS = "ray.io/priority-class-name"
QUEUE = "volcano.sh/queue-name"
FROM_KIND = "ray.io/originated-from-crd"
FROM_NAME = "ray.io/originated-from-cr-name"
CREATED_BY = {"app.kubernetes.io/created-by": "kuberay-operator"}
HEAD, WORKER, HEAD_GROUP = "head", "worker", "headgroup"
DASHBOARD_PORT_NAME = "dashboard"
_LONGEST = 50


def shortened(name: str) -> str:
    """Return at most the last fifty characters, without a digit or sign in front, so that suffixes can be added."""
    name = name[-_LONGEST:]
    return name if name[:1].isalpha() else "r" + name[1:]


def common_labels(cluster: Document) -> dict[str, str]:
    """The labels of everything that is made for a cluster."""
    return {
        **CREATED_BY,
        "app.kubernetes.io/name": "kuberay",
        CLUSTER: cluster["metadata"]["name"],
    }


def node_labels(cluster: Document, node_type: str) -> dict[str, str]:
    """The labels of the head's Service and, with more, of pods."""
    identifier = f"{cluster['metadata']['name']}-{node_type}"
    return common_labels(cluster) | {"ray.io/identifier": identifier, NODE_TYPE: node_type}


def pod_labels(cluster: Document, node_type: str, group: str, given: dict[str, str]) -> dict[str, str]:
    """The labels of a pod: the template's, and KubeRay's over them."""
    return given | node_labels(cluster, node_type) | {GROUP: group, "ray.io/is-ray-node": "yes"}


def head_service_name(cluster_name: str) -> str:
    """The Service of a cluster's head."""
    return shortened(f"{cluster_name}-head-svc")


def head_host(cluster: Document) -> str:
    """The head's name in the cluster's DNS."""
    metadata = cluster["metadata"]
    return f"{head_service_name(metadata['name'])}.{metadata['namespace']}.svc.cluster.local"


def pod_group_name(cluster: Document) -> str:
    """The PodGroup by which Volcano starts a cluster's pods together."""
    return f"ray-{cluster['metadata']['name']}-pg"


def is_gang(cluster: Document) -> bool:
    """Return whether Volcano is to schedule the cluster's pods."""
    return (cluster["metadata"].get("labels") or {}).get(SCHEDULER) == "volcano"


def groups_of(cluster: Document) -> list[Document]:
    """The worker groups of a RayCluster."""
    return list(cluster["spec"].get("workerGroupSpecs") or ())


def replicas_of(group: Document) -> int:
    """Return the number of replicas that a group is to have: `replicas`, kept within its bounds."""
    least, most = int(group.get("minReplicas") or 0), int(group.get("maxReplicas", 2**31 - 1))
    wanted = group.get("replicas")
    return least if wanted is None else max(least, min(most, int(wanted)))


def pods_of(group: Document) -> int:
    """Return the number of pods that a group is to have."""
    return replicas_of(group) * int(group.get("numOfHosts") or 1)


def desired_pods(cluster: Document) -> int:
    """Return the number of worker pods that the cluster is to have."""
    return sum(map(pods_of, groups_of(cluster)))


def least_replicas(cluster: Document) -> int:
    """The sum of the groups' lower bounds."""
    return sum(int(group.get("minReplicas") or 0) for group in groups_of(cluster))


def most_replicas(cluster: Document) -> int:
    """The sum of the groups' upper bounds."""
    return sum(int(group.get("maxReplicas") or 0) for group in groups_of(cluster))


def desired_resources(cluster: Document) -> dict[str, str]:
    """Return the requests of head and workers together, by name of the resource."""
    amounts = _pod_requests(cluster["spec"]["headGroupSpec"]["template"])
    for group in groups_of(cluster):
        amounts += _pod_requests(group["template"]) * pods_of(group)
    return sum_quantities(amounts)


def _pod_requests(template: Document) -> list[Mapping[str, str]]:
    """Return the requests of each container, limits where nothing is requested; init containers do not count."""
    found: list[Mapping[str, str]] = []
    for container in template["spec"]["containers"]:
        resources = container.get("resources") or {}
        found.append({**(resources.get("limits") or {}), **(resources.get("requests") or {})})
    return found


METRICS_PORT = 8080
_DEFAULT_PORTS = {"client": 10001, "dashboard": 8265, "redis": 6379, "serve": 8000}


def head_service(cluster: Document) -> Document:
    """The Service of the head: the ports that its container names, and the metrics."""
    head = cluster["spec"]["headGroupSpec"]
    container = head["template"]["spec"]["containers"][0]
    named = {port["name"]: int(port["containerPort"]) for port in container.get("ports") or () if port.get("name")}
    ports = {"metrics": METRICS_PORT} | (named or _DEFAULT_PORTS)
    labels = node_labels(cluster, HEAD)
    return {
        "metadata": _owned(cluster, head_service_name(cluster["metadata"]["name"])) | {"labels": labels},
        "spec": {
            "type": head.get("serviceType") or "ClusterIP",
            "selector": {name: value for name, value in labels.items() if name != "ray.io/is-ray-node"},
            "ports": [
                {"name": name, "protocol": "TCP", "appProtocol": "tcp", "port": port, "targetPort": port}
                for name, port in sorted(ports.items())
            ],
        },
    }


def pod_group(cluster: Document) -> Document:
    """The gang: the head and all workers."""
    spec: Document = {"minMember": desired_pods(cluster) + 1, "minResources": desired_resources(cluster)}
    labels = cluster["metadata"].get("labels") or {}
    if QUEUE in labels:
        spec["queue"] = labels[QUEUE]
    if PRIORITY_CLASS in labels:
        spec["priorityClassName"] = labels[PRIORITY_CLASS]
    return {"metadata": _owned(cluster, pod_group_name(cluster)), "spec": spec, "status": {"phase": "Pending"}}


def _owned(cluster: Document, name: str) -> Document:
    return {
        "name": name,
        "namespace": cluster["metadata"]["namespace"],
        "ownerReferences": [owner_reference(cluster)],
    }

"""What KubeRay makes for a RayCluster besides pods: the head's Service, the autoscaler's rights, the PodGroup.

Source: recordings of KubeRay 1.1.1.
"""

from __future__ import annotations

from actions.sandbox.actors.kinds import Document, owner_reference
from actions.sandbox.actors.ray_names import (
    HEAD,
    PRIORITY_CLASS,
    QUEUE,
    common_labels,
    head_service_name,
    node_labels,
    pod_group_name,
    shortened,
)
from actions.sandbox.actors.ray_resources import (
    desired_pods,
    desired_resources,
    is_autoscaled,
    least_replicas,
    least_resources,
)

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


def autoscaler_account_name(cluster: Document) -> str:
    """The service account under which the autoscaler works: the head's own, or one named like the cluster."""
    head = cluster["spec"]["headGroupSpec"]["template"]["spec"]
    return shortened(head.get("serviceAccountName") or cluster["metadata"]["name"])


def autoscaler_account(cluster: Document) -> Document:
    """The ServiceAccount of the autoscaler."""
    return {"metadata": _labelled(cluster, autoscaler_account_name(cluster))}


def autoscaler_role(cluster: Document) -> Document:
    """What the autoscaler may do."""
    return {
        "metadata": _labelled(cluster, shortened(cluster["metadata"]["name"])),
        "rules": [
            {"verbs": ["get", "list", "watch", "patch"], "apiGroups": [""], "resources": ["pods"]},
            {"verbs": ["get", "patch"], "apiGroups": ["ray.io"], "resources": ["rayclusters"]},
        ],
    }


def autoscaler_binding(cluster: Document) -> Document:
    """Role and account of the autoscaler, together."""
    name = shortened(cluster["metadata"]["name"])
    account = {"kind": "ServiceAccount", "name": autoscaler_account_name(cluster)}
    return {
        "metadata": _labelled(cluster, name),
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name},
        "subjects": [account | {"namespace": cluster["metadata"]["namespace"]}],
    }


def pod_group(cluster: Document) -> Document:
    """The gang: the head and all workers; with the autoscaler, the fewest workers."""
    if is_autoscaled(cluster):
        members, resources = least_replicas(cluster) + 1, least_resources(cluster)
    else:
        members, resources = desired_pods(cluster) + 1, desired_resources(cluster)
    spec: Document = {"minMember": members, "minResources": resources}
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


def _labelled(cluster: Document, name: str) -> Document:
    return _owned(cluster, name) | {"labels": common_labels(cluster)}

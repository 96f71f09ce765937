"""How KubeRay names and labels what belongs to a RayCluster.

Source: recordings of KubeRay 1.1.1.
"""

from __future__ import annotations

from actions.sandbox.actors.kinds import Document

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
    """At most the last fifty characters, and no digit or sign in front: what suffixes can be added to."""
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
    """Whether Volcano is to schedule the cluster's pods."""
    return (cluster["metadata"].get("labels") or {}).get(SCHEDULER) == "volcano"

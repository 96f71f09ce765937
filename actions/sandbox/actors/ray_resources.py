"""How much a RayCluster asks for: replicas of its groups, and sums of what their containers request.

Source: recordings of KubeRay 1.1.1 (`desired*` of the status, `minMember` and `minResources` of its PodGroup).
"""

from __future__ import annotations

from collections.abc import Mapping

from actions.sandbox.actors.kinds import Document
from actions.sandbox.quantities import sum_quantities


def groups_of(cluster: Document) -> list[Document]:
    """The worker groups of a RayCluster."""
    return list(cluster["spec"].get("workerGroupSpecs") or ())


def is_autoscaled(cluster: Document) -> bool:
    """Whether Ray's own autoscaler decides on the number of workers."""
    return bool(cluster["spec"].get("enableInTreeAutoscaling"))


def replicas_of(group: Document) -> int:
    """How many replicas a group is to have: within its bounds, whatever `replicas` says."""
    least, most = int(group.get("minReplicas") or 0), int(group.get("maxReplicas", 2**31 - 1))
    wanted = group.get("replicas")
    return least if wanted is None else max(least, min(most, int(wanted)))


def pods_of(group: Document) -> int:
    """How many pods a group is to have."""
    return replicas_of(group) * int(group.get("numOfHosts") or 1)


def desired_pods(cluster: Document) -> int:
    """How many worker pods there are to be."""
    return sum(map(pods_of, groups_of(cluster)))


def least_replicas(cluster: Document) -> int:
    """The sum of the groups' lower bounds."""
    return sum(int(group.get("minReplicas") or 0) for group in groups_of(cluster))


def most_replicas(cluster: Document) -> int:
    """The sum of the groups' upper bounds."""
    return sum(int(group.get("maxReplicas") or 0) for group in groups_of(cluster))


def desired_resources(cluster: Document) -> dict[str, str]:
    """What head and workers request together, by name of the resource."""
    return _resources(cluster, [pods_of(group) for group in groups_of(cluster)])


def least_resources(cluster: Document) -> dict[str, str]:
    """What the head and the fewest workers request together."""
    return _resources(cluster, [int(group.get("minReplicas") or 0) for group in groups_of(cluster)])


def _resources(cluster: Document, counts: list[int]) -> dict[str, str]:
    amounts = _pod_requests(cluster["spec"]["headGroupSpec"]["template"])
    for group, count in zip(groups_of(cluster), counts, strict=True):
        amounts += _pod_requests(group["template"]) * count
    return sum_quantities(amounts)


def _pod_requests(template: Document) -> list[Mapping[str, str]]:
    """Requests of each container, limits where nothing is requested; init containers do not count."""
    found: list[Mapping[str, str]] = []
    for container in template["spec"]["containers"]:
        resources = container.get("resources") or {}
        found.append({**(resources.get("limits") or {}), **(resources.get("requests") or {})})
    return found

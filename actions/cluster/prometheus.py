"""A Prometheus that runs in the cluster: how its pods are known, and whether its operator reads PodMonitors.

Amazon Managed Service for Prometheus has no pods: what writes to it from inside the cluster is not looked for.

Source:
    prometheus-operator (also kube-prometheus-stack): label `app.kubernetes.io/name=prometheus`, container `prometheus`,
    port 9090, governing Service `prometheus-operated`; chart prometheus: the same label and port, container
    `prometheus-server`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from actions.base.errors import AccessError, MissingError
from actions.fleet.facts import PodFacts

if TYPE_CHECKING:
    from actions.cluster.auth.session import KubeSession
    from actions.cluster.objects.client import Discovery

PORT = 9090
LABEL = "app.kubernetes.io/name=prometheus"
MONITORING = "monitoring.coreos.com/v1"
CONTAINERS = frozenset({"prometheus", "prometheus-server"})


def is_prometheus(pod: PodFacts) -> bool:
    """Return whether a pod is a Prometheus, by its containers: no labels are kept of pods."""
    return not CONTAINERS.isdisjoint(pod.containers)


class PrometheusFound(msgspec.Struct, frozen=True):
    """The Prometheus of a cluster."""

    pods: tuple[str, ...] = ()
    """`namespace/name` of those that run, in order."""
    reads_pod_monitors: bool = False
    """The cluster serves PodMonitor: an operator turns those that it selects into targets."""


async def find_prometheus(session: KubeSession, discovery: Discovery) -> PrometheusFound:
    """Look for a Prometheus in all namespaces, or where that is refused in the session's own.

    Raises:
        AccessError: Pods may not be listed.
        UnreachableError: The cluster does not answer.
    """
    from actions.cluster.objects.client import list_objects

    try:
        pods = await list_objects(session, discovery, "v1", "Pod", label_selector=LABEL)
    except AccessError:
        namespace = session.namespace or "default"
        pods = await list_objects(session, discovery, "v1", "Pod", namespace=namespace, label_selector=LABEL)
    return PrometheusFound(tuple(sorted(map(_key, filter(_runs, pods)))), await _is_served(discovery, "PodMonitor"))


def _runs(pod: dict[str, Any]) -> bool:
    """Return whether a pod runs, and a container of it is Prometheus itself: the label is its exporters' too."""
    names = {str(container.get("name")) for container in (pod.get("spec") or {}).get("containers") or ()}
    return not CONTAINERS.isdisjoint(names) and (pod.get("status") or {}).get("phase") == "Running"


def _key(pod: dict[str, Any]) -> str:
    return f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"


async def _is_served(discovery: Discovery, kind: str) -> bool:
    try:
        await discovery.resolve(MONITORING, kind)
    except MissingError:
        return False
    return True

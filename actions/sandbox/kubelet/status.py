"""The status of a pod as a kubelet reports it."""

from __future__ import annotations

from collections.abc import Sequence

from actions.sandbox.actors.kinds import Document
from actions.sandbox.kubelet.container import ContainerRun


def pod_status(
    phase: str,
    init_containers: Sequence[ContainerRun],
    containers: Sequence[ContainerRun],
    *,
    address: str,
    host: str,
    started_at: str,
) -> Document:
    """The whole status, its conditions without times.

    Args:
        phase: Pending, Running, Succeeded or Failed.
        init_containers: Of the pod, in order.
        containers: Of the pod, in order.
        address: The pod's IPv4 address, empty before it has one.
        host: The node's IPv4 address.
        started_at: When the kubelet took the pod.
    """
    is_over = phase in ("Succeeded", "Failed")
    is_ready = not is_over and bool(containers) and all(container.is_running for container in containers)
    is_initialised = is_over or all(container.exit_code == 0 for container in init_containers)
    reason = {"Succeeded": "PodCompleted", "Failed": "PodFailed"}.get(phase, "" if is_ready else "ContainersNotReady")
    wanted = {
        "PodReadyToStartContainers": (bool(address) and not is_over, ""),
        "Initialized": (is_initialised, "PodCompleted" if phase == "Succeeded" else ""),
        "Ready": (is_ready, reason),
        "ContainersReady": (is_ready, reason),
        "PodScheduled": (True, ""),
    }
    status: Document = {
        "phase": phase,
        "conditions": [_condition(name, *value) for name, value in wanted.items()],
        "hostIP": host,
        "hostIPs": [{"ip": host}],
        "startTime": started_at,
        "containerStatuses": [container.status() for container in containers],
    }
    if address:
        status |= {"podIP": address, "podIPs": [{"ip": address}]}
    if init_containers:
        status["initContainerStatuses"] = [container.status() for container in init_containers]
    return status


def note_transitions(status: Document, now: str, transitions: dict[str, tuple[str, str]]) -> None:
    """Give the conditions of a status the time at which they last changed.

    Args:
        status: Changed in place.
        now: Kubernetes' timestamp.
        transitions: Condition → its last status and since when; hand in the same one each time.
    """
    for condition in status["conditions"]:
        known = transitions.get(condition["type"])
        if known is None or known[0] != condition["status"]:
            transitions[condition["type"]] = (condition["status"], now)
        condition["lastTransitionTime"] = transitions[condition["type"]][1]


def _condition(name: str, is_true: bool, reason: str) -> Document:
    condition: Document = {"type": name, "status": "True" if is_true else "False", "lastProbeTime": None}
    if reason:
        condition["reason"] = reason
    if name in ("Ready", "ContainersReady") and not is_true and reason == "ContainersNotReady":
        condition["message"] = "containers are not ready"
    return condition

"""What the status of what serves says: whether it is ready, and what it waits for.

Source: the kinds' own controllers (apps/v1, core/v1, apiextensions.k8s.io/v1, karpenter v1).
"""

from __future__ import annotations

from actions.cluster.verdict import (
    Object,
    Rules,
    Verdict,
    WorkState,
    condition_of,
    is_observed,
    spec_of,
    status_of,
    verdict,
)


def _deployment(document: Object) -> Verdict:
    if not is_observed(document):
        return verdict(WorkState.WAITING, reason="NotObserved")
    spec, status = spec_of(document), status_of(document)
    progressing = condition_of(document, "Progressing")
    if progressing is not None and progressing.get("reason") == "ProgressDeadlineExceeded":
        return verdict(WorkState.FAILED, progressing)
    if spec.get("paused"):
        return verdict(WorkState.WAITING, reason="Paused")
    wanted = int(spec.get("replicas", 1))
    updated, total = int(status.get("updatedReplicas") or 0), int(status.get("replicas") or 0)
    available = int(status.get("availableReplicas") or 0)
    is_ready = updated >= wanted and total <= updated and available >= wanted
    message = f"{available} of {wanted} replicas are available."
    return verdict(WorkState.RUNNING if is_ready else WorkState.WAITING, reason="Available", message=message)


def _stateful_set(document: Object) -> Verdict:
    wanted, ready = int(spec_of(document).get("replicas", 1)), int(status_of(document).get("readyReplicas") or 0)
    is_ready = is_observed(document) and ready >= wanted
    return verdict(
        WorkState.RUNNING if is_ready else WorkState.WAITING, message=f"{ready} of {wanted} replicas are ready."
    )


def _daemon_set(document: Object) -> Verdict:
    if not is_observed(document):
        return verdict(WorkState.WAITING, reason="NotObserved")
    status = status_of(document)
    wanted = int(status.get("desiredNumberScheduled") or 0)
    if wanted == 0:
        return verdict(WorkState.RUNNING, reason="NoNodes", message="It runs on 0 nodes: no node matches.")
    updated, available = int(status.get("updatedNumberScheduled") or 0), int(status.get("numberAvailable") or 0)
    is_ready = updated >= wanted and available >= wanted
    message = f"{available} of {wanted} nodes run it."
    return verdict(WorkState.RUNNING if is_ready else WorkState.WAITING, reason="Available", message=message)


def _claim(document: Object) -> Verdict:
    match str(status_of(document).get("phase") or ""):
        case "Bound":
            return verdict(WorkState.RUNNING, reason="Bound")
        case "Lost":
            return verdict(WorkState.FAILED, reason="Lost", message="Its volume is gone.")
    return verdict(WorkState.WAITING, reason="Pending", message="It has no volume; some wait for their first pod.")


_SCHEDULED = "PodScheduled"


def _pod(document: Object) -> Verdict:
    status = status_of(document)
    phase = str(status.get("phase") or "")
    if phase == "Succeeded":
        return verdict(WorkState.FINISHED, reason="Completed")
    if phase == "Failed":
        ended = _container_state(status, "terminated")
        return verdict(WorkState.FAILED, status if status.get("reason") else ended, reason="Failed")
    waiting = _container_state(status, "waiting")
    reason = str((waiting or {}).get("reason") or "")
    if reason.startswith("Err") or reason.endswith(("Error", "BackOff")):
        return verdict(WorkState.FAILED, waiting)
    ready = condition_of(document, "Ready")
    if phase == "Running" and ready is not None and ready.get("status") == "True":
        return verdict(WorkState.RUNNING)
    scheduled = condition_of(document, _SCHEDULED)
    if scheduled is not None and scheduled.get("status") == "False":
        return verdict(WorkState.WAITING, scheduled)
    return verdict(WorkState.WAITING, waiting, reason=phase or "Pending")


def _container_state(status: Object, name: str) -> Object | None:
    """The first container that is in that state for a reason; `Completed` is no reason."""
    for entry in (*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())):
        state: Object | None = (entry.get("state") or {}).get(name)
        if state and state.get("reason") != "Completed":
            return state
    return None


def _ready_condition(document: Object) -> Verdict:
    ready = condition_of(document, "Ready")
    if ready is not None and ready.get("status") == "True":
        return verdict(WorkState.RUNNING, ready)
    return verdict(WorkState.WAITING, ready, reason="NotReady")


def _node_claim(document: Object) -> Verdict:
    for kind in ("Launched", "Registered", "Initialized"):
        condition = condition_of(document, kind)
        if condition is not None and condition.get("status") == "False":
            return verdict(WorkState.WAITING, condition, reason=f"Not{kind}")
    return _ready_condition(document)


def _definition(document: Object) -> Verdict:
    established = condition_of(document, "Established")
    if established is not None and established.get("status") == "True":
        return verdict(WorkState.RUNNING, established)
    refused = condition_of(document, "NamesAccepted")
    if refused is not None and refused.get("status") == "False":
        return verdict(WorkState.FAILED, refused)
    return verdict(WorkState.WAITING, established, reason="NotEstablished")


def _namespace(document: Object) -> Verdict:
    is_active = status_of(document).get("phase") == "Active"
    return verdict(
        WorkState.RUNNING if is_active else WorkState.WAITING, reason=str(status_of(document).get("phase", ""))
    )


READY_RULES: Rules = {
    ("apps", "Deployment"): _deployment,
    ("apps", "StatefulSet"): _stateful_set,
    ("apps", "DaemonSet"): _daemon_set,
    ("", "PersistentVolumeClaim"): _claim,
    ("", "Pod"): _pod,
    ("", "Node"): _ready_condition,
    ("", "Namespace"): _namespace,
    ("karpenter.sh", "NodeClaim"): _node_claim,
    ("karpenter.sh", "NodePool"): _ready_condition,
    ("karpenter.k8s.aws", "EC2NodeClass"): _ready_condition,
    ("apiextensions.k8s.io", "CustomResourceDefinition"): _definition,
}

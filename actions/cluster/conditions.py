"""What an object's status says about its work: one verdict per object, from the rules of each kind.

Source: the kinds' own controllers (batch/v1 Job, training-operator 1.8, mpi-operator 0.6, KubeRay 1.1, apps/v1,
karpenter v1) and Kueue's `Finished()`. An object that is gone has no verdict here: whether gone means success
(a TTL) is known only to who watched it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

from actions.base.untrusted import one_line

Object = Mapping[str, Any]


class WorkState(Enum):
    """Where a piece of work is. Infrastructure that serves (Deployment, PVC, Node) is *running* when it is ready."""

    FINISHED = "finished"
    FAILED = "failed"
    RUNNING = "running"
    WAITING = "waiting"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Verdict:
    """A state with the API's own reason and message, cleaned; both may be empty."""

    state: WorkState
    reason: str = ""
    message: str = ""

    @property
    def is_final(self) -> bool:
        """Whether the object will not change its state by itself any more."""
        return self.state in (WorkState.FINISHED, WorkState.FAILED)


def verdict_of(document: Object) -> Verdict:
    """The verdict on any object, by its `apiVersion` and `kind`; `UNKNOWN` for kinds without a rule."""
    kind = str(document.get("kind", ""))
    group = str(document.get("apiVersion", "")).rpartition("/")[0]
    rule = _RULES.get((group, kind))
    if rule is None:
        return Verdict(WorkState.UNKNOWN, "NoRule", f"No rule for {one_line(kind)} of {one_line(group) or 'v1'}.")
    if (document.get("metadata") or {}).get("deletionTimestamp"):
        verdict = rule(document)
        return verdict if verdict.is_final else Verdict(WorkState.WAITING, "Terminating", "It is being deleted.")
    return rule(document)


def condition_of(document: Object, kind: str) -> Object | None:
    """The condition of that type, true or not, or `None`."""
    found = (entry for entry in _status(document).get("conditions") or () if entry.get("type") == kind)
    return next(found, None)


def _status(document: Object) -> Object:
    return document.get("status") or {}


def _spec(document: Object) -> Object:
    return document.get("spec") or {}


def _verdict(state: WorkState, source: Object | None = None, *, reason: str = "", message: str = "") -> Verdict:
    source = source or {}
    return Verdict(
        state,
        one_line(str(source.get("reason") or reason)),
        one_line(str(source.get("message") or message), limit=1000),
    )


def _is_observed(document: Object) -> bool:
    """Whether the status is about the present spec."""
    observed = _status(document).get("observedGeneration")
    generation = (document.get("metadata") or {}).get("generation")
    return observed is None or generation is None or int(observed) >= int(generation)


def _first_true(document: Object, steps: Sequence[tuple[str, WorkState]]) -> Verdict | None:
    for kind, state in steps:
        condition = condition_of(document, kind)
        if condition is not None and condition.get("status") == "True":
            return _verdict(state, condition, reason=kind)
    return None


_JOB_STEPS = (
    ("Complete", WorkState.FINISHED),
    ("Failed", WorkState.FAILED),
    ("Suspended", WorkState.WAITING),
)
_KUBEFLOW_STEPS = (
    ("Succeeded", WorkState.FINISHED),
    ("Failed", WorkState.FAILED),
    ("Suspended", WorkState.WAITING),
    ("Restarting", WorkState.WAITING),
    ("Running", WorkState.RUNNING),
    ("Created", WorkState.WAITING),
)


def _job(document: Object) -> Verdict:
    found = _first_true(document, _JOB_STEPS)
    if found is not None:
        return found
    status = _status(document)
    if status.get("ready"):
        return _verdict(WorkState.RUNNING)
    if status.get("active"):
        return _verdict(WorkState.WAITING, reason="PodsNotReady", message="Its pods have not become ready.")
    return _verdict(WorkState.WAITING, reason="NoPods", message="It has no pods.")


def _kubeflow_job(document: Object) -> Verdict:
    return _first_true(document, _KUBEFLOW_STEPS) or _verdict(
        WorkState.WAITING, reason="NotSeen", message="Its operator has not taken it up."
    )


_STEPS_OF_OTHERS = (
    ("Complete", WorkState.FINISHED),
    ("Completed", WorkState.FINISHED),
    ("Failed", WorkState.FAILED),
    ("Suspended", WorkState.WAITING),
    ("StartupPolicyInProgress", WorkState.WAITING),
    ("RestartingJobSet", WorkState.WAITING),
)


def _job_set(document: Object) -> Verdict:
    """A JobSet or a TrainJob: no condition says that it runs, only the counts of its jobs."""
    found = _first_true(document, _STEPS_OF_OTHERS)
    if found is not None:
        return found
    status = _status(document)
    jobs = [*(status.get("replicatedJobsStatus") or ()), *(status.get("jobsStatus") or ())]
    runs = any(entry.get("active") or entry.get("ready") for entry in jobs)
    return _verdict(WorkState.RUNNING if runs else WorkState.WAITING, reason="Active" if runs else "NoJobs")


_VOLCANO_PHASES = {
    "Completed": WorkState.FINISHED,
    "Failed": WorkState.FAILED,
    "Terminated": WorkState.FAILED,
    "Running": WorkState.RUNNING,
    "Completing": WorkState.RUNNING,
}


def _volcano_job(document: Object) -> Verdict:
    """Aborted is waiting: `vsuspend` does that, and it can be resumed."""
    state = _status(document).get("state") or {}
    phase = str(state.get("phase") or "")
    return _verdict(_VOLCANO_PHASES.get(phase, WorkState.WAITING), state, reason=phase or "NotSeen")


def _pod_group(document: Object) -> Verdict:
    """The phase decides: an `Unschedulable` of an earlier wait stays true beside a gang that runs."""
    phase = str(_status(document).get("phase") or "")
    if phase == "Completed":
        return _verdict(WorkState.FINISHED, reason=phase)
    if phase == "Running":
        return _verdict(WorkState.RUNNING, reason=phase)
    unschedulable = condition_of(document, "Unschedulable")
    is_told = unschedulable is not None and unschedulable.get("status") == "True"
    return _verdict(WorkState.WAITING, unschedulable if is_told else None, reason=phase or "NotSeen")


def _kueue_workload(document: Object) -> Verdict:
    finished = condition_of(document, "Finished")
    if finished is not None and finished.get("status") == "True":
        has_failed = "fail" in str(finished.get("reason") or "").lower()
        return _verdict(WorkState.FAILED if has_failed else WorkState.FINISHED, finished)
    admitted = _first_true(document, (("Admitted", WorkState.RUNNING),))
    if admitted is not None:
        return admitted
    reserved = condition_of(document, "QuotaReserved")
    return _verdict(WorkState.WAITING, reserved, reason="NotAdmitted")


_RAY_FAILED_RUNS = frozenset({"FAILED", "STOPPED"})


def _ray_job(document: Object) -> Verdict:
    status = _status(document)
    deployment, job = str(status.get("jobDeploymentStatus") or ""), str(status.get("jobStatus") or "")
    words = {"reason": job or deployment, "message": str(status.get("message") or "")}
    match deployment:
        case "Complete" if job == "SUCCEEDED":
            return _verdict(WorkState.FINISHED, status, **words)
        case "Complete" if job in _RAY_FAILED_RUNS:
            return _verdict(WorkState.FAILED, status, **words)
        case "Failed" | "ValidationFailed":
            return _verdict(WorkState.FAILED, status, **words)
        case "Running":
            return _verdict(WorkState.RUNNING, status, **words)
        case "Complete":
            return _verdict(WorkState.UNKNOWN, status, **words)
    return _verdict(WorkState.WAITING, status, reason=deployment or "NotSeen")


def _ray_cluster(document: Object) -> Verdict:
    failed = _first_true(document, (("ReplicaFailure", WorkState.FAILED),))
    if failed is not None:
        return failed
    status = _status(document)
    state = str(status.get("state") or "")
    if state == "failed":
        return _verdict(WorkState.FAILED, reason="failed", message=str(status.get("reason") or ""))
    head = condition_of(document, "HeadPodReady")
    if head is not None and head.get("status") != "True":
        return _verdict(WorkState.WAITING, head)
    return _verdict(WorkState.RUNNING if state == "ready" else WorkState.WAITING, reason=state or "NotSeen")


def _deployment(document: Object) -> Verdict:
    if not _is_observed(document):
        return _verdict(WorkState.WAITING, reason="NotObserved")
    spec, status = _spec(document), _status(document)
    progressing = condition_of(document, "Progressing")
    if progressing is not None and progressing.get("reason") == "ProgressDeadlineExceeded":
        return _verdict(WorkState.FAILED, progressing)
    if spec.get("paused"):
        return _verdict(WorkState.WAITING, reason="Paused")
    wanted = int(spec.get("replicas", 1))
    updated, total = int(status.get("updatedReplicas") or 0), int(status.get("replicas") or 0)
    available = int(status.get("availableReplicas") or 0)
    is_ready = updated >= wanted and total <= updated and available >= wanted
    message = f"{available} of {wanted} replicas are available."
    return _verdict(WorkState.RUNNING if is_ready else WorkState.WAITING, reason="Available", message=message)


def _stateful_set(document: Object) -> Verdict:
    wanted, ready = int(_spec(document).get("replicas", 1)), int(_status(document).get("readyReplicas") or 0)
    is_ready = _is_observed(document) and ready >= wanted
    return _verdict(
        WorkState.RUNNING if is_ready else WorkState.WAITING, message=f"{ready} of {wanted} replicas are ready."
    )


def _daemon_set(document: Object) -> Verdict:
    if not _is_observed(document):
        return _verdict(WorkState.WAITING, reason="NotObserved")
    status = _status(document)
    wanted = int(status.get("desiredNumberScheduled") or 0)
    if wanted == 0:
        return _verdict(WorkState.RUNNING, reason="NoNodes", message="It runs on 0 nodes: no node matches.")
    updated, available = int(status.get("updatedNumberScheduled") or 0), int(status.get("numberAvailable") or 0)
    is_ready = updated >= wanted and available >= wanted
    message = f"{available} of {wanted} nodes run it."
    return _verdict(WorkState.RUNNING if is_ready else WorkState.WAITING, reason="Available", message=message)


def _claim(document: Object) -> Verdict:
    match str(_status(document).get("phase") or ""):
        case "Bound":
            return _verdict(WorkState.RUNNING, reason="Bound")
        case "Lost":
            return _verdict(WorkState.FAILED, reason="Lost", message="Its volume is gone.")
    return _verdict(WorkState.WAITING, reason="Pending", message="It has no volume; some wait for their first pod.")


_SCHEDULED = "PodScheduled"


def _pod(document: Object) -> Verdict:
    status = _status(document)
    phase = str(status.get("phase") or "")
    if phase == "Succeeded":
        return _verdict(WorkState.FINISHED, reason="Completed")
    if phase == "Failed":
        ended = _container_state(status, "terminated")
        return _verdict(WorkState.FAILED, status if status.get("reason") else ended, reason="Failed")
    waiting = _container_state(status, "waiting")
    reason = str((waiting or {}).get("reason") or "")
    if reason.startswith("Err") or reason.endswith(("Error", "BackOff")):
        return _verdict(WorkState.FAILED, waiting)
    ready = condition_of(document, "Ready")
    if phase == "Running" and ready is not None and ready.get("status") == "True":
        return _verdict(WorkState.RUNNING)
    scheduled = condition_of(document, _SCHEDULED)
    if scheduled is not None and scheduled.get("status") == "False":
        return _verdict(WorkState.WAITING, scheduled)
    return _verdict(WorkState.WAITING, waiting, reason=phase or "Pending")


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
        return _verdict(WorkState.RUNNING, ready)
    return _verdict(WorkState.WAITING, ready, reason="NotReady")


def _node_claim(document: Object) -> Verdict:
    for kind in ("Launched", "Registered", "Initialized"):
        condition = condition_of(document, kind)
        if condition is not None and condition.get("status") == "False":
            return _verdict(WorkState.WAITING, condition, reason=f"Not{kind}")
    return _ready_condition(document)


def _definition(document: Object) -> Verdict:
    established = condition_of(document, "Established")
    if established is not None and established.get("status") == "True":
        return _verdict(WorkState.RUNNING, established)
    refused = condition_of(document, "NamesAccepted")
    if refused is not None and refused.get("status") == "False":
        return _verdict(WorkState.FAILED, refused)
    return _verdict(WorkState.WAITING, established, reason="NotEstablished")


def _namespace(document: Object) -> Verdict:
    is_active = _status(document).get("phase") == "Active"
    return _verdict(
        WorkState.RUNNING if is_active else WorkState.WAITING, reason=str(_status(document).get("phase", ""))
    )


def _volcano_queue(document: Object) -> Verdict:
    state = str(_status(document).get("state") or "")
    return _verdict(WorkState.RUNNING if state == "Open" else WorkState.WAITING, reason=state or "NotSeen")


def _present(document: Object) -> Verdict:
    """For kinds that are data: that they exist is all there is to say."""
    return _verdict(WorkState.RUNNING, reason="Present")


_Rule = Callable[[Object], Verdict]

_WORK: dict[tuple[str, str], _Rule] = {
    ("batch", "Job"): _job,
    ("kubeflow.org", "PyTorchJob"): _kubeflow_job,
    ("kubeflow.org", "MPIJob"): _kubeflow_job,
    ("ray.io", "RayJob"): _ray_job,
    ("ray.io", "RayCluster"): _ray_cluster,
    ("trainer.kubeflow.org", "TrainJob"): _job_set,
    ("jobset.x-k8s.io", "JobSet"): _job_set,
    ("batch.volcano.sh", "Job"): _volcano_job,
    ("scheduling.volcano.sh", "PodGroup"): _pod_group,
    ("scheduling.volcano.sh", "Queue"): _volcano_queue,
    ("kueue.x-k8s.io", "Workload"): _kueue_workload,
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
_DATA: dict[tuple[str, str], _Rule] = dict.fromkeys(
    (
        ("", "ConfigMap"),
        ("", "Secret"),
        ("", "Service"),
        ("", "ServiceAccount"),
        ("storage.k8s.io", "StorageClass"),
        ("rbac.authorization.k8s.io", "ClusterRole"),
        ("rbac.authorization.k8s.io", "ClusterRoleBinding"),
        ("rbac.authorization.k8s.io", "Role"),
        ("rbac.authorization.k8s.io", "RoleBinding"),
    ),
    _present,
)
_RULES = _WORK | _DATA

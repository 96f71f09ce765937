"""The status of any object, by the rules of its kind: waiting, running, finished or failed.

An object that is gone has no status here: whether gone means success (a TTL) is known only to the watcher.

Source: the kinds' own controllers (apps/v1, core/v1, apiextensions.k8s.io/v1, karpenter v1, batch/v1 Job,
training-operator 1.8, mpi-operator 0.6, KubeRay 1.1, Volcano) and Kueue's `Finished()`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from typing import Any

import msgspec

from actions.base.untrusted import one_line
from actions.cluster.kinds import LOST_UPDATE

Object = Mapping[str, Any]


class WorkState(Enum):
    """The state of a piece of work. Infrastructure (Deployment, PVC, Node) is *running* when it is ready."""

    FINISHED = "finished"
    FAILED = "failed"
    RUNNING = "running"
    WAITING = "waiting"
    UNKNOWN = "unknown"


class ObjectStatus(msgspec.Struct, frozen=True):
    """A state with the API's own reason and message, cleaned; both may be empty."""

    state: WorkState
    reason: str = ""
    message: str = ""

    @property
    def is_final(self) -> bool:
        """Return whether the object will not change its state by itself any more."""
        return self.state in (WorkState.FINISHED, WorkState.FAILED)

    def words(self) -> str:
        """Return `reason: message`, or the one of both that there is."""
        return ": ".join(part for part in (self.reason, self.message) if part)


NO_RULE = "NoRule"
"""The reason of the status of a kind that has no rule."""
Rule = Callable[[Object], ObjectStatus]
"""Reads the objects of one kind."""
Rules = Mapping[tuple[str, str], Rule]
"""By API group and kind."""


def condition_of(document: Object, kind: str) -> Object | None:
    """Return the condition of that type, true or not; `None` if there is none."""
    found = (entry for entry in status_of(document).get("conditions") or () if entry.get("type") == kind)
    return next(found, None)


def status_of(document: Object) -> Object:
    """Return the object's status; empty if there is none."""
    return document.get("status") or {}


def spec_of(document: Object) -> Object:
    """Return the object's spec; empty if there is none."""
    return document.get("spec") or {}


def _replicas(document: Object) -> int:
    """Return the number of replicas that are wanted; 1 where there is none, or null, which is the default."""
    asked = spec_of(document).get("replicas")
    return 1 if asked is None else int(asked)


def status_from(state: WorkState, source: Object | None = None, *, reason: str = "", message: str = "") -> ObjectStatus:
    """Return a status with the reason and message of a condition or status, or with the given ones if it has none."""
    source = source or {}
    return ObjectStatus(
        state,
        one_line(str(source.get("reason") or reason)),
        one_line(str(source.get("message") or message), limit=1000),
    )


def is_observed(document: Object) -> bool:
    """Return whether the status is about the present spec."""
    observed = status_of(document).get("observedGeneration")
    generation = (document.get("metadata") or {}).get("generation")
    return observed is None or generation is None or int(observed) >= int(generation)


def first_true(document: Object, steps: Sequence[tuple[str, WorkState]]) -> ObjectStatus | None:
    """Return the status by the first condition that is true, in the order of `steps`; `None` if none is."""
    for kind, state in steps:
        condition = condition_of(document, kind)
        if condition is not None and condition.get("status") == "True":
            return status_from(state, condition, reason=kind)
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


def _job(document: Object) -> ObjectStatus:
    found = first_true(document, _JOB_STEPS)
    if found is not None:
        return found
    status = status_of(document)
    if status.get("ready"):
        return status_from(WorkState.RUNNING)
    if status.get("active"):
        return status_from(WorkState.WAITING, reason="PodsNotReady", message="Its pods have not become ready.")
    return status_from(WorkState.WAITING, reason="NoPods", message="It has no pods.")


def _kubeflow_job(document: Object) -> ObjectStatus:
    return first_true(document, _KUBEFLOW_STEPS) or _NOT_SEEN


def _hyperpod_job(document: Object) -> ObjectStatus:
    """Judge a job of HyperPod: its newest true condition counts, and those before it stay true."""
    conditions = status_of(document).get("conditions") or ()
    newest = next((one for one in reversed(conditions) if one.get("status") == "True"), None)
    if newest is None:
        return _NOT_SEEN
    state = _HYPERPOD_STATES.get(str(newest.get("type")), WorkState.WAITING)
    return status_from(state, newest, reason=str(newest.get("type")))


_HYPERPOD_STATES = {
    "Complete": WorkState.FINISHED,
    "Completed": WorkState.FINISHED,
    "Succeeded": WorkState.FINISHED,
    "Failed": WorkState.FAILED,
    "Running": WorkState.RUNNING,
}
_NOT_SEEN = status_from(WorkState.WAITING, reason="NotSeen", message="Its operator has not reacted to it.")


_STEPS_OF_OTHERS = (
    ("Complete", WorkState.FINISHED),
    ("Completed", WorkState.FINISHED),
    ("Failed", WorkState.FAILED),
    ("Suspended", WorkState.WAITING),
    ("StartupPolicyInProgress", WorkState.WAITING),
    ("RestartingJobSet", WorkState.WAITING),
)


def _job_set(document: Object) -> ObjectStatus:
    """Judge a JobSet or a TrainJob: only the counts of its jobs show that it runs, no condition does."""
    found = first_true(document, _STEPS_OF_OTHERS)
    if found is not None:
        return found
    status = status_of(document)
    jobs = [*(status.get("replicatedJobsStatus") or ()), *(status.get("jobsStatus") or ())]
    runs = any(entry.get("active") or entry.get("ready") for entry in jobs)
    return status_from(WorkState.RUNNING if runs else WorkState.WAITING, reason="Active" if runs else "NoJobs")


def _leader_worker_set(document: Object) -> ObjectStatus:
    """Judge a LeaderWorkerSet, which never ends: it runs once all its groups are ready."""
    wanted, ready = _replicas(document), int(status_of(document).get("readyReplicas") or 0)
    if not status_of(document):
        return _NOT_SEEN
    message = f"{ready} of {wanted} groups are ready."
    return status_from(WorkState.RUNNING if ready >= wanted > 0 else WorkState.WAITING, message=message)


_VOLCANO_PHASES = {
    "Completed": WorkState.FINISHED,
    "Failed": WorkState.FAILED,
    "Terminated": WorkState.FAILED,
    "Running": WorkState.RUNNING,
    "Completing": WorkState.RUNNING,
}


def _volcano_job(document: Object) -> ObjectStatus:
    """Judge a Job of Volcano. Aborted is waiting: `vsuspend` does that, and it can be resumed."""
    state = status_of(document).get("state") or {}
    phase = str(state.get("phase") or "")
    return status_from(_VOLCANO_PHASES.get(phase, WorkState.WAITING), state, reason=phase) if phase else _NOT_SEEN


def _pod_group(document: Object) -> ObjectStatus:
    """Judge a PodGroup by its phase: an `Unschedulable` of an earlier wait stays true while the gang runs."""
    phase = str(status_of(document).get("phase") or "")
    if phase == "Completed":
        return status_from(WorkState.FINISHED, reason=phase)
    if phase == "Running":
        return status_from(WorkState.RUNNING, reason=phase)
    unschedulable = condition_of(document, "Unschedulable")
    is_unschedulable = unschedulable is not None and unschedulable.get("status") == "True"
    if is_unschedulable or phase:
        return status_from(WorkState.WAITING, unschedulable if is_unschedulable else None, reason=phase)
    return _NOT_SEEN


def _kueue_workload(document: Object) -> ObjectStatus:
    finished = condition_of(document, "Finished")
    if finished is not None and finished.get("status") == "True":
        has_failed = "fail" in str(finished.get("reason") or "").lower()
        return status_from(WorkState.FAILED if has_failed else WorkState.FINISHED, finished)
    admitted = first_true(document, (("Admitted", WorkState.RUNNING),))
    if admitted is not None:
        return admitted
    reserved = condition_of(document, "QuotaReserved")
    return status_from(WorkState.WAITING, reserved, reason="NotAdmitted")


_RAY_FAILED_RUNS = frozenset({"FAILED", "STOPPED"})


def _ray_job(document: Object) -> ObjectStatus:
    status = status_of(document)
    deployment, job = str(status.get("jobDeploymentStatus") or ""), str(status.get("jobStatus") or "")
    words = {"reason": job or deployment, "message": str(status.get("message") or "")}
    match deployment:
        case "Complete" if job == "SUCCEEDED":
            return status_from(WorkState.FINISHED, status, **words)
        case "Complete" if job in _RAY_FAILED_RUNS:
            return status_from(WorkState.FAILED, status, **words)
        case "Failed" | "ValidationFailed":
            return status_from(WorkState.FAILED, status, **words)
        case "Running":
            return status_from(WorkState.RUNNING, status, **words)
        case "Complete":
            return status_from(WorkState.UNKNOWN, status, **words)
    return status_from(WorkState.WAITING, status, reason=deployment) if deployment else _NOT_SEEN


def _ray_cluster(document: Object) -> ObjectStatus:
    failed = first_true(document, (("ReplicaFailure", WorkState.FAILED),))
    if failed is not None:
        return failed
    status = status_of(document)
    state, reason = (str(status.get(name) or "") for name in ("state", "reason"))
    if state == "failed" and reason and LOST_UPDATE not in reason:  # which is written after the state, or never
        return status_from(WorkState.FAILED, reason="failed", message=reason)
    head = condition_of(document, "HeadPodReady")
    if head is not None and head.get("status") != "True":
        return status_from(WorkState.WAITING, head)
    if state == "ready":
        return status_from(WorkState.RUNNING, reason=state)
    wanted, there = (int(status.get(f"{name}WorkerReplicas") or 0) for name in ("desired", "available"))
    if wanted:
        return status_from(WorkState.WAITING, reason="WorkersNotReady", message=f"{there} of {wanted} workers run.")
    return status_from(WorkState.WAITING, reason=state) if state else _NOT_SEEN


def _volcano_queue(document: Object) -> ObjectStatus:
    state = str(status_of(document).get("state") or "")
    return (
        status_from(WorkState.RUNNING if state == "Open" else WorkState.WAITING, reason=state) if state else _NOT_SEEN
    )


JOB_RULES: Rules = {
    ("batch", "Job"): _job,
    ("kubeflow.org", "PyTorchJob"): _kubeflow_job,
    ("kubeflow.org", "TFJob"): _kubeflow_job,
    ("kubeflow.org", "MPIJob"): _kubeflow_job,
    ("ray.io", "RayJob"): _ray_job,
    ("ray.io", "RayCluster"): _ray_cluster,
    ("trainer.kubeflow.org", "TrainJob"): _job_set,
    ("jobset.x-k8s.io", "JobSet"): _job_set,
    ("batch.volcano.sh", "Job"): _volcano_job,
    ("leaderworkerset.x-k8s.io", "LeaderWorkerSet"): _leader_worker_set,
    ("sagemaker.amazonaws.com", "HyperPodPyTorchJob"): _hyperpod_job,
    ("scheduling.volcano.sh", "PodGroup"): _pod_group,
    ("scheduling.volcano.sh", "Queue"): _volcano_queue,
    ("kueue.x-k8s.io", "Workload"): _kueue_workload,
}


def _deployment(document: Object) -> ObjectStatus:
    if not is_observed(document):
        return status_from(WorkState.WAITING, reason="NotObserved")
    spec, status = spec_of(document), status_of(document)
    progressing = condition_of(document, "Progressing")
    if progressing is not None and progressing.get("reason") == "ProgressDeadlineExceeded":
        return status_from(WorkState.FAILED, progressing)
    if spec.get("paused"):
        return status_from(WorkState.WAITING, reason="Paused")
    wanted = _replicas(document)
    updated, total = int(status.get("updatedReplicas") or 0), int(status.get("replicas") or 0)
    available = int(status.get("availableReplicas") or 0)
    is_ready = updated >= wanted and total <= updated and available >= wanted
    message = f"{available} of {wanted} replicas are available."
    return status_from(WorkState.RUNNING if is_ready else WorkState.WAITING, reason="Available", message=message)


def _stateful_set(document: Object) -> ObjectStatus:
    wanted, ready = _replicas(document), int(status_of(document).get("readyReplicas") or 0)
    is_ready = is_observed(document) and ready >= wanted
    return status_from(
        WorkState.RUNNING if is_ready else WorkState.WAITING, message=f"{ready} of {wanted} replicas are ready."
    )


def _daemon_set(document: Object) -> ObjectStatus:
    if not is_observed(document):
        return status_from(WorkState.WAITING, reason="NotObserved")
    status = status_of(document)
    wanted = int(status.get("desiredNumberScheduled") or 0)
    if wanted == 0:
        return status_from(WorkState.RUNNING, reason="NoNodes", message="It runs on 0 nodes: no node matches.")
    updated, available = int(status.get("updatedNumberScheduled") or 0), int(status.get("numberAvailable") or 0)
    is_ready = updated >= wanted and available >= wanted
    message = f"{available} of {wanted} nodes run it."
    return status_from(WorkState.RUNNING if is_ready else WorkState.WAITING, reason="Available", message=message)


def _claim(document: Object) -> ObjectStatus:
    match str(status_of(document).get("phase") or ""):
        case "Bound":
            return status_from(WorkState.RUNNING, reason="Bound")
        case "Lost":
            return status_from(WorkState.FAILED, reason="Lost", message="Its volume is gone.")
    return status_from(
        WorkState.WAITING, reason="Pending", message="It has no volume yet; some get one with their first pod."
    )


_SCHEDULED = "PodScheduled"


def _pod(document: Object) -> ObjectStatus:
    status = status_of(document)
    phase = str(status.get("phase") or "")
    if phase == "Succeeded":
        return status_from(WorkState.FINISHED, reason="Completed")
    if phase == "Failed":
        ended = _container_state(status, "terminated")
        return status_from(WorkState.FAILED, status if status.get("reason") else ended, reason="Failed")
    waiting = _container_state(status, "waiting")
    reason = str((waiting or {}).get("reason") or "")
    if reason.startswith("Err") or reason.endswith(("Error", "BackOff")):
        return status_from(WorkState.FAILED, waiting)
    ready = condition_of(document, "Ready")
    if phase == "Running" and ready is not None and ready.get("status") == "True":
        return status_from(WorkState.RUNNING)
    scheduled = condition_of(document, _SCHEDULED)
    if scheduled is not None and scheduled.get("status") == "False":
        return status_from(WorkState.WAITING, scheduled)
    return status_from(WorkState.WAITING, waiting, reason=phase or "Pending")


def _container_state(status: Object, name: str) -> Object | None:
    """Return the first container's state of that name with a reason other than `Completed`; `None` if there is none."""
    for entry in (*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())):
        state: Object | None = (entry.get("state") or {}).get(name)
        if state and state.get("reason") != "Completed":
            return state
    return None


def _ready_condition(document: Object) -> ObjectStatus:
    ready = condition_of(document, "Ready")
    if ready is not None and ready.get("status") == "True":
        return status_from(WorkState.RUNNING, ready)
    return status_from(WorkState.WAITING, ready, reason="NotReady")


def _node_claim(document: Object) -> ObjectStatus:
    for kind in ("Launched", "Registered", "Initialized"):
        condition = condition_of(document, kind)
        if condition is not None and condition.get("status") == "False":
            return status_from(WorkState.WAITING, condition, reason=f"Not{kind}")
    return _ready_condition(document)


def _definition(document: Object) -> ObjectStatus:
    established = condition_of(document, "Established")
    if established is not None and established.get("status") == "True":
        return status_from(WorkState.RUNNING, established)
    refused = condition_of(document, "NamesAccepted")
    if refused is not None and refused.get("status") == "False":
        return status_from(WorkState.FAILED, refused)
    return status_from(WorkState.WAITING, established, reason="NotEstablished")


def _namespace(document: Object) -> ObjectStatus:
    is_active = status_of(document).get("phase") == "Active"
    return status_from(
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


__all__ = ["ObjectStatus", "WorkState", "object_status"]


def object_status(document: Object) -> ObjectStatus:
    """Return the status of any object, by its `apiVersion` and `kind`; `UNKNOWN` for kinds without a rule."""
    kind = str(document.get("kind", ""))
    group = str(document.get("apiVersion", "")).rpartition("/")[0]
    rule = _RULES.get((group, kind))
    if rule is None:
        return ObjectStatus(WorkState.UNKNOWN, NO_RULE, f"No rule for {one_line(kind)} of {one_line(group) or 'v1'}.")
    if (document.get("metadata") or {}).get("deletionTimestamp"):
        status = rule(document)
        return status if status.is_final else ObjectStatus(WorkState.WAITING, "Terminating", "It is being deleted.")
    return rule(document)


def _present(_document: Object) -> ObjectStatus:
    """Judge a kind that is data: it exists, and has no other state."""
    return ObjectStatus(WorkState.RUNNING, "Present")


DATA_RULES: Rules = dict.fromkeys(
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
_RULES: Rules = {**JOB_RULES, **READY_RULES, **DATA_RULES}

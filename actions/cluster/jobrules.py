"""What the status of work that ends says, and of what queues it: jobs, gangs and clusters of all operators.

Source: the kinds' own controllers (batch/v1 Job, training-operator 1.8, mpi-operator 0.6, KubeRay 1.1, Volcano) and
Kueue's `Finished()`.
"""

from __future__ import annotations

from actions.cluster.verdict import (
    Object,
    Rules,
    Verdict,
    WorkState,
    condition_of,
    first_true,
    status_of,
    verdict,
)

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
    found = first_true(document, _JOB_STEPS)
    if found is not None:
        return found
    status = status_of(document)
    if status.get("ready"):
        return verdict(WorkState.RUNNING)
    if status.get("active"):
        return verdict(WorkState.WAITING, reason="PodsNotReady", message="Its pods have not become ready.")
    return verdict(WorkState.WAITING, reason="NoPods", message="It has no pods.")


def _kubeflow_job(document: Object) -> Verdict:
    return first_true(document, _KUBEFLOW_STEPS) or verdict(
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
    found = first_true(document, _STEPS_OF_OTHERS)
    if found is not None:
        return found
    status = status_of(document)
    jobs = [*(status.get("replicatedJobsStatus") or ()), *(status.get("jobsStatus") or ())]
    runs = any(entry.get("active") or entry.get("ready") for entry in jobs)
    return verdict(WorkState.RUNNING if runs else WorkState.WAITING, reason="Active" if runs else "NoJobs")


_VOLCANO_PHASES = {
    "Completed": WorkState.FINISHED,
    "Failed": WorkState.FAILED,
    "Terminated": WorkState.FAILED,
    "Running": WorkState.RUNNING,
    "Completing": WorkState.RUNNING,
}


def _volcano_job(document: Object) -> Verdict:
    """Aborted is waiting: `vsuspend` does that, and it can be resumed."""
    state = status_of(document).get("state") or {}
    phase = str(state.get("phase") or "")
    return verdict(_VOLCANO_PHASES.get(phase, WorkState.WAITING), state, reason=phase or "NotSeen")


def _pod_group(document: Object) -> Verdict:
    """The phase decides: an `Unschedulable` of an earlier wait stays true beside a gang that runs."""
    phase = str(status_of(document).get("phase") or "")
    if phase == "Completed":
        return verdict(WorkState.FINISHED, reason=phase)
    if phase == "Running":
        return verdict(WorkState.RUNNING, reason=phase)
    unschedulable = condition_of(document, "Unschedulable")
    is_told = unschedulable is not None and unschedulable.get("status") == "True"
    return verdict(WorkState.WAITING, unschedulable if is_told else None, reason=phase or "NotSeen")


def _kueue_workload(document: Object) -> Verdict:
    finished = condition_of(document, "Finished")
    if finished is not None and finished.get("status") == "True":
        has_failed = "fail" in str(finished.get("reason") or "").lower()
        return verdict(WorkState.FAILED if has_failed else WorkState.FINISHED, finished)
    admitted = first_true(document, (("Admitted", WorkState.RUNNING),))
    if admitted is not None:
        return admitted
    reserved = condition_of(document, "QuotaReserved")
    return verdict(WorkState.WAITING, reserved, reason="NotAdmitted")


_RAY_FAILED_RUNS = frozenset({"FAILED", "STOPPED"})


def _ray_job(document: Object) -> Verdict:
    status = status_of(document)
    deployment, job = str(status.get("jobDeploymentStatus") or ""), str(status.get("jobStatus") or "")
    words = {"reason": job or deployment, "message": str(status.get("message") or "")}
    match deployment:
        case "Complete" if job == "SUCCEEDED":
            return verdict(WorkState.FINISHED, status, **words)
        case "Complete" if job in _RAY_FAILED_RUNS:
            return verdict(WorkState.FAILED, status, **words)
        case "Failed" | "ValidationFailed":
            return verdict(WorkState.FAILED, status, **words)
        case "Running":
            return verdict(WorkState.RUNNING, status, **words)
        case "Complete":
            return verdict(WorkState.UNKNOWN, status, **words)
    return verdict(WorkState.WAITING, status, reason=deployment or "NotSeen")


def _ray_cluster(document: Object) -> Verdict:
    failed = first_true(document, (("ReplicaFailure", WorkState.FAILED),))
    if failed is not None:
        return failed
    status = status_of(document)
    state = str(status.get("state") or "")
    if state == "failed":
        return verdict(WorkState.FAILED, reason="failed", message=str(status.get("reason") or ""))
    head = condition_of(document, "HeadPodReady")
    if head is not None and head.get("status") != "True":
        return verdict(WorkState.WAITING, head)
    return verdict(WorkState.RUNNING if state == "ready" else WorkState.WAITING, reason=state or "NotSeen")


def _volcano_queue(document: Object) -> Verdict:
    state = str(status_of(document).get("state") or "")
    return verdict(WorkState.RUNNING if state == "Open" else WorkState.WAITING, reason=state or "NotSeen")


JOB_RULES: Rules = {
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
}

"""Verdicts: what each kind's status means."""

from __future__ import annotations

from typing import Any

import pytest

from actions.cluster.diagnose.evidence import KubeObject, is_failed
from actions.cluster.objects.status_rules import ObjectStatus, WorkState, object_status
from tests.unit.cluster.samples import POD, a_container, a_pod, with_conditions


def _state(document: dict[str, Any]) -> WorkState:
    return object_status(document).state


@pytest.mark.parametrize(
    ("kind", "api_version", "conditions", "state"),
    [
        ("Job", "batch/v1", {"SuccessCriteriaMet": "True", "Complete": "True"}, WorkState.FINISHED),
        ("Job", "batch/v1", {"FailureTarget": "True", "Failed": "True"}, WorkState.FAILED),
        ("Job", "batch/v1", {"Suspended": "True"}, WorkState.WAITING),
        ("Job", "batch/v1", {"Suspended": "False"}, WorkState.WAITING),
        ("PyTorchJob", "kubeflow.org/v1", {}, WorkState.WAITING),
        ("PyTorchJob", "kubeflow.org/v1", {"Created": "True"}, WorkState.WAITING),
        ("PyTorchJob", "kubeflow.org/v1", {"Created": "True", "Running": "True"}, WorkState.RUNNING),
        ("PyTorchJob", "kubeflow.org/v1", {"Running": "False", "Restarting": "True"}, WorkState.WAITING),
        ("PyTorchJob", "kubeflow.org/v1", {"Running": "False", "Succeeded": "True"}, WorkState.FINISHED),
        ("PyTorchJob", "kubeflow.org/v1", {"Running": "False", "Failed": "True"}, WorkState.FAILED),
        ("PyTorchJob", "kubeflow.org/v1", {"Succeeded": "False", "Running": "True"}, WorkState.RUNNING),
        ("Node", "v1", {"Ready": "True"}, WorkState.RUNNING),
        ("Node", "v1", {"Ready": "Unknown"}, WorkState.WAITING),
        ("NodeClaim", "karpenter.sh/v1", {"Launched": "True", "Registered": "False"}, WorkState.WAITING),
        ("NodeClaim", "karpenter.sh/v1", {"Launched": "True", "Ready": "True"}, WorkState.RUNNING),
        ("Elsewhere", "example.test/v1", {"Ready": "True"}, WorkState.UNKNOWN),
    ],
)
def test_conditions_decide(kind: str, api_version: str, conditions: dict[str, str], state: WorkState) -> None:
    assert _state(with_conditions(kind, api_version, **conditions)) is state


def test_a_job_runs_when_a_pod_is_ready() -> None:
    job: dict[str, Any] = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {}, "status": {"active": 1, "ready": 0}}
    assert object_status(job) == ObjectStatus(WorkState.WAITING, "PodsNotReady", "Its pods have not become ready.")
    job["status"]["ready"] = 1
    assert _state(job) is WorkState.RUNNING


def test_a_ray_cluster_that_comes_up_counts_its_workers_and_what_no_operator_saw_says_so() -> None:
    cluster: dict[str, Any] = {"apiVersion": "ray.io/v1", "kind": "RayCluster", "metadata": {}, "status": {}}
    assert object_status(cluster).words() == "NotSeen: Its operator has not reacted to it."
    cluster["status"] = {"desiredWorkerReplicas": 2, "availableWorkerReplicas": 1}
    assert object_status(cluster).words() == "WorkersNotReady: 1 of 2 workers run."
    lost = (
        'Operation cannot be fulfilled on podgroups.scheduling.volcano.sh "ray-kuberay-trn1-pg": the object has been '
        "modified; please apply your changes to the latest version and try again"
    )
    cluster["status"] |= {"state": "failed", "reason": lost}
    assert object_status(cluster).words() == "WorkersNotReady: 1 of 2 workers run.", "KubeRay tries it again"
    assert not is_failed(KubeObject("RayCluster", "", "", status=cluster["status"]))
    cluster["status"]["reason"] = ""
    assert _state(cluster) is WorkState.WAITING, "KubeRay writes the reason after the state"
    cluster["status"]["reason"] = "pods is forbidden"
    assert _state(cluster) is WorkState.FAILED
    cluster["status"]["state"] = "ready"
    assert _state(cluster) is WorkState.RUNNING


@pytest.mark.parametrize(
    ("deployment", "job", "state"),
    [
        ("Complete", "SUCCEEDED", WorkState.FINISHED),
        ("Complete", "FAILED", WorkState.FAILED),
        ("Complete", "RUNNING", WorkState.UNKNOWN),
        ("ValidationFailed", "", WorkState.FAILED),
        ("Failed", "RUNNING", WorkState.FAILED),
        ("Running", "RUNNING", WorkState.RUNNING),
        ("Initializing", "", WorkState.WAITING),
        ("", "", WorkState.WAITING),
    ],
)
def test_a_ray_job_needs_both_of_its_words(deployment: str, job: str, state: WorkState) -> None:
    status = {"jobDeploymentStatus": deployment, "jobStatus": job}
    assert _state({"apiVersion": "ray.io/v1", "kind": "RayJob", "metadata": {}, "status": status}) is state


def _deployment(**status: Any) -> dict[str, Any]:
    metadata = {"generation": 2}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": metadata,
        "spec": {"replicas": 2},
        "status": status,
    }


def test_a_deployment_is_ready_when_the_new_generation_is_available() -> None:
    ready = {"observedGeneration": 2, "updatedReplicas": 2, "replicas": 2, "availableReplicas": 2}
    assert _state(_deployment(**ready)) is WorkState.RUNNING
    assert _state(_deployment(**(ready | {"observedGeneration": 1}))) is WorkState.WAITING
    assert _state(_deployment(**(ready | {"replicas": 3}))) is WorkState.WAITING
    stuck = {"type": "Progressing", "status": "False", "reason": "ProgressDeadlineExceeded", "message": "timed out"}
    assert object_status(_deployment(observedGeneration=2, conditions=[stuck])).state is WorkState.FAILED


def test_a_number_of_replicas_that_is_null_is_the_default() -> None:
    for kind, ready in (("Deployment", "availableReplicas"), ("StatefulSet", "readyReplicas")):
        status = {ready: 1, "updatedReplicas": 1, "replicas": 1}
        document = {"apiVersion": "apps/v1", "kind": kind, "spec": {"replicas": None}, "status": status}
        assert _state(document) is WorkState.RUNNING


def test_a_daemon_set_without_nodes_says_so() -> None:
    document = {"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {}, "status": {"desiredNumberScheduled": 0}}
    assert object_status(document).message == "It runs on 0 nodes: no node matches."


def test_claims() -> None:
    def claim(phase: str) -> WorkState:
        kind = "PersistentVolumeClaim"
        return _state({"apiVersion": "v1", "kind": kind, "metadata": {}, "status": {"phase": phase}})

    assert (claim("Bound"), claim("Lost"), claim("Pending")) == (WorkState.RUNNING, WorkState.FAILED, WorkState.WAITING)


def test_pods() -> None:
    assert _state(POD) is WorkState.RUNNING
    assert _state(a_pod(phase="Succeeded")) is WorkState.FINISHED
    backoff = a_container("waiting", reason="ImagePullBackOff", message="no such image")
    assert object_status(a_pod(phase="Pending", conditions=[], containerStatuses=[backoff])) == ObjectStatus(
        WorkState.FAILED, "ImagePullBackOff", "no such image"
    )
    unscheduled = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/2 nodes"}
    pending = a_pod(phase="Pending", conditions=[unscheduled], containerStatuses=[], initContainerStatuses=[])
    assert object_status(pending) == ObjectStatus(WorkState.WAITING, "Unschedulable", "0/2 nodes")
    killed = a_container("terminated", exitCode=137, reason="OOMKilled")
    assert object_status(a_pod(phase="Failed", containerStatuses=[killed])).reason == "OOMKilled"


def test_what_is_being_deleted_is_not_running() -> None:
    document = with_conditions("PyTorchJob", "kubeflow.org/v1", Running="True")
    document["metadata"]["deletionTimestamp"] = "2026-11-21T11:00:00Z"
    assert object_status(document).reason == "Terminating"
    document["status"]["conditions"].append({"type": "Succeeded", "status": "True"})
    assert object_status(document).state is WorkState.FINISHED


def test_objects_without_a_status_are_survived() -> None:
    for kind, api_version in (
        ("Job", "batch/v1"),
        ("Deployment", "apps/v1"),
        ("Pod", "v1"),
        ("NodeClaim", "karpenter.sh/v1"),
    ):
        assert _state({"apiVersion": api_version, "kind": kind, "status": None, "spec": None}) is WorkState.WAITING


def _with_status(kind: str, api_version: str, **status: Any) -> dict[str, Any]:
    return {"apiVersion": api_version, "kind": kind, "metadata": {}, "status": status}


def _condition(kind: str, status: str = "True", **words: str) -> dict[str, str]:
    return {"type": kind, "status": status, **words}


@pytest.mark.parametrize(
    ("phase", "state"),
    [("Running", WorkState.RUNNING), ("Completed", WorkState.FINISHED), ("Inqueue", WorkState.WAITING)],
)
def test_the_phase_of_a_gang_counts_more_than_an_old_condition(phase: str, state: WorkState) -> None:
    old = _condition("Unschedulable", reason="NotEnoughResources", message="4/4 tasks in gang unschedulable")
    gang = _with_status("PodGroup", "scheduling.volcano.sh/v1beta1", phase=phase, conditions=[old])
    assert _state(gang) is state
    assert ("gang" in object_status(gang).message) == (state is WorkState.WAITING)


@pytest.mark.parametrize(
    ("kind", "api_version", "status", "state"),
    [
        ("JobSet", "jobset.x-k8s.io/v1alpha2", {"conditions": [_condition("Completed")]}, WorkState.FINISHED),
        ("JobSet", "jobset.x-k8s.io/v1alpha2", {"replicatedJobsStatus": [{"active": 2}]}, WorkState.RUNNING),
        ("TrainJob", "trainer.kubeflow.org/v1alpha1", {"conditions": [_condition("Failed")]}, WorkState.FAILED),
        ("TrainJob", "trainer.kubeflow.org/v1alpha1", {}, WorkState.WAITING),
        ("Job", "batch.volcano.sh/v1alpha1", {"state": {"phase": "Aborted"}}, WorkState.WAITING),
        ("Job", "batch.volcano.sh/v1alpha1", {"state": {"phase": "Completing"}}, WorkState.RUNNING),
        ("Workload", "kueue.x-k8s.io/v1beta1", {"conditions": [_condition("Admitted")]}, WorkState.RUNNING),
        (
            "Workload",
            "kueue.x-k8s.io/v1beta1",
            {"conditions": [_condition("QuotaReserved", "False")]},
            WorkState.WAITING,
        ),
        ("Workload", "kueue.x-k8s.io/v1beta1", {"conditions": [_condition("Finished")]}, WorkState.FINISHED),
    ],
)
def test_work_of_other_operators(kind: str, api_version: str, status: dict[str, Any], state: WorkState) -> None:
    assert _state(_with_status(kind, api_version, **status)) is state


def test_reason_and_message_are_told_apart() -> None:
    assert ObjectStatus(WorkState.FAILED, "BackoffLimitExceeded", "Job has failed").words() == (
        "BackoffLimitExceeded: Job has failed"
    )
    assert ObjectStatus(WorkState.FAILED, message="Job has failed").words() == "Job has failed"
    assert ObjectStatus(WorkState.FAILED, "Error").words() == "Error"

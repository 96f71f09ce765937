"""Facts of jobs of today: who owns them, where their pods are, what they report, how their states read."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from actions.cluster.objects.status_rules import WorkState, object_status
from actions.cluster.state.decode import decode_event, workload_of
from actions.fleet.facts import JobReport

AT = "2026-11-29T08:00:00Z"


def a_job(api_version: str, kind: str, **status: Any) -> dict[str, Any]:
    return {
        "apiVersion": api_version,
        "kind": kind,
        "metadata": {"name": "x", "namespace": "ml", "uid": "u"},
        "spec": {},
        "status": status,
    }


def test_a_job_has_the_full_name_of_its_kind_and_its_owner() -> None:
    gang = a_job("batch.volcano.sh/v1alpha1", "Job")
    owner = {"apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "TrainJob", "name": "torch", "controller": True}
    gang["metadata"]["ownerReferences"] = [owner]
    facts = workload_of(gang)
    assert (facts.kind, facts.owner_kind, facts.owner_name) == ("Job.batch.volcano.sh", "TrainJob", "torch")


def test_a_status_names_whose_pods_are_its_own() -> None:
    assert workload_of(a_job("ray.io/v1", "RayJob", rayClusterName="shared")).pods_from == "shared"
    pods = {"kind": "StatefulSet", "name": "x-pods"}
    assert workload_of(a_job("sagemaker.amazonaws.com/v1", "HyperPodPyTorchJob", jobPods=pods)).pods_from == "x-pods"
    assert workload_of(a_job("sagemaker.amazonaws.com/v1", "HyperPodPyTorchJob", jobPods="odd")).pods_from == ""


@pytest.mark.parametrize(
    ("status", "report", "words"),
    [
        (None, None, ""),
        ({"progressPercentage": 40}, JobReport(percent=40), "40 %"),
        (
            {
                "progressPercentage": 40,
                "estimatedRemainingSeconds": 1200,
                "metrics": [{"name": "loss", "value": "0.31"}, {"name": "phase", "value": "warm"}],
                "lastUpdatedTime": AT,
            },
            JobReport(40, 1200, (("loss", "0.31"),), 1795939200.0),
            "40 %, 20m00s left, loss 0.31",
        ),
    ],
)
def test_a_train_job_reports(status: dict[str, Any] | None, report: JobReport | None, words: str) -> None:
    found = workload_of(a_job("trainer.kubeflow.org/v1alpha1", "TrainJob", trainerStatus=status)).report
    assert found == report
    assert found is None or found.words() == words


@pytest.mark.parametrize(
    ("conditions", "state"),
    [
        ([], WorkState.WAITING),
        (["Created"], WorkState.WAITING),
        (["Created", "Running"], WorkState.RUNNING),
        (["Created", "Running", "Failed"], WorkState.FAILED),
        (["Created", "Running", "Completed"], WorkState.FINISHED),
    ],
)
def test_the_newest_condition_of_a_hyperpod_job_counts(conditions: list[str], state: WorkState) -> None:
    found = [{"type": kind, "status": "True"} for kind in conditions]
    assert object_status(a_job("sagemaker.amazonaws.com/v1", "HyperPodPyTorchJob", conditions=found)).state is state


@pytest.mark.parametrize(
    ("ready", "replicas", "state"), [(0, 1, WorkState.WAITING), (2, 2, WorkState.RUNNING), (0, 0, WorkState.WAITING)]
)
def test_a_leader_worker_set_runs_when_its_groups_are_ready(ready: int, replicas: int, state: WorkState) -> None:
    document = a_job("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet", readyReplicas=ready, replicas=replicas)
    assert object_status(document | {"spec": {"replicas": replicas}}).state is state


def test_an_event_is_about_the_kind_of_its_group() -> None:
    about = {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "name": "x", "namespace": "ml"}
    event = {"metadata": {"name": "e", "uid": "u"}, "involvedObject": about}
    assert decode_event(msgspec.json.encode(event)).kind == "Job.batch.volcano.sh"

"""The pods of a job, and the one of them that reports on the whole job."""

from __future__ import annotations

import pytest

from actions.cluster.job_pods import JobRef, job_named, job_of, pods_of_job
from actions.fleet.facts import PodFacts, WorkloadFacts


def a_pod(name: str, kind: str, owner: str, namespace: str = "ml") -> PodFacts:
    return PodFacts(uid=f"uid-{name}", namespace=namespace, name=name, owner_kind=kind, owner_name=owner)


def a_job(kind: str, name: str, namespace: str = "ml") -> WorkloadFacts:
    return WorkloadFacts(uid=f"uid-{kind}-{name}", kind=kind, namespace=namespace, name=name, state="running")


PODS = [
    a_pod("train-worker-10", "PyTorchJob", "train"),
    a_pod("train-worker-9", "PyTorchJob", "train"),
    a_pod("train-master-0", "PyTorchJob", "train"),
    a_pod("train-worker-0", "PyTorchJob", "train", namespace="other"),
    a_pod("nccl-worker-0", "MPIJob", "nccl"),
    a_pod("nccl-worker-1", "MPIJob", "nccl"),
    a_pod("nccl-launcher-x7x7x", "Job", "nccl-launcher"),
    a_pod("old-launcher", "MPIJob", "old"),
    a_pod("old-worker-0", "MPIJob", "old"),
    a_pod("tune-raycluster-abcde-worker-group-q1", "RayCluster", "tune-raycluster-abcde"),
    a_pod("tune-raycluster-abcde-head-z9", "RayCluster", "tune-raycluster-abcde"),
    a_pod("tune-k5k5k", "Job", "tune"),
    a_pod("tune-other-head", "RayCluster", "tune-other"),
    a_pod("data-0-abc", "Job", "data"),
    a_pod("web-5d4-x", "ReplicaSet", "web-5d4"),
]
BY_KEY = {pod.key: pod for pod in PODS}
WORKLOADS = {
    f"{job.kind} {job.namespace}/{job.name}": job
    for job in (
        a_job("PyTorchJob", "train"),
        a_job("MPIJob", "nccl"),
        a_job("Job", "nccl-launcher"),
        a_job("RayJob", "tune"),
        a_job("Job", "tune"),
        a_job("RayCluster", "tune-raycluster-abcde"),
        a_job("Job", "data"),
    )
}


@pytest.mark.parametrize(
    ("job", "members"),
    [
        (
            JobRef("PyTorchJob", "ml", "train"),
            [("train-master-0", "master"), ("train-worker-9", "worker"), ("train-worker-10", "worker")],
        ),
        (
            JobRef("MPIJob", "ml", "nccl"),
            [("nccl-launcher-x7x7x", "launcher"), ("nccl-worker-0", "worker"), ("nccl-worker-1", "worker")],
        ),
        (
            JobRef("RayJob", "ml", "tune"),
            [
                ("tune-k5k5k", "submitter"),
                ("tune-raycluster-abcde-head-z9", "head"),
                ("tune-raycluster-abcde-worker-group-q1", "worker"),
            ],
        ),
        (
            JobRef("RayCluster", "ml", "tune-raycluster-abcde"),
            [("tune-raycluster-abcde-head-z9", "head"), ("tune-raycluster-abcde-worker-group-q1", "worker")],
        ),
        (
            JobRef("RayJob", "ml", "tune", cluster="tune-other"),
            [("tune-k5k5k", "submitter"), ("tune-other-head", "head")],
        ),
        (JobRef("MPIJob", "ml", "old"), [("old-launcher", "launcher"), ("old-worker-0", "worker")]),
        (JobRef("Job", "ml", "data"), [("data-0-abc", "worker")]),
        (JobRef("Job", "ml", "nothing"), []),
    ],
    ids=lambda value: value.kind if isinstance(value, JobRef) else "",
)
def test_the_pod_that_tells_of_all_comes_first(job: JobRef, members: list[tuple[str, str]]) -> None:
    found = pods_of_job(job, BY_KEY)
    assert [(member.pod.name, member.role) for member in found] == members
    assert [member.rank for member in found] == list(range(len(found)))


@pytest.mark.parametrize(
    ("pod", "job"),
    [
        ("nccl-launcher-x7x7x", JobRef("MPIJob", "ml", "nccl")),
        ("nccl-worker-1", JobRef("MPIJob", "ml", "nccl")),
        ("tune-k5k5k", JobRef("RayJob", "ml", "tune")),
        ("tune-raycluster-abcde-head-z9", JobRef("RayJob", "ml", "tune")),
        ("tune-other-head", JobRef("RayCluster", "ml", "tune-other")),
        ("data-0-abc", JobRef("Job", "ml", "data")),
        ("web-5d4-x", None),
    ],
)
def test_a_pod_leads_to_the_job_that_a_person_made(pod: str, job: JobRef | None) -> None:
    assert job_of(BY_KEY[f"ml/{pod}"], WORKLOADS) == job


def test_a_name_without_a_kind_is_the_job_that_a_person_made() -> None:
    assert job_named("ml", "tune", WORKLOADS) == JobRef("RayJob", "ml", "tune")
    assert job_named("ml", "data", WORKLOADS) == JobRef("Job", "ml", "data")
    assert job_named("ml", "nothing", WORKLOADS) is None

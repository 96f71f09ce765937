"""The pods of a job, and the one of them that reports on the whole job."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from actions.cluster.job_pods import JobRef, job_named, job_of, pods_of_job
from actions.fleet.facts import PodFacts, WorkloadFacts


def a_pod(name: str, kind: str, owner: str, namespace: str = "ml") -> PodFacts:
    return PodFacts(uid=f"uid-{name}", namespace=namespace, name=name, owner_kind=kind, owner_name=owner)


def a_job(kind: str, name: str, owner: str = "", *, pods_from: str = "") -> WorkloadFacts:
    above = tuple(owner.split("/")) if owner else ("", "")
    facts = WorkloadFacts(uid=f"uid-{kind}-{name}", kind=kind, namespace="ml", name=name, state="running")
    return replace(facts, owner_kind=above[0], owner_name=above[1], pods_from=pods_from)


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
    a_pod("own-5d4-x", "ReplicaSet", "own-5d4"),
    a_pod("torch-node-0-1-b", "Job", "torch-node-0"),
    a_pod("torch-node-0-0-a", "Job", "torch-node-0"),
    a_pod("torch-launcher-0-0-c", "Job", "torch-launcher-0"),
    a_pod("gang-a-0", "Job.batch.volcano.sh", "data"),
    a_pod("group-0-1", "StatefulSet", "group-0"),
    a_pod("group-0", "StatefulSet", "group"),
    a_pod("fsdp-pods-0", "StatefulSet", "fsdp-pods-of-it"),
    a_pod("mnist-chief-0", "TFJob", "mnist"),
    a_pod("mnist-ps-0", "TFJob", "mnist"),
]
BY_KEY = {pod.key: pod for pod in PODS}
WORKLOADS = {
    f"{job.kind} {job.namespace}/{job.name}": job
    for job in (
        a_job("PyTorchJob", "train"),
        a_job("MPIJob", "nccl"),
        a_job("Job", "nccl-launcher", "MPIJob/nccl"),
        a_job("RayJob", "tune"),
        a_job("Job", "tune", "RayJob/tune"),
        a_job("RayCluster", "tune-raycluster-abcde", "RayJob/tune"),
        a_job("RayJob", "chosen", pods_from="tune-other"),
        a_job("Job", "data"),
        a_job("Job.batch.volcano.sh", "data"),
        a_job("TrainJob", "torch"),
        a_job("JobSet", "torch", "TrainJob/torch"),
        a_job("Job", "torch-node-0", "JobSet/torch"),
        a_job("Job", "torch-launcher-0", "JobSet/torch"),
        a_job("LeaderWorkerSet", "group"),
        a_job("HyperPodPyTorchJob", "fsdp", pods_from="fsdp-pods-of-it"),
        a_job("Deployment", "own"),
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
            JobRef("RayJob", "ml", "chosen"),
            [("tune-other-head", "head")],
        ),
        (JobRef("MPIJob", "ml", "old"), [("old-launcher", "launcher"), ("old-worker-0", "worker")]),
        (JobRef("Job", "ml", "data"), [("data-0-abc", "worker")]),
        (
            JobRef("TrainJob", "ml", "torch"),
            [("torch-launcher-0-0-c", "launcher"), ("torch-node-0-0-a", "worker"), ("torch-node-0-1-b", "worker")],
        ),
        (JobRef("Job", "ml", "torch-node-0"), [("torch-node-0-0-a", "worker"), ("torch-node-0-1-b", "worker")]),
        (JobRef("Job.batch.volcano.sh", "ml", "data"), [("gang-a-0", "worker")]),
        (JobRef("LeaderWorkerSet", "ml", "group"), [("group-0", "worker"), ("group-0-1", "worker")]),
        (JobRef("HyperPodPyTorchJob", "ml", "fsdp"), [("fsdp-pods-0", "worker")]),
        (JobRef("Deployment", "ml", "own"), [("own-5d4-x", "worker")]),
        (JobRef("TFJob", "ml", "mnist"), [("mnist-chief-0", "chief"), ("mnist-ps-0", "worker")]),
        (JobRef("Job", "ml", "nothing"), []),
    ],
    ids=lambda value: value.kind if isinstance(value, JobRef) else "",
)
def test_the_pod_that_tells_of_all_comes_first(job: JobRef, members: list[tuple[str, str]]) -> None:
    found = pods_of_job(job, BY_KEY, WORKLOADS)
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
        ("own-5d4-x", JobRef("Deployment", "ml", "own")),
        ("torch-node-0-0-a", JobRef("TrainJob", "ml", "torch")),
        ("gang-a-0", JobRef("Job.batch.volcano.sh", "ml", "data")),
        ("group-0-1", JobRef("LeaderWorkerSet", "ml", "group")),
        ("fsdp-pods-0", JobRef("HyperPodPyTorchJob", "ml", "fsdp")),
    ],
)
def test_a_pod_leads_to_the_job_that_a_person_made(pod: str, job: JobRef | None) -> None:
    assert job_of(BY_KEY[f"ml/{pod}"], WORKLOADS) == job


def test_a_name_without_a_kind_is_the_job_that_a_person_made() -> None:
    assert job_named("ml", "tune", WORKLOADS) == JobRef("RayJob", "ml", "tune")
    assert job_named("ml", "torch", WORKLOADS) == JobRef("TrainJob", "ml", "torch")
    assert job_named("ml", "data", WORKLOADS) is None  # of two kinds
    assert job_named("ml", "nothing", WORKLOADS) is None

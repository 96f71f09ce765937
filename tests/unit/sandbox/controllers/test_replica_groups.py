"""Jobs of which the pods are those of their templates: names and labels, how they end, and what goes with them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from actions.blueprint.begin.job_manifests import definition_of
from actions.cluster.kinds import JOBS, kind_of
from actions.sandbox.clientkit.conditions import is_true
from actions.sandbox.clientkit.kinds import DEFINITIONS, POD_GROUPS, PODS, Document, owner_of, uid_of
from actions.sandbox.controllers.replica_groups import REPLICA_GROUPS, ReplicaGroups
from actions.sandbox.controllers.volcano.job import phase_of_job
from tests.unit.sandbox.controllers.server import definitions_of, until, whole_cluster

ENDS: Document = {
    "spec": {"restartPolicy": "Never", "containers": [{"name": "a", "image": "a:1", "command": ["true"]}]}
}
STAYS: Document = {"spec": {"containers": [{"name": "a", "image": "a:1", "ports": [{"containerPort": 80}]}]}}
"""A service."""


def a_job(name: str, spec: dict[str, Any]) -> tuple[ReplicaGroups, Document]:
    groups = next(groups for groups in REPLICA_GROUPS if groups.name == name)
    metadata = {"name": "mine", "namespace": "default", "uid": "u"}
    kind = groups.kind
    return groups, {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": metadata, "spec": spec}


def test_every_kind_of_job_has_a_controller() -> None:
    others = {"Job", "PyTorchJob", "MPIJob", "RayJob", "RayCluster", "TrainJob", "JobSet"}
    assert {row.name for row in JOBS} == others | {groups.name for groups in REPLICA_GROUPS}


@pytest.mark.parametrize(
    ("name", "spec", "pods"),
    [
        (
            "TFJob",
            {"tfReplicaSpecs": {"PS": {"replicas": 1, "template": ENDS}, "Worker": {"replicas": 2, "template": ENDS}}},
            ["mine-ps-0", "mine-worker-0", "mine-worker-1"],
        ),
        (
            "MPIJob",
            {"mpiReplicaSpecs": {"Launcher": {"template": ENDS}, "Worker": {"replicas": 2, "template": ENDS}}},
            ["mine-launcher", "mine-worker-0", "mine-worker-1"],
        ),
        (
            "Job.batch.volcano.sh",
            {"tasks": [{"name": "mpimaster", "template": ENDS}, {"name": "w", "replicas": 2, "template": ENDS}]},
            ["mine-mpimaster-0", "mine-w-0", "mine-w-1"],
        ),
        (
            "LeaderWorkerSet",
            {"replicas": 2, "leaderWorkerTemplate": {"size": 2, "workerTemplate": ENDS}},
            ["mine-0", "mine-0-1", "mine-1", "mine-1-1"],
        ),
        (
            "HyperPodPyTorchJob",
            {"replicaSpecs": [{"name": "pod", "replicas": 2, "template": ENDS}]},
            ["mine-pod-0", "mine-pod-1"],
        ),
    ],
)
def test_pods_are_named_and_labelled_as_by_the_operator(name: str, spec: Document, pods: list[str]) -> None:
    groups, job = a_job(name, spec)
    made = list(groups.pods(job))
    assert [pod["metadata"]["name"] for pod in made] == pods
    assert {pod["metadata"]["labels"][groups.label] for pod in made} == {"mine"}


WORKERS: Document = {"Worker": {"replicas": 2, "template": ENDS}}
IDLE: Document = {"Worker": {"template": {"spec": {"containers": [{"name": "a", "image": "a:1"}]}}}}
CHIEF: Document = {"Chief": {"template": ENDS}}


@pytest.mark.parametrize(
    ("spec", "phases", "ended"),
    [
        ({"tfReplicaSpecs": WORKERS}, {"worker-0": "Ready", "worker-1": "Ready"}, "Running"),
        ({"tfReplicaSpecs": WORKERS}, {"worker-0": "Ready", "worker-1": "Succeeded"}, "Running"),
        ({"tfReplicaSpecs": WORKERS}, {"worker-0": "Succeeded", "worker-1": "Ready"}, "Succeeded"),
        (
            {"tfReplicaSpecs": WORKERS, "successPolicy": "AllWorkers"},
            {"worker-0": "Succeeded", "worker-1": "Ready"},
            "Running",
        ),
        ({"tfReplicaSpecs": CHIEF | WORKERS}, {"chief-0": "Ready", "worker-0": "Succeeded"}, "Running"),
        ({"tfReplicaSpecs": CHIEF | WORKERS}, {"chief-0": "Succeeded", "worker-0": "Ready"}, "Succeeded"),
        ({"tfReplicaSpecs": WORKERS}, {"worker-0": "Ready", "worker-1": "Failed"}, "Failed"),
        ({"mpiReplicaSpecs": {"Launcher": {"template": ENDS}} | WORKERS}, {"launcher": "Succeeded"}, "Succeeded"),
    ],
)
def test_a_training_job_ends_with_its_chief_its_launcher_or_its_worker_0(
    spec: Document, phases: dict[str, str], ended: str
) -> None:
    groups, job = a_job("MPIJob" if "mpiReplicaSpecs" in spec else "TFJob", spec)
    status = groups.status(job, {f"mine-{name}": phase for name, phase in phases.items()}, "now")
    assert [one["type"] for one in status["conditions"] if one["status"] == "True"] == ["Created", ended]


def test_replicas_that_are_null_are_the_default() -> None:
    groups, job = a_job("LeaderWorkerSet", {"replicas": None, "leaderWorkerTemplate": {"workerTemplate": ENDS}})
    assert groups.status(job, {}, "now")["replicas"] == 1


def test_a_hyperpod_job_is_completed_with_all_of_its_pods_which_its_status_names() -> None:
    groups, job = a_job("HyperPodPyTorchJob", {"replicaSpecs": [{"name": "pod", "replicas": 2, "template": ENDS}]})
    for phases, ended in ((["Ready", "Succeeded"], "Running"), (["Succeeded", "Succeeded"], "Completed")):
        status = groups.status(job, {f"mine-pod-{i}": phase for i, phase in enumerate(phases)}, "now")
        assert status["conditions"][-1]["type"] == ended
        assert status["jobPods"]["name"] == "mine-pod"
        assert [made.document["metadata"]["name"] for made in groups.made(job, "mine-pod-0")] == ["mine-pod"]


@pytest.mark.parametrize(
    ("name", "spec", "ended", "owner"),
    [
        ("MPIJob", {"mpiReplicaSpecs": {"Launcher": {"template": ENDS}} | IDLE}, "Succeeded", "mine"),
        ("HyperPodPyTorchJob", {"replicaSpecs": [{"name": "pod", "template": ENDS}]}, "Completed", "mine-pod"),
    ],
)
async def test_a_job_without_an_operator_runs_to_its_end(
    name: str, spec: Document, ended: str, owner: str, tmp_path: Path
) -> None:
    groups, job = a_job(name, spec)
    async with whole_cluster(tmp_path) as client:
        definition = definition_of(job, kind_of(name))
        await client.create(DEFINITIONS, definition)
        await until(client, DEFINITIONS, definition["metadata"]["name"], has("Established"))
        await client.create(groups.kind, job)
        await until(client, groups.kind, "default/mine", has(ended))
        pods = (await client.session.get(PODS.path(namespace="default")))["items"]
        assert {(owner_of(pod) or {})["name"] for pod in pods} == {owner}


async def test_a_leader_worker_set_is_available_and_its_pods_go_with_it(tmp_path: Path) -> None:
    groups, job = a_job(
        "LeaderWorkerSet", {"replicas": 2, "leaderWorkerTemplate": {"size": 2, "workerTemplate": STAYS}}
    )
    async with whole_cluster(tmp_path) as client:
        definition = definition_of(job, kind_of("LeaderWorkerSet"))
        await client.create(DEFINITIONS, definition)
        await until(client, DEFINITIONS, definition["metadata"]["name"], has("Established"))
        await client.create(groups.kind, job)
        await until(client, groups.kind, "default/mine", has("Available"))
        pods = (await client.session.get(PODS.path(namespace="default")))["items"]
        assert {(pod["metadata"]["name"], (owner_of(pod) or {})["name"]) for pod in pods} == {
            ("mine-0", "mine"), ("mine-0-1", "mine-0"), ("mine-1", "mine"), ("mine-1-1", "mine-1"),
        }  # fmt: skip
        await client.delete(groups.kind, "default/mine")
        for pod in pods:
            await until(client, PODS, f"default/{pod['metadata']['name']}", lambda found: found is None)


def has(name: str) -> Callable[[Document | None], bool]:
    return lambda found: found is not None and is_true(found, name)


TASKS: Document = {
    "tasks": [
        {"name": "master", "template": ENDS, "policies": [{"event": "TaskCompleted", "action": "CompleteJob"}]},
        {"name": "worker", "replicas": 2, "template": STAYS},
    ]
}


@pytest.mark.parametrize(
    ("before", "phases", "after"),
    [
        ("", {}, "Pending"),
        ("Pending", {"master-0": "Ready", "worker-0": "Ready", "worker-1": "Pending"}, "Pending"),
        ("Pending", {"master-0": "Ready", "worker-0": "Ready", "worker-1": "Running"}, "Running"),
        ("Running", {"master-0": "Ready", "worker-0": "Ready", "worker-1": "Pending"}, "Pending"),
        ("Running", {"master-0": "Succeeded", "worker-0": "Ready", "worker-1": "Ready"}, "Completing"),
        ("Completing", {"master-0": "Succeeded", "worker-0": "Deleting"}, "Completing"),
        ("Completing", {"master-0": "Succeeded"}, "Completed"),
        ("Running", {"master-0": "Failed", "worker-0": "Succeeded", "worker-1": "Succeeded"}, "Failed"),
    ],
)
def test_a_job_of_volcano_goes_through_its_phases(before: str, phases: dict[str, str], after: str) -> None:
    groups, job = a_job("Job.batch.volcano.sh", TASKS)
    job["status"] = {"state": {"phase": before}} if before else {}
    change = groups.status(job, {f"mine-{name}": phase for name, phase in phases.items()}, "now")
    assert (change.get("state") or {"phase": before})["phase"] == after
    begun = [("ExecuteAction", "Start to execute action CompleteJob ")] if after == "Completing" != before else []
    assert list(groups.events(job, change, {})) == begun


async def test_a_policy_completes_a_job_of_volcano_whose_workers_would_stay(tmp_path: Path) -> None:
    groups, job = a_job("Job.batch.volcano.sh", TASKS | {"schedulerName": "default-scheduler"})
    async with whole_cluster(tmp_path) as client:
        for definition in definitions_of("volcano/1.15.1"):
            await client.create(DEFINITIONS, definition)
            await until(client, DEFINITIONS, definition["metadata"]["name"], has("Established"))
        made = await client.create(groups.kind, job)
        gang = f"default/mine-{uid_of(made or {})}"
        await until(client, POD_GROUPS, gang, lambda found: found is not None)
        ended = await until(client, groups.kind, "default/mine", lambda found: phase_of_job(found or {}) == "Completed")
        assert [one["status"] for one in ended["status"]["conditions"]][-2:] == ["Completing", "Completed"]
        await until(client, POD_GROUPS, gang, lambda found: found is None)
        pods = (await client.session.get(PODS.path(namespace="default")))["items"]
        assert [pod["metadata"]["name"] for pod in pods] == ["mine-master-0"]

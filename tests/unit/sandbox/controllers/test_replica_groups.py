"""Jobs of which the pods are those of their templates: names and labels, how they end, and what goes with them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from actions.blueprint.begin.job_manifests import definition_of
from actions.cluster.kinds import kind_of
from actions.sandbox.clientkit.conditions import is_true
from actions.sandbox.clientkit.kinds import DEFINITIONS, PODS, Document, owner_of
from actions.sandbox.controllers.replica_groups import REPLICA_GROUPS, ReplicaGroups
from tests.unit.sandbox.controllers.server import until, whole_cluster

ENDS: Document = {
    "spec": {"restartPolicy": "Never", "containers": [{"name": "a", "image": "a:1", "command": ["true"]}]}
}
STAYS: Document = {"spec": {"containers": [{"name": "a", "image": "a:1", "ports": [{"containerPort": 80}]}]}}
"""A service."""


def a_job(name: str, spec: dict[str, Any]) -> tuple[ReplicaGroups, Document]:
    groups = next(groups for groups in REPLICA_GROUPS if groups.name == name)
    row = kind_of(name)
    metadata = {"name": "mine", "namespace": "default", "uid": "u"}
    return groups, {"apiVersion": row.api_version, "kind": row.kind, "metadata": metadata, "spec": spec}


@pytest.mark.parametrize(
    ("name", "spec", "pods"),
    [
        (
            "TFJob",
            {"tfReplicaSpecs": {"PS": {"replicas": 1, "template": ENDS}, "Worker": {"replicas": 2, "template": ENDS}}},
            ["mine-ps-0", "mine-worker-0", "mine-worker-1"],
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
    ],
)
def test_pods_are_named_and_labelled_as_by_the_operator(name: str, spec: Document, pods: list[str]) -> None:
    groups, job = a_job(name, spec)
    made = list(groups.pods(job))
    assert [pod["metadata"]["name"] for pod in made] == pods
    assert {pod["metadata"]["labels"][kind_of(name).labels_pods] for pod in made} == {"mine"}


def test_a_tf_job_succeeds_with_its_workers_and_fails_with_one() -> None:
    groups, job = a_job("TFJob", {"tfReplicaSpecs": {"Worker": {"replicas": 2, "template": ENDS}}})
    for phases, ended in (
        ({"Ready": 2}, "Running"),
        ({"Succeeded": 2}, "Succeeded"),
        ({"Ready": 1, "Failed": 1}, "Failed"),
    ):
        status = groups.status(job, Counter(phases), "now")
        assert [one["type"] for one in status["conditions"] if one["status"] == "True"] == ["Created", ended]


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

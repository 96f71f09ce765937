"""Launches that must fail on the cluster that is there are refused before there is a run: namespace, kinds, fit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from actions.blueprint.catalogue import load_blueprint
from actions.blueprint.parameters import bind
from actions.cluster.auth.session import KubeSession
from actions.cluster.objects.client import Discovery, ObjectRef
from actions.fleet.instance_types import InstanceTable
from actions.run.context.access import ClusterConnection
from actions.run.doctor.launch import PlannedLaunch
from actions.run.doctor.objects import check_dry_run, check_namespace
from actions.run.doctor.room import look_for_room
from actions.run.state.records import CheckResult
from tests.support.program import Program

CONTAINER = {"name": "main", "image": "example.com/train:1"}


def a_job(**spec: Any) -> dict[str, Any]:
    pod = {"restartPolicy": "Never", "containers": [CONTAINER], **spec}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "asked-first"},
        "spec": {"template": {"spec": pod}},
    }


UNDEFINED = {
    "apiVersion": "sparkoperator.k8s.io/v1beta2",
    "kind": "SparkApplication",
    "metadata": {"name": "asked-first"},
    "spec": {"type": "Python"},
}
"""A kind that no test defines."""
ON_G6E = {"nodeSelector": {"node.kubernetes.io/instance-type": "g6e.12xlarge"}}


CLAIM = {
    "apiVersion": "v1",
    "kind": "PersistentVolumeClaim",
    "metadata": {"name": "asked-first"},
    "spec": {
        "accessModes": ["ReadWriteMany"],
        "storageClassName": "nowhere",
        "resources": {"requests": {"storage": "1Gi"}},
    },
}
VOLUME = {
    "apiVersion": "v1",
    "kind": "PersistentVolume",
    "metadata": {"name": "asked-first"},
    "spec": {
        "accessModes": ["ReadWriteMany"],
        "storageClassName": "nowhere",
        "capacity": {"storage": "1Gi"},
        "hostPath": {"path": "/mnt"},
    },
}
"""Its class is a mere word, by which its claim finds it."""


def write_blueprint(folder: Path, job: dict[str, Any], *others: dict[str, Any], namespace: str = "default") -> Path:
    target = {"api_version": job["apiVersion"], "kind": job["kind"], "name": job["metadata"]["name"]}
    train = {"id": "train", "kind": "job", "title": "Training", "needs": ["kubeconfig"], "expect": "1s..9s"}
    access = {"id": "kubeconfig", "kind": "kubeconfig", "title": "Access", "expect": "1s..9s"}
    document = {
        "schema": "eksml/v1",
        "id": "asked-first",
        "title": "Asked first",
        "summary": "One job.",
        "cluster": {"name": "any", "region": "us-west-2", "namespace": namespace},
        "stages": [
            access | {"cluster": "any", "region": "us-west-2"},
            train | {"manifests": ["job.yaml"], "target": target},
        ],
    }
    path = folder / "asked-first"
    path.mkdir()
    (path / "blueprint.yaml").write_text(yaml.safe_dump(document, sort_keys=False))
    (path / "job.yaml").write_text(yaml.safe_dump_all([*others, job]))
    return path


def a_launch(folder: Path, job: dict[str, Any], *others: dict[str, Any], namespace: str = "default") -> PlannedLaunch:
    blueprint = load_blueprint(write_blueprint(folder, job, *others, namespace=namespace))
    return PlannedLaunch(blueprint=blueprint, binding=bind(blueprint, {}, existing_cluster=True))


@pytest.fixture
def connection(session: KubeSession) -> ClusterConnection:
    return ClusterConnection(session, Discovery(session))


async def test_a_namespace_that_is_not_there(connection: ClusterConnection, tmp_path: Path) -> None:
    found = await check_namespace(connection, a_launch(tmp_path, a_job(), namespace="nope"))
    assert (found.result, found.detail) == (CheckResult.FAILED, "The namespace nope does not exist.")


@pytest.mark.parametrize(
    ("job", "result", "said"),
    [
        (a_job(), CheckResult.PASSED, "The cluster takes 2 objects, the pods included."),
        (UNDEFINED, CheckResult.FAILED, "does not know the kind SparkApplication of sparkoperator.k8s.io/v1beta2."),
        (a_job(nodeSelectors={}), CheckResult.FAILED, 'unknown field "spec.template.spec.nodeSelectors"'),
    ],
)
async def test_a_dry_run_says_what_the_cluster_would_refuse(
    job: dict[str, Any], result: CheckResult, said: str, connection: ClusterConnection, tmp_path: Path
) -> None:
    found = await check_dry_run(connection, a_launch(tmp_path, job))
    assert found.result is result, found.detail
    assert said in found.detail
    ref = ObjectRef("batch/v1", "Job", "default", "asked-first")
    assert await connection.find(ref) is None, "nothing was made"


@pytest.mark.parametrize(
    ("others", "result", "said"),
    [
        ([CLAIM], CheckResult.FAILED, "asked-first names the StorageClass nowhere, which is not there."),
        ([VOLUME, CLAIM], CheckResult.PASSED, "The cluster takes 4 objects, the pods included."),
    ],
)
async def test_a_claim_of_a_storage_class_that_is_not_there(
    others: list[dict[str, Any]], result: CheckResult, said: str, connection: ClusterConnection, tmp_path: Path
) -> None:
    found = await check_dry_run(connection, a_launch(tmp_path, a_job(), *others))
    assert found.result is result, found.detail
    assert said in found.detail


async def test_pods_that_no_node_takes(connection: ClusterConnection, tmp_path: Path) -> None:
    room = await look_for_room(connection, a_launch(tmp_path, a_job(**ON_G6E)), InstanceTable.load())
    assert room.found.result is CheckResult.FAILED
    assert "It selects node.kubernetes.io/instance-type=g6e.12xlarge." in room.found.detail


@pytest.mark.parametrize(
    ("job", "namespace", "refusing"),
    [
        (a_job(), "nope", "namespace"),
        (UNDEFINED, "default", "dry run"),
        (a_job(**ON_G6E), "default", "room for the pods"),
    ],
)
def test_a_launch_that_must_fail_makes_no_run(
    job: dict[str, Any], namespace: str, refusing: str, program: Program, tmp_path: Path
) -> None:
    write_blueprint(tmp_path, job, namespace=namespace)
    given = ("--blueprints", str(tmp_path), "--demo")
    asked = program.command(*given, "doctor", "asked-first", "--existing-cluster")
    assert asked.returncode == 1
    assert f"\nfail     {refusing}" in asked.stdout
    launched = program.command(*given, "launch", "asked-first", "--existing-cluster", "--yes")
    assert launched.returncode == 1
    last = launched.stderr.splitlines()[-1]
    assert last.startswith(f"eksml-tui: The launch would fail: {refusing}: ")
    assert last.endswith(f" To launch anyway: --waive '{refusing}'.")
    script = tmp_path / "script.yaml"  # what the console carries out, without its form
    script.write_text("eksml-script: 1\nsteps: [{launch: {blueprint: asked-first, existing_cluster: true}}]\n")
    played = program.command(*given, "--script", str(script))
    assert played.returncode == 1
    assert f"The launch would fail: {refusing}: " in played.stdout + played.stderr
    assert f"To launch anyway: waive={refusing}." in " ".join((played.stdout + played.stderr).split())
    assert program.command("runs", "list").stdout == "There are no runs on this machine.\n"

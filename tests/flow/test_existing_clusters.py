"""The five blueprints on a cluster that others have made, by a user with one namespace: doctor, life, teardown.

Nodes, labels, claims, operators and device plugins are there under the names that the commands of each system's own
guide give them. The user may see none of them but the claim.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml

from actions.base.clock import SystemClock
from actions.base.files import shipped_blueprints
from actions.blueprint.parameters import Binding, bind
from actions.blueprint.render import RUN_LABEL
from actions.blueprint.stages import ManifestsStage
from actions.cluster.auth.kubeconfig import ClusterTarget
from actions.cluster.objects.client import ObjectRef, ref_of
from actions.run.checks.external import SessionPool
from actions.run.context.access import ClusterConnection
from actions.run.doctor.launch import PlannedLaunch
from actions.run.doctor.report import require_passed
from actions.run.doctor.survey import LaunchSurvey
from actions.run.launch import LaunchOrder, create_run
from actions.run.objects.writes import rank_of
from actions.run.state.records import CheckResult
from actions.run.state.view import RunState
from actions.sandbox.clientkit.kinds import EFA, GPU, NODES, Document
from tests.flow.test_one_namespace import RULES, as_of, kubeconfig_as, role_of
from tests.support.smallrun import carry_out, torn_down
from tests.unit.blueprint.shipped import shipped
from tests.unit.sandbox.aws.test_nodegroups import a_group, account, nodes_of
from tests.unit.sandbox.controllers.server import until

TEAM, USER = "team", "alice"
NVIDIA = ("nvidia-device-plugin-daemonset", "kube-system", {"name": "nvidia-device-plugin-ds"})
EFA_PLUGIN = ("efa-aws-efa-k8s-device-plugin", "kube-system", {"name": "efa-aws-efa-k8s-device-plugin"})
OURS = (("nvidia-device-plugin", "nvidia-device-plugin"), ("kube-system", "aws-efa-k8s-device-plugin"))
NEURON = "aws.amazon.com/neuron"
IMAGE = {"image_source": "given", "image": "registry.example/train:1"}


@dataclass(frozen=True)
class System:
    """A blueprint, and the cluster that its guide's commands make."""

    blueprint: str
    instance_type: str = ""
    """Of nodes that are there; empty where Karpenter starts them."""
    nodes: int = 2
    labels: dict[str, str] = field(default_factory=dict)
    offers: dict[str, str] = field(default_factory=dict)
    values: dict[str, str] = field(default_factory=dict)


SYSTEMS = [
    System("bionemo-esm1nv"),
    System("nemo-gpt3-5b", "p4de.24xlarge", 2, {"accelerator": "nvidia"}, {GPU: "8", EFA: "4"}, IMAGE),
    System("efa-nccl-tests", "g5.8xlarge", 2, {"accelerator": "nvidia"}, {GPU: "1", EFA: "1"}),
    System("llama2-trn1-mpi", "trn1.32xlarge", 4, {}, {NEURON: "16", EFA: "8"}, IMAGE),
    System("llama2-trn1-ray", "trn1.32xlarge", 2, {"instance-type": "trn1-32xl"}, {NEURON: "16", EFA: "8"}, IMAGE),
]


def daemon_set(name: str, namespace: str, labels: dict[str, str]) -> Document:
    container = {"name": "plugin", "image": "example.test/plugin:1", "resources": {}}
    pod = {"tolerations": [{"operator": "Exists"}], "containers": [container]}
    spec = {"selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels}, "spec": pod}}
    return {"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": name, "namespace": namespace}} | {
        "spec": spec
    }


def of_others(launch: PlannedLaunch) -> list[Document]:
    """The objects of the administrator: operators, node pools, queues, without a mark of ours."""
    found = [
        one
        for stage in launch.stages
        if isinstance(stage, ManifestsStage) and (stage.detect is not None or stage.id == "queue")
        for one in launch.rendered(stage)
    ]
    for one in found:
        (one["metadata"].get("labels") or {}).pop(RUN_LABEL, None)
    return sorted(found, key=lambda one: rank_of(one["kind"]))


def volumes_of(blueprint: str) -> list[Document]:
    path = shipped_blueprints() / blueprint / "manifests" / "volumes.yaml"
    return list(yaml.safe_load_all(path.read_text(encoding="utf-8"))) if path.is_file() else []


def all_of_others(launch: PlannedLaunch) -> list[Document]:
    """The objects of the administrator: the user's namespace, role and claims, then those `of_others`."""
    space: Document = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": TEAM}}
    claims = [
        one | {"metadata": one["metadata"] | {"namespace": TEAM}} if one["kind"] != "PersistentVolume" else one
        for one in volumes_of(launch.blueprint.id)
    ]
    return [space, *role_of(USER, TEAM, RULES), *claims, *of_others(launch)]


async def put(admin: ClusterConnection, documents: list[Document]) -> None:
    for one in documents:
        await admin.apply(one)
        if one["kind"] == "CustomResourceDefinition":
            admin.discovery.forget()


async def deployments_ready(admin: ClusterConnection, documents: list[Document]) -> None:
    for one in documents:
        if one["kind"] == "Deployment":
            ref = ref_of(one)
            while not ((await admin.fetch(ref)).get("status") or {}).get("readyReplicas"):
                pass


@asynccontextmanager
async def made_by_others(system: System, folder: Path) -> AsyncIterator[tuple[ClusterConnection, Binding]]:
    """The cluster, with its administrator, and the values of a launch into it."""
    blueprint = shipped(system.blueprint)
    binding = bind(blueprint, system.values, preset="rehearsal", existing_cluster=True)
    launch = PlannedLaunch(blueprint=blueprint.under("rehearsal"), binding=binding, original=blueprint)
    async with account(folder) as (client, eks), as_of(folder / "kubeconfig") as admin:
        if system.offers.get(GPU):
            for namespace, name in OURS:
                await client.session.request("DELETE", f"/apis/apps/v1/namespaces/{namespace}/daemonsets/{name}")
            await put(admin, [daemon_set(*NVIDIA), daemon_set(*EFA_PLUGIN)])
        if system.instance_type:
            await eks.ask("create_nodegroup", **a_group(system.instance_type, nodes=system.nodes, labels=system.labels))
            await eks.until("accelerated", "ACTIVE")

            def offers_all(node: Document | None) -> bool:
                return node is not None and system.offers.items() <= node["status"]["allocatable"].items()

            for node in await nodes_of(client):
                await until(client, NODES, node["metadata"]["name"], offers_all)
        made = all_of_others(launch)
        await put(admin, made)
        await deployments_ready(admin, made)
        yield admin, binding


async def uids(admin: ClusterConnection, documents: list[Document]) -> list[str]:
    return [(await admin.fetch(ref_of(one)))["metadata"]["uid"] for one in documents]


@pytest.mark.parametrize("system", SYSTEMS, ids=[one.blueprint for one in SYSTEMS])
async def test_a_user_with_one_namespace_trains_on_a_cluster_of_others(system: System, tmp_path: Path) -> None:
    async with made_by_others(system, tmp_path) as (admin, binding):
        blueprint = shipped(system.blueprint)
        launch = PlannedLaunch(blueprint=blueprint.under("rehearsal"), binding=binding, original=blueprint)
        before = await uids(admin, of_others(launch))
        (tmp_path / USER).mkdir()
        kubeconfig = kubeconfig_as(tmp_path / USER, tmp_path / "kubeconfig", USER, TEAM)
        target, pool = ClusterTarget(kubeconfig, namespace=TEAM), SessionPool()
        survey = LaunchSurvey(
            target, blueprint, binding, clock=SystemClock(), pool=pool, is_simulated=True, runs=tmp_path / "runs"
        )
        await survey.run(seconds=60)
        pool.close()
        assert [line for line in survey.lines if line.result is CheckResult.FAILED] == []
        require_passed(survey.lines, waived=(), waiver=str)
        folder = create_run(LaunchOrder(
            blueprint, binding, target=target, environment={}, clock=SystemClock(), auto_approve=True,
            base=tmp_path / "runs",
        ))  # fmt: skip
        view = await carry_out(folder)
        assert view.state is RunState.SUCCEEDED, [(stage.id, stage.message) for stage in view.stages]
        view = await torn_down(folder)
        assert view.state is RunState.TORN_DOWN, [step.message for step in view.teardown]
        assert view.audit is not None
        assert view.audit.leftovers == ()
        assert await uids(admin, of_others(launch)) == before
        left: list[dict[str, Any]] = await admin.list_objects("batch/v1", "Job", namespace=TEAM)
        assert left == []
        for one in volumes_of(system.blueprint):
            if one["kind"] == "PersistentVolumeClaim":
                ref = ObjectRef("v1", one["kind"], TEAM, one["metadata"]["name"])
                assert (await admin.fetch(ref))["status"]["phase"] == "Bound"

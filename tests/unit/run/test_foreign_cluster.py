"""NeMo on a cluster that others have made: two nodes of theirs, device plugins under the names of their own charts."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from actions.base.clock import SystemClock
from actions.base.files import shipped_blueprints
from actions.blueprint.parameters import bind
from actions.cluster.auth.kubeconfig import ClusterTarget
from actions.run.launch import LaunchOrder, create_run
from actions.run.state.records import CheckResult
from actions.run.state.view import RunView, StageState, StageView
from actions.sandbox.clientkit.client import ApiClient
from actions.sandbox.clientkit.kinds import EFA, GPU, NODES, Document
from tests.support.smallrun import carry_out, torn_down
from tests.unit.blueprint.shipped import shipped
from tests.unit.sandbox.aws.test_nodegroups import a_group, account, nodes_of
from tests.unit.sandbox.controllers.server import apply_all, until

_NAME = "nemo-gpt3-5b"
_OURS = (("nvidia-device-plugin", "nvidia-device-plugin"), ("kube-system", "aws-efa-k8s-device-plugin"))
_THEIRS: tuple[tuple[str, dict[str, str], dict[str, str]], ...] = (
    ("nvidia-device-plugin-daemonset", {"name": "nvidia-device-plugin-ds"}, {"accelerator": "nvidia"}),
    ("efa-aws-efa-k8s-device-plugin", {"name": "efa-aws-efa-k8s-device-plugin"}, {}),
)
"""DaemonSets of kube-system as the manifest of k8s-device-plugin 0.14.3 and `helm install efa` name them."""


def _daemon_set(name: str, labels: dict[str, str], selector: dict[str, str]) -> dict[str, Any]:
    container = {"name": "plugin", "image": "example.test/plugin:1", "resources": {}}
    pod = {"nodeSelector": selector, "tolerations": [{"operator": "Exists"}], "containers": [container]}
    return {
        "apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": name, "namespace": "kube-system"},
        "spec": {"selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels}, "spec": pod}},
    }  # fmt: skip


@asynccontextmanager
async def a_foreign_cluster(folder: Path, instance_type: str) -> AsyncIterator[ApiClient]:
    async with account(folder) as (client, eks):
        for namespace, name in _OURS:
            path = f"/apis/apps/v1/namespaces/{namespace}/daemonsets/{name}"
            await client.session.request("DELETE", path)
        await apply_all(client, [_daemon_set(*one) for one in _THEIRS])
        taints = [{"key": "nvidia.com/gpu", "value": "true", "effect": "NO_SCHEDULE"}]
        labels = {"accelerator": "nvidia"}
        await eks.ask("create_nodegroup", **a_group(instance_type, nodes=2, taints=taints, labels=labels))
        await eks.until("accelerated", "ACTIVE")
        volumes = (shipped_blueprints() / _NAME / "manifests" / "volumes.yaml").read_text(encoding="utf-8")
        await apply_all(client, list(yaml.safe_load_all(volumes)))
        yield client


def a_launch(tmp_path: Path) -> Path:
    blueprint = shipped(_NAME)
    values = {"image_source": "given", "image": "registry.example/nemo:24.01"}
    bound = bind(blueprint, values, preset="rehearsal", existing_cluster=True)
    target = ClusterTarget(tmp_path / "kubeconfig")
    return create_run(
        LaunchOrder(
            blueprint,
            bound,
            target=target,
            environment={},
            clock=SystemClock(),
            auto_approve=True,
            base=tmp_path / "runs",
        )
    )


def stage(view: RunView, stage_id: str) -> StageView:
    (found,) = [one for one in view.stages if one.id == stage_id]
    return found


async def test_plugins_of_other_names_do_not_end_a_run_whose_nodes_offer_all(tmp_path: Path) -> None:
    async with a_foreign_cluster(tmp_path, "p4de.24xlarge") as client:

        def offers_all(node: Document | None) -> bool:
            return node is not None and {GPU: "8", EFA: "4"}.items() <= node["status"]["allocatable"].items()

        for node in await nodes_of(client):
            await until(client, NODES, node["metadata"]["name"], offers_all)
        folder = a_launch(tmp_path)
        view = await carry_out(folder)
        fabric = stage(view, "fabric")
        results = {one.subject: one.result for one in fabric.findings}
        assert fabric.state is StageState.SUCCEEDED, fabric.message
        assert results["GPUs"] is results["EFA interfaces"] is results["huge pages"] is CheckResult.PASSED
        assert results["NVIDIA device plugin"] is CheckResult.FAILED
        await torn_down(folder)


async def test_nodes_without_efa_end_it_before_the_data_preparation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("actions.run.stages.check.PATIENCE_SECONDS", 2.0)
    async with a_foreign_cluster(tmp_path, "g5.12xlarge"):
        view = await carry_out(a_launch(tmp_path))
        fabric = stage(view, "fabric")
        assert fabric.state is StageState.FAILED
        assert {"GPUs", "EFA interfaces", "huge pages"} <= {
            one.subject for one in fabric.findings if one.result is CheckResult.FAILED
        }
        assert [one.id for one in view.stages if one.state is StageState.SUCCEEDED] == ["kubeconfig"]
        assert stage(view, "data").state is StageState.PENDING

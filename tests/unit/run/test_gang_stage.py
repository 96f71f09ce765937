"""The gang test of the Ray blueprint on the sandbox: placed and deleted, or failed with what it waits for."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import yaml

from actions.base.files import shipped_blueprints
from actions.blueprint.stages import CheckStage, JobStage, TerraformStage
from actions.run.state.view import RunState, RunView
from actions.sandbox.clientkit.client import ApiClient
from actions.sandbox.clientkit.kinds import DEPLOYMENTS, JOBS, POD_GROUPS, PODS, QUEUES, Document
from tests.support.smallrun import a_small_run, carry_out, torn_down
from tests.unit.blueprint.shipped import shipped
from tests.unit.sandbox.controllers.server import apply_all, mirrored, until, whole_cluster

_NAME = "llama2-trn1-ray"
_MANIFESTS = shipped_blueprints() / _NAME / "manifests"
_GANG, _QUEUE = ((_MANIFESTS / f"{name}.yaml").read_text(encoding="utf-8") for name in ("gang", "queue"))
_BLUEPRINT = """
schema: eksml/v1
id: small
title: A gang
summary: For tests.
cluster: {name: known, region: us-west-2, namespace: default}
stages:
  - {id: access, kind: kubeconfig, title: Access, expect: 1s..5s, cluster: known, region: us-west-2}
  - id: gang
    kind: job
    title: Gang test
    needs: [access]
    expect: 1s..5s
    manifests: [gang.yaml]
    target: {api_version: batch/v1, kind: Job, name: llama2-gang-test}
    is_temporary: true
    deadline_seconds: LIMIT
"""


def _is_ready(deployment: Document | None) -> bool:
    return ((deployment or {}).get("status") or {}).get("readyReplicas") == 1


@asynccontextmanager
async def volcano(folder: Path, *, queue: str = _QUEUE) -> AsyncIterator[ApiClient]:
    """A sandbox with Volcano and the queue of the blueprint."""
    async with whole_cluster(folder) as client:
        await apply_all(client, mirrored("volcano/1.15.1"))
        for name in ("scheduler", "controllers", "admission"):
            await until(client, DEPLOYMENTS, f"volcano-system/volcano-{name}", _is_ready)
        if queue:
            await apply_all(client, [yaml.safe_load(queue)])
            key = str(yaml.safe_load(queue)["metadata"]["name"])
            await until(client, QUEUES, key, lambda one: ((one or {}).get("status") or {}).get("state") == "Open")
        yield client


def a_gang(tmp_path: Path, text: str = _GANG, *, limit: int = 60) -> Path:
    files = {"blueprint.yaml": _BLUEPRINT.replace("LIMIT", str(limit)), "gang.yaml": text}
    return a_small_run(tmp_path, files, kubeconfig=tmp_path / "kubeconfig", existing_cluster=True)


def said(view: RunView) -> str:
    (stage,) = [stage for stage in view.stages if stage.id == "gang"]
    return f"{stage.state.value}: {stage.message}"


async def left(client: ApiClient) -> list[str]:
    names = [await client.read(kind, "default/llama2-gang-test") for kind in (JOBS, POD_GROUPS)]
    pods = (await client.session.get(PODS.path(namespace="default")))["items"]
    return [*(str(one["kind"]) for one in names if one), *(pod["metadata"]["name"] for pod in pods)]


async def test_a_gang_that_is_placed_leaves_nothing(tmp_path: Path) -> None:
    async with volcano(tmp_path) as client:
        folder = a_gang(tmp_path)
        assert said(await carry_out(folder)).startswith("succeeded")
        assert await left(client) == []
        view = await torn_down(folder)
        assert view.state is RunState.TORN_DOWN
        assert view.audit is not None
        assert view.audit.is_clean


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (("cpu: 100m", 'cpu: "500"'), "PodGroup default/llama2-gang-test: "),
        (("queue: llama2-training-queue", "queue: nobodys"), "PodGroup default/llama2-gang-test: NotSeen"),
    ],
)
async def test_a_gang_that_is_not_placed_says_what_it_waits_for(
    tmp_path: Path, change: tuple[str, str], words: str
) -> None:
    async with volcano(tmp_path) as client:
        folder = a_gang(tmp_path, _GANG.replace(*change), limit=3)
        told = said(await carry_out(folder))
        assert told.startswith("failed")
        assert words in told
        assert (await torn_down(folder)).state is RunState.TORN_DOWN
        assert await left(client) == []


async def test_a_scheduler_that_does_not_act_fails_the_gang(tmp_path: Path) -> None:
    async with volcano(tmp_path) as client:
        await client.patch(DEPLOYMENTS, "volcano-system/volcano-scheduler", {"spec": {"replicas": 0}})
        await until(client, DEPLOYMENTS, "volcano-system/volcano-scheduler", lambda one: not _is_ready(one))
        told = said(await carry_out(a_gang(tmp_path, limit=3)))
        assert told.startswith("failed: Job default/llama2-gang-test has not ended within 3 s. 0 of 2 pods ready.")


def test_the_gang_is_tried_before_trainium_is_paid_for_and_on_a_cluster_that_is_there() -> None:
    stages = {stage.id: stage for stage in shipped(_NAME).stages}
    order = list(stages)
    gang = stages["gang"]
    assert isinstance(gang, JobStage)
    assert gang.is_temporary
    assert not gang.own_cluster_only
    assert isinstance(stages[gang.needs[0]], CheckStage)
    assert isinstance(stages["nodes"], TerraformStage)
    for stage in ("reservation", "nodes", "fabric"):
        assert "gang" in stages[stage].needs
        assert order.index("gang") < order.index(stage)
    (group, job) = yaml.safe_load_all(_GANG)
    pod = job["spec"]["template"]
    assert group["spec"]["queue"] == yaml.safe_load(_QUEUE)["metadata"]["name"]
    assert group["spec"]["minMember"] == job["spec"]["parallelism"] == job["spec"]["completions"] == 2
    assert pod["metadata"]["annotations"]["scheduling.k8s.io/group-name"] == group["metadata"]["name"]
    assert (pod["spec"]["schedulerName"], pod["spec"].get("tolerations")) == ("volcano", None)

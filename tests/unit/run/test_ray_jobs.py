"""The work of a RayJob on a chosen cluster: it has ended before the object goes, or that is said not to be known."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import aiohttp
import pytest
import yaml

from actions.base.errors import AccessError
from actions.cluster.objects.client import Discovery, ObjectRef
from actions.cluster.remote.exec import PROTOCOLS, Channel
from actions.run.context.access import ClusterConnection
from actions.run.objects import ray_jobs
from actions.run.objects.ray_jobs import stop_ray_job
from actions.run.state.view import RunView
from actions.sandbox.clientkit.client import ApiClient
from actions.sandbox.clientkit.kinds import RAY_CLUSTERS, RAY_JOBS, Document
from tests.support import polling
from tests.support.smallrun import a_small_run, carry_out, torn_down
from tests.unit.sandbox.controllers.server import apply_all, mirrored, until, whole_cluster
from tests.unit.sandbox.controllers.test_kuberay import a_cluster

_BLUEPRINT = """
schema: eksml/v1
id: small
title: A RayJob
summary: For tests.
cluster: {name: known, region: us-west-2, namespace: default}
stages:
  - {id: access, kind: kubeconfig, title: Access, expect: 1s..5s, cluster: known, region: us-west-2}
  - id: train
    kind: job
    title: Training
    needs: [access]
    expect: 1s..5s
    manifests: [train.yaml]
    target: {api_version: ray.io/v1, kind: RayJob, name: train}
    deadline_seconds: 5
"""
_TRAIN: Document = {
    "apiVersion": "ray.io/v1",
    "kind": "RayJob",
    "metadata": {"name": "train", "namespace": "default"},
    "spec": {
        "entrypoint": "NEURON_NUM_DEVICES=32 python3 ray_train_llama2.py --num_nodes=2 --steps_this_run=20",
        "clusterSelector": {"ray.io/cluster": "rc"},
    },
}
"""It waits for cores that no worker has."""
_REF = ObjectRef("ray.io/v1", "RayJob", "default", "train")
_UNKNOWN = "Whether the work of RayJob default/train has ended is not known: "
_EXIT_1 = json.dumps({"status": "Failure", "details": {"causes": [{"reason": "ExitCode", "message": "1"}]}}).encode()


@asynccontextmanager
async def ray(folder: Path) -> AsyncIterator[ApiClient]:
    """A sandbox with a Ray cluster."""
    async with whole_cluster(folder) as client:
        for name in ("volcano/1.15.1", "kuberay/1.1.1"):
            await apply_all(client, mirrored(name))
        await apply_all(client, [a_cluster()])
        yield client


def connected(client: ApiClient) -> ClusterConnection:
    return ClusterConnection(client.session, Discovery(client.session))


def in_state(state: str) -> Callable[[Document | None], bool]:
    return lambda found: ((found or {}).get("status") or {}).get("jobStatus") == state


async def failed_training(client: ApiClient, folder: Path) -> Path:
    """A run whose stage has given up its RayJob, which goes on."""
    files = {"blueprint.yaml": _BLUEPRINT, "train.yaml": yaml.safe_dump(_TRAIN)}
    run = a_small_run(folder, files, kubeconfig=folder / "kubeconfig", existing_cluster=True)
    assert said(await carry_out(run)).startswith("failed: RayJob default/train has not ended within 5 s.")
    await until(client, RAY_JOBS, "default/train", in_state("RUNNING"))
    return run


def said(view: RunView) -> str:
    (stage,) = [stage for stage in view.stages if stage.id == "train"]
    return f"{stage.state.value}: {stage.message}"


async def test_the_work_is_over_before_the_object_goes(tmp_path: Path) -> None:
    async with ray(tmp_path) as client:
        await apply_all(client, [_TRAIN])
        await until(client, RAY_JOBS, "default/train", in_state("RUNNING"))
        assert await stop_ray_job(connected(client), _REF) == ""
        await until(client, RAY_JOBS, "default/train", in_state("STOPPED"))
        assert await stop_ray_job(connected(client), _REF) == ""


async def test_a_teardown_says_nothing_of_work_that_has_ended(tmp_path: Path) -> None:
    async with ray(tmp_path) as client:
        run = await failed_training(client, tmp_path)
        assert said(await torn_down(run)) == "undone: 1 object removed."


async def test_a_teardown_deletes_a_rayjob_whose_head_is_gone_and_says_so(tmp_path: Path) -> None:
    async with ray(tmp_path) as client:
        run = await failed_training(client, tmp_path)
        await client.delete(RAY_CLUSTERS, "default/rc")

        async def is_gone() -> bool:
            return not await connected(client).pods(namespace="default", label_selector="ray.io/node-type=head")

        await polling.until(is_gone, "the end of the head")
        told = said(await torn_down(run))
        assert told == f"undone: 1 object removed. {_UNKNOWN}no head of RayCluster rc runs."
        assert await client.read(RAY_JOBS, "default/train") is None


async def test_a_program_that_is_refused_in_the_head_keeps_nothing_from_being_deleted() -> None:
    refusal = AccessError('Not allowed: pods "head" is forbidden.')
    assert await said_of([], refusal=refusal) == f'{_UNKNOWN}Not allowed: pods "head" is forbidden.'


async def test_a_stop_without_an_end_is_waited_for_in_vain_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ray_jobs, "_STOP_SECONDS", 0.2)
    assert await said_of([(Channel.STDOUT, b"Attempting to stop job")]) == (
        f"{_UNKNOWN}ray in default/head did not end within 0 s."
    )


async def test_the_last_words_of_a_stop_that_fails_are_quoted() -> None:
    answers = [(Channel.STDERR, b"RuntimeError: Request failed with status code 404\n"), (Channel.ERROR, _EXIT_1)]
    assert await said_of(answers) == f"{_UNKNOWN}RuntimeError: Request failed with status code 404."
    assert await said_of(answers[1:]) == f"{_UNKNOWN}`ray job stop` ended with 1."


async def said_of(answers: list[tuple[Channel, bytes]], *, refusal: AccessError | None = None) -> str:
    """Return what is said of work whose head answers a program with these parts, then with nothing."""

    async def find(_ref: ObjectRef) -> Document:
        status = {"jobId": "train-1", "jobStatus": "RUNNING", "rayClusterName": "rc"}
        return {"spec": {"clusterSelector": {"ray.io/cluster": "rc"}}, "status": status}

    async def pods(**_where: str) -> list[Document]:
        spec = {"containers": [{"name": "ray-head"}]}
        return [{"metadata": {"name": "head"}, "spec": spec, "status": {"phase": "Running"}}]

    left = [SimpleNamespace(type=aiohttp.WSMsgType.BINARY, data=bytes([part]) + told) for part, told in answers]
    if any(part is Channel.ERROR for part, _ in answers):
        left.append(SimpleNamespace(type=aiohttp.WSMsgType.CLOSED, data=None))

    async def receive() -> SimpleNamespace:
        return left.pop(0) if left else await asyncio.get_running_loop().create_future()

    @asynccontextmanager
    async def websocket(_path: str, **_asked: object) -> AsyncIterator[SimpleNamespace]:
        if refusal is not None:
            raise refusal
        yield SimpleNamespace(protocol=PROTOCOLS[0], receive=receive)

    connection = SimpleNamespace(find=find, pods=pods, session=SimpleNamespace(websocket=websocket))
    return await stop_ray_job(cast("ClusterConnection", connection), _REF)

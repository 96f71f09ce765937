"""The BioNeMo blueprint's objects on the whole sandbox: data, nodes, training, removal."""

from __future__ import annotations

import copy
from pathlib import Path

import yaml

from actions.base.files import shipped_blueprints
from actions.sandbox.clientkit.client import ApiClient
from actions.sandbox.clientkit.conditions import is_true
from actions.sandbox.clientkit.kinds import (
    CLAIMS,
    DEPLOYMENTS,
    JOBS,
    NODE_CLAIMS,
    NODE_CLASSES,
    NODE_POOLS,
    NODES,
    PODS,
    PYTORCH_JOBS,
    VOLUMES,
    Document,
)
from tests.unit.sandbox.controllers.server import apply_all, training_operator, until, whole_cluster

_WORKERS = 8


def _manifests(name: str) -> list[Document]:
    path = shipped_blueprints() / "bionemo-esm1nv" / "manifests" / name
    return list(yaml.safe_load_all(path.read_text(encoding="utf-8")))


def _training(*, steps: int) -> Document:
    _, job = copy.deepcopy(_manifests("pretrain.yaml"))
    container = job["spec"]["pytorchReplicaSpecs"]["Worker"]["template"]["spec"]["containers"][0]
    changes = {"trainer.max_steps": str(steps), "trainer.val_check_interval": "20"}
    container["command"] = [
        f"{word.partition('=')[0]}={changes[word.partition('=')[0]]}" if word.partition("=")[0] in changes else word
        for word in container["command"]
    ]
    return job


async def _prepare(client: ApiClient) -> None:
    start_script = _manifests("pretrain.yaml")[0]
    await apply_all(client, [*training_operator(), *_manifests("volumes.yaml"), *_manifests("pool.yaml"), start_script])
    await until(client, CLAIMS, "default/fsx-static-pvc", lambda one: _phase(one) == "Bound")
    await until(client, NODE_POOLS, "g5-gpu-karpenter", lambda one: one is not None and is_true(one, "Ready"))
    await until(
        client,
        DEPLOYMENTS,
        "kubeflow/training-operator",
        lambda one: one is not None and (one.get("status") or {}).get("readyReplicas") == 1,
    )


def _phase(document: Document | None) -> str:
    return str(((document or {}).get("status") or {}).get("phase", ""))


async def _names(client: ApiClient, path: str) -> list[str]:
    return [item["metadata"]["name"] for item in (await client.session.get(path))["items"]]


async def test_the_blueprint_lives_from_data_to_the_last_node(tmp_path: Path) -> None:
    async with whole_cluster(tmp_path) as client:
        await _prepare(client)
        await apply_all(client, _manifests("data.yaml"))
        await until(client, JOBS, "default/uniref50-download", lambda one: one is not None and is_true(one, "Complete"))
        assert len(await _names(client, NODES.path())) == 2

        await apply_all(client, [_training(steps=40)])
        job = await until(
            client,
            PYTORCH_JOBS,
            "default/esm1nv-pretraining",
            lambda one: one is not None and is_true(one, "Succeeded"),
        )
        assert [one["type"] for one in job["status"]["conditions"]] == ["Created", "Running", "Succeeded"]
        log = await client.session.request("GET", f"{PODS.path('default/esm1nv-pretraining-worker-0')}/log")
        assert b"reduced_train_loss=" in log
        assert b"`max_steps=40` reached" in log

        claims = (await client.session.get(NODE_CLAIMS.path()))["items"]
        assert len(claims) == 2
        for claim in claims:
            assert claim["metadata"]["labels"]["node.kubernetes.io/instance-type"] == "g5.12xlarge"
            await until(client, NODE_CLAIMS, claim["metadata"]["name"], lambda one: one is None)
        assert len(await _names(client, NODES.path())) == 2


async def test_deleting_the_pool_drains_its_nodes_first(tmp_path: Path) -> None:
    async with whole_cluster(tmp_path) as client:
        await _prepare(client)
        await apply_all(client, _manifests("data.yaml"))
        await until(client, JOBS, "default/uniref50-download", lambda one: one is not None and is_true(one, "Complete"))
        await apply_all(client, [_training(steps=1_000_000)])
        for number in range(8):
            worker = f"default/esm1nv-pretraining-worker-{number}"
            await until(client, PODS, worker, lambda one: _phase(one) == "Running")
        nodes = [
            node
            for node in (await client.session.get(NODES.path()))["items"]
            if "karpenter.sh/nodepool" in node["metadata"]["labels"]
        ]
        assert [node["status"]["allocatable"]["nvidia.com/gpu"] for node in nodes] == ["4", "4"]
        assert all(node["spec"]["taints"][0]["key"] == "nvidia.com/gpu" for node in nodes)

        await client.delete(PYTORCH_JOBS, "default/esm1nv-pretraining")
        await client.delete(NODE_POOLS, "g5-gpu-karpenter")
        await client.delete(NODE_CLASSES, "g5-gpu-karpenter")
        for node in nodes:
            await until(client, NODES, node["metadata"]["name"], lambda one: one is None)
        await until(client, NODE_CLASSES, "g5-gpu-karpenter", lambda one: one is None)
        assert await _names(client, NODE_CLAIMS.path()) == []
        assert [name for name in await _names(client, PODS.path(namespace="default")) if "esm1nv" in name] == []


async def test_a_claim_in_use_stays_until_its_pods_are_gone(tmp_path: Path) -> None:
    async with whole_cluster(tmp_path) as client:
        await _prepare(client)
        await apply_all(client, [_sleeper(volume="fsx-static-pvc")])
        await until(client, PODS, "default/sleeper", lambda one: _phase(one) == "Running")
        await client.delete(CLAIMS, "default/fsx-static-pvc")
        claim = await client.read(CLAIMS, "default/fsx-static-pvc")
        assert claim is not None
        assert claim["metadata"]["deletionTimestamp"]
        await client.delete(PODS, "default/sleeper")
        await until(client, CLAIMS, "default/fsx-static-pvc", lambda one: one is None)
        await until(client, VOLUMES, "fsx-static-pv", lambda one: _phase(one) == "Released")
        await client.delete(VOLUMES, "fsx-static-pv")
        await until(client, VOLUMES, "fsx-static-pv", lambda one: one is None)


def _sleeper(*, volume: str) -> Document:
    return {
        "kind": "Pod",
        "metadata": {"name": "sleeper", "namespace": "default"},
        "spec": {
            "containers": [
                {
                    "name": "main",
                    "image": "example.test/busybox",
                    "command": ["sleep", "infinity"],
                    "volumeMounts": [{"name": "data", "mountPath": "/fsx"}],
                }
            ],
            "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": volume}}],
        },
    }

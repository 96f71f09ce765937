"""Gangs: placed whole or not at all, and what is said of those that wait."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from actions.base.errors import RefusedError
from actions.base.files import asset
from actions.fleet.placement import NodeSpace
from actions.sandbox.apiserver.writes.admission import OperatorWebhooks
from actions.sandbox.clientkit.cache import Caches
from actions.sandbox.clientkit.client import ApiClient
from actions.sandbox.clientkit.kinds import (
    CLAIMS,
    DEFINITIONS,
    DEPLOYMENTS,
    NAMESPACES,
    NODES,
    POD_GROUPS,
    PODS,
    QUEUES,
    Document,
    kind_named,
)
from actions.sandbox.controllers.volcano import scheduler as volcano
from actions.sandbox.controllers.volcano.gang import Gang
from actions.sandbox.model.options import SandboxOptions
from tests.unit.sandbox.controllers.server import bare_api, pod_group_definition, put_operator, until, whole_cluster

_NEURON = "aws.amazon.com/neuron"


def a_pod(name: str, *, neuron: int = 0, node: str = "", phase: str = "Pending", group: str = "pg") -> Document:
    amounts = {_NEURON: str(neuron)} if neuron else {"cpu": "1"}
    metadata = {"name": name, "namespace": "default", "uid": name}
    resources = {"requests": amounts, "limits": amounts}
    container = {"name": "main", "image": "busybox:1", "command": ["sleep", "100000"], "resources": resources}
    spec = {"schedulerName": "volcano", "containers": [container]} | ({"nodeName": node} if node else {})
    annotations = {"scheduling.k8s.io/group-name": group}
    return {"metadata": metadata | {"annotations": annotations}, "spec": spec, "status": {"phase": phase}}


def a_gang(*pods: Document, least: int) -> Gang:
    return Gang({"metadata": {"name": "pg", "namespace": "default"}, "spec": {"minMember": least}}, list(pods))


def a_node(name: str, *, neuron: int) -> NodeSpace:
    return NodeSpace(name, {}, [], {"cpu": 8.0, "pods": 110.0, _NEURON: float(neuron)})


def no_problem(_pod: Document) -> str:
    return ""


def test_a_gang_that_does_not_fit_tells_what_each_pod_waits_for() -> None:
    gang = a_gang(a_pod("head"), a_pod("w0", neuron=16), a_pod("w1", neuron=16), least=3)
    gang.place([a_node("core", neuron=0), a_node("gone", neuron=0)], no_problem)
    assert not gang.is_ready
    assert gang.refused == {"w0": "0/2 nodes are unavailable: 2 Insufficient aws.amazon.com/neuron."}
    waiting = "1 Allocated, 2 Pending, 3 minAvailable; Pending: 2 Unschedulable. Origin reason is w0: 0/2 nodes are "
    waiting += "unavailable: 2 Insufficient aws.amazon.com/neuron."
    assert gang.shortage_message() == f"2/3 tasks in gang unschedulable: pod group is not ready, {waiting}"
    assert gang.waiting_message() == gang.shortage_message()


def _volcano() -> list[Document]:
    text = asset("mirror/volcano/1.15.1/manifest.yaml").read_text(encoding="utf-8")
    return [one for one in yaml.safe_load_all(text) if one["kind"] in (DEFINITIONS.kind, DEPLOYMENTS.kind, "Namespace")]


async def test_a_group_that_asks_for_less_by_now_is_not_called_short_of_pods(tmp_path: Path) -> None:
    async with bare_api(tmp_path) as client:
        await client.create(NAMESPACES, {"metadata": {"name": "default"}})
        await client.create(DEFINITIONS, pod_group_definition())
        group = {"metadata": {"name": "pg", "namespace": "default"}, "spec": {"minMember": 3}}
        caches = Caches((PODS, NODES, CLAIMS, QUEUES, POD_GROUPS, DEPLOYMENTS))
        caches[QUEUES].upsert({"metadata": {"name": "default", "uid": "q"}, "spec": {}})
        caches[POD_GROUPS].upsert(await client.create(POD_GROUPS, group) or {})
        for name in ("w0", "w1"):
            caches[PODS].upsert(a_pod(name, node="n", phase="Running"))
        caches[QUEUES].is_synced.set()
        await client.patch(POD_GROUPS, "default/pg", {"spec": {"minMember": 2}})  # the cache does not know it yet
        namespace, _, name = volcano.SCHEDULER.partition("/")
        caches[DEPLOYMENTS].upsert({"metadata": {"namespace": namespace, "name": name}, "status": {"readyReplicas": 1}})
        scheduler = volcano.VolcanoScheduler(client, caches, period_seconds=0.0)

        await scheduler.reconcile("all")
        assert "status" not in (await client.read(POD_GROUPS, "default/pg") or {})
        await scheduler.reconcile("all")
        status = (await client.read(POD_GROUPS, "default/pg") or {})["status"]
        assert (status["phase"], [one["type"] for one in status["conditions"]]) == ("Running", ["Scheduled"])


async def test_nothing_starts_until_all_fits_and_the_operator_is_there(tmp_path: Path) -> None:
    options = SandboxOptions(image_pull_seconds=0.05, container_start_seconds=0.02)
    async with whole_cluster(tmp_path, options) as client:
        documents = _volcano()
        for document in documents:
            await client.create(kind_named(document["kind"]), document)
        await until(client, QUEUES, "default", lambda queue: (queue or {}).get("status", {}).get("state") == "Open")
        await client.create(POD_GROUPS, {"metadata": {"name": "pg", "namespace": "default"}, "spec": {"minMember": 2}})
        pods = [a_pod("head"), a_pod("w0", neuron=16)]
        for pod in pods:
            await client.create(PODS, pod)
        waiting = await until(client, POD_GROUPS, "default/pg", lambda one: bool(_reasons(one)))
        assert _reasons(waiting) == ["NotEnoughResources"]
        assert [await _node_of(client, name) for name in ("head", "w0")] == ["", ""]
        node = (await client.session.get(NODES.path()))["items"][0]
        amounts = {_NEURON: "16"}
        await client.patch_status(NODES, node, {"capacity": amounts, "allocatable": amounts})
        await until(client, POD_GROUPS, "default/pg", lambda one: (one or {})["status"]["phase"] == "Running")
        assert all([await _node_of(client, name) for name in ("head", "w0")])


def _reasons(group: Document | None) -> list[str]:
    return [one["reason"] for one in ((group or {}).get("status") or {}).get("conditions") or ()]


async def _node_of(client: ApiClient, pod: str) -> str:
    found = await client.read(PODS, f"default/{pod}")
    return str((found or {"spec": {}})["spec"].get("nodeName", ""))


async def test_the_webhooks_refuse_pods_without_a_queue(tmp_path: Path) -> None:
    async with bare_api(tmp_path, (OperatorWebhooks(),)) as client:
        await client.create(NAMESPACES, {"metadata": {"name": "default"}})
        await put_operator(client, "volcano-system/volcano-admission")
        for definition in _volcano():
            if definition["kind"] == DEFINITIONS.kind:
                await client.create(DEFINITIONS, definition)
        group = {"metadata": {"name": "pg", "namespace": "default"}, "spec": {"minMember": 1}}
        made = await client.create(POD_GROUPS, group)
        assert made is not None
        assert made["spec"]["queue"] == "default"
        with pytest.raises(RefusedError, match="unable to find job queue"):
            await client.create(PODS, a_pod("head"))
        queue = await client.create(QUEUES, {"metadata": {"name": "default"}, "spec": {"weight": 0}})
        assert queue is not None
        assert queue["spec"] == {"weight": 1, "reclaimable": True}
        assert await client.create(PODS, a_pod("head")) is not None
        with pytest.raises(RefusedError, match="queue weight must be a positive integer"):
            await client.patch(QUEUES, "default", {"spec": {"weight": -1}})
        with pytest.raises(RefusedError, match="can not be deleted"):
            await client.delete(QUEUES, "default")

"""Hollow nodes and pods: like real ones to a client, and almost free until they are read."""

from __future__ import annotations

import tracemalloc

import pytest

from actions.base.clock import SystemClock
from actions.base.errors import InputError
from actions.cluster.state.decode import decode_node, decode_pod
from actions.sandbox.apiserver.storage.resources import GroupResource
from actions.sandbox.apiserver.storage.store import Store
from actions.sandbox.hollow_nodes import HollowCount, parse_hollow_count, store_with_hollow_nodes
from tests.unit.sandbox.apiserver.server import an_api, patch

PODS = "/api/v1/pods"
NODES = "/api/v1/nodes"


def hollow_store(nodes: int = 7, pods: int = 1_203) -> Store:
    return store_with_hollow_nodes(HollowCount(nodes, pods), clock=SystemClock(), region="us-west-2")


def test_a_scale_is_read_and_nonsense_refused() -> None:
    assert parse_hollow_count("nodes=5000,pods=50000") == HollowCount(5000, 50_000)
    assert parse_hollow_count("") == HollowCount()
    for text in ("nodes", "nodes=x", "cows=3", "pods=3", "nodes=1,pods=99999999"):
        with pytest.raises(InputError):
            parse_hollow_count(text)


async def test_pages_hold_every_pod_once_on_nodes_that_exist() -> None:
    async with an_api(store=hollow_store()) as client:
        async with client.get(NODES) as answer:
            nodes = {node["metadata"]["name"] for node in (await answer.json())["items"]}
        names: list[str] = []
        token = ""
        while True:
            async with client.get(PODS, params={"limit": "500", "continue": token}) as answer:
                page = await answer.json()
            names += [pod["metadata"]["name"] for pod in page["items"]]
            assert {pod["spec"]["nodeName"] for pod in page["items"]} <= nodes
            token = page["metadata"].get("continue", "")
            if not token:
                break
            assert page["metadata"]["remainingItemCount"] == 1_203 - len(names)
    assert len(names) == len(set(names)) == 1_203
    assert len(nodes) == 7


def test_the_console_reads_them_as_it_reads_real_ones() -> None:
    store = hollow_store(4, 8)
    pod, *_ = store.collection(GroupResource("", "pods")).ordered()
    node, *_ = store.collection(GroupResource("", "nodes")).ordered()
    facts, machine = decode_pod(memoryview(pod.raw)), decode_node(memoryview(node.raw))
    assert (facts.node, facts.requests.gpu, facts.phase) == (machine.name, 8, "Running")
    assert machine.allocatable.gpu == 8


async def test_one_of_hollow_store_can_be_selected_changed_and_deleted() -> None:
    async with an_api(store=hollow_store(3, 9)) as client:
        path = "/api/v1/namespaces/hollow/pods/hollow-000004"
        async with client.get(PODS, params={"fieldSelector": "metadata.name=hollow-000004"}) as answer:
            assert [pod["metadata"]["name"] for pod in (await answer.json())["items"]] == ["hollow-000004"]
        code, changed = await patch(client, path, {"metadata": {"labels": {"a": "b"}}})
        assert (code, changed["metadata"]["labels"]["a"]) == (200, "b")
        async with client.get(PODS, params={"labelSelector": "!eksml.dev/hollow"}) as answer:
            assert (await answer.json())["items"] == []
        async with client.delete(path, params={"gracePeriodSeconds": "0"}) as answer:
            assert answer.status == 200
        async with client.get(PODS) as answer:
            assert len((await answer.json())["items"]) == 8


async def test_a_streamed_list_of_hollow_store_ends_with_its_mark_and_goes_on() -> None:
    query = {
        "watch": "true",
        "sendInitialEvents": "true",
        "resourceVersionMatch": "NotOlderThan",
        "timeoutSeconds": "2",
    }
    async with an_api(store=hollow_store()) as client, client.get(NODES, params=query) as answer:
        lines = [await answer.content.readline() for _ in range(8)]
        assert b"initial-events-end" in lines[-1]
        await patch(client, NODES + "/ip-100-65-0-1.us-west-2.compute.internal", {"spec": {"unschedulable": True}})
        assert b'"type":"MODIFIED"' in await answer.content.readline()


def test_a_large_cluster_takes_little_memory() -> None:
    tracemalloc.start()
    try:
        store = hollow_store(1_000, 10_000)
        taken, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(store.collection(GroupResource("", "pods")).objects) == 10_000
    assert taken / 11_000 < 1_500

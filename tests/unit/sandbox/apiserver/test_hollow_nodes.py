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


def hollow_store(nodes: int = 7, pods: int = 1_203) -> Store:
    return store_with_hollow_nodes(HollowCount(nodes, pods), clock=SystemClock(), region="us-west-2")


def test_a_scale_is_read_and_nonsense_refused() -> None:
    assert parse_hollow_count("nodes=5000,pods=50000") == HollowCount(5000, 50_000)
    assert parse_hollow_count("") == HollowCount()
    for text in ("nodes", "nodes=x", "cows=3", "pods=3", "nodes=1,pods=99999999"):
        with pytest.raises(InputError):
            parse_hollow_count(text)


def test_the_console_reads_them_as_it_reads_real_ones() -> None:
    store = hollow_store(4, 8)
    pod, *_ = store.collection(GroupResource("", "pods")).ordered()
    node, *_ = store.collection(GroupResource("", "nodes")).ordered()
    facts, machine = decode_pod(memoryview(pod.raw)), decode_node(memoryview(node.raw))
    assert (facts.node, facts.requests.gpu, facts.phase) == (machine.name, 8, "Running")
    assert machine.allocatable.gpu == 8


def test_a_large_cluster_takes_little_memory() -> None:
    tracemalloc.start()
    try:
        store = hollow_store(1_000, 10_000)
        taken, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(store.collection(GroupResource("", "pods")).objects) == 10_000
    assert taken / 11_000 < 1_500

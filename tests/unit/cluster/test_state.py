"""The live picture: sums and indexes equal to a fresh count, and no work for nothing."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from aiohttp import web

from actions.base.clock import SystemClock
from actions.cluster.kinds import WATCHED
from actions.cluster.state.cluster_state import ClusterState
from actions.cluster.state.pod_index import PodIndex
from actions.cluster.state.snapshot import ClusterSnapshot
from actions.cluster.state.store import FactTable, pod_key
from actions.cluster.watch.health import Health
from actions.fleet.facts import NOTHING, NodeUsage, PodFacts, Resources
from tests.support.polling import until
from tests.unit.cluster.clocks import HastyClock
from tests.unit.cluster.faults import Json, bookmark, event, page, refusal, stream
from tests.unit.cluster.samples import EVENT, NODE, POD, a_pod, with_conditions
from tests.unit.cluster.servers import session_to

TABLES = len(WATCHED) + 4
"""Kinds of jobs, nodes, pods, events and claims of nodes."""


def _pod(name: str, node: str, *, gpu: int = 1, phase: str = "Running", uid: str = "") -> PodFacts:
    requests = Resources(cpu_milli=100 * gpu, gpu=gpu)
    return PodFacts(uid=uid or name, namespace="n", name=name, node=node, phase=phase, requests=requests)


class Counted:
    """A pod table with its index, and a count from scratch to compare with."""

    def __init__(self) -> None:
        self.index = PodIndex()
        self.changes = 0
        self.table: FactTable[PodFacts] = FactTable(
            key=pod_key, changed=self._changed, report_health=lambda _: None, clock=SystemClock()
        )

    def _changed(self, key: str, before: PodFacts | None, after: PodFacts | None) -> None:
        self.changes += 1
        self.index.change(key, before, after)

    def expected(self) -> tuple[dict[str, NodeUsage], dict[str, tuple[str, ...]]]:
        usage: dict[str, NodeUsage] = {}
        keys: dict[str, list[str]] = {}
        for pod in self.table.facts.values():
            if not pod.node:
                continue
            keys.setdefault(pod.node, []).append(pod.key)
            if not pod.is_done:
                now = usage.get(pod.node, NodeUsage(NOTHING, 0))
                usage[pod.node] = NodeUsage(now.requested.plus(pod.requests), now.pods + 1)
        return usage, {node: tuple(sorted(found)) for node, found in keys.items()}

    def actual(self) -> tuple[dict[str, NodeUsage], dict[str, tuple[str, ...]]]:
        self.index.update_totals()
        return self.index.usage, {node: tuple(sorted(keys)) for node, keys in self.index.keys.items()}


def test_many_pods_at_once_are_counted_as_each_by_itself_and_go_on_changing() -> None:
    dice = random.Random(11)
    pods = [
        _pod(f"p{index}", dice.choice(["", "a", "b"]), gpu=dice.randint(0, 8), phase=dice.choice(["Running", "Failed"]))
        for index in range(200)
    ]
    at_once, one_by_one = PodIndex(), PodIndex()
    for pod in pods:
        one_by_one.change(pod.key, None, pod)
    one_by_one.update_totals()
    at_once.fill({pod.key: pod for pod in pods}, one_by_one.usage)
    assert at_once.usage == one_by_one.usage
    assert at_once.keys == one_by_one.keys

    for pod in pods[::2]:
        moved = _pod(pod.name, "c", gpu=3)
        for index in (at_once, one_by_one):
            index.change(pod.key, pod, moved)
    for index in (at_once, one_by_one):
        index.update_totals()
    assert at_once.usage == one_by_one.usage
    assert at_once.keys == one_by_one.keys


async def test_sums_equal_a_fresh_count_after_any_changes() -> None:
    dice = random.Random(7)
    it = Counted()
    for step in range(3000):
        name, node = f"p{dice.randint(0, 60)}", dice.choice(["", "a", "b", "c"])
        phase = dice.choice(["Running", "Pending", "Succeeded"])
        pod = _pod(name, node, gpu=dice.randint(0, 8), phase=phase, uid=f"{name}-{dice.randint(0, 1)}")
        match dice.randint(0, 9):
            case 0 | 1:
                it.table.remove(pod)
            case 2 if step % 50 == 0:
                await it.table.replace([_pod(f"p{index}", node) for index in range(dice.randint(0, 30))])
            case _:
                it.table.upsert(pod)
        if step % 100 == 0:
            assert it.actual() == it.expected()
    assert it.actual() == it.expected()


async def test_a_replacement_reports_what_is_gone_and_only_what_differs() -> None:
    it = Counted()
    await it.table.replace([_pod("a", "x"), _pod("b", "x"), _pod("c", "y")])
    it.changes = 0
    await it.table.replace([_pod("a", "x"), _pod("b", "y")])
    assert it.changes == 2
    assert it.actual()[1] == {"x": ("n/a",), "y": ("n/b",)}


def test_an_ended_pod_holds_nothing_but_is_still_there() -> None:
    it = Counted()
    it.table.upsert(_pod("a", "x"))
    it.table.upsert(_pod("a", "x", phase="Succeeded"))
    assert it.actual() == ({}, {"x": ("n/a",)})


def test_a_late_delete_of_the_namesake_before_changes_nothing() -> None:
    it = Counted()
    it.table.upsert(_pod("a", "x", uid="old"))
    it.table.upsert(_pod("a", "y", uid="new"))
    it.table.remove(_pod("a", "x", uid="old"))
    assert it.actual()[1] == {"y": ("n/a",)}


_MISSING = refusal(404, "NotFound")


class Cluster:
    """Serves one node, two pods, an event and a PyTorchJob; other kinds are not installed."""

    def __init__(self) -> None:
        self.pod_events: asyncio.Queue[bytes] = asyncio.Queue()
        job = with_conditions("PyTorchJob", "kubeflow.org/v1", Running="True")
        self.items: dict[str, list[Json]] = {
            "/api/v1/nodes": [NODE],
            "/api/v1/pods": [POD, a_pod("other")],
            "/api/v1/events": [EVENT],
            "/apis/kubeflow.org/v1/pytorchjobs": [job],
        }
        self.groups: list[str] | None = None
        """The groups of the API; `None` where they may not be listed."""
        self.requests: Counter[str] = Counter()
        """By path, watches and streamed lists included."""

    async def __call__(self, request: web.Request) -> web.StreamResponse:
        self.requests[request.path] += 1
        if request.path == "/apis" and self.groups is not None:
            return web.json_response({"kind": "APIGroupList", "groups": [{"name": name} for name in self.groups]})
        items = self.items.get(request.path)
        if items is None:
            return await _MISSING(request)
        if "sendInitialEvents" in request.query:
            return await refusal(422, "Invalid")(request)
        if "watch" not in request.query:
            return await page(items, 10)(request)
        if request.path != "/api/v1/pods":
            return await stream(bookmark(11), then="hang")(request)
        response = web.StreamResponse()
        await response.prepare(request)
        while True:
            await response.write(await self.pod_events.get())


async def _until(state: ClusterState, holds: Callable[[ClusterSnapshot], object]) -> ClusterSnapshot:
    async with asyncio.timeout(60):
        while not holds(snapshot := state.snapshot()):
            await state.wait_changed()
    return snapshot


async def test_a_cluster_is_watched_and_shown(tmp_path: Path) -> None:
    cluster = Cluster()
    async with session_to(cluster, tmp_path) as session:
        state = ClusterState(session)
        task = asyncio.create_task(state.run())
        try:
            full = await _until(state, lambda s: s.is_complete and s.workloads and s.events and len(s.health) == TABLES)
            (node,) = full.nodes
            assert full.usage[node].pods == 2
            assert full.usage[node].requested.gpu == 8
            assert set(full.pods_by_node[node]) == {"default/esm1nv-pretraining-worker-0", "default/other"}
            assert full.workloads["PyTorchJob default/x"].state == "running"
            gone = a_pod("other")
            cluster.pod_events.put_nowait(event("DELETED", gone))
            fewer = await _until(state, lambda s: len(s.pods) == 1)
            assert len(full.pods) == 2
            assert fewer.nodes is full.nodes
            assert fewer.usage[node].pods == 1
            changes = fewer.changes_since(full)
            assert changes is not None
            assert changes.nodes == {node}
            assert changes.pods == {"default/other"}
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


async def test_a_list_that_is_being_taken_is_not_seen_half(tmp_path: Path) -> None:
    cluster = Cluster()
    cluster.items["/api/v1/pods"] = [a_pod(f"p{index}") for index in range(6000)]
    async with session_to(cluster, tmp_path) as session:
        state = ClusterState(session)
        task = asyncio.create_task(state.run())
        try:
            seen: set[int] = set()
            async with asyncio.timeout(60):
                while not state.snapshot().is_complete:
                    seen.add(len(state.snapshot().pods))
                    await asyncio.sleep(0)
            seen.add(len(state.snapshot().pods))
            assert seen == {0, 6000}
            assert sum(usage.pods for usage in state.snapshot().usage.values()) == 6000
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


async def test_missing_kinds_are_told_and_do_no_harm(tmp_path: Path) -> None:
    async with session_to(Cluster(), tmp_path) as session:
        state = ClusterState(session)
        task = asyncio.create_task(state.run())
        try:
            settled = await _until(state, lambda s: s.is_complete and _is_settled(s))
            assert settled.health["rayjobs"].state is Health.MISSING
            assert len(settled.pods) == 2
            assert set(settled.workloads) == {"PyTorchJob default/x"}
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


async def test_kinds_that_are_missing_are_looked_for_together_and_change_nothing(tmp_path: Path) -> None:
    cluster = Cluster()
    cluster.groups = ["batch", "kubeflow.org"]
    async with session_to(cluster, tmp_path) as session:
        state = ClusterState(session, clock=HastyClock())
        task = asyncio.create_task(state.run())
        try:
            await _until(state, lambda s: s.is_complete and _is_settled(s))
            asked = cluster.requests["/apis"]
            await _until_asked(cluster, "/apis", asked + 10)
            first, other = "/apis/ray.io/v1/rayjobs", "/apis/ray.io/v1alpha1/rayjobs"
            assert (cluster.requests[first], cluster.requests[other]) == (1, 0)
            before = state.snapshot()
            # another kind of its group is there, so this one is asked for itself, in all its versions
            again = "/apis/kubeflow.org/v1/mpijobs"
            await _until_asked(cluster, again, cluster.requests[again] + 3)
            after = state.snapshot()
            assert (after.revision, after.health) == (before.revision, before.health)
            cluster.items[first] = [with_conditions("RayJob", "ray.io/v1")]
            cluster.groups.append("ray.io")
            await _until(
                state, lambda s: s.health["rayjobs"].state is Health.LIVE and "RayJob default/x" in s.workloads
            )
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


async def test_where_groups_may_not_be_listed_missing_kinds_are_looked_for_themselves(tmp_path: Path) -> None:
    cluster = Cluster()
    async with session_to(cluster, tmp_path) as session:
        state = ClusterState(session, clock=HastyClock())
        task = asyncio.create_task(state.run())
        try:
            await _until_asked(cluster, "/apis/ray.io/v1/rayjobs", 3)
            cluster.items["/apis/ray.io/v1/rayjobs"] = [with_conditions("RayJob", "ray.io/v1")]
            await _until(state, lambda s: "RayJob default/x" in s.workloads)
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


def _is_settled(snapshot: ClusterSnapshot) -> bool:
    states = [health.state for health in snapshot.health.values()]
    return len(states) == TABLES and all(state in (Health.LIVE, Health.MISSING) for state in states)


async def _until_asked(cluster: Cluster, path: str, times: int) -> None:
    await until(lambda: cluster.requests[path] >= times, f"{times} requests of {path}", deadline_seconds=60)


async def test_the_same_facts_again_are_no_new_revision(tmp_path: Path) -> None:
    cluster = Cluster()
    async with session_to(cluster, tmp_path) as session:
        state = ClusterState(session)
        task = asyncio.create_task(state.run())
        try:
            full = await _until(state, lambda s: len(s.pods) == 2 and len(s.health) == TABLES and s.is_complete)
            heartbeat = a_pod("other")
            heartbeat["metadata"]["resourceVersion"] = "99"
            cluster.pod_events.put_nowait(event("MODIFIED", heartbeat))
            cluster.pod_events.put_nowait(event("ADDED", a_pod("third")))
            after = await _until(state, lambda s: len(s.pods) == 3)
            assert after.pods["default/other"] is full.pods["default/other"]
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


async def test_a_snapshot_is_the_same_object_until_something_changes(tmp_path: Path) -> None:
    async with session_to(Cluster(), tmp_path) as session:
        state = ClusterState(session)
        assert state.snapshot() is state.snapshot()
        assert not state.snapshot().is_complete

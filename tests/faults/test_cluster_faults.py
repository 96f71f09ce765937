"""The console's picture of a cluster is right again after every fault, and says meanwhile what is wrong."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest

from actions.base.clock import SystemClock, parse_rfc3339
from actions.base.errors import AccessError
from actions.cluster.auth.kubeconfig import ClusterTarget
from actions.cluster.auth.session import KubeSession
from actions.cluster.logs.follow import ContainerLog, LogFollower, LogLine
from actions.cluster.remote.exec import run_in_pod
from actions.cluster.state.cluster_state import ClusterState
from actions.cluster.watch.health import Health
from actions.cluster.watch.reflector import Raw, Reflector
from actions.sandbox.clientkit.cache import Cache
from actions.sandbox.clientkit.client import ApiClient
from actions.sandbox.clientkit.kinds import PODS, Document, uid_of
from actions.sandbox.faults.fault import SCENARIOS
from tests.faults.cluster import FaultyCluster, HurriedClock, a_faulty_cluster, health_of, pods_of, until, watched

_LINES = 120


@pytest.mark.parametrize(
    ("kind", "shown"),
    [
        ("expired", Health.RECONNECTING),
        ("throttled", Health.THROTTLED),
        ("broken", Health.RECONNECTING),
        ("bad-gateway", Health.RECONNECTING),
        ("forbidden", Health.FORBIDDEN),
        ("unauthorized", Health.UNAUTHORIZED),
    ],
)
async def test_a_refused_source_says_so_keeps_what_it_had_and_catches_up(
    kind: str, shown: Health, tmp_path: Path
) -> None:
    async with a_faulty_cluster(tmp_path) as cluster:
        await cluster.make_pod("stays")
        await cluster.make_pod("goes")
        async with watched(cluster) as state:
            await cluster.add(kind=kind, verbs=["list", "watch"], resources=["pods"])
            await cluster.break_watches("pods")
            await until(state, lambda: health_of(state, "pods") is shown)
            assert pods_of(state) == {"stays", "goes"}
            assert health_of(state, "nodes") is Health.LIVE
            await cluster.end_pod("goes")
            await cluster.make_pod("comes")
            await cluster.lift()
            await until(state, lambda: pods_of(state) == {"stays", "comes"})
            await until(state, lambda: health_of(state, "pods") is Health.LIVE)


@pytest.mark.parametrize("kind", ["expired", "throttled", "broken"])
async def test_an_error_in_the_middle_of_a_watch_loses_nothing(kind: str, tmp_path: Path) -> None:
    async with a_faulty_cluster(tmp_path) as cluster:
        await cluster.make_pod("goes")
        async with watched(cluster) as state:
            await cluster.add(kind=kind, verbs=["watch"], resources=["pods"], in_stream=True, count=2)
            await cluster.end_pod("goes")
            await cluster.make_pod("comes")
            await until(state, lambda: pods_of(state) == {"comes"})
            await until(state, lambda: health_of(state, "pods") is Health.LIVE)
            assert await cluster.hits() == {kind: 2}


async def test_connections_cut_in_the_middle_of_objects_lose_nothing(tmp_path: Path) -> None:
    names = [f"pod-{number:03d}" for number in range(60)]
    async with a_faulty_cluster(tmp_path) as cluster, watched(cluster) as state:
        for number, name in enumerate(names):
            if number % 6 == 0:
                await cluster.add(kind="cut", resources=["pods"], count=2, after_bytes=37 * number + 1)
            await cluster.make_pod(name)
            if number % 5 == 4:
                await cluster.end_pod(names[number - 2])
        expected = {name for number, name in enumerate(names) if number % 5 != 2}
        await until(state, lambda: pods_of(state) == expected)
        assert sum((await cluster.hits()).values()) > 0
        await cluster.lift()
        await until(state, lambda: health_of(state, "pods") is Health.LIVE)


async def test_a_stream_that_has_gone_silent_is_opened_again(tmp_path: Path) -> None:
    cache = Cache(PODS)
    stamp: Document = {"apiVersion": "v1", "kind": "Pod"}

    def decode(raw: Raw) -> Document:
        return stamp | msgspec.json.decode(raw, type=dict)

    async with a_faulty_cluster(tmp_path) as cluster:
        reflector = Reflector(
            cluster.session, PODS.path(), decode=decode, identify=uid_of, sink=cache, clock=HurriedClock(),
            idle_seconds=0.4,
        )  # fmt: skip
        arrived = asyncio.Event()
        cache.listen(lambda _: arrived.set())
        task = asyncio.create_task(reflector.run())
        async with asyncio.timeout(60):
            await cache.is_synced.wait()
            await cluster.add(kind="silence", verbs=["watch"], resources=["pods"], count=1, after_bytes=0)
            await cluster.make_pod("unheard")
            await arrived.wait()
        assert "default/unheard" in cache.objects
        assert await cluster.hits() == {"silence": 1}
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_a_slow_server_is_waited_for(tmp_path: Path) -> None:
    async with a_faulty_cluster(tmp_path) as cluster:
        await cluster.make_pod("first")
        await cluster.add(kind="slow", delay_seconds=0.05)
        async with watched(cluster) as state:
            await cluster.make_pod("second")
            await until(state, lambda: pods_of(state) == {"first", "second"})
            assert health_of(state, "pods") is Health.LIVE


async def test_a_log_that_is_cut_refused_and_truncated_arrives_whole_and_in_order(tmp_path: Path) -> None:
    taken: list[LogLine] = []
    async with a_faulty_cluster(tmp_path, has_actors=True) as cluster:
        await _print_lines(cluster)
        troubles: list[dict[str, Any]] = [
            {"kind": "short-log", "count": 4, "after_bytes": 333},
            {"kind": "cut", "verbs": ["log"], "count": 4, "after_bytes": 801},
            {"kind": "throttled", "verbs": ["log"], "count": 2, "retry_after_seconds": 0},
            {"kind": "bad-gateway", "verbs": ["log", "get"], "count": 2},
        ]
        for trouble in troubles:
            await cluster.add(**trouble)
        follower = LogFollower(
            cluster.session, ContainerLog("default", "talker", "main"), on_lines=taken.extend, clock=HurriedClock()
        )
        async with asyncio.timeout(60):
            end = await follower.run()
        hits = await cluster.hits()
    assert end.exit_code == 0
    assert [line.text for line in taken if not line.is_marker] == [f"line {number}" for number in range(_LINES)]
    assert [name for name, count in hits.items() if not count] == []


async def test_what_is_forbidden_is_said_and_the_rest_works(tmp_path: Path) -> None:
    async with a_faulty_cluster(tmp_path, has_actors=True) as cluster:
        await cluster.add(scenario="no-logs-for-you")
        await _print_lines(cluster)
        async with watched(cluster) as state:
            await until(state, lambda: "talker" in pods_of(state))
            source = ContainerLog("default", "talker", "main")
            async with asyncio.timeout(60):
                with pytest.raises(AccessError, match="cannot get resource"):
                    await LogFollower(cluster.session, source, on_lines=_ignore, clock=HurriedClock()).run()
            with pytest.raises(AccessError, match="pods/exec"):
                await run_in_pod(cluster.session, "default", "talker", "main", ["true"])
            assert health_of(state, "pods") is Health.LIVE


async def test_a_cluster_whose_clock_is_ahead_is_watched_all_the_same(tmp_path: Path) -> None:
    async with a_faulty_cluster(tmp_path) as cluster, watched(cluster) as state:
        await cluster.add(scenario="wrong-clock")
        await cluster.make_pod("tomorrow")
        await until(state, lambda: pods_of(state) == {"tomorrow"})
        made = await cluster.owner.read(PODS, "default/tomorrow")
    assert made is not None
    ahead = parse_rfc3339(made["metadata"]["creationTimestamp"]) - datetime.now(UTC)
    assert 300 < ahead.total_seconds() < 430


@pytest.mark.parametrize("scenario", sorted(SCENARIOS))
async def test_every_scenario_is_survived(scenario: str, tmp_path: Path) -> None:
    async with a_faulty_cluster(tmp_path) as cluster:
        await cluster.make_pod("before")
        async with watched(cluster) as state:
            await cluster.add(scenario=scenario)
            await cluster.make_pod("during")
            await cluster.end_pod("before")
            await cluster.lift()
            await cluster.break_watches("pods")
            await until(state, lambda: pods_of(state) == {"during"})
            await until(state, lambda: health_of(state, "pods") is Health.LIVE)


async def test_an_operator_with_few_rights_sees_what_they_may_and_what_not(tmp_path: Path) -> None:
    async with a_faulty_cluster(tmp_path, has_actors=True):
        viewer = await KubeSession.connect(ClusterTarget(kubeconfig=tmp_path / "kubeconfig", context="viewer"))
        state = ClusterState(viewer, clock=HurriedClock())
        task = asyncio.create_task(state.run())
        try:
            await until(state, lambda: health_of(state, "pods") is Health.LIVE)
            await until(state, lambda: health_of(state, "nodes") is Health.FORBIDDEN)
            await until(state, lambda: any(name.startswith("coredns") for name in pods_of(state)))
            with pytest.raises(AccessError, match='User "viewer" cannot create resource "pods"'):
                await ApiClient(viewer, SystemClock()).create(PODS, {"metadata": {"name": "x", "namespace": "default"}})
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            await viewer.aclose()


async def _print_lines(cluster: FaultyCluster) -> None:
    script = "; ".join(f"echo line {number}" + ("; sleep 30" if number % 10 == 9 else "") for number in range(_LINES))
    container = {"name": "main", "image": "busybox:1", "command": ["sh", "-c", script]}
    spec = {"restartPolicy": "Never", "containers": [container]}
    assert await cluster.owner.create(PODS, {"metadata": {"name": "talker", "namespace": "default"}, "spec": spec})


def _ignore(_: Sequence[LogLine]) -> None:
    """Nobody reads these."""

"""Changes of one object, meant by its uid, and the eviction of a node's pods."""

from __future__ import annotations

from pathlib import Path

import pytest

from actions.base.clock import SystemClock
from actions.base.errors import ConflictError, MissingError, RefusedError, UnreachableError
from actions.cluster.objects.client import ApiResource
from actions.cluster.objects.operations import (
    Target,
    cordon_node,
    delete_target,
    evict_all,
    identify,
    plan_drain,
    restart_target,
    scale_target,
    with_protected,
)
from tests.unit.cluster.changing import BUDGET, Objects, a_pod
from tests.unit.cluster.clocks import HastyClock
from tests.unit.cluster.servers import session_to

DEPLOYMENT = Target(ApiResource("apps/v1", "Deployment", "deployments", True), "work", "web", "u1")
NODE = Target(ApiResource("v1", "Node", "nodes", False), "", "node-1", "u1")


async def test_a_deletion_carries_the_uid_and_the_propagation(tmp_path: Path) -> None:
    objects = Objects()
    async with session_to(objects, tmp_path) as session:
        await delete_target(session, DEPLOYMENT, propagation="foreground")
    (sent,) = objects.sent
    assert (sent["preconditions"], sent["propagationPolicy"]) == ({"uid": "u1"}, "Foreground")


async def test_what_took_the_name_since_is_left_alone(tmp_path: Path) -> None:
    objects = Objects(uid="u2")
    async with session_to(objects, tmp_path) as session:
        for change in (
            identify(session, DEPLOYMENT),
            scale_target(session, DEPLOYMENT, 3),
            restart_target(session, DEPLOYMENT, clock=SystemClock()),
            cordon_node(session, NODE, is_cordoned=True),
        ):
            with pytest.raises(ConflictError, match="is not the object that was chosen"):
                await change
    assert objects.sent == []


async def test_a_scale_is_tried_again_when_the_object_has_changed_in_between(tmp_path: Path) -> None:
    objects = Objects(conflicts=2)
    async with session_to(objects, tmp_path) as session:
        assert await scale_target(session, DEPLOYMENT, 5) == 2
    assert objects.sent == [{"spec": {"replicas": 5}, "metadata": {"resourceVersion": "5"}}]


async def test_a_kind_without_replicas_is_not_scaled_and_one_without_rollout_not_restarted(tmp_path: Path) -> None:
    async with session_to(Objects(has_scale=False), tmp_path) as session:
        with pytest.raises(RefusedError, match="cannot be scaled"):
            await scale_target(session, DEPLOYMENT, 1)
        with pytest.raises(RefusedError, match="cannot be restarted"):
            await restart_target(session, NODE, clock=SystemClock())
        with pytest.raises(RefusedError, match="is not a node"):
            await cordon_node(session, DEPLOYMENT, is_cordoned=True)


async def test_a_cordon_that_changes_nothing_sends_nothing(tmp_path: Path) -> None:
    objects = Objects(spec={"unschedulable": True})
    async with session_to(objects, tmp_path) as session:
        assert not await cordon_node(session, NODE, is_cordoned=True)
        assert objects.sent == []
        assert await cordon_node(session, NODE, is_cordoned=False)
    assert objects.sent[0]["spec"] == {"unschedulable": None}


async def test_a_drain_leaves_daemons_and_names_what_is_lost(tmp_path: Path) -> None:
    pods = [
        a_pod("daemon", owner="DaemonSet"),
        a_pod("static", owner="Node", annotations={"kubernetes.io/config.mirror": "x"}),
        a_pod("alone", owner=""),
        a_pod("scratch", volumes=[{"name": "tmp", "emptyDir": {}}]),
        a_pod("done", owner="", phase="Succeeded"),
    ]
    objects = Objects(pods={pod["metadata"]["name"]: pod for pod in pods})
    async with session_to(objects, tmp_path) as session:
        plan = await plan_drain(session, "node-1")
    assert ([pod.name for pod in plan.evicted], plan.daemons) == (["alone", "scratch", "done"], 2)
    assert plan.objections() == (
        "No controller makes work/alone again.",
        "Data in emptyDir volumes is lost: work/scratch.",
    )


async def test_evictions_wait_for_disruption_budgets_and_tell_what_is_left(tmp_path: Path) -> None:
    objects = Objects(pods={name: a_pod(name) for name in ("protected-0", "web-0")}, protected=2)
    said: list[tuple[int, str]] = []
    async with session_to(objects, tmp_path) as session:
        plan = await plan_drain(session, "node-1")
        await evict_all(
            session, plan.evicted, clock=HastyClock(), deadline_seconds=600, progress=lambda *news: said.append(news)
        )
        with pytest.raises(MissingError):
            await identify(session, plan.evicted[0])
    assert objects.sent.count("u-protected-0") == 3
    assert said == [(1, f"1 pod left to evict: work/protected-0. {BUDGET}.")]


async def test_a_plan_names_what_budgets_protect_now_and_evicts_nothing(tmp_path: Path) -> None:
    names = ("protected-0", "protected-1", "web-0")
    objects = Objects(pods={name: a_pod(name) for name in names}, protected=1)
    async with session_to(objects, tmp_path) as session:
        plan = await with_protected(session, await plan_drain(session, "node-1"))
    assert plan.waits() == (
        f"Not evicted before their budget allows it: work/protected-0, work/protected-1. {BUDGET}.",
    )
    assert (objects.sent, list(objects.pods)) == ([], list(names))


async def test_evictions_that_do_not_end_name_the_pods_and_the_budget(tmp_path: Path) -> None:
    objects = Objects(pods={"protected-0": a_pod("protected-0")}, protected=10_000)
    async with session_to(objects, tmp_path) as session:
        plan = await plan_drain(session, "node-1")
        with pytest.raises(
            UnreachableError, match=r"1 pod left to evict: work/protected-0\. The disruption budget web"
        ):
            await evict_all(session, plan.evicted, clock=HastyClock(), deadline_seconds=30)

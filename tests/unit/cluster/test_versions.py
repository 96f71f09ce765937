"""Clusters that serve another version of a kind than the one we ask for first."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from aiohttp import web

from actions.base.errors import MissingError
from actions.cluster.kinds import other_paths, other_versions
from actions.cluster.objects.client import Discovery, ObjectRef, fetch_object, list_objects
from actions.cluster.state.cluster_state import ClusterState
from tests.unit.cluster.clocks import HastyClock
from tests.unit.cluster.faults import bookmark, event, refusal, stream
from tests.unit.cluster.samples import with_conditions
from tests.unit.cluster.servers import session_to

JOB = with_conditions("MPIJob", "kubeflow.org/v1", Running="True")
RESOURCES = {"resources": [{"name": "mpijobs", "kind": "MPIJob", "namespaced": True}]}
_missing = refusal(404, "NotFound")


async def _old_cluster(request: web.Request) -> web.StreamResponse:
    """One whose training-operator brings MPIJobs, in version v1."""
    match request.path:
        case "/apis/kubeflow.org/v1":
            return web.json_response(RESOURCES)
        case "/apis/kubeflow.org/v1/mpijobs" if "watch" in request.query:
            return await stream(event("ADDED", JOB), bookmark(10, ends_initial=True), then="hang")(request)
        case "/apis/kubeflow.org/v1/mpijobs":
            return web.json_response({"metadata": {"resourceVersion": "10"}, "items": [JOB]})
        case "/apis/kubeflow.org/v1/namespaces/default/mpijobs/x":
            return web.json_response(JOB)
    return await _missing(request)


@pytest.mark.parametrize(
    ("path", "others"),
    [
        ("/apis/kubeflow.org/v2beta1/mpijobs", ("/apis/kubeflow.org/v1/mpijobs",)),
        ("/apis/ray.io/v1/namespaces/team/rayjobs", ("/apis/ray.io/v1alpha1/namespaces/team/rayjobs",)),
        ("/apis/kubeflow.org/v1/pytorchjobs", ()),
        ("/api/v1/pods", ()),
        ("/things", ()),
    ],
)
def test_a_list_may_be_found_under_another_version(path: str, others: tuple[str, ...]) -> None:
    assert other_paths(path) == others


def test_a_kind_may_be_read_in_another_version() -> None:
    assert other_versions("karpenter.sh/v1", "NodeClaim") == ("karpenter.sh/v1beta1",)
    assert other_versions("karpenter.sh/v1beta1", "NodeClaim") == ("karpenter.sh/v1",)
    assert other_versions("v1", "Pod") == ()


async def test_the_picture_shows_what_is_served_in_another_version(tmp_path: Path) -> None:
    async with session_to(_old_cluster, tmp_path) as session:
        state = ClusterState(session, clock=HastyClock())
        task = asyncio.create_task(state.run())
        try:
            async with asyncio.timeout(60):
                while not state.snapshot().workloads:
                    await state.wait_changed()
            assert state.snapshot().workloads["MPIJob default/x"].state == "running"
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


async def test_objects_are_read_in_the_version_that_is_served_but_named_in_it_for_changes(tmp_path: Path) -> None:
    async with session_to(_old_cluster, tmp_path) as session:
        discovery = Discovery(session)
        asked = ("kubeflow.org/v2beta1", "MPIJob")
        assert (await fetch_object(session, discovery, ObjectRef(*asked, "default", "x")))["metadata"]["name"] == "x"
        (found,) = await list_objects(session, discovery, *asked)
        assert found["apiVersion"] == "kubeflow.org/v1"
        with pytest.raises(MissingError, match=r"kind MPIJob of kubeflow\.org/v2beta1"):
            await discovery.resolve(*asked)
        with pytest.raises(MissingError, match=r"kind RayJob of ray\.io/v1\."):
            await fetch_object(session, discovery, ObjectRef("ray.io/v1", "RayJob", "default", "x"))

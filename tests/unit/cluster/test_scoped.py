"""A user who may not watch the whole cluster sees the namespaces that he may."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from aiohttp import web

from actions.cluster.state.cluster_state import ClusterState
from actions.cluster.state.snapshot import ClusterSnapshot
from actions.cluster.watch.health import Health
from tests.unit.cluster.clocks import HastyClock
from tests.unit.cluster.faults import Json, bookmark, page, refusal, stream
from tests.unit.cluster.samples import NODE, a_pod
from tests.unit.cluster.servers import session_to

_MISSING = refusal(404, "NotFound")
_FORBIDDEN = refusal(403, "Forbidden", 'pods is forbidden: User "me" cannot list resource "pods" at the cluster scope')


class PatientClock(HastyClock):
    """Long waits last until they are ended; short ones no time at all."""

    def __init__(self) -> None:
        super().__init__()
        self._minute = asyncio.Event()

    async def sleep(self, seconds: float) -> None:
        if seconds >= 60:
            await self._minute.wait()
            self._minute.clear()
        await super().sleep(0.0)

    def pass_minute(self) -> None:
        """End the long waits of now."""
        self.slept.append(60.0)
        self._minute.set()


class Fenced:
    """A cluster whose pods are behind rights, namespace by namespace."""

    def __init__(self, *, namespaces: list[str] | None, allowed: set[str]) -> None:
        self.namespaces = namespaces
        self.allowed = allowed
        """Namespaces whose pods may be watched; empty text for all."""
        self.reviews = True
        self.reviewed: list[tuple[str, str]] = []
        """Resource and namespace of each review."""

    async def __call__(self, request: web.Request) -> web.StreamResponse:
        match request.path:
            case "/api/v1/nodes":
                return await self._resource(request, [NODE])
            case "/api/v1/namespaces":
                return await self._listed(request)
            case "/api/v1/pods":
                names = [*(self.namespaces or ()), "hidden"]
                pods = [_pod_in(name) for name in names]
                return await (self._resource(request, pods) if "" in self.allowed else _FORBIDDEN(request))
            case "/api/v1/events" | "/apis/batch/v1/jobs":
                return await _FORBIDDEN(request)
            case "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews":
                return await self._review(request)
        if request.path.endswith("/pods"):
            namespace = request.path.split("/")[4]
            if namespace in self.allowed:
                return await self._resource(request, [_pod_in(namespace)])
            return await _FORBIDDEN(request)
        return await _MISSING(request)

    async def _listed(self, request: web.Request) -> web.StreamResponse:
        if self.namespaces is None:
            return await _FORBIDDEN(request)
        return web.json_response({"items": [{"metadata": {"name": name}} for name in self.namespaces]})

    async def _review(self, request: web.Request) -> web.StreamResponse:
        asked = json.loads(await request.text())["spec"]["resourceAttributes"]
        self.reviewed.append((asked["resource"], asked["namespace"]))
        if not self.reviews:
            return await _MISSING(request)
        if asked["resource"] != "pods":
            return web.json_response({"status": {"allowed": False}}, status=201)
        return web.json_response({"status": {"allowed": asked["namespace"] in self.allowed}}, status=201)

    async def _resource(self, request: web.Request, items: list[Json]) -> web.StreamResponse:
        if "sendInitialEvents" in request.query:
            return await refusal(422, "Invalid")(request)
        if "watch" in request.query:
            return await stream(bookmark(11), then="hang")(request)
        return await page(items, 10)(request)


def _pod_in(namespace: str) -> Json:
    pod = a_pod("p")
    pod["metadata"] |= {"namespace": namespace, "uid": f"uid-{namespace}"}
    return pod


class Following:
    """A state at work on a fenced cluster."""

    def __init__(self, state: ClusterState, clock: PatientClock) -> None:
        self.state, self.clock = state, clock

    async def until(self, holds: Callable[[ClusterSnapshot], object]) -> ClusterSnapshot:
        async with asyncio.timeout(60):
            while not holds(snapshot := self.state.snapshot()):
                await self.state.wait_changed()
        return snapshot


@asynccontextmanager
async def following(cluster: Fenced, folder: Path, *, readonly: bool = False) -> AsyncIterator[Following]:
    clock = PatientClock()
    async with session_to(cluster, folder, readonly=readonly) as session:
        state = ClusterState(session, clock=clock)
        task = asyncio.create_task(state.run())
        try:
            yield Following(state, clock)
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


async def test_namespaces_that_may_be_watched_are_watched_one_by_one(tmp_path: Path) -> None:
    cluster = Fenced(namespaces=["a", "b", "work"], allowed={"a", "work"})
    async with following(cluster, tmp_path) as it:
        full = await it.until(lambda s: s.is_complete and s.health["pods"].state is Health.LIVE)
        assert set(full.pods) == {"a/p", "work/p"}
        assert full.health["pods"].detail == "only a, work"


async def test_each_namespace_is_asked_about_once_and_only_visible_ones_about_the_rest(tmp_path: Path) -> None:
    cluster = Fenced(namespaces=["a", "b", "work"], allowed={"a", "work"})
    async with following(cluster, tmp_path) as it:
        kinds = ("events", "jobs")
        await it.until(lambda s: all(kind in s.health and s.health[kind].state is Health.FORBIDDEN for kind in kinds))
    within = [one for one in cluster.reviewed if one[1]]
    assert sorted(within) == sorted(
        [("pods", name) for name in ("a", "b", "work")] + [(kind, name) for kind in kinds for name in ("a", "work")]
    )


async def test_a_read_only_session_asks_what_it_may_do_too(tmp_path: Path) -> None:
    cluster = Fenced(namespaces=["a"], allowed={"a"})
    async with following(cluster, tmp_path, readonly=True) as it:
        await it.until(lambda s: set(s.pods) == {"a/p"})
    assert ("pods", "a") in cluster.reviewed


async def test_who_may_not_list_namespaces_sees_that_of_the_context(tmp_path: Path) -> None:
    async with following(Fenced(namespaces=None, allowed={"work"}), tmp_path) as it:
        full = await it.until(lambda s: s.is_complete)
        assert set(full.pods) == {"work/p"}


async def test_who_may_see_nothing_is_told_so(tmp_path: Path) -> None:
    async with following(Fenced(namespaces=["a"], allowed=set()), tmp_path) as it:
        found = await it.until(lambda s: "pods" in s.health and s.health["pods"].state is Health.FORBIDDEN)
        assert "cannot list" in found.health["pods"].detail
        assert not found.is_complete


async def test_a_server_that_does_not_review_is_tried(tmp_path: Path) -> None:
    cluster = Fenced(namespaces=None, allowed={"work"})
    cluster.reviews = False
    async with following(cluster, tmp_path) as it:
        await it.until(lambda s: set(s.pods) == {"work/p"})
    assert ("pods", "work") in cluster.reviewed


async def test_a_right_that_is_given_later_is_used(tmp_path: Path) -> None:
    cluster = Fenced(namespaces=["a", "b"], allowed={"a"})
    async with following(cluster, tmp_path) as it:
        await it.until(lambda s: set(s.pods) == {"a/p"})
        cluster.allowed = {"b"}
        it.clock.pass_minute()
        await it.until(lambda s: set(s.pods) == {"b/p"})
        cluster.allowed = {"", "a", "b"}
        it.clock.pass_minute()
        full = await it.until(lambda s: set(s.pods) == {"a/p", "b/p", "hidden/p"})
        await it.until(lambda s: s.health["pods"].detail == "")
        assert full.usage[NODE["metadata"]["name"]].pods == 3

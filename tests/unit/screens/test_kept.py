"""The last snapshot of a cluster on screen at the next start: as of its time, until the cluster has been read."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from aiohttp import web

from actions.base.clock import SystemClock
from actions.base.errors import RefusedError
from actions.cluster.auth.kubeconfig import ClusterTarget
from actions.cluster.state.kept import snapshot_folder
from actions.command.parse import parse_line
from tests.support.polling import until
from tests.support.waiting import settle, wait_for
from tests.unit.cluster.servers import serving, write_kubeconfig
from tests.unit.diagnose.samples import a_node, unschedulable
from tui.app import ConsoleApp
from tui.feeds.cluster import ClusterFeed
from tui.feeds.services import ConsoleServices
from tui.settings.settings import ConsoleSettings
from tui.textual_private import screen_text

_ITEMS = {"pods": [unschedulable("0/1 nodes are available")], "nodes": [a_node("n1", "m5.large")]}


class Cluster:
    """A cluster with a node and a pod, which does not answer watches and lists while it is held."""

    def __init__(self) -> None:
        self.uid = "uid-of-kube-system"
        self.going = asyncio.Event()
        self.going.set()

    async def __call__(self, request: web.Request) -> web.StreamResponse:
        if request.path == "/api/v1/namespaces/kube-system":
            return web.json_response({"metadata": {"uid": self.uid}})
        if request.path == "/version":
            return web.json_response({"gitVersion": "v1.34.0"})
        name = request.path.rpartition("/")[2]
        if name not in _ITEMS or not request.path.startswith("/api/v1/"):
            return web.json_response({"kind": "Status", "code": 404, "reason": "NotFound"}, status=404)
        await self.going.wait()
        if request.query.get("sendInitialEvents"):
            return web.json_response({"kind": "Status", "code": 422, "reason": "Invalid"}, status=422)
        if request.query.get("watch"):
            response = web.StreamResponse()
            await response.prepare(request)
            await asyncio.Event().wait()  # until the client goes
            return response
        return web.json_response({"kind": "List", "metadata": {"resourceVersion": "1"}, "items": _ITEMS[name]})


@pytest.fixture
def cluster() -> Cluster:
    return Cluster()


@pytest.fixture
async def settings(cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[ConsoleSettings]:
    for variable in ("XDG_STATE_HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME"):
        monkeypatch.setenv(variable, str(tmp_path))
    async with serving(cluster) as address:
        target = ClusterTarget(kubeconfig=write_kubeconfig(tmp_path, address))
        yield ConsoleSettings(target=target, keeps_snapshots=True)


def _services(app: ConsoleApp) -> ConsoleServices:
    return app.script_driver._services


async def _live(app: ConsoleApp) -> None:
    """Open the console until its nodes are live, then close it."""
    async with app.run_test(size=(120, 36)) as pilot:
        await settle(pilot)
        app.dispatcher.submit("open nodes")
        await wait_for(pilot, lambda: "─ live ─" in screen_text(app), "the nodes are live")
        feed = _services(app).cluster
        await wait_for(pilot, lambda: feed.identity is not None, "the cluster is known")


async def test_what_was_seen_last_is_there_at_once_and_marked(cluster: Cluster, settings: ConsoleSettings) -> None:
    await _live(ConsoleApp(settings))
    (file,) = snapshot_folder().iterdir()
    assert file.stat().st_mode & 0o777 == 0o600

    cluster.going.clear()
    again = ConsoleApp(settings)
    async with again.run_test(size=(120, 36)) as pilot:
        await settle(pilot)
        await wait_for(
            pilot, lambda: "· as of " in screen_text(again) and "1 node," in screen_text(again), "kept totals"
        )
        again.dispatcher.submit("open nodes")
        await wait_for(pilot, lambda: "n1 " in screen_text(again), "the kept node is on screen")
        shown = screen_text(again)
        header, border = shown.splitlines()[0], shown.splitlines()[-2]
        assert "as of " in header
        assert "UTC" in header
        assert "here" in header
        assert header.rstrip().endswith("?")
        assert "as of " in border
        services = _services(again)
        await wait_for(pilot, lambda: services.cluster.health("nodes") is not None, "the watch is under way")
        with pytest.raises(RefusedError, match=r"as of .*nothing was changed"):
            await again.script_driver.execute(parse_line("shell ml/train-0"))
        cluster.going.set()
        await wait_for(pilot, lambda: "as of" not in screen_text(again), "it is live")
        assert "n1" in screen_text(again)


async def test_it_is_painted_before_the_feeds_take_the_processor(
    settings: ConsoleSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    await _live(ConsoleApp(settings))
    again = ConsoleApp(settings)
    services = _services(again)
    seen: list[str] = []
    start = services.start

    def started() -> None:
        seen.append(screen_text(again))
        start()

    monkeypatch.setattr(services, "start", started)
    read: list[float] = []
    monkeypatch.setattr(services.home, "read_contexts", lambda *_: read.append(services.cluster.as_of))
    async with again.run_test(size=(120, 36)) as pilot:
        await wait_for(pilot, lambda: bool(seen), "the feeds are started")
    (shown,) = seen
    assert "as of " in shown
    assert "1 node," in shown
    assert read[0], "the contexts of the kubeconfig were read before the kept snapshot was there"  # later it is live


async def test_another_cluster_at_the_same_address_is_not_shown(cluster: Cluster, settings: ConsoleSettings) -> None:
    await _live(ConsoleApp(settings))
    cluster.uid = "another"
    cluster.going.clear()
    again = ConsoleApp(settings)
    async with again.run_test(size=(120, 36)) as pilot:
        await settle(pilot)
        again.dispatcher.submit("open nodes")
        feed = _services(again).cluster
        await wait_for(pilot, lambda: feed.health("nodes") is not None, "it is connected")
        await wait_for(pilot, lambda: "as of" not in screen_text(again), "what was kept is gone")
        assert "n1" not in screen_text(again)
        assert feed.as_of == 0.0


async def test_a_script_sees_only_what_is_live(settings: ConsoleSettings) -> None:
    app = ConsoleApp(ConsoleSettings(target=settings.target))
    await _live(app)
    assert not snapshot_folder().exists()


def _is_complete(feed: ClusterFeed) -> bool:
    snapshot = feed.snapshot()
    return snapshot is not None and snapshot.is_complete


async def test_going_to_another_cluster_and_back_shows_each_as_it_was_left(
    cluster: Cluster, settings: ConsoleSettings, tmp_path: Path
) -> None:
    there = Cluster()
    there.uid = "uid-of-the-other"
    (tmp_path / "there").mkdir()
    async with serving(there) as address:
        app = ConsoleApp(settings)
        async with app.run_test(size=(120, 36)) as pilot:
            await settle(pilot)
            app.dispatcher.submit("open nodes")
            services = _services(app)
            first = services.cluster
            await wait_for(pilot, lambda: first.identity is not None, "the first cluster is known")
            cluster.going.clear()
            services.show(ClusterTarget(kubeconfig=write_kubeconfig(tmp_path / "there", address)))
            second = services.cluster
            await wait_for(
                pilot,
                lambda: second.identity is not None and second.identity.uid.startswith(there.uid),
                "the second cluster is known",
            )
            await wait_for(pilot, lambda: _is_complete(second), "it is read")
            services.show(first.target)
            feed = services.cluster
            await wait_for(pilot, lambda: feed.as_of > 0, "the first cluster is shown as it was left")
            await wait_for(pilot, lambda: "as of " in screen_text(app), "and marked")
            cluster.going.set()
            await wait_for(pilot, lambda: feed.as_of == 0.0 and "─ live ─" in screen_text(app), "it is live")
    assert len(list(snapshot_folder().iterdir())) == 2


@pytest.mark.parametrize("is_read", [True, False])
async def test_garbage_is_collected_once_the_cluster_is_read_or_takes_long(
    cluster: Cluster, settings: ConsoleSettings, monkeypatch: pytest.MonkeyPatch, is_read: bool
) -> None:
    feed = ClusterFeed(settings.target, readonly=False, clock=SystemClock(), changed=lambda: None)
    complete: list[bool] = []
    monkeypatch.setattr("tui.feeds.cluster.freeze_startup_objects", lambda: complete.append(_is_complete(feed)))
    if not is_read:
        monkeypatch.setattr("tui.feeds.cluster._COLLECTS_AFTER_SECONDS", 0.0)
        cluster.going.clear()
    following = asyncio.create_task(feed.run(lambda: None))
    try:
        await until(lambda: bool(complete), "garbage is collected")
        assert complete == [is_read]
    finally:
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)

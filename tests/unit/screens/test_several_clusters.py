"""Several clusters in one console: what is shown of each, what is not known, and which one a command changes."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import cast

import pytest
import yaml
from aiohttp import web
from msgspec.structs import replace
from textual.pilot import Pilot

from actions.base.errors import ConsoleError, RefusedError
from actions.cluster.auth.kubeconfig import ClusterTarget
from actions.command.parse import parse_line
from tests.support.waiting import settle, wait_for
from tests.unit.cluster.servers import serving
from tests.unit.diagnose.samples import a_node
from tui.app import ConsoleApp
from tui.feeds.services import ConsoleServices
from tui.panes.nodes import NodesPane
from tui.screens.confirm import ConfirmModal
from tui.screens.viewer import Viewer
from tui.settings.keymap import ConsolePlugin, Keymap
from tui.settings.keys import KeyContext
from tui.settings.settings import ConsoleSettings
from tui.textual_private import screen_text

WEST = "arn:aws:eks:us-west-2:111122223333:cluster/west"
EAST = "arn:aws:eks:us-east-1:444455556666:cluster/east"
SIZE = (160, 45)
_RESOURCES = [
    {"resource": name, "responseKind": {"kind": kind}, "scope": scope, "verbs": ["get", "list", "patch"]}
    for name, kind, scope in (
        ("nodes", "Node", "Cluster"), ("pods", "Pod", "Namespaced"), ("namespaces", "Namespace", "Cluster")
    )
]  # fmt: skip


class Cluster:
    """A cluster with one node of a name that others have, too; it can be held, locked and lost."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.uid = f"node-of-{name}"
        self.going = asyncio.Event()
        self.going.set()
        self.is_locked = False
        self.patched: list[str] = []
        self.cut = asyncio.Event()
        """Ends the watches that are open."""

    async def __call__(self, request: web.Request) -> web.StreamResponse:
        if self.is_locked:
            return web.json_response({"kind": "Status", "code": 401, "reason": "Unauthorized"}, status=401)
        await self.going.wait()
        if request.path == "/api/v1/namespaces/kube-system":
            return web.json_response({"metadata": {"uid": f"uid-of-{self.name}"}})
        if request.path == "/version":
            return web.json_response({"gitVersion": "v1.34.0"})
        if request.path == "/api/v1":
            listed = [
                {"name": one["resource"], "namespaced": one["scope"] == "Namespaced", "verbs": one["verbs"]}
                | cast("dict[str, str]", one["responseKind"])
                for one in _RESOURCES
            ]
            return web.json_response({"kind": "APIResourceList", "groupVersion": "v1", "resources": listed})
        if request.path in ("/apis", "/api"):
            found = [{"metadata": {}, "versions": [{"version": "v1", "resources": _RESOURCES}]}]
            items = found if request.path == "/api" else []
            return web.json_response({"kind": "APIGroupDiscoveryList", "items": items})
        if request.path == "/api/v1/nodes/n1":
            if request.method == "PATCH":
                self.patched.append(request.path)
            return web.json_response(self._node())
        if request.path not in ("/api/v1/nodes", "/api/v1/pods"):
            return web.json_response({"kind": "Status", "code": 404, "reason": "NotFound"}, status=404)
        return await self._list(request)

    async def _list(self, request: web.Request) -> web.StreamResponse:
        if request.query.get("sendInitialEvents"):
            return web.json_response({"kind": "Status", "code": 422, "reason": "Invalid"}, status=422)
        if request.query.get("watch"):
            response = web.StreamResponse()
            await response.prepare(request)
            await self.cut.wait()
            return response
        items = [self._node()] if request.path.endswith("nodes") else []
        return web.json_response({"kind": "List", "metadata": {"resourceVersion": "1"}, "items": items})

    def _node(self) -> dict[str, object]:
        node = copy.deepcopy(a_node("n1", "g5.12xlarge"))
        node["metadata"]["uid"] = self.uid
        node["metadata"]["labels"] |= {
            "topology.kubernetes.io/region": "us-west-2",
            "eks.amazonaws.com/capacityType": "ON_DEMAND",
            "cluster": self.name,
        }
        return node


@pytest.fixture
def west() -> Cluster:
    return Cluster("west")


@pytest.fixture
def east() -> Cluster:
    return Cluster("east")


@pytest.fixture
async def settings(
    west: Cluster, east: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[ConsoleSettings]:
    for variable in ("XDG_STATE_HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME"):
        monkeypatch.setenv(variable, str(tmp_path))
    async with AsyncExitStack() as stack:
        places = {WEST: west, EAST: east}
        servers = {name: await stack.enter_async_context(serving(cluster)) for name, cluster in places.items()}
        document = {
            "current-context": WEST,
            "contexts": [{"name": name, "context": {"cluster": name, "user": "me"}} for name in servers],
            "clusters": [{"name": name, "cluster": {"server": server}} for name, server in servers.items()],
            "users": [{"name": "me", "user": {"token": "t"}}],
        }
        kubeconfig = tmp_path / "kubeconfig"
        kubeconfig.write_text(yaml.safe_dump(document))
        yield ConsoleSettings(target=ClusterTarget(kubeconfig, WEST), contexts=(WEST, EAST))


def services_of(app: ConsoleApp) -> ConsoleServices:
    return app.script_driver._services


def rows_of(app: ConsoleApp) -> list[str]:
    """The context of each row of the table of nodes."""
    pane = app.workspace.pane("nodes")
    assert isinstance(pane, NodesPane)
    return [pane.table._order.rows[key].context for key in pane.table.shown_keys]


async def shows(pilot: Pilot[object], app: ConsoleApp, *texts: str) -> None:
    await wait_for(pilot, lambda: all(text in screen_text(app) for text in texts), f"{texts} to be on screen")


async def select(pilot: Pilot[object], app: ConsoleApp, context: str) -> NodesPane:
    app.dispatcher.submit("open nodes")
    await wait_for(pilot, lambda: sorted(rows_of(app)) == [EAST, WEST], "the nodes of both")
    pane = app.workspace.pane("nodes")
    assert isinstance(pane, NodesPane)
    pane.table.select(f"n1 {context}")
    return pane


async def test_both_are_in_home_and_in_the_table_with_a_sum_of_each_and_of_all(settings: ConsoleSettings) -> None:
    app = ConsoleApp(settings)
    async with app.run_test(size=SIZE) as pilot:
        await shows(pilot, app, "Fleet of 2 clusters", "▶ west · live · 1 node", "  east · live · 1 node", "$11.34/h")
        app.dispatcher.submit("open nodes")
        await shows(pilot, app, "all 2 clusters  2 nodes", "CLUSTER", "west ", "east ")
        assert sorted(rows_of(app)) == [EAST, WEST]
        app.dispatcher.submit("filter east")
        await wait_for(pilot, lambda: rows_of(app) == [EAST], "the nodes of one")


async def test_a_pane_of_one_cluster_names_it_at_its_border(settings: ConsoleSettings) -> None:
    app = ConsoleApp(settings)
    async with app.run_test(size=SIZE) as pilot:
        app.dispatcher.submit("open pods")
        await shows(pilot, app, "only west · live")
        app.dispatcher.submit("context east")
        app.dispatcher.submit("open runs")
        await shows(pilot, app, "of other machines only on east")


async def test_one_that_hangs_is_unknown_and_delays_nothing(east: Cluster, settings: ConsoleSettings) -> None:
    east.going.clear()
    app = ConsoleApp(settings)
    async with app.run_test(size=SIZE) as pilot:
        await shows(pilot, app, "▶ west · live · 1 node", "? nodes · ? $/h", "≥ 1 node,", "≥ $5.67/h", "? east: not in")
        await shows(pilot, app, "? east: not known")
        services = services_of(app)
        await wait_for(pilot, lambda: services.cluster.identity is not None, "the other one is known all the same")
        east.going.set()
        await shows(pilot, app, "  east · live · 1 node", "  2 nodes, all ready")


async def test_one_that_refuses_says_so_and_is_in_no_sum(east: Cluster, settings: ConsoleSettings) -> None:
    east.is_locked = True
    app = ConsoleApp(settings)
    async with app.run_test(size=SIZE) as pilot:
        await shows(pilot, app, "▶ west · live · 1 node", "east · refused · ? nodes", "? east: not in", "≥ $5.67/h")
        app.dispatcher.submit("open nodes")
        await shows(pilot, app, "all 2 clusters  ≥ 1 node", "east            ? nodes")
        assert rows_of(app) == [WEST]


async def test_one_that_goes_away_is_shown_as_last_seen_until_it_is_back(
    east: Cluster, settings: ConsoleSettings
) -> None:
    app = ConsoleApp(settings)
    async with app.run_test(size=SIZE) as pilot:
        app.dispatcher.submit("open nodes")
        await shows(pilot, app, "all 2 clusters  2 nodes")
        east.is_locked = True
        east.cut.set()
        await shows(pilot, app, "as last seen", "? east")
        assert sorted(rows_of(app)) == [EAST, WEST]
        east.is_locked = False
        east.cut = asyncio.Event()
        services_of(app).followed.connect(services_of(app).clusters[1])
        await wait_for(pilot, lambda: "as last seen" not in screen_text(app), "it is back")
        await shows(pilot, app, "all 2 clusters  2 nodes")


async def test_a_change_is_of_the_cluster_of_the_selected_row_and_its_question_names_it(
    west: Cluster, east: Cluster, settings: ConsoleSettings
) -> None:
    app = ConsoleApp(settings)
    async with app.run_test(size=SIZE) as pilot:
        await select(pilot, app, EAST)
        app.dispatcher.submit("cordon")
        await wait_for(pilot, lambda: isinstance(app.screen, ConfirmModal), "the question")
        await shows(pilot, app, "cluster east · region us-east-1 · account 444455556666", "Cordon Node n1?")
        await settle(pilot)
        await pilot.press("y")
        await wait_for(pilot, lambda: bool(east.patched), "the change")
        assert services_of(app).followed.on_screen.key == WEST, "nothing of east was opened"
        await select(pilot, app, WEST)
        app.dispatcher.submit("cordon")
        await shows(pilot, app, "cluster west · region us-west-2 · account 111122223333")
        await settle(pilot)
        await pilot.press("n")
    assert (len(west.patched), len(east.patched)) == (0, 1)


async def test_a_change_keeps_the_cluster_that_it_was_asked_for_whatever_becomes_of_cursor_and_screen(
    west: Cluster, east: Cluster, settings: ConsoleSettings
) -> None:
    app = ConsoleApp(settings)
    async with app.run_test(size=SIZE) as pilot:
        pane = await select(pilot, app, EAST)
        feed = services_of(app).clusters[1].feed
        await feed.wait_connected()
        feed._connected.clear()
        app.dispatcher.submit("cordon")
        await settle(pilot)
        pane.table.select(f"n1 {WEST}")
        feed._connected.set()
        await shows(pilot, app, "cluster east · region us-east-1 · account 444455556666", "Cordon Node n1?")
        services_of(app).show(services_of(app).clusters[1].feed.target)
        services_of(app).show(services_of(app).clusters[0].feed.target)
        await settle(pilot)
        await pilot.press("y")
        await wait_for(pilot, lambda: bool(east.patched), "the change")
    assert west.patched == []


async def test_the_node_under_the_cursor_is_meant_and_no_other_of_its_name(
    east: Cluster, settings: ConsoleSettings
) -> None:
    app = ConsoleApp(settings)
    async with app.run_test(size=SIZE, notifications=True) as pilot:
        await select(pilot, app, EAST)
        east.uid = "of-the-next-node"
        app.dispatcher.submit("cordon")
        await wait_for(pilot, lambda: bool(app._notifications), "the refusal")
        assert not isinstance(app.screen, ConfirmModal)
    assert east.patched == []


@pytest.mark.parametrize(
    ("line", "title", "words"),
    [
        ("describe node/n1", "Node n1 · west", "cluster=west"),
        ("describe node/n1 context=east", "Node n1 · east", "cluster=east"),
        ("yaml node/n1", "Node n1, YAML", "cluster: west"),
        ("yaml", "Node n1, YAML · east", "cluster: east"),
        (f"yaml context={EAST}", "Node n1, YAML", "cluster: east"),
    ],
)
async def test_what_is_named_is_of_the_cluster_on_screen_or_of_the_context_that_is_named(
    settings: ConsoleSettings, line: str, title: str, words: str
) -> None:
    app = ConsoleApp(settings)
    async with app.run_test(size=SIZE) as pilot:
        await select(pilot, app, EAST)
        app.dispatcher.submit(line)
        await wait_for(pilot, lambda: isinstance(app.screen, Viewer), "the page")
        await shows(pilot, app, title)
        assert words in "\n".join(cast("Viewer", app.screen)._view._lines)
        assert services_of(app).followed.on_screen.key == WEST


async def test_a_change_of_what_is_named_is_of_the_cluster_on_screen_or_of_its_context(
    west: Cluster, east: Cluster, settings: ConsoleSettings
) -> None:
    app = ConsoleApp(settings)
    async with app.run_test(size=SIZE, notifications=True) as pilot:
        await select(pilot, app, EAST)
        app.dispatcher.submit("cordon node/n1")
        await shows(pilot, app, "cluster west · region us-west-2 · account 111122223333", "Cordon Node n1?")
        await settle(pilot)
        await pilot.press("y")
        await wait_for(pilot, lambda: bool(west.patched), "the change")
        await app.script_driver.execute(parse_line("cordon node/n1 context=east"))
        assert (len(west.patched), len(east.patched)) == (1, 1)
        for line, reason in (("cordon context=west", "several clusters"), ("cordon node/n1 context=north", "north")):
            with pytest.raises(ConsoleError, match=reason):
                await app.script_driver.execute(parse_line(line))
    assert (len(west.patched), len(east.patched)) == (1, 1)


async def test_enter_opens_the_pods_of_the_node_of_the_row_and_shows_its_cluster(settings: ConsoleSettings) -> None:
    app = ConsoleApp(settings)
    async with app.run_test(size=SIZE) as pilot:
        pane = await select(pilot, app, EAST)
        pane.table.focus()
        await pilot.press("enter")
        await wait_for(pilot, lambda: app.workspace.current.CONTEXT is KeyContext.PODS, "the pods")
        assert services_of(app).followed.on_screen.key == EAST


async def test_a_plugin_gets_the_context_of_the_selected_row(settings: ConsoleSettings) -> None:
    plugin = ConsolePlugin(
        name="say", key="A", description="say", scopes=("nodes",), command="echo", args=("$CONTEXT/$NAME",),
        is_background=True, shows_output=True,
    )  # fmt: skip
    keymap = Keymap(plugins=[(plugin, frozenset({KeyContext.NODES}))])
    app = ConsoleApp(replace(settings, keymap=keymap))
    async with app.run_test(size=SIZE) as pilot:
        for context in (EAST, WEST):
            await select(pilot, app, context)
            app.dispatcher.submit("plugin say")
            said = f"{context}/n1"  # on screen it is folded
            await wait_for(pilot, lambda: any(said in one.message for one in app._notifications), said)  # noqa: B023


async def test_what_is_marked_in_two_clusters_is_changed_in_none(
    west: Cluster, east: Cluster, settings: ConsoleSettings
) -> None:
    app = ConsoleApp(settings)
    async with app.run_test(size=SIZE, notifications=True) as pilot:
        pane = await select(pilot, app, EAST)
        pane.table.action_mark()
        pane.table.select(f"n1 {WEST}")
        pane.table.action_mark()
        app.dispatcher.submit("cordon")
        await shows(pilot, app, "This is meant for several clusters")
        with pytest.raises(RefusedError, match="several clusters"):
            await app.script_driver.execute(parse_line("cordon"))
    assert west.patched + east.patched == []


async def test_a_script_changes_the_cluster_that_it_has_put_on_screen(
    west: Cluster, east: Cluster, settings: ConsoleSettings
) -> None:
    app = ConsoleApp(settings)
    async with app.run_test(size=SIZE) as pilot:
        await select(pilot, app, WEST)
        await app.script_driver.execute(parse_line("context east"))
        await app.script_driver.execute(parse_line("cordon object=node/n1"))
        assert (len(west.patched), len(east.patched)) == (0, 1)
        await app.script_driver.execute(parse_line("cordon"))  # the selected row is of the other one
        assert (len(west.patched), len(east.patched)) == (1, 1)


async def test_a_cluster_that_the_settings_name_stays_and_another_one_goes_when_it_leaves_the_screen(
    settings: ConsoleSettings,
) -> None:
    app = ConsoleApp(ConsoleSettings(target=settings.target))
    async with app.run_test(size=SIZE) as pilot:
        services = services_of(app)
        await shows(pilot, app, "live", "1 node,")
        await app.script_driver.execute(parse_line("context east"))
        assert [one.key for one in services.clusters] == [EAST]
    app = ConsoleApp(settings)
    async with app.run_test(size=SIZE) as pilot:
        services = services_of(app)
        await shows(pilot, app, "2 nodes, all ready")
        session = services.clusters[1].feed.session
        await app.script_driver.execute(parse_line("context east"))
        assert [one.key for one in services.clusters] == [WEST, EAST]
        assert services.cluster.session is session, "it was followed already"

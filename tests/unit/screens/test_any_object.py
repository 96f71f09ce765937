"""Describe, YAML and logs of objects of kinds that only the cluster knows, and of workloads."""

from __future__ import annotations

from pathlib import Path
from typing import cast

import pytest
from aiohttp import web
from msgspec.structs import replace
from textual.app import App, ComposeResult
from textual.screen import Screen
from textual.widget import Widget

from actions.base.errors import ConfigError, ParameterError, RefusedError
from actions.cluster.auth.session import KubeSession
from actions.cluster.objects.catalogue import KindCatalogue, ServedKind
from actions.command.arguments import KindArguments, LogsArguments, ObjectArguments
from tests.support.builders import a_pod, a_snapshot, console_services
from tests.support.waiting import wait_for
from tests.unit.cluster.servers import session_to
from tests.unit.panes.alone import WIDE
from tui.commands.app_actions import AppActions
from tui.commands.kinds import KindCommands
from tui.commands.objects import ObjectCommands
from tui.screens.viewer import Viewer
from tui.screens.workspace import PaneWorkspace
from tui.textual_private import screen_text

QUEUE = ServedKind("scheduling.example", "v1", "lines", "Line", is_namespaced=False, verbs=("get", "list"))
WEB = {"owner_kind": "StatefulSet", "owner_name": "web"}
RESOURCES = [{"name": "lines", "kind": "Line", "namespaced": False}]


async def answer(request: web.Request) -> web.StreamResponse:
    if request.path == "/apis/scheduling.example/v1":
        return web.json_response({"resources": RESOURCES})
    assert request.path == "/apis/scheduling.example/v1/lines/long"
    return web.json_response({"kind": "Line", "metadata": {"name": "long"}, "spec": {"weight": 3}})


class Desk:
    """The commands on objects, with two pods of a StatefulSet and one that stands alone."""

    def __init__(self, session: KubeSession | None = None) -> None:
        self.shown: list[str] = []
        pods = [replace(a_pod(name), **WEB) for name in ("web-1", "web-2")]
        self.services = console_services(a_snapshot(pods=[*pods, a_pod("alone", namespace="lines")]))
        if session is not None:
            self.services.cluster._session = session
            self.services.cluster._connected.set()
            self.services.followed.on_screen.kinds._catalogue = (session, KindCatalogue([QUEUE]))
        self.workspace = PaneWorkspace(self.services)

        def show(screen: Screen[None]) -> None:
            self.shown.append("\n".join(cast("Viewer", screen)._view._lines))

        async def allow(_: ConfigError) -> bool:
            return False

        actions = AppActions(
            show=show,
            notify_plainly=lambda _: None,
            save_screen=_save_nothing,
            leave=lambda: None,
            close_notifications=lambda: False,
            close_front=lambda: False,
            open_shell=lambda *_: None,
            allow_plugin=allow,
        )
        self.handlers = {
            **ObjectCommands(self.workspace, self.services, actions).handlers(),
            **KindCommands(self.workspace, self.services, actions).handlers(),
        }


async def test_a_selector_that_no_server_can_read_is_not_sent_to_one(tmp_path: Path) -> None:
    async with session_to(answer, tmp_path) as session:
        desk = Desk(session)
        with pytest.raises(ParameterError, match=r"A parenthesis in the selector 'tier in \(web' is not closed"):
            await desk.handlers["objects"](KindArguments(kind="lines", labels="tier in (web"))
        assert desk.services.objects.scope is None


async def test_an_object_of_a_kind_that_only_the_cluster_knows_is_described(tmp_path: Path) -> None:
    async with session_to(answer, tmp_path) as session:
        desk = Desk(session)
        await desk.handlers["yaml"](ObjectArguments(object="lines.scheduling.example/long"))
        await desk.handlers["describe"](ObjectArguments(object="lines/long"))
    assert "weight: 3" in desk.shown[0]
    assert "Line" in desk.shown[1]


class Panes(App[None]):
    """The panes of a desk on a screen."""

    def __init__(self, desk: Desk) -> None:
        super().__init__()
        self.desk = desk

    def compose(self) -> ComposeResult:
        yield self.desk.workspace.split


async def test_several_pods_of_a_workload_are_listed_to_choose_a_log() -> None:
    app = Panes(Desk())
    async with app.run_test(size=WIDE) as pilot:
        await app.desk.handlers["logs"](LogsArguments(object="sts/default/web"))
        await wait_for(pilot, lambda: "web-2" in screen_text(app), "the pods")
        assert "pods of StatefulSet default/web" in screen_text(app)
        assert "alone" not in screen_text(app)


async def test_what_has_no_pods_has_no_log() -> None:
    with pytest.raises(RefusedError, match="Node node-1 is not a pod, and has none"):
        await Desk().handlers["logs"](LogsArguments(object="node/node-1"))


async def test_a_name_without_a_namespace_is_looked_for_in_the_chosen_one() -> None:
    desk = Desk()
    desk.services.narrow("play")
    with pytest.raises(RefusedError, match="StatefulSet play/web is not a pod, and has none"):
        await desk.handlers["logs"](LogsArguments(object="sts/web"))


async def _save_nothing(_file: Path, _part: Widget | None) -> None:
    """Take no picture."""

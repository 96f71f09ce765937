"""Verbs on clusters, ports and listed runs."""

from __future__ import annotations

from pathlib import Path
from typing import Never, cast

import pytest
from textual.screen import Screen
from textual.widget import Widget

from actions.base.errors import ConfigError, MissingError, RefusedError
from actions.cluster.auth.kubeconfig import ClusterTarget
from actions.command.arguments import (
    ContextArguments,
    ForwardArguments,
    RunArguments,
)
from actions.command.parse import parse_line
from actions.fleet.facts import PodFacts
from tests.support import fixed_runs
from tests.support.builders import a_pod, a_snapshot, console_services
from tui.commands.app_actions import AppActions
from tui.commands.dispatcher import with_selected_run
from tui.commands.objects import ForwardCommand
from tui.commands.runs import ResultsCommands
from tui.commands.view import ContextCommand
from tui.feeds.port_forwards import SERVICES, parse_port, served_by
from tui.feeds.services import ConsoleServices
from tui.present.subject import Subject
from tui.screens.viewer import Viewer
from tui.settings.settings import ConsoleSettings

KUBECONFIG = """\
apiVersion: v1
kind: Config
current-context: prod
contexts:
- {name: prod, context: {cluster: big, user: me}}
- {name: dev, context: {cluster: small, user: me}}
- {name: same, context: {cluster: same, user: me}}
clusters:
- {name: big, cluster: {server: "http://127.0.0.1:9"}}
- {name: small, cluster: {server: "http://127.0.0.1:9"}}
- {name: same, cluster: {server: "http://127.0.0.1:9"}}
users:
- {name: me, user: {}}
"""


class Hands:
    """Notes what is shown and said."""

    def __init__(self) -> None:
        self.shown: list[str] = []
        self.said: list[str] = []

    def app_actions(self) -> AppActions:
        def show(screen: Screen[None]) -> None:
            viewer = cast("Viewer", screen)
            self.shown.append("\n".join(viewer._view._lines))

        async def allow(_: ConfigError) -> bool:
            return False

        return AppActions(
            show=show,
            notify_plainly=self.said.append,
            save_screen=_save_nothing,
            leave=lambda: None,
            close_notifications=lambda: False,
            close_front=lambda: False,
            open_shell=lambda *_: None,
            allow_plugin=allow,
        )


def with_kubeconfig(folder: Path) -> ConsoleServices:
    path = folder / "config"
    path.write_text(KUBECONFIG)
    settings = ConsoleSettings(target=ClusterTarget(kubeconfig=path))
    services = console_services()
    services.settings = settings
    services.cluster.target = settings.target
    return services


async def test_contexts_are_listed_where_none_is_named(tmp_path: Path) -> None:
    app_actions = Hands()
    await ContextCommand(with_kubeconfig(tmp_path), app_actions.app_actions()).handlers()["context"](ContextArguments())
    lines = [line.split() for line in app_actions.shown[0].splitlines()[2:]]
    assert lines == [["dev", "small"], ["prod", "big"], ["same"]]


async def test_a_context_that_is_none_is_refused_and_nothing_changes(tmp_path: Path) -> None:
    services = with_kubeconfig(tmp_path)
    before = services.cluster.target
    verb = ContextCommand(services, Hands().app_actions()).handlers()["context"]
    with pytest.raises(ConfigError, match="'staging'"):
        await verb(ContextArguments(name="staging"))
    with pytest.raises(MissingError, match="No run is on screen"):
        await verb(ContextArguments(name="run"))
    assert services.cluster.target is before


HEAD = PodFacts(
    uid="h",
    namespace="default",
    name="tune-raycluster-x-head-a",
    owner_kind="RayCluster",
    owner_name="tune-raycluster-x",
    phase="Running",
)


def test_a_service_is_found_by_the_pod_that_serves_it() -> None:
    dashboard, tensorboard, prometheus = SERVICES
    board = a_pod("train-tensorboard-5d-x")
    assert served_by(dashboard, [a_pod("worker-0"), HEAD]) is HEAD
    assert served_by(tensorboard, [HEAD, board]) is board
    assert served_by(tensorboard, [a_pod("train-tensorboard-5d-x", phase="Pending")]) is None
    assert served_by(prometheus, [HEAD, board]) is None


@pytest.mark.parametrize("text", ["tensorbord", "pod:", ":80", "work/pod:0", "work/pod:65536", "work/pod:8x"])
def test_what_is_neither_a_name_nor_a_port_is_refused_with_the_names(text: str) -> None:
    with pytest.raises(ConfigError, match="cannot be forwarded") as refused:
        parse_port(text)
    assert refused.value.hint == "Write dashboard, tensorboard, prometheus, or NAMESPACE/POD:PORT."
    assert parse_port("work/pod:8080") == ("work/pod", 8080)


async def test_what_can_be_forwarded_is_listed_where_nothing_is_named() -> None:
    app_actions = Hands()
    services = console_services(a_snapshot(pods=[HEAD]))
    await ForwardCommand(services, app_actions.app_actions()).handlers()["forward"](ForwardArguments())
    assert "default/tune-raycluster-x-head-a:8265" in app_actions.shown[0]
    assert "TensorBoard: no pod serves it at present" in app_actions.shown[0]


async def test_what_is_not_forwarded_cannot_be_stopped() -> None:
    with pytest.raises(MissingError, match="dashboard"):
        await ForwardCommand(console_services(), Hands().app_actions()).handlers()["forward"](
            ForwardArguments(to="dashboard", stop=True)
        )


def test_a_call_without_a_run_means_the_one_under_the_cursor_of_the_list() -> None:
    selected = Subject("Run", "bionemo-1")
    assert with_selected_run(parse_line("approve network"), selected).values() == {
        "stage": "network",
        "run": "bionemo-1",
    }
    assert with_selected_run(parse_line("teardown run=other"), selected).values() == {"run": "other"}
    assert with_selected_run(parse_line("open pods"), selected).values() == {"pane": "pods"}
    assert with_selected_run(parse_line("park"), Subject("Pod", "x")).values() == {}


async def _save_nothing(_file: Path, _part: Widget | None) -> None:
    """Take no picture."""


async def test_a_list_of_results_is_not_waited_for_without_a_word(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def listing(*_: object) -> Never:
        raise RefusedError("The cluster does not answer.")

    monkeypatch.setattr("actions.run.results.list_results", listing)
    hands, services = Hands(), with_kubeconfig(tmp_path)
    monkeypatch.setattr(services.runs, "find", lambda _: fixed_runs.summaries(tmp_path)[0])
    with pytest.raises(RefusedError):
        await ResultsCommands(services, hands.app_actions()).handlers()["results"](RunArguments())
    assert hands.said == ["Listing the results: by a short Job, if no pod of the run has its volume."]

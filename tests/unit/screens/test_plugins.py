"""Plugins on the console: what a program gets, when it is asked about, and what is refused."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from msgspec.structs import replace
from textual import events

from actions.base.errors import ConsoleError, MissingError, ParameterError, RefusedError, ToolError
from actions.cluster.auth.kubeconfig import ClusterTarget
from actions.command.arguments import PluginArguments
from tests.support.answering import write_kubeconfig
from tests.support.builders import a_pod, a_snapshot, console_services
from tests.support.waiting import settle, wait_for
from tui.app import ConsoleApp
from tui.commands.app_actions import AppActions
from tui.commands.plugins import PluginCommand
from tui.panes.pods import PodsPane
from tui.present.subject import Subject
from tui.screens.confirm import Confirmation
from tui.screens.workspace import PaneWorkspace
from tui.settings.keymap import ConsolePlugin, Keymap, PluginInput
from tui.settings.keys import KeyContext
from tui.settings.plugins import panes_of
from tui.settings.settings import ConsoleSettings
from tui.textual_private import screen_text


def a_plugin(name: str = "say", **values: Any) -> ConsolePlugin:
    return ConsolePlugin(
        **{"key": "A", "description": "say", "scopes": ("pods",), "command": "echo"} | values, name=name
    )


class Row(PodsPane):
    """The pane of pods with the cursor on one."""

    shown_titles = ("NAME", "STATUS")
    on: Subject | None = Subject("Pod", "web-0", "work")
    cells: Mapping[str, str] = {"NAME": "web-0", "STATUS": "● Running"}

    def subject_in_sight(self) -> Subject | None:
        return self.on

    def clipping(self, column: str) -> Any:
        return type("Cell", (), {"text": self.cells[column]})


class Stage:
    """A plugin command on one row, and what came of it."""

    def __init__(self, folder: Path, *plugins: ConsolePlugin, says_yes: bool = True) -> None:
        services = self.services = console_services(
            a_snapshot([], [replace(a_pod("web-0", namespace="work"), containers=("main",))])
        )
        services.cluster.target = ClusterTarget(
            kubeconfig=write_kubeconfig(folder / "kubeconfig", "http://127.0.0.1:9")
        )
        keymap = Keymap(plugins=[(plugin, panes_of(plugin)) for plugin in plugins])
        services.settings = ConsoleSettings(target=services.settings.target, keymap=keymap)
        self.pane = Row(services)
        self.asked: list[Confirmation] = []
        self.said: list[str] = []
        self.typed: list[str] = []
        self.started: list[tuple[list[str], str]] = []
        self.behind: list[Coroutine[Any, Any, None]] = []
        self.code = 0
        self._says_yes = says_yes
        workspace = cast(PaneWorkspace, SimpleNamespace(current=self.pane))
        actions = AppActions(
            show=lambda _: None,
            notify_plainly=self.said.append,
            save_screen=lambda *_: asyncio.sleep(0),
            leave=lambda: None,
            close_notifications=lambda: False,
            close_front=lambda: False,
            open_shell=lambda *_: None,
            allow_plugin=lambda _: asyncio.sleep(0, result=False),
            confirm=self._confirm,
            type_line=self._type,
            run_in_front=self._run,
            run_beside=self.behind.append,
        )
        self._handler = PluginCommand(workspace, services, actions).handlers()["plugin"]

    async def start(self, plugin: str = "say", key: str = "", **typed: str) -> None:
        await self._handler(PluginArguments(plugin, key, typed))

    async def _type(self, text: str) -> None:
        self.typed.append(text)

    async def _confirm(self, confirmation: Confirmation) -> bool:
        self.asked.append(confirmation)
        return self._says_yes

    async def _run(self, argv: Sequence[str], environment: Mapping[str, str]) -> int:
        self.started.append(([*argv], environment["KUBECONFIG"]))
        return self.code


async def test_a_program_gets_the_selection_without_a_shell(tmp_path: Path) -> None:
    args = ("$NAME", "$NAMESPACE", "$POD/$CONTAINER", "$FILTER", "$RESOURCE_NAME.$RESOURCE_VERSION", "$COL-STATUS; x")
    stage = Stage(tmp_path, a_plugin(args=(*args, "$CONTEXT", "$CLUSTER", "$USER")))
    await stage.start()
    ((argv, kubeconfig),) = stage.started
    assert argv[:7] == ["echo", "web-0", "work", "web-0/main", "web-0", "pods.v1", "Running; x"]
    assert all(argv[7:])
    assert kubeconfig == str(tmp_path / "kubeconfig")
    assert stage.asked == []


async def test_a_dangerous_one_is_asked_about_with_its_whole_line(tmp_path: Path) -> None:
    stage = Stage(tmp_path, a_plugin(args=("a b", "$NAME"), is_confirmed=True), says_yes=False)
    await stage.start()
    assert stage.started == []
    (question,) = stage.asked
    assert question.title == "Start say with Pod work/web-0?"
    assert any("echo 'a b' web-0" in span.text for line in question.lines for span in line)


@pytest.mark.parametrize(
    ("plugin", "typed", "kind", "said"),
    [
        (a_plugin(scopes=("nodes",)), {}, RefusedError, "say is for nodes, not for Pod work/web-0"),
        (a_plugin("other"), {}, MissingError, "There is no plugin 'say'"),
        (a_plugin(args=("$COL-AGE",)), {}, MissingError, "needs the column AGE. Shown: NAME, STATUS"),
        (a_plugin(), {"x": "1"}, ParameterError, "say has no input 'x'"),
        (a_plugin(inputs=(PluginInput("x", "string", is_required=True),)), {}, ParameterError, "say needs x"),
        (a_plugin(inputs=(PluginInput("x", "number"),)), {"x": "a"}, ParameterError, "x must be a number"),
    ],
)
async def test_what_cannot_be_started_is_refused_in_a_sentence(
    plugin: ConsolePlugin, typed: dict[str, str], kind: type[ConsoleError], said: str, tmp_path: Path
) -> None:
    stage = Stage(tmp_path, plugin)
    with pytest.raises(kind) as refused:
        await stage.start(**typed)
    assert said in refused.value.sentence()
    assert stage.started == []


async def test_a_script_starts_none(tmp_path: Path) -> None:
    stage = Stage(tmp_path, a_plugin(is_background=True))
    stage.services.settings = replace(stage.services.settings, has_operator=False)
    with pytest.raises(RefusedError, match="A script starts no plugin"):
        await stage.start()
    assert stage.behind == []


async def test_no_value_of_the_cluster_is_carried_out_by_a_shell(tmp_path: Path) -> None:
    inputs = (PluginInput("line", "string"),)
    stage = Stage(tmp_path, a_plugin(command="/bin/bash", args=("-c", "echo $COL-STATUS $INPUT_LINE"), inputs=inputs))
    await stage.start(line="$(date); ls")  # typed by the operator
    assert stage.started[0][0][-1] == "echo Running $(date); ls"
    stage.pane.cells = {"NAME": "web-0", "STATUS": "$(reboot)"}
    with pytest.raises(RefusedError, match="has a blank or a sign of a shell"):
        await stage.start()


@pytest.mark.parametrize(
    ("command", "args"),
    [
        ("env", ("bash", "-c", "echo $COL-STATUS")),
        ("sudo", ("sh", "-c", "$COL-STATUS")),
        ("env", ("-S", "bash -c", "$COL-STATUS")),
        ("watch", ("$COL-STATUS",)),
        ("ssh", ("host", "$COL-STATUS")),
        ("xargs", ("$COL-STATUS",)),
        ("busybox", ("sh", "-c", "$COL-STATUS")),
        ("/bin/sh", ("-c", "$0", "$COL-STATUS")),
        ("python3", ("-c", "print('$COL-STATUS')")),
        ("run-$COL-STATUS", ()),
    ],
)
@pytest.mark.parametrize("status", ["$(reboot)", "x --all -A", "a;b", "'"])
async def test_no_shell_behind_another_word_gets_blanks_or_signs(
    command: str, args: tuple[str, ...], status: str, tmp_path: Path
) -> None:
    stage = Stage(tmp_path, a_plugin(command=command, args=args))
    stage.pane.cells = {"NAME": "web-0", "STATUS": status}
    with pytest.raises(RefusedError, match=r"say would put \$COL-STATUS into a shell or a text"):
        await stage.start()
    assert stage.started == []


async def test_without_a_shell_an_argument_by_itself_may_have_any_signs(tmp_path: Path) -> None:
    stage = Stage(tmp_path, a_plugin(args=("--watch", "${COL-STATUS}")))
    stage.pane.cells = {"NAME": "web-0", "STATUS": "$(reboot) x --all"}
    await stage.start()
    assert stage.started[0][0] == ["echo", "--watch", "$(reboot) x --all"]


async def test_the_filter_counts_as_typed_only_while_there_is_one(tmp_path: Path) -> None:
    stage = Stage(tmp_path, a_plugin(command="bash", args=("-c", "echo $FILTER")))
    stage.pane.on = Subject("Pod", "$(reboot)", "work")
    with pytest.raises(RefusedError, match=r"\$FILTER into a shell"):
        await stage.start()
    stage.pane.table.filter_text = "a|b"
    await stage.start()
    assert stage.started[0][0] == ["bash", "-c", "echo a|b"]


@pytest.mark.parametrize("text", ["$COL-STATUS", "--of=$COL-STATUS", "sh $COL-STATUS"])
async def test_no_value_of_the_cluster_is_an_option_and_a_typed_one_may_be(text: str, tmp_path: Path) -> None:
    stage = Stage(tmp_path, a_plugin(args=(text, "$INPUT_X"), inputs=(PluginInput("x", "string"),)))
    await stage.start(x="-A")
    assert stage.started[0][0][2] == "-A"
    stage.pane.cells = {"NAME": "web-0", "STATUS": "-A"}
    with pytest.raises(RefusedError, match=r"would take \$COL-STATUS for an option: '-A' begins with '-'"):
        await stage.start(x="-A")


async def test_a_program_that_fails_is_told_and_one_behind_tells_its_end(tmp_path: Path) -> None:
    script = "echo; echo first; echo second"
    stage = Stage(
        tmp_path,
        a_plugin(),
        a_plugin("behind", command="sh", args=("-c", script), is_background=True, shows_output=True),
        a_plugin("quiet", command="sh", args=("-c", script), is_background=True),
        a_plugin("failing", command="sh", args=("-c", "echo why; exit 3"), is_background=True),
        a_plugin("absent", command="/nowhere/at/all", is_background=True),
    )
    stage.code = 3
    with pytest.raises(ToolError, match="3"):
        await stage.start()
    for name in ("behind", "quiet", "failing", "absent"):
        await stage.start(name)
        await stage.behind.pop()
    assert [said for said in stage.said if "started" not in said][:2] == ["first", "quiet has ended."]
    assert "why" in stage.said[-3]
    assert stage.said[-1].startswith("absent: ")


async def test_of_plugins_with_one_key_the_one_for_the_selection_is_started(tmp_path: Path) -> None:
    typed = a_plugin("c", key="r", inputs=(PluginInput("x", "string"),))
    stage = Stage(
        tmp_path, a_plugin("a", scopes=("nodes",)), a_plugin("b", scopes=("containers",), command="second"), typed
    )
    await stage.start("", key="A")
    assert stage.started[0][0] == ["second"]
    await stage.start("", key="r")
    assert stage.typed == ["plugin c x="]
    stage.pane.on = None
    with pytest.raises(MissingError, match="Nothing is selected"):
        await stage.start("", key="A")


async def test_a_key_of_pods_and_containers_starts_the_one_for_pods(tmp_path: Path) -> None:
    of_containers = a_plugin("inside", scopes=("containers",), command="second")
    stage = Stage(tmp_path, of_containers, a_plugin("whole", command="first"))
    await stage.start("", key="A")
    assert stage.started[0][0][0] == "first"


@pytest.mark.parametrize("is_readonly", [False, True])
async def test_a_key_with_inputs_opens_the_line_and_read_only_refuses(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_readonly: bool
) -> None:
    for name in ("HOME", "XDG_STATE_HOME", "XDG_CONFIG_HOME"):
        monkeypatch.setenv(name, str(tmp_path))
    plugin = a_plugin(inputs=(PluginInput("size", "string", default="10Gi"),))
    keymap = Keymap(plugins=[(plugin, frozenset({KeyContext.PODS}))])
    app = ConsoleApp(ConsoleSettings(target=ClusterTarget(), keymap=keymap, readonly=is_readonly))
    async with app.run_test(size=(100, 30)) as pilot:
        await settle(pilot)
        app.post_message(events.Key("2", "2"))
        await wait_for(pilot, lambda: "A say" in screen_text(app), "the footer shows the plugin")
        app.post_message(events.Key("A", "A"))
        said = "read-only: plugin was not"
        if not is_readonly:
            await wait_for(pilot, lambda: "plugin say size=10Gi" in screen_text(app), "the line has the inputs")
            await pilot.press("enter")
            said = "Nothing is selected"
        # on screen it is folded
        await wait_for(pilot, lambda: any(said in one.message for one in app._notifications), "the plugin is refused")

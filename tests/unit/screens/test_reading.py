"""Reading a log, a chart or a text through the whole screen: copied, saved, marked, searched, by key and by command."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec.structs import replace

from actions.base.errors import RefusedError
from actions.cluster.logs.follow import ContainerLog
from actions.cluster.logs.lines import LogLine
from tests.support import fixed_runs
from tests.support.builders import a_node, a_pod, a_snapshot
from tests.support.fixed_cluster import RUN, picture
from tests.support.fixed_console import FixedConsole, Scene, a_fixed_console
from tests.support.waiting import wait_for
from tui.panes.base import Pane
from tui.panes.charts import ChartsPane
from tui.panes.logs import LogsPane
from tui.screens.viewer import Viewer
from tui.terminal import clipboard
from tui.terminal.clipboard import MOST_BYTES, Clipping, copy_out
from tui.textual_private import screen_text
from tui.widgets.log import COLUMN_STEP
from tui.widgets.log_buffer import BufferedLine
from tui.widgets.log_renderer import Wrap

SIZE = (120, 36)


pytestmark = pytest.mark.usefixtures("own_home")


def a_scene(tmp_path: Path) -> Scene:
    """A training with curves, log and accelerators."""
    fixed_runs.store_training(tmp_path / RUN)
    return Scene(picture(), view=fixed_runs.a_training_run(), folder=tmp_path / RUN)


async def all_hold(console: FixedConsole, *steps: tuple[str, Callable[[], bool]]) -> None:
    """Carry out lines, after each of which its condition holds."""
    for line, holds in steps:
        await console.line(line)
        await console.calm()
        assert holds(), line


async def test_a_log_is_copied_saved_and_scrolled_to_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with a_fixed_console(a_scene(tmp_path), monkeypatch, size=SIZE) as console:
        await console.line("open logs")
        await console.calm("12600/500000")
        await console.press("Y")
        await console.calm("Copied 30 lines of the log")
        assert "12600/500000" in console.app.clipboard
        assert "\x1b" not in console.app.clipboard

        file = tmp_path / "train.log"
        await console.line(f"save {file}")
        await console.calm("lines of the log to")
        pane = console.app.workspace.current
        assert isinstance(pane, LogsPane)
        saved = file.read_text("utf-8").splitlines()
        assert len(saved) == pane._view.buffer.end
        times = [line[:12] for line in saved if line[:1].isdigit()]
        assert times[0][2] == ":"

        await console.line(f"goto {times[0][:8]}")
        await console.calm("‖ paused")
        await console.press("Y")
        assert console.app.clipboard.strip() in saved[0] or saved[0].endswith(console.app.clipboard.strip())
        await console.line("goto noon")
        await console.calm("'noon' is not a time")


def cursor_of(pane: Pane) -> str:
    """Return the name of the object under the cursor."""
    subject = pane.subject()
    return subject.name if subject is not None else ""


async def test_lines_and_rows_are_marked_by_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with a_fixed_console(a_scene(tmp_path), monkeypatch, size=SIZE) as console:
        await console.line("open logs")
        await console.calm("12600/500000")
        await console.line("mark next")
        await console.calm("No line of the log is marked.")
        await console.line("mark")
        await console.calm("mark 1/1")
        await console.press("g")
        await console.line("mark")
        await console.calm("mark 1/2")
        await console.line("mark next")
        await console.line("mark next")
        await console.calm("mark 2/2")
        await console.line("mark previous")
        await console.calm("mark 1/2")
        await console.line("mark clear")
        await console.calm("‖ paused")
        assert "mark 1" not in screen_text(console.app)

        await console.line("open nodes")
        await console.calm("g5.12xlarge")
        await console.line("mark")
        await console.calm("nodes · 1 marked")
        pane = console.app.workspace.current
        assert cursor_of(pane) != pane.marked()[0].name
        await console.line("mark next")
        await console.calm("nodes · 1 marked")
        assert cursor_of(pane) == pane.marked()[0].name
        await console.line("mark clear")
        await console.calm("─ nodes ─")
        await console.line("open cost")
        await console.calm("[9 cost]")
        await console.line("mark")
        await console.calm("The cost pane has nothing to mark.")


async def test_what_keys_do_in_a_log_commands_do_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with a_fixed_console(a_scene(tmp_path), monkeypatch, size=SIZE) as console:
        await console.line("open logs")
        await console.calm("12600/500000")
        pane = console.app.workspace.current
        assert isinstance(pane, LogsPane)
        lines = pane._view.lines
        await all_hold(
            console,
            ("set follow off", lambda: not lines.is_following),
            ("set follow off", lambda: not lines.is_following),
            ("set follow", lambda: lines.is_following),
            ("set wrap all", lambda: lines.options.wrap is Wrap.ALL),
            ("set wrap tracebacks", lambda: lines.options.wrap is Wrap.TRACEBACKS),
            ("set wrap", lambda: lines.options.wrap is Wrap.ALL),
            ("set time on", lambda: lines.options.has_clock),
            ("set time on", lambda: lines.options.has_clock),
            ("set source off", lambda: not lines.options.has_source),
            ("set json off", lambda: not lines.options.lays_json),
            ("search 12600/500000", lambda: pane._view._search is not None),
            ("goto match", lambda: pane._view._current is not None),
            ("search", lambda: pane._view._search is None),
        )
        await console.line("set wrap none")
        await console.calm()
        for line, column in (("goto right", 1), ("goto right", 2), ("goto left", 1)):
            await console.line(line)
            await console.calm()
            assert lines._renderer.left == column * COLUMN_STEP, line
        await console.line("goto error")
        await console.calm("paused  no error")
        await console.line("set wrap foo")
        await console.calm("'foo' is none of tracebacks, all, none")
        await console.line("set log")
        await console.calm("has no 'log' to set. It has follow")
        await console.line("open nodes")
        await console.line("set wrap")
        await console.calm("The nodes pane has no 'wrap' to set.")
        await console.line("axis in")
        await console.calm("The focused pane has no axis.")


async def test_what_keys_do_in_a_chart_commands_do_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with a_fixed_console(a_scene(tmp_path), monkeypatch, size=SIZE) as console:
        await console.line("open charts")
        await console.calm("train_loss")
        pane = console.app.workspace.current
        assert isinstance(pane, ChartsPane)
        plot = pane._plot
        await all_hold(
            console,
            ("set log on", lambda: plot.is_on("log")),
            ("set log on", lambda: plot.is_on("log")),
            ("set log", lambda: not plot.is_on("log")),
            ("set smooth on", lambda: plot.is_on("smooth")),
            ("set smooth off", lambda: not plot.is_on("smooth")),
            ("set time on", lambda: plot.is_on("time")),
            ("set time off", lambda: not plot.is_on("time")),
            ("axis next", lambda: plot._cursor is not None),
            ("axis in", lambda: plot.options.window is not None),
            ("axis whole", lambda: plot.options.window is None and plot._cursor is None),
        )
        await console.line("axis in")
        await console.calm()
        before = plot.options.window
        await console.line("axis right")
        await console.line("axis left")
        await console.line("axis left")
        await console.calm()
        assert before is not None
        assert plot.options.window is not None
        assert plot.options.window[0] < before[0]


async def test_the_page_of_wandb_that_a_log_names_is_copied_or_opened_in_a_browser(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[str] = []
    monkeypatch.setattr("tui.commands.reading.open_browser", opened.append)
    monkeypatch.setattr("tui.commands.reading.has_browser", lambda: False)
    submitted: list[str] = []
    monkeypatch.setattr("tui.commands.handlers.submit_line", lambda _, line: submitted.append(line))
    async with a_fixed_console(a_scene(tmp_path), monkeypatch, size=SIZE) as console:
        await console.line("open logs")
        await console.calm("12600/500000")
        await console.press("A")
        await console.calm("The log has no address of wandb")
        pane = console.app.workspace.current
        assert isinstance(pane, LogsPane)
        pod = "esm1nv-pretraining-worker-0"
        lines = (
            "wandb: View project at \x1b[34m\x1b[4mhttps://wandb.ai/team/esm\x1b[0m",
            "wandb: View run at \x1b[34m\x1b[4mhttps://wandb.ai/team/esm/runs/uc4\x1b[0m",
            "TensorBoard 2.11.2 at http://localhost:6006/ (Press CTRL+C to quit)",
        )
        pane._view.buffer.extend([BufferedLine(line, source=pod, at_ns=1) for line in lines])
        await console.press("A")
        await console.calm("wandb run: https://wandb.ai/team/esm/runs/uc4 Copied it")
        assert console.app.clipboard == "https://wandb.ai/team/esm/runs/uc4"
        monkeypatch.setattr("tui.commands.reading.has_browser", lambda: True)
        await console.line("browse project")
        await console.calm("Opened wandb project")
        assert opened == ["https://wandb.ai/team/esm"]
        await console.line("browse mlflow")
        await console.calm("The log has no 'mlflow'.")
        await console.line("browse tensorboard")
        await wait_for(console.pilot, lambda: submitted == [f"forward default/{pod}:6006"], "a port is forwarded")
        submitted.clear()
        pane._pod = replace(a_pod(pod), phase="Running")  # of one pod's log the sources are its containers
        pane._view.buffer.extend([BufferedLine("TensorBoard 2.11.2 at http://0.0.0.0:6007/", source="main", at_ns=2)])
        await console.line("browse tensorboard")
        await wait_for(console.pilot, lambda: submitted == [f"forward default/{pod}:6007"], "of the pod")


def test_a_browser_is_opened_only_in_front_of_the_operator(monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[list[str]] = []
    monkeypatch.setattr(clipboard, "spawn_detached", lambda argv, **_: started.append(argv))
    monkeypatch.setattr("shutil.which", lambda name: f"/usr/bin/{name}")
    for name in ("SSH_CONNECTION", "SSH_TTY", "WAYLAND_DISPLAY", "DISPLAY"):
        monkeypatch.delenv(name, raising=False)
    assert not clipboard.has_browser()
    monkeypatch.setenv("DISPLAY", ":0")
    assert clipboard.has_browser()
    clipboard.open_browser("https://wandb.ai/t")
    assert started == [["xdg-open", "https://wandb.ai/t"]]
    monkeypatch.setenv("SSH_CONNECTION", "10.0.0.1 1 10.0.0.2 22")
    assert not clipboard.has_browser()


async def test_a_log_is_narrowed_to_one_pod_and_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with a_fixed_console(a_scene(tmp_path), monkeypatch, size=SIZE) as console:
        await console.line("open logs")
        await console.calm("12600/500000")
        await console.line("only worker-5,worker-3")
        await console.calm("and 1 more ")
        text = screen_text(console.app)
        assert "12600/500000" not in text
        assert "worker-5 rank 5: 数据 shard 005 read again" in text
        await console.press("O")
        await console.calm("12600/500000")
        await console.press("O")
        await console.calm("only esm1nv-pretraining-worker-0")
        await console.press("escape")
        await console.calm("● following  ")
        assert "only esm1nv" not in screen_text(console.app)
        await console.line("only nobody")
        await console.calm("The log has no line of nobody.")


async def test_the_name_or_a_cell_of_a_row_is_copied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with a_fixed_console(a_scene(tmp_path), monkeypatch, size=SIZE) as console:
        await console.line("open nodes")
        await console.calm("NAME")
        await console.press("Y")
        await console.calm("Copied the name")
        assert console.app.clipboard.startswith("ip-10-1-")
        await console.line("copy type")
        await console.calm("Copied TYPE ")
        assert "." in console.app.clipboard
        await console.line("copy nothing")
        await console.calm("nodes has no column 'nothing'")
        await console.line("save x.log")
        await console.calm("The focused pane has no log.")
        console.app.services.settings = replace(console.app.services.settings, has_operator=False)
        await console.line("copy")
        await console.calm("A script has no clipboard.")


class _Clipboard:
    def __init__(self, *, has_clipboard: bool = True) -> None:
        self.text = ""
        self.has_clipboard = has_clipboard

    def copy_to_clipboard(self, text: str) -> None:
        self.text = text


def test_a_text_that_no_clipboard_takes_is_refused_whole() -> None:
    clipboard = _Clipboard()
    with pytest.raises(RefusedError, match="74,997 bytes"):
        copy_out(clipboard, Clipping("€" * (MOST_BYTES // 3 + 1), "describe"))
    assert clipboard.text == ""
    assert copy_out(clipboard, Clipping("€" * (MOST_BYTES // 3), "it")) == "Copied it: 24998 characters."


def test_nothing_is_copied_where_the_clipboard_is_off() -> None:
    clipboard = _Clipboard(has_clipboard=False)
    with pytest.raises(RefusedError, match="no-clipboard"):
        copy_out(clipboard, Clipping("x", "it"))
    assert clipboard.text == ""


async def test_no_key_sends_a_text_to_a_clipboard_that_is_off(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with a_fixed_console(a_scene(tmp_path), monkeypatch, size=SIZE) as console:
        sent: list[str] = []
        assert console.app._driver is not None
        monkeypatch.setattr(console.app._driver, "write", sent.append)
        console.app.has_clipboard = False
        await console.line("open nodes")
        await console.calm("NAME")
        await console.press("Y")
        await console.calm("The clipboard is off")
        console.app.copy_to_clipboard("of a widget of Textual")
        assert console.app.clipboard == "of a widget of Textual"  # pasted within the console alone
        assert not [text for text in sent if "]52;" in text]


async def test_the_focus_moves_among_several_charts_by_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with a_fixed_console(a_scene(tmp_path), monkeypatch, size=(200, 50)) as console:
        await console.line("open charts")
        await console.calm("train_loss")
        await console.line("chart next")
        await console.calm("Only one chart is shown.")
        await console.line("chart all")
        await console.calm("charts of")
        pane = console.app.workspace.current
        assert isinstance(pane, ChartsPane)
        plots = pane._several._plots
        for line, place in (("chart next", 1), ("chart next", 2), ("chart previous", 1)):
            await console.line(line)
            await console.calm()
            assert plots[place].has_focus, line


async def test_long_lines_of_a_text_are_cut_by_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with a_fixed_console(a_scene(tmp_path), monkeypatch, size=(80, 24)) as console:
        await console.line("help")
        await console.calm(Viewer)
        viewer = console.app.screen
        assert isinstance(viewer, Viewer)
        rows = len(viewer._view._rows)
        for line, is_wrapped in (("set wrap none", False), ("set wrap none", False), ("set wrap", True)):
            await console.line(line)
            await console.calm()
            assert (len(viewer._view._rows) == rows) is is_wrapped, line
        await console.line("set time")
        await console.calm("A text has no 'time' to set. It has wrap.")


async def test_the_log_before_a_restart_names_containers_without_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A sidecar that has not restarted kept the whole log away, and its refusal was repeated without end."""

    async def read_log(_session: object, source: ContainerLog, **_: object) -> list[LogLine]:
        if source.container == "side":
            raise RefusedError("Refused: previous terminated container not found.")
        return [LogLine(1_000_000_000, "out of memory")]

    monkeypatch.setattr("actions.cluster.logs.follow.read_log", read_log)
    restarted = replace(a_pod("again"), containers=("main", "side"), restarts=1)
    scene = Scene(a_snapshot(nodes=[a_node()], pods=[a_pod("calm"), restarted]), view=fixed_runs.a_training_run())
    async with a_fixed_console(scene, monkeypatch, size=SIZE) as console:
        for line in ("open pods", "filter again", "logs --previous"):
            await console.line(line)
            await console.calm()
        await console.calm(("out of memory", "side has no log before a restart", "ended ─"))
        await console.line("logs default/calm --previous")
        await console.calm("Pod default/calm has not restarted")


async def test_options_of_one_pods_log_are_refused_for_a_whole_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene = Scene(picture(), view=fixed_runs.a_training_run(), summaries=fixed_runs.summaries(tmp_path))
    async with a_fixed_console(scene, monkeypatch, size=SIZE) as console:
        await console.line("open runs")
        await console.calm("parked")
        await console.line("logs --previous")
        await console.calm("Name one of its pods")

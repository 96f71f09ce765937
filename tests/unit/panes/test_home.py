"""Home through the real screen: the first pane, its cursor, and the way from each line to what it is about."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support import fixed_runs
from tests.support.builders import a_run, a_snapshot, a_stage
from tests.support.fixed_cluster import BROKEN, picture
from tests.support.fixed_console import MONOTONIC, FixedConsole, Scene, a_fixed_console
from tui.app import ConsoleApp
from tui.feeds.supervisor import FeedHealth, FeedState
from tui.panes.home import HomePane
from tui.screens.launch import LaunchScreen
from tui.screens.viewer import Viewer
from tui.settings.settings import ConsoleSettings
from tui.textual_private import screen_text

SIZE = (120, 36)


@pytest.fixture(autouse=True)
def _own_state(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("HOME", "XDG_STATE_HOME", "XDG_CONFIG_HOME"):
        monkeypatch.setenv(name, str(tmp_path / "home"))
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(
        "current-context: kind-lab\n"
        "contexts: [{name: kind-lab, context: {cluster: lab, user: ada}}]\n"
        "clusters: [{name: lab, cluster: {server: 'https://127.0.0.1:1'}}]\n"
        "users: [{name: ada, user: {token: t}}]\n"
    )
    monkeypatch.setenv("KUBECONFIG", str(kubeconfig))


@pytest.fixture
def training(tmp_path: Path) -> Scene:
    """A cluster with troubles, on which a run trains."""
    return Scene(picture(), view=fixed_runs.a_training_run(), summaries=fixed_runs.summaries(tmp_path))


def store_of(console: FixedConsole) -> HomePane:
    pane = console.app.workspace.pane("home")
    assert isinstance(pane, HomePane)
    return pane


async def go_to(console: FixedConsole, name: str) -> None:
    store_of(console).show_target(name)
    await console.calm()


async def test_home_is_first_and_each_line_is_one_key_from_what_it_is_about(
    training: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with a_fixed_console(training, monkeypatch, size=SIZE) as console:
        await console.calm(("[H home]", "kind-lab", "There is no such image", "≥ $13.08/h"))
        home = store_of(console)
        selected = home._sections.selected
        assert selected is not None
        assert selected.key.startswith("run efa-nccl-tests"), "the cursor begins at the plan that waits"
        assert home.subject() is None, "a place that nobody chose is no object of a command"
        await go_to(console, selected.key.removeprefix("run "))
        assert home.subject() == selected.subject

        await go_to(console, "nemo-gpt3-5b")
        await console.press("enter")
        await console.calm(LaunchScreen)
        await console.press("escape")
        await go_to(console, "default/tokenizer-nightly-29063510")
        await console.press("enter")
        await console.calm(Viewer)
        await console.press("escape")
        await console.press("w")
        await console.calm(Viewer)
        await console.press("escape")
        await go_to(console, "default/tokenizer-nightly-29063510")
        await console.press("l")
        await console.calm("[5 log")
        assert BROKEN.split("/")[1] in screen_text(console.app), "of a job, the pod that is not fine"
        await console.press("H")
        await go_to(console, "cost")
        await console.press("enter")
        await console.calm("[9 cost]")
        await console.press("escape")
        await console.calm("[H home]")


async def test_one_key_from_the_first_screen_is_the_log_of_the_run_that_needs_the_operator(
    training: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with a_fixed_console(training, monkeypatch, size=SIZE) as console:
        await console.calm(("[H home]", "≥ $13.08/h"))
        opened: list[str] = []
        monkeypatch.setattr(console.app.services, "open_run", opened.append)
        await console.press("l")
        await console.calm("[5 log")
        assert [run.startswith("efa-nccl-tests") for run in opened] == [True], "the run that Home begins at"
        await console.press("H")
        await go_to(console, "cost")
        await console.press("l")
        await console.calm("Nothing is selected.")


async def test_before_anything_is_read_nothing_is_said_to_be_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    async def asks(_app: ConsoleApp) -> None:
        """Waits for a yes to an exec plugin: nothing is read before it."""

    monkeypatch.setattr(ConsoleApp, "_start", asks)
    async with a_fixed_console(Scene(), monkeypatch, size=SIZE) as console:
        await console.calm("Reading the runs.")
        assert "No run yet" not in screen_text(console.app)
        assert "not connected" in screen_text(console.app)
        for pane in ("run", "runs"):
            console.app.workspace.open(pane, "")
            await console.calm((f"─ {pane} ─", "Reading the runs."))


async def test_a_run_that_was_launched_since_the_list_was_read_is_not_denied(monkeypatch: pytest.MonkeyPatch) -> None:
    launched = Scene(a_snapshot(), view=a_run(a_stage("network")))
    async with a_fixed_console(launched, monkeypatch, size=SIZE) as console:
        console.app.workspace.open("home", "")
        await console.calm(("[H home]", "Reading the runs."))
        assert "No run yet" not in screen_text(console.app)


async def test_tab_goes_through_the_sections_and_j_through_the_lines(
    training: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with a_fixed_console(training, monkeypatch, size=SIZE) as console:
        await console.calm("≥ $13.08/h")
        sections = store_of(console)._sections
        await console.press("g")
        met = []
        for _ in range(6):
            assert sections.selected is not None
            met.append(sections.selected.key.split()[0])
            await console.press("tab")
        assert met == ["cluster", "fleet", "run", "idle", "blueprint", "cluster"]
        await console.press("g", *"jjjj")
        keys = list(sections.shown_keys)
        assert sections.selected is not None
        assert sections.selected.key == keys[4]
        await console.press("G", "shift+tab")
        assert sections.selected.key.startswith("idle")

        for line in ("split right events", "focus home"):
            await console.line(line)
            await console.calm()
        await console.press("G", "tab")
        await console.calm()
        assert console.app.workspace.split.current != "home", "with other panes on screen, tab goes on to them"


@pytest.mark.parametrize(
    ("scene", "told"),
    [
        (Scene(a_snapshot()), ("0 nodes", "No run yet. Choose a blueprint", "No problem in", "nemo-gpt3-5b")),
        (Scene(), ("Reading nodes and pods", "They are looked for when the cluster is read")),
        (
            Scene(health=FeedHealth(FeedState.REFUSED, "nodes: may not list", MONOTONIC - 3)),
            ("No totals: refused: nodes: may not list", "Unknown until the cluster answers", "nemo-gpt3-5b"),
        ),
    ],
    ids=["empty", "loading", "forbidden"],
)
async def test_what_there_is_not_is_said_with_what_to_do(
    scene: Scene, told: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    async with a_fixed_console(scene, monkeypatch, size=(80, 24)) as console:
        await console.calm(told)
        assert "w why" in screen_text(console.app)


def test_a_run_a_job_and_a_script_have_their_own_beginnings() -> None:
    from actions.cluster.auth.kubeconfig import ClusterTarget

    target = ClusterTarget()
    assert ConsoleSettings(target=target).first_pane == "home"
    assert ConsoleSettings(target=target, open_run="r").first_pane == "nodes"
    assert ConsoleSettings(target=target, watch="job/x").first_pane == "nodes"
    assert ConsoleSettings(target=target, has_operator=False).first_pane == "nodes"

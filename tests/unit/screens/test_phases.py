"""A layout of the console follows the phase of what it shows: panes without anything to show give their room away."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar, cast

import pytest
from msgspec.structs import replace

from actions.run.state.view import StageState
from actions.telemetry.points import TrainingProgress
from tests.support import fixed_runs
from tests.support.builders import a_stage
from tests.support.fixed_cluster import RUN, picture
from tests.support.fixed_console import FixedConsole, Scene, a_fixed_console
from tests.support.waiting import settle, wait_for
from tui.panes.charts import CurveSource, _bars_of
from tui.screens.workspace import layout_of
from tui.textual_private import screen_text
from tui.widgets.arrangement import Cut, leaves

FOUR = ("run", "logs", "accelerators", "charts")
WIDE = (150, 40)


pytestmark = pytest.mark.usefixtures("own_home")


def provisioning() -> Scene:
    """A run whose job has not begun, beside pods of others."""
    view = fixed_runs.a_training_run()
    stages = tuple(
        replace(stage, state=StageState.PENDING, started_at=None) if stage.id == "train" else stage
        for stage in view.stages
    )
    snapshot = picture()
    others = {key: replace(pod, run="") for key, pod in snapshot.pods.items()}
    return Scene(replace(snapshot, pods=others), view=replace(view, stages=stages))


async def sees(console: FixedConsole, *panes: str) -> None:
    def is_there() -> bool:
        console.refresh()
        return console.app.workspace.split.visible_keys == panes

    await wait_for(console.pilot, is_there, f"panes {panes}")


def begin_training(scene: Scene, folder: Path) -> None:
    fixed_runs.store_training(folder)
    scene.view, scene.folder, scene.snapshot = fixed_runs.a_training_run(), folder, picture()


@pytest.mark.parametrize("size", [(120, 36), WIDE])
async def test_stages_and_log_have_the_screen_until_a_job_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: tuple[int, int]
) -> None:
    scene = provisioning()
    async with a_fixed_console(scene, monkeypatch, size=size) as console:
        await console.line("layout watch")
        await sees(console, "run", "logs")
        app, split = console.app, console.app.workspace.split
        await wait_for(console.pilot, lambda: app.workspace.current.size.height > size[1] - 8, "the whole height")
        await wait_for(console.pilot, lambda: app.workspace.current.has_focus_within, "focus")
        focused = app.focused
        begin_training(scene, tmp_path / RUN)
        await sees(console, *FOUR)
        assert (app.focused, split.current) == (focused, "run")


async def test_what_is_typed_goes_on_while_panes_come(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scene = provisioning()
    async with a_fixed_console(scene, monkeypatch, size=WIDE) as console:
        await console.line("layout watch")
        await sees(console, "run", "logs")
        await console.pilot.press("colon", "p", "o")
        begin_training(scene, tmp_path / RUN)
        await sees(console, *FOUR)
        await console.pilot.press("d", "s")
        await settle(console.pilot)
        assert ":pods" in screen_text(console.app).replace(" ", "")


async def test_an_empty_pane_is_there_while_keys_go_to_it(monkeypatch: pytest.MonkeyPatch) -> None:
    async with a_fixed_console(provisioning(), monkeypatch, size=WIDE) as console:
        await console.line("layout watch")
        await sees(console, "run", "logs")
        await console.line("focus charts")
        await sees(console, "run", "logs", "charts")
        assert not console.app.workspace.split.placing.has_front
        await console.line("focus logs")
        await sees(console, "run", "logs")


async def test_a_layout_that_was_changed_by_hand_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with a_fixed_console(provisioning(), monkeypatch, size=WIDE) as console:
        await console.line("layout watch")
        await sees(console, "run", "logs")
        split, kept = console.app.workspace.split, layout_of("watch", "")[0].tree
        assert split.placing.whole_for(split.size) == kept, "what is kept for the next session has all panes"
        await console.line("resize right 4")
        await sees(console, *FOUR)
        tree = split.arrangement
        assert isinstance(tree, Cut)
        assert leaves(tree) == FOUR
        for _ in range(3):
            console.refresh()
            await settle(console.pilot)
        assert split.arrangement == tree


async def test_a_watched_job_without_a_run_has_its_pods_in_the_place_of_the_run(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """`:layout watch` put another run, or `No run yet`, beside log and curves of the job."""
    async with a_fixed_console(Scene(picture()), monkeypatch, size=WIDE) as console:
        await console.line("layout watch")
        await sees(console, *FOUR)

        class Watched:
            title = "PyTorchJob/default/other"

        monkeypatch.setattr(console.app.services, "watched", Watched())
        assert console.app.workspace.pane("run").has_nothing()
        monkeypatch.setattr(console.app.services, "watched", None)
        assert not console.app.workspace.pane("run").has_nothing()


def test_what_a_stage_printed_without_a_curve_is_nothing_to_show() -> None:
    """The bar of a download that was over stood at 67 % in a pane that had half of the screen."""

    class Source:
        progress: ClassVar = {
            ("worker-0", "files"): TrainingProgress("files", 10, 15),
            ("worker-1", "files"): TrainingProgress("files", 15, 15),
        }

    source = cast(CurveSource, Source())
    at_work, over = a_stage("data", StageState.RUNNING), a_stage("data", StageState.SUCCEEDED)
    assert len(_bars_of(source, at_work)) == 2
    assert list(_bars_of(source, over)) == [("worker-1", "files")]

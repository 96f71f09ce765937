"""Charts are picked from a list, by keys or by name, and only those are shown from then on."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support import fixed_runs
from tests.support.fixed_cluster import RUN, picture
from tests.support.fixed_console import Scene, a_fixed_console
from tests.support.waiting import wait_for
from tui.screens.chart_picker import ChartPicker
from tui.textual_private import screen_text

ONE_METRIC = ("{'loss': 2.5, 'epoch': 0.1}", "{'loss': 2.4, 'epoch': 0.2}")


@pytest.fixture(autouse=True)
def _own_state(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("HOME", "XDG_STATE_HOME", "XDG_CONFIG_HOME"):
        monkeypatch.setenv(name, str(tmp_path / "home"))


def a_scene(tmp_path: Path) -> Scene:
    fixed_runs.store_training(tmp_path / RUN)
    return Scene(
        picture(),
        view=fixed_runs.a_training_run(),
        folder=tmp_path / RUN,
        summaries=fixed_runs.summaries(tmp_path),
    )


async def test_charts_are_picked_by_keys_and_shown_side_by_side(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with a_fixed_console(a_scene(tmp_path), monkeypatch, size=(160, 45)) as console:
        await console.line("open charts")
        await console.calm("loss (1/5) of")
        await console.press("enter")
        await console.calm(ChartPicker)
        text = screen_text(console.app)
        assert text.count("✓") == 5
        assert "train_loss 1.175" in text
        await console.press("a", "space", "down", "space", "enter")  # none, then the first and the third
        await console.calm("2 of 2 charts of")
        assert not isinstance(console.app.screen, ChartPicker)
        (picked,) = console.app.services.picked_charts.values()
        assert len(picked) == 2
        assert picked[0] == "loss"

        await console.press("M")
        await console.calm("loss (1/2) of")
        await console.press("m")
        await console.calm("(2/2) of")
        await console.press("m")
        await console.calm("loss (1/2) of")


async def test_charts_are_picked_by_name_and_a_name_that_is_left_out_ends_the_choice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with a_fixed_console(a_scene(tmp_path), monkeypatch, size=(120, 36)) as console:
        await console.line("open charts")
        await console.calm("loss (1/5) of")
        await console.line("chart step_time_s,")
        await console.calm("step_time_s of")
        assert list(console.app.services.picked_charts.values()) == [("step_time_s",)]
        await console.line("chart nothing,loss")
        await console.calm("The log has no 'nothing'")
        await console.line("chart loss")
        await console.calm("loss (1/5) of")
        assert console.app.services.picked_charts == {}


async def test_several_charts_are_refused_with_the_reason_where_there_is_only_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with a_fixed_console(a_scene(tmp_path), monkeypatch, size=(120, 36)) as console:
        await console.line("open charts")
        await console.calm("loss (1/5) of")
        await console.line("chart loss,")
        await console.calm("loss of")
        await console.press("M")
        await console.calm("Only the chart loss is chosen.")
    fixed_runs.store_text(tmp_path / "only" / RUN, "train", "worker-0", "\n".join(ONE_METRIC))
    scene = Scene(picture(), view=fixed_runs.a_training_run(), folder=tmp_path / "only" / RUN)
    async with a_fixed_console(scene, monkeypatch, size=(120, 36)) as console:
        await console.line("open charts")
        await console.calm("loss of")
        await console.press("M")
        await console.calm("The log has one chart only, loss.")


async def test_where_a_job_is_over_no_curve_is_promised(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fixed_runs.store_text(tmp_path / RUN, "train", "worker-0", "`Trainer.fit` stopped: `max_steps=300` reached.")
    scene = Scene(picture(), view=fixed_runs.a_torn_down_run(), folder=tmp_path / RUN, is_busy=False)
    async with a_fixed_console(scene, monkeypatch, size=(120, 36)) as console:
        await console.line("open charts of=train")
        await console.calm("No curve: no line of the log of Pre-training")


async def test_esc_changes_nothing_and_without_a_mark_the_chart_under_the_cursor_is_meant(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with a_fixed_console(a_scene(tmp_path), monkeypatch, size=(120, 36)) as console:
        await console.line("open charts")
        await console.calm("loss (1/5) of")
        await console.press("enter", "a", "escape")
        await console.calm("loss (1/5) of")
        assert console.app.services.picked_charts == {}
        await console.press("enter", "a", "down", "enter")
        await wait_for(console.pilot, lambda: console.app.services.picked_charts, "a chart is picked")
        (picked,) = console.app.services.picked_charts.values()
        assert len(picked) == 1
        assert picked != ("loss",)

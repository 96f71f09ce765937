"""Charts that are picked from a list, runs that are compared, and a chart that is read point by point."""

from __future__ import annotations

import re
import threading
from collections.abc import Sequence
from pathlib import Path

import pytest
from msgspec.structs import replace

from actions.cluster.logs.lines import LogLine
from actions.run.comparison import RunCurves
from actions.run.output.writer import OutputWriter
from actions.run.state.records import Operator
from actions.run.state.view import Period, RunState, RunView
from tests.support import fixed_runs
from tests.support.builders import NOW
from tests.support.fixed_cluster import RUN, picture
from tests.support.fixed_console import Scene, a_fixed_console
from tests.support.waiting import wait_for
from tui.commands import charts
from tui.screens.chart_picker import ChartPicker
from tui.textual_private import screen_text

ONE_METRIC = ("{'loss': 2.5, 'epoch': 0.1}", "{'loss': 2.4, 'epoch': 0.2}")


pytestmark = pytest.mark.usefixtures("own_home")


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
        await console.calm("2 charts of")
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


OTHER = "bionemo-esm1nv-1112-c4c4rjtx3ldvk"
BENCH = "efa-nccl-tests-1121-w5c2n7yhd6t4k"


def a_comparison(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Scene:
    """A training on screen, another run of the same blueprint, and a benchmark."""
    fixed_runs.store_training(tmp_path / RUN)
    writer = OutputWriter(tmp_path / OTHER, "train")
    source = writer.source("default", "esm1nv-0", "main", "uid-other")
    start = NOW.timestamp() - 9_000
    values = ((step, 4 - step / 10_000) for step in range(0, 20_000, 500))
    lines = [f'{{"step": {step}, "loss": {loss:.4f}, "step_time_s": 4.5}}' for step, loss in values]
    writer.write_lines(source, [LogLine(int((start + place * 60) * 1e9), text) for place, text in enumerate(lines)])
    writer.close()
    fixed_runs.store_bandwidth(tmp_path / BENCH)
    view = replace(fixed_runs.a_training_run(), parameters={"workers": 8, "lr": 1e-4})

    def load(folder: Path) -> RunView:
        if folder.name == BENCH:
            return fixed_runs.a_bandwidth_run()
        return view if folder.name == RUN else replace(view, id=OTHER, parameters={"workers": 8, "lr": 2e-4})

    monkeypatch.setattr("actions.run.comparison.load_run", load)
    return Scene(picture(), view=view, folder=tmp_path / RUN, summaries=fixed_runs.summaries(tmp_path))


async def test_runs_are_overlaid_with_their_values_and_what_differs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene = a_comparison(tmp_path, monkeypatch)
    async with a_fixed_console(scene, monkeypatch, size=(120, 36)) as console:
        await console.line(f"compare {OTHER[:20]}")
        await console.calm("of 2 runs compared")
        text = screen_text(console.app)
        assert "○ bionemo-esm1nv-1118" in text or f"○ {RUN}" in text or "○ bionemo" in text
        assert "last 1.175 at step 12,600 · min" in text
        assert "last 2.05 at step 19,500 · min 2.05 at 19,500" in text
        assert "lr  ○ 0.0001  ▲ 0.0002" in text
        assert "workers" not in text
        assert text.count("▲") > 3, "the second run's glyph is on its curve"

        await console.press("escape")
        await console.calm(("loss (1/5) of", "val_loss 1.253"))
        assert "compared" not in screen_text(console.app)


async def test_a_run_of_another_machine_is_compared_from_its_store_and_refused_without_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("actions.run.store.copy.refreshed_copy", lambda _store, _run: tmp_path / OTHER)
    scene = a_comparison(tmp_path, monkeypatch)
    grace = Operator("grace", "bastion-2")
    stored = fixed_runs.a_remote_run("bionemo-esm1nv-1121-x5", grace, RunState.RUNNING, store="s3://team-runs/ml")
    scene.remotes = (stored, fixed_runs.a_remote_run("bionemo-esm1nv-1121-y6", grace, RunState.RUNNING))
    async with a_fixed_console(scene, monkeypatch, size=(120, 36)) as console:
        console.app.services.settings = replace(console.app.services.settings, store="s3://team-runs/ml")
        await console.calm("on other machines")
        await console.line("compare bionemo-esm1nv-1121-x5")
        await console.calm(("of 2 runs compared", "last 2.05 at step 19,500"))
        await console.press("escape")
        await console.line("compare bionemo-esm1nv-1121-y6")
        await console.calm("no store that is read here")


async def test_curves_that_take_time_are_announced_in_their_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    is_read, read = threading.Event(), charts._read

    def slow(folders: Sequence[Path]) -> list[RunCurves]:
        assert is_read.wait(60)
        return read(folders)

    monkeypatch.setattr(charts, "_read", slow)
    scene = a_comparison(tmp_path, monkeypatch)
    async with a_fixed_console(scene, monkeypatch, size=(120, 36)) as console:
        await console.line("open charts")
        await console.calm("val_loss 1.253")
        await console.line(f"compare {OTHER} metric=train_loss")
        await console.calm(("2 runs compared", "Reading the curves of 2 runs…"))
        assert "val_loss 1.253" not in screen_text(console.app), "no curve stands below the name of others"
        is_read.set()
        await console.calm("last 2.05 at step 19,500")
        assert "Reading" not in screen_text(console.app)

        await console.press("escape")
        is_read.clear()
        await console.line(f"compare {RUN} {BENCH}")
        await console.calm("Reading the curves of 2 runs…")
        is_read.set()
        await console.calm(("share no metric", "val_loss 1.253"))


async def test_runs_without_a_common_metric_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scene = a_comparison(tmp_path, monkeypatch)
    async with a_fixed_console(scene, monkeypatch, size=(120, 36)) as console:
        await console.line(f"compare {RUN} {BENCH}")
        await console.calm("share no metric")
        await console.line(f"compare {RUN} {RUN}")
        await console.calm("Name another run.")


async def test_another_run_on_screen_ends_the_comparison(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scene = a_comparison(tmp_path, monkeypatch)
    async with a_fixed_console(scene, monkeypatch, size=(120, 36)) as console:
        await console.line(f"compare {OTHER} metric=train_loss")
        await console.calm("2 runs compared")
        scene.view, scene.folder = replace(fixed_runs.a_run_with_a_plan(), id="nemo-1"), tmp_path / "nemo-1"
        await console.calm("curves of nemo-1")
        assert "compared" not in screen_text(console.app)


async def test_the_cursor_shows_step_time_and_values_and_the_axis_can_be_zoomed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene = a_comparison(tmp_path, monkeypatch)
    async with a_fixed_console(scene, monkeypatch, size=(120, 36)) as console:
        await console.line("open charts")
        await console.calm("val_loss 1.253")
        await console.press("left")
        await console.calm(("step 12,600 (", "train_loss 1.175", "val_loss 1.253"))
        await console.press("left")
        await console.calm("step 12,550 (")
        await console.press("plus", "plus")
        await console.calm("step 12,550 (")
        assert "│ 5000" not in screen_text(console.app)
        await console.press("equals_sign")
        await console.calm("over step")
        await console.press("plus", "h")
        await console.calm("part of the axis")
        await console.press("t")
        await console.calm("over time (UTC)")
        assert "part of the axis" not in screen_text(console.app)


async def test_several_charts_are_shown_where_there_is_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scene = a_comparison(tmp_path, monkeypatch)
    async with a_fixed_console(scene, monkeypatch, size=(120, 36)) as console:
        await console.line("open charts")
        await console.calm("loss (1/5)")
        await console.press("M")
        await console.calm(("─ 5 charts of", "train_loss 1.175", "step time s", "consumed_samples"))
        await console.press("n", "left")
        await console.calm("step 12,600 (")
        await wait_for(console.pilot, lambda: screen_text(console.app).count("step 12,600 (") == 5, "one cursor of all")
        assert all(value in screen_text(console.app) for value in ("step_time_s 4", "train_loss_smoothed 1.175"))
        await console.press("N", "left")
        await wait_for(console.pilot, lambda: screen_text(console.app).count("step 12,550 (") == 5, "moved in another")
        await console.press("equals_sign")
        await wait_for(console.pilot, lambda: "step 12,550 (" not in screen_text(console.app), "no cursor")
        await console.press("M")
        await console.calm("loss (1/5)")
        await console.resize((60, 14))
        await console.calm("loss (1/5)")
        await console.press("M")
        await console.calm("no room for two charts")


async def test_charts_that_do_not_fit_are_on_pages_and_the_one_in_focus_is_shown_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with a_fixed_console(a_scene(tmp_path), monkeypatch, size=(80, 24)) as console:
        await console.line("open charts")
        await console.calm("loss (1/5)")
        await console.press("M")
        await console.calm("charts 1–4 of 5 of")
        await console.press("pagedown")
        await console.calm(("charts 5–5 of 5 of", "seconds_per_iter"))
        await console.press("pagedown")
        await console.calm(("charts 1–4 of 5 of", "train_loss 1.175"))
        await console.press("N")
        await console.calm("charts 5–5 of 5 of")
        await console.press("n")
        await console.calm("charts 1–4 of 5 of")
        await console.press("n", "M")
        await console.calm("step_time_s (2/5)")
        await console.press("M")
        await console.calm("charts 1–4 of 5 of")
        await console.press("escape")
        await console.calm("step_time_s (2/5)")


async def test_patterns_choose_charts_and_stay_for_what_comes_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with a_fixed_console(a_scene(tmp_path), monkeypatch, size=(120, 36)) as console:
        await console.line("open charts")
        await console.calm("loss (1/5)")
        await console.line("chart *STEP*,loss")
        await console.calm("─ 2 charts of")
        assert list(console.app.services.picked_charts.values()) == [("*STEP*", "loss")]
        await console.line("chart *none*")
        await console.calm(("The log has no '*none*'", "It has loss, step_time_s"))
        await console.line("chart *")
        await console.calm("─ 5 charts of")


async def test_compared_runs_are_shown_in_all_their_charts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scene = a_comparison(tmp_path, monkeypatch)
    async with a_fixed_console(scene, monkeypatch, size=(120, 36)) as console:
        await console.line(f"compare {OTHER} metric=train_loss")
        await console.calm(("2 runs compared", "last 2.05 at step 19,500"))
        await console.press("M")
        await console.calm(("charts of 2 runs compared", "step time s", "○ bionemo", "▲ "))
        assert "last 2.05" not in screen_text(console.app)
        await console.line("chart train*")
        await console.calm("of 2 runs compared")
        await console.press("escape")
        await console.calm("val_loss 1.253")


async def test_the_bar_of_an_attempt_before_is_not_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scene = a_scene(tmp_path)
    assert scene.view is not None

    def resumed(*begins: float) -> RunView:
        worked = tuple(Period(begin, None) for begin in begins)
        assert scene.view is not None
        return replace(scene.view, stages=tuple(replace(stage, worked=worked) for stage in scene.view.stages))

    long_ago, now = NOW.timestamp() - 90_000, NOW.timestamp()
    scene.view = resumed(long_ago, long_ago + 1)
    async with a_fixed_console(scene, monkeypatch, size=(120, 36)) as console:
        await console.line("open charts")
        await console.calm("12,600/500,000")
        scene.view = resumed(long_ago, now)
        await console.calm("loss (1/5)")
        await wait_for(console.pilot, lambda: "12,600/500,000" not in screen_text(console.app), "no bar")


async def test_the_chart_on_screen_is_saved_as_picture_and_values(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene = a_comparison(tmp_path, monkeypatch)
    async with a_fixed_console(scene, monkeypatch, size=(120, 36)) as console:
        await console.line("open charts")
        await console.calm("loss (1/5)")
        await console.line(f"export-chart {tmp_path / 'loss.csv'}")
        await console.calm("loss.csv")
        rows = (tmp_path / "loss.csv").read_text().splitlines()
        assert (rows[0], rows[-1]) == ("step,train_loss,val_loss", "12600,1.175,1.253")
        await console.line(f"compare {OTHER}")
        await console.calm("2 runs compared")
        await console.line(f"export-chart {tmp_path / 'both.svg'}")
        await console.calm("both.svg")
        picture = (tmp_path / "both.svg").read_text().replace("&#160;", " ")
        shown = re.findall(r"<text [^>]*>([^<]*)</text>", picture)
        assert any("2 runs compared" in text for text in shown), "the pane with its title"
        assert any(re.search("[⠁-⣿]", text) for text in shown), "and its curves"
        assert not any("export-chart" in text for text in shown), "without the line that asked for it"
        await console.line("export-chart both.gif")
        await console.calm("does not end in one of .svg, .csv")
        await console.line("open nodes")
        await console.line(f"export-chart {tmp_path / 'none.svg'}")
        await console.calm("The charts are not on screen.")
        assert not (tmp_path / "none.svg").exists()

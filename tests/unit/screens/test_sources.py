"""Curves, accelerators and log belong to the run that their titles name."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
from msgspec.structs import replace

from actions.cluster.logs.lines import LogLine
from actions.run.output import segments
from actions.run.output.curve_reader import StageCurves
from actions.run.output.writer import OutputWriter
from actions.run.state.view import RunView, StageState
from tests.support import fixed_runs
from tests.support.builders import NOW
from tests.support.fixed_cluster import RUN, picture, workers
from tests.support.fixed_console import Scene, a_fixed_console
from tests.support.streams import append_raw, segments_of
from tui.textual_private import screen_text

SIZE = (120, 36)
OTHER = "nemo-gpt3-5b-1122-k3v7q2mzxa4pe"
JOB = f"{RUN}/train · esm1nv-pretraining"


pytestmark = pytest.mark.usefixtures("own_home")


def a_scene(tmp_path: Path) -> Scene:
    """A training with curves, log and accelerators."""
    fixed_runs.store_training(tmp_path / RUN)
    return Scene(picture(), view=fixed_runs.a_training_run(), folder=tmp_path / RUN)


def another_run() -> RunView:
    """The next run, which has no job yet."""
    return replace(fixed_runs.a_run_with_a_plan(), id=OTHER, blueprint_id="nemo-gpt3-5b")


async def test_no_curve_and_no_line_of_another_run_stays_on_screen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene = a_scene(tmp_path)
    async with a_fixed_console(scene, monkeypatch, size=SIZE) as console:
        await console.line("open charts")
        await console.calm((f"loss (1/5) of {JOB}", "train_loss 1.175"))
        scene.view, scene.folder = another_run(), tmp_path / OTHER
        console.refresh()  # at once: not after the next drawing
        text = screen_text(console.app)
        assert "train_loss" not in text
        assert "5% " not in text
        await console.calm(f"curves of {OTHER}")
        assert "train_loss" not in screen_text(console.app)

        await console.line("open logs")
        await console.calm(f"log of {OTHER}")
        assert "12600/500000" not in screen_text(console.app)


async def test_a_stage_that_prints_no_metric_has_an_empty_plot(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scene = a_scene(tmp_path)
    async with a_fixed_console(scene, monkeypatch, size=SIZE) as console:
        await console.line("open charts")
        await console.calm("train_loss 1.175")
        writer = OutputWriter(tmp_path / OTHER, "data")
        source = writer.source("default", "uniref50-split-0", "main", "uid-split")
        writer.write_lines(source, [LogLine(int(NOW.timestamp() * 1e9), "12 of 80 shards are there")])
        writer.close()
        scene.view = replace(fixed_runs.a_stalled_run(), id=OTHER)
        scene.folder = tmp_path / OTHER
        await console.calm((f"curves of {OTHER}/data", "No curve yet"))
        assert "train_loss" not in screen_text(console.app)


async def test_accelerators_are_those_of_the_run_in_the_title_and_end_with_their_pods(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene = a_scene(tmp_path)
    async with a_fixed_console(scene, monkeypatch, size=SIZE) as console:
        await console.line("open accelerators")
        await console.calm((f"accelerators of {JOB}", "8 GPUs, 98% busy"))
        assert scene.snapshot is not None
        gone = {pod.key for pod in workers()}
        scene.snapshot = replace(
            scene.snapshot, pods={key: pod for key, pod in scene.snapshot.pods.items() if key not in gone}
        )
        await console.calm("accelerators of")
        assert "busy" not in screen_text(console.app)

        scene.snapshot, scene.view, scene.folder = picture(), another_run(), tmp_path / OTHER
        console.refresh()
        assert "A10G" not in screen_text(console.app)
        await console.calm(f"all accelerators, none of {OTHER}")


async def test_accelerators_of_a_finished_stage_are_shown_over_all_its_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene = a_scene(tmp_path)
    assert scene.snapshot is not None
    gone = {pod.key for pod in workers()}
    pods = {key: pod for key, pod in scene.snapshot.pods.items() if key not in gone}
    scene.snapshot = replace(scene.snapshot, pods=pods)
    async with a_fixed_console(scene, monkeypatch, size=(200, 36)) as console:
        await console.line("open accelerators")
        await console.calm((f"accelerators of {JOB}", "8 GPUs over 3m40s, last sample at 11:59:57 UTC"))
        text = screen_text(console.app)
        (worker,) = (line for line in text.splitlines() if "worker-2   " in line)
        assert "86°C!" in worker
        assert "2–99%" in worker
        assert "▁" in worker
        assert "20.1Gi" in worker

        assert scene.view is not None
        stages = tuple(
            replace(stage, state=StageState.SUCCEEDED) if stage.id == "train" else stage for stage in scene.view.stages
        )
        scene.view = replace(scene.view, stages=stages)
        await console.calm("8 GPUs over 3m40s, ended at 11:59:57 UTC")
        await console.press("s")
        await console.calm("There is no pod")
        await console.press("escape", "enter")
        await console.calm(f"log of {RUN}/train")
        await console.line("open accelerators")
        await console.calm("[6 accelerators]")
        await console.press("l")
        await console.calm(("[5 logs]", f"log of {RUN}/train"))


async def test_smoothing_is_off_for_a_sparse_curve_and_always_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene = a_scene(tmp_path)
    async with a_fixed_console(scene, monkeypatch, size=SIZE) as console:
        await console.line("open charts")
        await console.calm("over step · smoothed")
        await console.press("E")
        await console.calm("over step")
        assert "smoothed" not in screen_text(console.app)

    start = NOW.timestamp() - 600
    lines = [f"{{'loss': {9 - step / 10:.4f}, 'epoch': 0.1}}" for step in range(40)]
    writer = OutputWriter(tmp_path / OTHER, "train")
    source = writer.source("default", "rehearsal-0", "main", "uid-rehearsal")
    writer.write_lines(source, [LogLine(int((start + place) * 1e9), text) for place, text in enumerate(lines)])
    writer.close()
    scene = Scene(picture(), view=replace(fixed_runs.a_training_run(), id=OTHER), folder=tmp_path / OTHER)
    async with a_fixed_console(scene, monkeypatch, size=SIZE) as console:
        await console.line("open charts")
        await console.calm(("train_loss 5.1", "over step"))
        assert "smoothed" not in screen_text(console.app)
        await console.press("E")
        await console.calm("over step · smoothed")


async def test_a_long_log_opens_at_its_newest_line_and_is_filled_upwards(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    count = 60_000
    writer = OutputWriter(tmp_path / RUN, "train")
    source = writer.source("default", "worker-0", "main", "uid")
    for first in range(0, count, 5_000):
        end = NOW.timestamp() - count
        lines = [LogLine(int((end + at) * 1e9), f"line {at}") for at in range(first, first + 5_000)]
        writer.write_lines(source, lines)
    writer.close()
    scene = Scene(picture(), view=fixed_runs.a_training_run(), folder=tmp_path / RUN)
    async with a_fixed_console(scene, monkeypatch, size=SIZE) as console:
        await console.line("open logs")
        await console.calm((f"line {count - 1}", "following"))
        await console.calm(f"{count:,} lines")
        assert "older lines" not in screen_text(console.app)
        await console.press("g")
        await console.calm("line 0")


async def test_damaged_segments_are_counted_in_the_borders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segments, "SEAL_BYTES", 4_000)
    writer = OutputWriter(tmp_path / RUN, "train")
    source = writer.source("default", "worker-0", "main", "uid")
    for at in range(200):
        text = f"{at}/300 [00:10<01:00, 1.73it/s, reduced_train_loss={at}.5]"
        writer.write_lines(source, [LogLine(int((NOW.timestamp() - 300 + at) * 1e9), text)])
    writer.close()
    for stream in ("lines", "points"):
        segments_of(tmp_path / RUN, "train", stream)[1].write_bytes(b"x")
    scene = Scene(picture(), view=fixed_runs.a_training_run(), folder=tmp_path / RUN)
    async with a_fixed_console(scene, monkeypatch, size=SIZE) as console:
        await console.line("open logs")
        await console.calm(("199/300", "1 damaged segment skipped"))
        await console.line("open charts")
        await console.calm(("train_loss 199.5", "1 damaged segment skipped"))


async def test_no_curve_and_no_alarm_stands_before_all_points_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    append_raw(
        tmp_path / RUN,
        "train",
        "points",
        b"".join(
            b'{"type":"point","number":0,"metric":"train_loss","step":%d,"value":1.5,"at":1}\n' % at
            for at in range(30_000)
        ),
    )
    may_go, read_all = threading.Event(), StageCurves.read_all

    def waiting(curves: StageCurves) -> None:
        may_go.wait(60)
        read_all(curves)

    monkeypatch.setattr(StageCurves, "read_all", waiting)
    scene = Scene(picture(), view=fixed_runs.a_training_run(), folder=tmp_path / RUN)
    async with a_fixed_console(scene, monkeypatch, size=SIZE) as console:
        await console.line("open charts")
        await console.calm(("reading 0 of 2 MiB", "Reading the curves."))
        text = screen_text(console.app)
        assert "train_loss" not in text
        assert "was last printed" not in text
        may_go.set()
        await console.calm("train_loss 1.5")
        assert "reading" not in screen_text(console.app)

"""A run of weeks: what grows on disk, and what bounds it."""

from __future__ import annotations

import math
import random
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from actions.cluster.logs.lines import LogLine
from actions.run.spool import thinning
from actions.run.spool.format import points_file
from actions.run.spool.reader import SpoolReader
from actions.run.spool.thinning import FIRST_GROUP, Thinning
from actions.run.spool.writer import SpoolWriter
from actions.telemetry.curves import Series
from actions.telemetry.points import Point, TrainingProgress

STAGE = "train"


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(thinning, "WHOLE", 100)


def kept_of(values: list[float]) -> list[Point]:
    chosen = Thinning()
    points = [Point("train_loss", step, value) for step, value in enumerate(values)]
    found = [kept for point in points for kept in chosen.take(0, point)] + chosen.end(0)
    assert all(isinstance(point, Point) for point in found)
    return [point for point in found if isinstance(point, Point)]


@settings(max_examples=60)
@given(st.integers(0, 3000), st.integers(0, 99))
def test_points_come_in_order_and_the_extremes_are_among_them(count: int, seed: int) -> None:
    choose = random.Random(seed)
    values = [choose.choice([choose.random(), choose.gauss(3, 1), math.nan]) for _ in range(count)]
    kept = kept_of(values)
    steps = [point.step for point in kept if point.step is not None]
    assert steps == sorted(set(steps))
    assert steps[:100] == list(range(min(100, count)))
    finite = [value for value in values if math.isfinite(value)]
    kept_finite = [point.value for point in kept if math.isfinite(point.value)]
    if finite:
        assert (min(kept_finite), max(kept_finite)) == (min(finite), max(finite))
    assert any(math.isnan(point.value) for point in kept) == any(map(math.isnan, values))


def test_the_file_grows_by_the_logarithm(monkeypatch: pytest.MonkeyPatch) -> None:
    counts = [len(kept_of([float(step) for step in range(100 << doublings)])) for doublings in range(9)]
    growth = [more - less for less, more in pairwise(counts)]
    assert max(growth[2:]) <= 3 * 100 // FIRST_GROUP + 3
    assert counts[-1] < 100 * (1 + 8)
    monkeypatch.undo()
    month = 30 * 86_400  # a point a second
    assert thinning.WHOLE * (1 + 3 / FIRST_GROUP * math.log2(month / thinning.WHOLE)) * 140 < 40 << 20


def test_a_curve_on_screen_keeps_its_spikes() -> None:
    values = [math.sin(step / 50) for step in range(5000)]
    values[4321] = 40.0
    series = Series(2048)
    for point in kept_of(values):
        series.append(float(point.step or 0), point.value)
    least, greatest = series.bounds() or (0.0, 0.0)
    assert least == pytest.approx(-1, abs=1e-3)
    assert greatest == 40.0


def test_the_newest_state_of_a_bar_is_never_older_than_a_group() -> None:
    chosen = Thinning()
    shown, oldest = 0, 0
    for done in range(3000):
        for kept in chosen.take(0, TrainingProgress("Epoch 0", done, 3000)):
            assert isinstance(kept, TrainingProgress)
            shown = kept.done
        oldest = max(oldest, done - shown)
    assert oldest <= FIRST_GROUP << 5


def lines(count: int) -> list[LogLine]:
    text = "Epoch 0: {0}/9000 [00:10<01:00, 1.73it/s, reduced_train_loss={1}.5]"
    return [LogLine(10**18 + step * 10**9, text.format(step, step * 7 % 13)) for step in range(count)]


@pytest.mark.parametrize("cut", [150, 733, 900])
def test_a_log_that_is_read_again_gives_the_same_points(tmp_path: Path, cut: int) -> None:
    def written(folder: Path, *, is_broken_off: bool) -> bytes:
        writer = SpoolWriter(folder, STAGE)
        source = writer.source("default", "worker-0", "main", "uid")
        writer.write_lines(source, lines(cut))
        if is_broken_off:  # as by a crash: what waits for the end of its group is lost
            writer._shut()
            writer = SpoolWriter(folder, STAGE)
            source = writer.source("default", "worker-0", "main", "uid")
            assert writer.repairs == ()
        writer.write_lines(source, lines(1000)[cut:])
        writer.write_end(source, 0, "Completed")
        writer.close()
        return points_file(folder, STAGE).read_bytes()

    whole = written(tmp_path / "whole", is_broken_off=False)
    assert written(tmp_path / "broken", is_broken_off=True) == whole
    assert len(SpoolReader(tmp_path / "whole", STAGE).findings()[0]) < 1500  # of 2000: a point and a bar in each line

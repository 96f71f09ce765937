"""Curves that stay bounded and keep what a person looks for."""

from __future__ import annotations

import math

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from actions.telemetry.curves import SMALLEST, Curves, Sample, Series, downsample, smoothed
from actions.telemetry.points import Point

VALUES = st.floats(allow_nan=True, allow_infinity=True, width=32)
STEPS = st.integers(0, 5000)


def filled(values: list[float], capacity: int = 64) -> Series:
    series = Series(capacity)
    for step, value in enumerate(values):
        series.append(step, value)
    return series


@given(st.lists(VALUES, max_size=600), st.integers(SMALLEST, 80))
def test_a_series_never_holds_more_than_its_capacity(values: list[float], capacity: int) -> None:
    assert len(filled(values, capacity)) <= capacity


@given(st.lists(VALUES, min_size=1, max_size=600), st.integers(SMALLEST, 80))
def test_spikes_and_nan_survive_thinning(values: list[float], capacity: int) -> None:
    kept = [sample.y for sample in filled(values, capacity)]
    finite = [value for value in values if math.isfinite(value)]
    if finite:
        assert min(finite) in kept
        assert max(finite) in kept
    assert any(map(math.isnan, values)) == any(map(math.isnan, kept))
    assert (math.inf in values) == (math.inf in kept)
    assert (-math.inf in values) == (-math.inf in kept)


@given(st.lists(VALUES, min_size=1, max_size=600), st.integers(SMALLEST, 80))
def test_downsampling_only_leaves_out(values: list[float], limit: int) -> None:
    samples = [Sample(step, value) for step, value in enumerate(values)]
    kept = downsample(samples, limit)
    assert len(kept) <= limit
    assert kept[0] is samples[0]
    assert kept[-1] is samples[-1]
    steps = [sample.x for sample in kept]
    assert steps == sorted(set(steps))
    assert all(samples[int(sample.x)] is sample for sample in kept)


@given(st.lists(st.tuples(STEPS, VALUES), max_size=200))
def test_the_later_value_of_a_step_is_the_curve(points: list[tuple[int, float]]) -> None:
    series = Series(1024)
    expected: dict[int, float] = {}
    for step, value in points:
        series.append(step, value)
        expected = {known: kept for known, kept in expected.items() if known < step}
        expected[step] = value
    assert [sample.x for sample in series] == list(expected)
    assert [repr(sample.y) for sample in series] == [repr(value) for value in expected.values()]


def test_a_restart_from_a_checkpoint_replaces_the_tail_and_is_remembered() -> None:
    series = filled([float(step) for step in range(16)])
    series.append(10, 99.0)
    assert series.samples()[-2:] == (Sample(9, 9.0), Sample(10, 99.0))
    assert series.restarts == [10]


def test_a_redrawn_step_is_no_restart() -> None:
    series = filled([1.0, 2.0])
    series.append(1, 3.0)
    assert (series.restarts, series.last) == ([], Sample(1, 3.0))


def test_the_axis_ignores_what_is_not_finite() -> None:
    assert filled([math.nan, 2.0, math.inf, 5.0]).bounds() == (2.0, 5.0)
    assert filled([math.nan]).bounds() is None


@example([0.0], 5e-324)
@example([0.0, 1.0], 1e-321)
@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=100), st.floats(0, 1e6))
def test_smoothing_stays_between_the_extremes(values: list[float], reach: float) -> None:
    smooth = smoothed(range(len(values)), values, reach=reach)
    assert all(y is not None and min(values) - 1e-3 <= y <= max(values) + 1e-3 for y in smooth)


def test_smoothing_starts_at_the_first_value_and_steps_over_what_is_no_number() -> None:
    smooth = smoothed([0, 1, 2, 3], [4.0, math.nan, None, 4.0], reach=10)
    assert (smooth[0], smooth[2], smooth[3]) == (4.0, None, 4.0)
    assert smooth[1] is not None
    assert math.isnan(smooth[1])


def test_smoothing_goes_by_distance_so_a_sparse_metric_lags_by_as_many_steps_as_a_dense_one() -> None:
    steps = range(1, 2_701)
    falling = [3.0 - step / 3_000 for step in steps]
    dense = smoothed(steps, falling, reach=2_699)[-1]
    sparse = smoothed(steps[49::50], falling[49::50], reach=2_699)[-1]
    assert dense is not None
    assert sparse is not None
    # the weight of 0.9 a point, as before, left the sparse curve 0.15 above the other one
    assert abs(dense - sparse) < 0.01
    assert abs(dense - falling[-1]) < 0.02


def test_too_small_a_curve_is_refused() -> None:
    with pytest.raises(ValueError, match="below 8"):
        Series(7)
    with pytest.raises(ValueError, match="below 8"):
        downsample([], 2)


def test_an_x_that_is_no_number_is_refused() -> None:
    with pytest.raises(ValueError, match="nan"):
        Series().append(math.nan, 1.0)


def xs(curves: Curves, metric: str = "train_loss") -> list[float]:
    series = curves.series(metric)
    return [sample.x for sample in series] if series else []


def test_the_lowest_rank_is_the_curve() -> None:
    curves = Curves()
    curves.add(Point("train_loss", 1, 5.0, rank=7))
    curves.add(Point("train_loss", 1, 6.0, rank=0))
    curves.add(Point("train_loss", 2, 7.0, rank=7))
    assert xs(curves) == [1]
    series = curves.series("train_loss")
    assert series is not None
    assert series.last == Sample(1, 6.0)


def test_a_last_rank_that_prints_alone_is_the_curve() -> None:
    curves = Curves()
    curves.add(Point("train_loss", 1, 5.0, rank=7))
    assert xs(curves) == [1]


def test_steps_that_restart_with_each_epoch_are_carried_on() -> None:
    curves = Curves()
    for epoch in (1.0, 2.0):
        for step in (0, 100, 200):
            curves.add(Point("train_loss", step, 1.0, epoch=epoch))
    assert xs(curves) == [0, 100, 200, 201, 301, 401]


def test_a_step_that_goes_back_within_an_epoch_is_a_restart() -> None:
    curves = Curves()
    for step in (10, 20, 15):
        curves.add(Point("train_loss", step, 1.0, epoch=0.0))
    assert xs(curves) == [10, 15]


def test_points_without_a_step_follow_each_other() -> None:
    curves = Curves()
    for epoch in (0.1, 0.2, 0.3):
        curves.add(Point("train_loss", None, 1.0, epoch=epoch))
    assert xs(curves) == [0, 1, 2]


def test_a_validation_without_a_step_stands_where_training_has_come_to() -> None:
    curves = Curves()
    curves.add(Point("train_loss", 500, 1.0))
    curves.add(Point("val_loss", None, 1.0))
    assert xs(curves, "val_loss") == [500]
    assert curves.metrics() == ("train_loss", "val_loss")
    assert curves.series("lr") is None

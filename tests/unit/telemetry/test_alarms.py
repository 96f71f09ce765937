"""Alarms on curves: what they find, what they leave alone, and their keys."""

from __future__ import annotations

import math
import random
from collections.abc import Iterable

import pytest

from actions.telemetry.curve_alarms import CurveAlarm, CurveAlarmKind, curve_alarms_of
from actions.telemetry.curves import Curves
from actions.telemetry.points import Point


def curves(values: Iterable[float], *, metric: str = "train_loss", every: float = 10.0) -> Curves:
    found = Curves()
    for step, value in enumerate(values):
        found.add(Point(metric, step, value, at=1_000.0 + step * every))
    return found


def falling(count: int, *, noise: float = 0.05) -> list[float]:
    rng = random.Random(7)
    return [2 + 8 * math.exp(-step / 100) + rng.uniform(-noise, noise) for step in range(count)]


def only(source: Curves, *, now: float | None = None) -> CurveAlarm:
    (alarm,) = curve_alarms_of(source, now=now)
    return alarm


def test_a_noisy_loss_that_falls_has_no_alarm() -> None:
    assert curve_alarms_of(curves(falling(250, noise=0.3))) == ()
    assert curve_alarms_of(Curves(), now=1e9) == ()


def test_a_spike_is_marked_at_its_peak_and_is_past_once_the_loss_is_back() -> None:
    values = falling(250)
    values[150:152] = [9.0, 14.0]
    alarm = only(curves(values))
    assert (alarm.kind, alarm.x, alarm.at, alarm.is_past) == (CurveAlarmKind.SPIKE, 151, 2_510.0, True)
    assert alarm.detail.startswith("train_loss jumped to 14 at step 151, from about 4.")
    assert alarm.key == "spike:train_loss:151"
    now = only(curves(values[:152]))
    assert (now.key, now.is_past) == (alarm.key, False)


def test_a_loss_that_stays_high_is_one_spike() -> None:
    values = [*falling(200), *[20.0] * 40]
    assert [(alarm.kind, alarm.x, alarm.is_past) for alarm in curve_alarms_of(curves(values))] == [
        (CurveAlarmKind.SPIKE, 200, False)
    ]


def test_a_loss_that_is_no_number_comes_first() -> None:
    values = [*falling(120), *[math.nan] * 5]
    alarm = only(curves(values))
    assert (alarm.key, alarm.at) == ("nan:train_loss:120", 2_200.0)
    assert alarm.detail.startswith("train_loss is nan since step 120; the last number was")


def test_a_plateau_is_a_third_of_the_curve_without_a_gain() -> None:
    flat = falling(1_000)[:900]
    alarm = only(curves([*flat, *[flat[-1]] * 900]))
    assert (alarm.kind, alarm.key) == (CurveAlarmKind.PLATEAU, "plateau:train_loss")
    assert "has not fallen since step" in alarm.detail


def test_the_loss_of_a_policy_stands_around_zero_and_is_no_plateau() -> None:
    """As of GRPO, TRL 1.16 with a tiny model."""
    rng = random.Random(7)
    assert curve_alarms_of(curves([rng.uniform(-0.15, 0.12) for _ in range(300)])) == ()


@pytest.mark.parametrize("metric", ["tokens_per_s_per_gpu", "samples_per_s", "images_per_s", "tflops"])
def test_every_rate_that_a_dialect_reads_can_drop(metric: str) -> None:
    assert only(curves([100.0] * 60 + [40.0] * 6, metric=metric)).key == f"throughput-drop:{metric}:60"


def test_throughput_below_its_median_is_a_drop() -> None:
    alarm = only(curves([100.0] * 60 + [40.0] * 6, metric="throughput"))
    assert alarm.key == "throughput-drop:throughput:60"
    assert alarm.detail == "throughput is 40 since step 60, usually 100"
    assert curve_alarms_of(curves([100.0] * 60 + [40.0] * 4, metric="throughput")) == ()


def test_steps_that_take_longer_are_a_drop_too() -> None:
    alarm = only(curves([2.0] * 60 + [4.0] * 6, metric="step_time_s"))
    assert alarm.detail == "step_time_s is 4 since step 60, usually 2"


def test_silence_is_a_hang_while_the_job_runs_and_by_its_own_pace() -> None:
    source = curves(falling(60), every=30.0)
    last = 1_000.0 + 59 * 30.0
    assert curve_alarms_of(source, now=last + 299) == ()
    alarm = only(source, now=last + 300)
    assert alarm.key == "hang:train_loss:59"
    assert alarm.detail == "train_loss was last printed 300 s ago at step 59, usually every 30 s"
    assert curve_alarms_of(source) == ()
    quick = curves(falling(60), every=0.1)
    assert curve_alarms_of(quick, now=1_006.0 + 100) == ()
    assert only(quick, now=1_006.0 + 120).kind is CurveAlarmKind.HANG

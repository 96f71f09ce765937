"""Alarms on the curves of a training: a loss that is not a number, spikes, a plateau, lost throughput, a hang."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from enum import StrEnum
from itertools import pairwise
from statistics import median

import msgspec

from actions.telemetry.curves import STEADY, Curves, Sample, divergence_of


class CurveAlarmKind(StrEnum):
    """The reason of an alarm, the worst first; the value is the first word of its key."""

    NOT_A_NUMBER = "nan"
    HANG = "hang"
    THROUGHPUT_DROP = "throughput-drop"
    SPIKE = "spike"
    PLATEAU = "plateau"


class CurveAlarm(msgspec.Struct, frozen=True):
    """Something in the curves of a training that an operator needs to see while it runs."""

    kind: CurveAlarmKind
    metric: str
    x: float
    """Its place on the curve: the first step of what is wrong, the greatest value of a spike."""
    at: float | None
    """Seconds since the epoch of that place; `None` if its line had no time."""
    detail: str
    """A sentence that begins with the metric, without a full stop at its end."""
    is_past: bool = False
    """The curve has recovered since: worth a mark, and no call."""

    @property
    def key(self) -> str:
        """The name of this alarm among those of one log: the same as long as the alarm is the same.

        A plateau has one key for each metric: where it began is an estimate that moves as the curve grows.
        """
        return f"{self.kind}:{self.metric}" + ("" if self.kind is CurveAlarmKind.PLATEAU else f":{self.x:.17g}")


_FALLING = ("train_loss", "val_loss", "test_loss", "actor_loss", "critic_loss")
"""Losses that are to fall: others of reinforcement learning stay around 0, and jump."""


def curve_alarms_of(curves: Curves, *, now: float | None = None) -> tuple[CurveAlarm, ...]:
    """Return the alarms of one log, the worst kind first, each kind in rising x.

    Args:
        curves: Of the log.
        now: Seconds since the epoch, while the job runs; `None` once it is over: silence is not a hang then.
    """
    hang = hang_of(curves, now) if now is not None else None
    found = [*_not_a_number(curves), *_throughput_drops(curves), *([hang] if hang else [])]
    for metric in _FALLING:
        samples = _samples(curves, metric)
        found += [*_spikes(metric, samples), *_plateaus(metric, samples)]
    order = list(CurveAlarmKind)
    return tuple(sorted(found, key=lambda alarm: (order.index(alarm.kind), alarm.metric, alarm.x)))


def _samples(curves: Curves, metric: str) -> tuple[Sample, ...]:
    series = curves.series(metric)
    return series.samples() if series is not None else ()


def _not_a_number(curves: Curves) -> Iterator[CurveAlarm]:
    found = divergence_of(curves)
    if found is not None:
        first = next((sample for sample in _samples(curves, found.metric) if sample.x == found.since), None)
        text = f"{found.metric} {found.detail}".rstrip(".")
        yield CurveAlarm(CurveAlarmKind.NOT_A_NUMBER, found.metric, found.since, first.at if first else None, text)


SPIKE_DEVIATIONS = 8.0
"""A value so many mean deviations above the moving mean is a spike, if it is also `SPIKE_SHARE` above it."""
SPIKE_SHARE = 0.5
_SPIKE_POINTS = 100
"""High values in a row after which they become what is usual."""
_MEMORY = 0.05
"""Weight of a new value in the moving mean and deviation."""
_LEAST_BEFORE = 20
"""Values from which it is known what is usual."""


def _spikes(metric: str, samples: Sequence[Sample]) -> Iterator[CurveAlarm]:
    mean = deviation = 0.0
    spike: list[Sample] = []
    finite = [sample for sample in samples if math.isfinite(sample.y)]
    for known, sample in enumerate(finite):
        limit = max(mean + SPIKE_DEVIATIONS * deviation, mean + SPIKE_SHARE * abs(mean))
        is_high = known >= _LEAST_BEFORE and sample.y > limit
        if is_high:
            spike.append(sample)
            if len(spike) <= _SPIKE_POINTS:
                continue  # a spike is not to be what is usual after it
        elif spike:
            yield _spike(metric, spike, mean, is_past=True)
            spike = []
        weight = max(_MEMORY, 1 / (known + 1))
        deviation += weight * (abs(sample.y - mean) - deviation) if known else 0.0
        mean += weight * (sample.y - mean)
    if spike:
        yield _spike(metric, spike, mean, is_past=False)


def _spike(metric: str, spike: Sequence[Sample], usual: float, *, is_past: bool) -> CurveAlarm:
    """Return the alarm of consecutive high values; the place is that of the greatest of the first ones."""
    peak = max(spike[:STEADY], key=lambda sample: sample.y)
    text = f"{metric} jumped to {peak.y:.4g} at step {peak.x:,.10g}, from about {usual:.4g}"
    return CurveAlarm(CurveAlarmKind.SPIKE, metric, peak.x, peak.at, text, is_past=is_past)


PLATEAU_GAIN = 0.001
"""Share by which a mean of values has to be lower to count as better."""
PLATEAU_SHARE = 1 / 3
"""Share of the curve without a better mean from which it is a plateau."""
_PLATEAU_POINTS = 100
_BLOCK = 10
"""Values in a mean: one value is noise."""


def _plateaus(metric: str, samples: Sequence[Sample]) -> Iterator[CurveAlarm]:
    finite = [sample for sample in samples if math.isfinite(sample.y)]
    if any(sample.y < 0 for sample in finite):
        return  # the loss of a policy (GRPO, PPO) is around 0 all the time: its fall is not what is learned
    blocks = [finite[place : place + _BLOCK] for place in range(0, len(finite) - _BLOCK + 1, _BLOCK)]
    if not blocks or finite[-1] is not samples[-1]:
        return
    best, begin = math.inf, blocks[0]
    for block in blocks:
        value = sum(sample.y for sample in block) / _BLOCK
        if value < best - PLATEAU_GAIN * abs(best) or best == math.inf:
            best, begin = value, block
    since, last = begin[-1], finite[-1]
    points = sum(sample.x > since.x for sample in finite)
    if points >= _PLATEAU_POINTS and last.x - since.x >= PLATEAU_SHARE * (last.x - finite[0].x):
        text = f"{metric} has not fallen since step {since.x:,.10g}: about {best:.4g}"
        yield CurveAlarm(CurveAlarmKind.PLATEAU, metric, since.x, since.at, text)


DROP_SHARE = 0.7
"""Throughput below this share of its median is a drop, if it stays there for `_DROP_POINTS` values."""
_DROP_POINTS = 5
_RATES = (
    "throughput",
    "tokens_per_s_per_gpu",
    "tokens_per_s",
    "samples_per_s",
    "images_per_s",
    "tflops",
    "tflops_per_gpu",
)
_STEP_TIMES = ("step_time_s", "step_time_ms", "seconds_per_iter")


def _throughput_drops(curves: Curves) -> Iterator[CurveAlarm]:
    """Yield the drop of the first metric that there is: rates before the times of a step, whose inverse is a rate."""
    for metric in (*_RATES, *_STEP_TIMES):
        is_time = metric in _STEP_TIMES
        rates = [
            (sample, 1 / sample.y if is_time else sample.y)
            for sample in _samples(curves, metric)
            if math.isfinite(sample.y) and sample.y > 0
        ]
        if len(rates) < _LEAST_BEFORE:
            continue
        usual = median(rate for _, rate in rates)
        low = 0
        while low < len(rates) and rates[-1 - low][1] < DROP_SHARE * usual:
            low += 1
        if low >= _DROP_POINTS:
            first, now = rates[-low][0], median(rate for _, rate in rates[-low:])
            is_now, was = _as_printed(now, is_time), _as_printed(usual, is_time)
            text = f"{metric} is {is_now} since step {first.x:,.10g}, usually {was}"
            yield CurveAlarm(CurveAlarmKind.THROUGHPUT_DROP, metric, first.x, first.at, text)
        return


def _as_printed(rate: float, is_time: bool) -> str:
    return f"{1 / rate if is_time else rate:.3g}"


HANG_INTERVALS = 10
"""A log that is silent for so many times the usual interval of its points hangs…"""
HANG_LEAST_SECONDS = 120.0
"""…if that is at least so long: a validation or a checkpoint takes its time."""
_NEWEST = 50


def hang_of(curves: Curves, now: float) -> CurveAlarm | None:
    """Return the alarm of a log that is silent for too long, named after the metric that is printed most often.

    Args:
        curves: Of the log of a job that runs.
        now: Seconds since the epoch.
    """
    known = [(metric, series) for metric in curves.metrics() if (series := curves.series(metric))]
    if not known:
        return None
    metric, most = max(known, key=lambda item: len(item[1]))
    newest = most.samples()[-_NEWEST:]
    times = [sample.at for sample in newest if sample.at is not None]
    if len(times) < _LEAST_BEFORE:
        return None
    usual = median(after - before for before, after in pairwise(times))
    heard = max(last.at for _, series in known if (last := series.last) is not None and last.at is not None)
    if now - heard < max(HANG_LEAST_SECONDS, HANG_INTERVALS * usual):
        return None
    last = newest[-1]
    text = f"{metric} was last printed {now - heard:,.0f} s ago at step {last.x:,.10g}, usually every {usual:.3g} s"
    return CurveAlarm(CurveAlarmKind.HANG, metric, last.x, last.at, text)

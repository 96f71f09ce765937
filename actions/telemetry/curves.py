"""The curves of one log: points by metric, in bounded memory, and where a loss stops being a number."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import msgspec

from actions.telemetry.points import Point

SMALLEST = 8
"""Samples below which a curve cannot keep its ends and every kind of extreme."""


class Sample(NamedTuple):
    """A point of a curve, as the curve keeps it."""

    x: float
    y: float
    """May be NaN or infinite."""
    at: float | None = None
    """Seconds since the epoch; `None` if its line had no time."""


class Series:
    """Samples in rising x, at most `capacity` of them.

    When it is full it thins itself out: of each stretch of x the extremes stay, and one of each kind of number that is
    not finite, so that no spike and no NaN is ever lost. The first and the last sample stay too.

    An x that goes back means that the run began again from a checkpoint: what was beyond is dropped, the later value is
    the curve, and the place is remembered in `restarts`.

    Args:
        capacity: At least `SMALLEST`.
    """

    def __init__(self, capacity: int = 2048) -> None:
        if capacity < SMALLEST:
            raise ValueError(f"capacity {capacity} is below {SMALLEST}")
        self._capacity = capacity
        self._samples: list[Sample] = []
        self.restarts: list[float] = []
        """The places where the run began again, in the order of events; bounded by `capacity`."""
        self.revision = 0
        """Rises with every change."""

    def append(self, x: float, y: float, at: float | None = None) -> None:
        """Add a sample. The same x again replaces its value.

        Raises:
            ValueError: `x` is not finite.
        """
        if not math.isfinite(x):
            raise ValueError(f"x is {x}")
        self.revision += 1
        samples = self._samples
        if samples and x <= samples[-1].x:
            if x == samples[-1].x:
                samples.pop()
            else:
                del samples[bisect_left(samples, x, key=lambda sample: sample.x) :]
                self.restarts = [*self.restarts[-self._capacity + 1 :], x]
        samples.append(Sample(x, y, at))
        if len(samples) > self._capacity:
            self._samples = downsample(samples, self._capacity // 2 if self._capacity >= 2 * SMALLEST else SMALLEST)

    def clear(self) -> None:
        """Forget everything."""
        self._samples.clear()
        self.restarts = []
        self.revision += 1

    def samples(self) -> tuple[Sample, ...]:
        """All that is kept, in rising x."""
        return tuple(self._samples)

    @property
    def last(self) -> Sample | None:
        """The newest sample."""
        return self._samples[-1] if self._samples else None

    def bounds(self) -> tuple[float, float] | None:
        """Least and greatest finite value: what an axis should show. `None` without any."""
        finite = [sample.y for sample in self._samples if math.isfinite(sample.y)]
        return (min(finite), max(finite)) if finite else None

    def __len__(self) -> int:
        return len(self._samples)

    def __iter__(self) -> Iterator[Sample]:
        return iter(self._samples)


def downsample(samples: Sequence[Sample], limit: int) -> list[Sample]:
    """At most `limit` of `samples`, themselves, in order, that keep the picture.

    Args:
        samples: In rising x.
        limit: At least `SMALLEST`.

    Returns:
        The first, the last, and of each of some equal stretches of x the least, the greatest and the first NaN, the
        first infinity of either sign. All of them if there are no more than `limit`.

    Raises:
        ValueError: `limit` is too small.
    """
    if limit < SMALLEST:
        raise ValueError(f"limit {limit} is below {SMALLEST}")
    if len(samples) <= limit:
        return list(samples)
    stretches = (limit - 2) // 2  # beside the first sample and the last one
    while True:
        kept = _thinned(samples, stretches)
        if len(kept) <= limit:
            return kept
        stretches = max(1, stretches * 3 // 4)


HALF_LIFE = 0.01
"""Share of the x axis after which a value counts half in the moving average."""


def smoothed(xs: Sequence[float], ys: Sequence[float | None], *, reach: float) -> list[float | None]:
    """Return the time-weighted exponential moving average of a curve, corrected for its start.

    The past fades by the distance in x, not by the number of points: a metric that is printed at every step and one
    that is printed at every fiftieth lag by the same number of steps, so that they can be compared.

    Args:
        xs: In rising order.
        ys: Values; what is `None` or not finite stays as it is and does not enter the average.
        reach: Width of the x axis that all curves of a chart share; where it is not positive nothing is smoothed.

    Source: TensorBoard's debiasing (`line-chart.ts` of vz_line_chart2), with the weights by distance that W&B calls
    time-weighted EMA (its page "Smooth line plots"). Half-life and unit are our own.
    """
    half_life = HALF_LIFE * reach
    if not half_life > 0:  # also one that is too small for a float
        return list(ys)
    mean = norm = 0.0
    before = xs[0] if xs else 0.0
    result: list[float | None] = []
    for x, y in zip(xs, ys, strict=True):
        if y is None or not math.isfinite(y) or not math.isfinite(x):
            result.append(y)
            continue
        weight = 0.5 ** (max(0.0, x - before) / half_life)
        mean, norm, before = weight * mean + y, weight * norm + 1.0, x
        result.append(mean / norm)
    return result


def _thinned(samples: Sequence[Sample], stretches: int) -> list[Sample]:
    start, end = samples[0].x, samples[-1].x
    width = (end - start) / stretches or math.inf
    keep = {0, len(samples) - 1}
    current, least, greatest = 0, -1, -1
    odd: set[str] = set()
    for index, (x, y, _) in enumerate(samples):
        stretch = int((x - start) / width)
        if stretch != current:
            keep.add(least)
            keep.add(greatest)
            current, least, greatest = stretch, -1, -1
            odd.clear()
        if not math.isfinite(y):
            if str(y) not in odd:
                odd.add(str(y))
                keep.add(index)
        elif least < 0:
            least = greatest = index
        elif y < samples[least].y:
            least = index
        elif y > samples[greatest].y:
            greatest = index
    keep |= {least, greatest}
    keep.discard(-1)  # of a stretch without a finite value
    return [samples[index] for index in sorted(keep)]


_KEPT_WHOLE = 16
"""Metrics of a log that are kept at full capacity, whatever they are."""


class _Metric:
    """The curve of one metric, and what its next point depends on."""

    __slots__ = ("epoch", "latest", "offset", "rank", "series")

    def __init__(self, series: Series, rank: int) -> None:
        self.series = series
        self.rank = rank
        """The rank whose points are the curve."""
        self.epoch: float | None = None
        self.offset = 0.0
        """Steps of the epochs before, where steps restart with each epoch."""
        self.latest: dict[int, float] = {}
        """The newest value of each rank."""


class Curves:
    """Folds points into one series for each metric.

    Of several ranks that print the same metric the lowest is the curve. A step that restarts with each epoch is carried
    on from the epoch before. A point without a step stands one after the last of its metric; one that only names an
    epoch (a validation) stands where training has come to.

    Args:
        capacity: Samples kept of each metric.
    """

    def __init__(self, capacity: int = 2048) -> None:
        self._capacity = capacity
        self._metrics: dict[str, _Metric] = {}
        self._reached = 0.0
        self.epochs: list[Sample] = []
        """The places where an epoch has begun, with its number as `y`: not the first one; bounded by `capacity`."""
        self._newest_epoch: int | None = None
        self._epoch_metric = ""
        """The metric whose epochs count: a validation is printed late, with the epoch before."""
        self.revision = 0
        """Rises with every change."""

    def add(self, point: Point) -> None:
        """Take one point."""
        metric = self._metrics.get(point.metric)
        if metric is None:
            series = Series(self._capacity_of(point.metric))
            metric = self._metrics[point.metric] = _Metric(series, point.rank)
        metric.latest[point.rank] = point.value
        if point.rank != metric.rank:
            if point.rank > metric.rank:
                return
            metric.rank, metric.offset, metric.epoch = point.rank, 0.0, None
            metric.series.clear()
        x = self._x_of(point, metric)
        self._reached = max(self._reached, x)
        if point.epoch is not None:
            self._note_epoch(point, x)
        metric.series.append(x, point.value, point.at)
        self.revision += 1

    def _capacity_of(self, metric: str) -> int:
        """Return how much of a metric is kept: less where a trainer names dozens, except of losses and rewards."""
        if len(self._metrics) < _KEPT_WHOLE or "loss" in metric or "reward" in metric:
            return self._capacity
        return max(SMALLEST, self._capacity // 4)

    def _note_epoch(self, point: Point, x: float) -> None:
        """Remember where an epoch begins; those behind an x that has gone back are yet to come."""
        self._epoch_metric = self._epoch_metric or (point.metric if point.epoch is not None else "")
        if point.metric != self._epoch_metric or point.epoch is None or not math.isfinite(point.epoch):
            return
        epoch = math.floor(point.epoch)
        if self._newest_epoch is not None and epoch != self._newest_epoch:
            self.epochs = [begin for begin in self.epochs[-self._capacity + 1 :] if begin.x < x]
            if epoch > self._newest_epoch:
                self.epochs.append(Sample(x, epoch, point.at))
        self._newest_epoch = epoch

    def latest(self, metric: str) -> dict[int, float]:
        """The newest value of each rank that prints the metric."""
        known = self._metrics.get(metric)
        return dict(known.latest) if known is not None else {}

    def metrics(self) -> tuple[str, ...]:
        """Names of the metrics, in the order in which they first came."""
        return tuple(self._metrics)

    def series(self, metric: str) -> Series | None:
        """The curve of one metric; `None` if there is none."""
        known = self._metrics.get(metric)
        return known.series if known is not None else None

    def _x_of(self, point: Point, metric: _Metric) -> float:
        step, epoch, last = point.step, point.epoch, metric.series.last
        if step is None:
            if last is None:
                return self._reached
            return max(last.x + 1, self._reached) if point.metric != "train_loss" else last.x + 1
        x = step + metric.offset
        if epoch is not None:
            if last is not None and metric.epoch is not None and epoch > metric.epoch and x < last.x:
                metric.offset = last.x + 1 - step
                x = last.x + 1
            metric.epoch = epoch
        return x


STEADY = 3
"""This many values in a row are not an accident: scalers skip a step that overflowed, and the next one is a number."""


class Divergence(msgspec.Struct, frozen=True):
    """Since when a loss is not a number."""

    metric: str
    word: str
    """`nan`, `inf`, or 0 with the gradient that belies it, as it is now."""
    since: float
    """Step of the first value that is none."""
    last_good: Sample | None
    """The number before it; `None` if there never was one."""

    @property
    def detail(self) -> str:
        """The rest of a sentence that begins with the metric."""
        if self.last_good is None:
            return f"is {self.word} since its first value."
        number = f"{self.last_good.y:.4g} at {self.last_good.x:g}"
        return f"is {self.word} since step {self.since:g}; the last number was {number}."

    @property
    def way_out(self) -> str:
        """The remedy, as an imperative."""
        if self.last_good is None:
            return "Check precision, data and learning rate; nothing of this training can be used."
        return f"Resume from a checkpoint before step {self.since:g}, with a lower learning rate or a higher precision."


def divergence_of(curves: Curves, *, least: int = STEADY) -> Divergence | None:
    """The loss whose newest values are not numbers, that of the training first; `None` if there is none.

    A loss of exactly 0 beside a gradient that is not a number counts, too: the Trainer of Hugging Face prints 0 in its
    place (`logging_nan_inf_filter`).

    Args:
        curves: Of one log.
        least: How many values in a row have to be none.
    """
    for metric in sorted((name for name in curves.metrics() if name.endswith("_loss")), key=_training_first):
        series = curves.series(metric)
        samples = series.samples() if series is not None else ()
        hidden = _places_of_lost_gradients(curves) if metric == "train_loss" else frozenset()
        good = next((at for at in range(len(samples) - 1, -1, -1) if _is_number(samples[at], hidden)), -1)
        lost = samples[good + 1 :]
        if lost and len(lost) >= least:
            word = "nan" if math.isnan(lost[-1].y) else _HIDDEN if lost[-1].y == 0 else "inf"
            return Divergence(metric, word, lost[0].x, samples[good] if good >= 0 else None)
    return None


_HIDDEN = "0 beside a gradient that is nan"


def _places_of_lost_gradients(curves: Curves) -> frozenset[float]:
    series = curves.series("grad_norm")
    return frozenset(one.x for one in series.samples() if math.isnan(one.y)) if series is not None else frozenset()


def _is_number(sample: Sample, hidden: frozenset[float]) -> bool:
    return math.isfinite(sample.y) and (sample.y != 0 or sample.x not in hidden)


def _training_first(metric: str) -> tuple[bool, str]:
    return metric != "train_loss", metric

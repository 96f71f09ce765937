"""The curves of one log: points sorted by metric, on a common x."""

from __future__ import annotations

from actions.telemetry.points import Point
from actions.telemetry.series import Series


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
        self._series: dict[str, Series] = {}
        self._rank: dict[str, int] = {}
        self._epoch: dict[str, float] = {}
        self._offset: dict[str, float] = {}
        self._reached = 0.0
        self._latest: dict[str, dict[int, float]] = {}
        self.revision = 0
        """Rises with every change."""

    def add(self, point: Point) -> None:
        """Take one point."""
        self._latest.setdefault(point.metric, {})[point.rank] = point.value
        known = self._rank.setdefault(point.metric, point.rank)
        if point.rank > known:
            return
        series = self._series.setdefault(point.metric, Series(self._capacity))
        if point.rank < known:
            self._rank[point.metric] = point.rank
            self._offset.pop(point.metric, None)
            self._epoch.pop(point.metric, None)
            series.clear()
        x = self._x_of(point, series)
        self._reached = max(self._reached, x)
        series.append(x, point.value)
        self.revision += 1

    def latest(self, metric: str) -> dict[int, float]:
        """The newest value of each rank that prints the metric."""
        return dict(self._latest.get(metric, {}))

    def metrics(self) -> tuple[str, ...]:
        """Names of the metrics, in the order in which they first came."""
        return tuple(self._series)

    def series(self, metric: str) -> Series | None:
        """The curve of one metric; `None` if there is none."""
        return self._series.get(metric)

    def _x_of(self, point: Point, series: Series) -> float:
        last = series.last
        if point.step is None:
            if last is None:
                return self._reached
            return max(last.x + 1, self._reached) if point.metric != "train_loss" else last.x + 1
        metric = point.metric
        x = point.step + self._offset.get(metric, 0.0)
        before = self._epoch.get(metric)
        if point.epoch is not None:
            if last is not None and before is not None and point.epoch > before and x < last.x:
                self._offset[metric] = last.x + 1 - point.step
                x = last.x + 1
            self._epoch[metric] = point.epoch
        return x

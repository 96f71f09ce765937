"""A loss that has become no number: training goes on, and what it makes is of no use."""

from __future__ import annotations

import math

import msgspec

from actions.telemetry.curves import Curves
from actions.telemetry.series import Sample

STEADY = 3
"""So many values in a row are no accident: scalers skip a step that overflowed, and the next one is a number."""


class Divergence(msgspec.Struct, frozen=True):
    """Since when a loss is no number."""

    metric: str
    word: str
    """`nan` or `inf`, as it is now."""
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
        """What to do."""
        if self.last_good is None:
            return "Check precision, data and learning rate; nothing of this training can be used."
        return f"Go on from a checkpoint before step {self.since:g}, with a lower learning rate or a higher precision."


def divergence_of(curves: Curves, *, least: int = STEADY) -> Divergence | None:
    """The loss whose newest values are no numbers, that of the training first; `None` if there is none.

    Args:
        curves: Of one log.
        least: How many values in a row have to be none.
    """
    for metric in sorted((name for name in curves.metrics() if name.endswith("_loss")), key=_training_first):
        series = curves.series(metric)
        samples = series.samples() if series is not None else ()
        good = next((at for at in range(len(samples) - 1, -1, -1) if math.isfinite(samples[at].y)), -1)
        lost = samples[good + 1 :]
        if lost and len(lost) >= least:
            word = "nan" if math.isnan(lost[-1].y) else "inf"
            return Divergence(metric, word, lost[0].x, samples[good] if good >= 0 else None)
    return None


def _training_first(metric: str) -> tuple[bool, str]:
    return metric != "train_loss", metric

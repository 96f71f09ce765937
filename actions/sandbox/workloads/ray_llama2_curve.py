"""The numbers that a training of Llama 2 under Ray prints: loss, rate, norms and throughput by step."""

from __future__ import annotations

import math
import random

from actions.sandbox.workloads.ray_llama2_settings import Settings

_DIVERGES_FROM = 1.5e-3
"""With a learning rate from here on the loss becomes nan."""


class Curve:
    """Loss, rate and norms of a run, the same for the same seed; nan from the tenth step on if the rate is too high."""

    def __init__(self, settings: Settings, seed: int) -> None:
        self._seed = seed
        self._peak = float(settings.given["lr"])
        self._warmup = max(1, settings.number("warmup_steps"))
        self._steps = max(self._warmup + 1, settings.number("max_steps"))
        self._throughput = settings.throughput

    def loss(self, step: int) -> float:
        """With the few digits that bfloat16 leaves of it."""
        if self._peak >= _DIVERGES_FROM and step >= 10:
            return math.nan
        smooth = 2.9 + 7.8 * math.exp(-step / 260) + self._noise(step, 0.05)
        quantum = 2.0 ** (math.floor(math.log2(smooth)) - 7)
        return round(smooth / quantum) * quantum

    def rate(self, step: int) -> float:
        """Warm-up, then down in a line."""
        if step <= self._warmup:
            return self._peak * step / self._warmup
        return self._peak * max(0.0, (self._steps - step) / (self._steps - self._warmup))

    def norm(self, step: int) -> float:
        """Of the gradients."""
        return round(math.nan if math.isnan(self.loss(step)) else 0.9 + 3.1 * math.exp(-step / 90), 4)

    def throughput(self, step: int) -> float:
        """The first steps are slow."""
        return max(0.1, self._throughput * min(1.0, 0.7 + 0.05 * step) + self._noise(step + 7, 0.02))

    def _noise(self, step: int, width: float) -> float:
        return random.Random(self._seed * 1_000_003 + step).gauss(0.0, width)

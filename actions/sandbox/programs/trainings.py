"""The parts that trainings share: the settings of NeMo's trainers, and the curve of a loss.

A curve falls smoothly, with noise that is the same for the same seed, and is nan where the learning rate is too high.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping

import msgspec

from actions.sandbox.programs.program import ContainerView
from actions.sandbox.programs.pytorch import CosineAnnealing


class TrainerSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The settings of a trainer of NeMo under torchrun, in Hydra's overrides and in the environment."""

    max_steps: int
    validate_every: int
    micro_batch: int
    results: str
    nodes: int
    """torchrun's."""
    processes: int
    """On each node."""
    schedule: CosineAnnealing
    shows_rate: bool

    @property
    def world_size(self) -> int:
        """The number of processes in all."""
        return self.nodes * self.processes


def overrides_of(container: ContainerView) -> dict[str, str]:
    """Return Hydra's overrides and torchrun's options among the arguments, by name."""
    return dict(argument.split("=", 1) for argument in container.argv if "=" in argument)


def schedule_of(
    given: Mapping[str, str], *, steps: int, peak: str, least: str, warmup: str, constant: str
) -> CosineAnnealing:
    """Return the schedule of the learning rate; the texts are the published configuration's values."""
    return CosineAnnealing(
        peak=float(given.get("model.optim.lr", peak)),
        least=float(given.get("model.optim.sched.min_lr", least)),
        warmup=int(given.get("model.optim.sched.warmup_steps", warmup)),
        constant=int(given.get("model.optim.sched.constant_steps", constant)),
        steps=steps,
    )


def processes_of(asked: str, container: ContainerView) -> int:
    """Return the processes of a node that torchrun starts: as asked, or one for each GPU."""
    return int(asked) if asked.isdigit() else max(1, len(container.gpus))


class LossCurve(msgspec.Struct, frozen=True, kw_only=True):
    """The losses of a training by step, counted from 0."""

    smooth: Callable[[int], float]
    """The loss of a step without noise."""
    seed: int
    noise: float
    """The deviation of a step's loss; that of a validation is a quarter."""
    above: float = 0.0
    """The validation's loss is so much higher."""
    nan_from: float = math.inf
    """The step from which on there is no loss any more."""

    def training(self, step: int) -> float:
        """Return the loss of one step, with its noise."""
        return math.nan if step >= self.nan_from else self.smooth(step) + self.spread(step, self.noise)

    def validation(self, step: int) -> float:
        """Return `val_loss` after so many steps."""
        noise = random.Random(self.seed * 7_919 + step).gauss(0.0, self.noise / 4)
        return math.nan if step >= self.nan_from else self.smooth(step) + self.above + noise

    def spread(self, step: int, width: float) -> float:
        """Return the noise of a step."""
        return random.Random(self.seed * 1_000_003 + step).gauss(0.0, width)

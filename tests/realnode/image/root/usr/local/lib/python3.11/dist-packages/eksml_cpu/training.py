"""A training as NeMo's: real Lightning, DDP over gloo, the optimiser, schedule, validation and checkpoints; a small model.

What is played: the model's size, and the pace, since a small model on CPU would be done in a second (`EKSML_STEP_SECONDS`).
"""

from __future__ import annotations

import logging
import math
import os
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy
import pytorch_lightning as lightning
import torch
from pytorch_lightning.callbacks import Callback, ModelCheckpoint, TQDMProgressBar
from pytorch_lightning.loggers import TensorBoardLogger
from pytorch_lightning.strategies import DDPStrategy
from torch import Tensor, nn
from torch.utils.data import DataLoader, IterableDataset

from eksml_cpu import transport

LENGTH = 48
"""Of a sequence, in tokens."""
_WIDTH = 48
_WHOLE_SECONDS = 40.0
"""A training takes about as long, unless the machine is slower."""


@dataclass(frozen=True)
class Cosine:
    """NeMo's `CosineAnnealing`: a linear rise, half a cosine, then `constant` steps at `least`."""

    peak: float
    least: float
    warmup: int
    constant: int
    steps: int

    def rate(self, step: int) -> float:
        """Return the rate of a step, zero-based."""
        if self.warmup and step <= self.warmup:
            return self.peak * (step / self.warmup if self.constant else (step + 1) / (self.warmup + 1))
        decay = self.steps - self.warmup - self.constant
        if step >= self.warmup + decay or step > self.steps:
            return self.least
        return self.least + (self.peak - self.least) * (1 + math.cos(math.pi * (step - self.warmup) / decay)) / 2


@dataclass(frozen=True)
class Plan:
    """What a script asks for."""

    name: str
    """Begins the names of checkpoints."""
    folder: Path
    """Of curves; checkpoints lie in `checkpoints` below it."""
    tokens: numpy.ndarray
    schedule: Cosine
    global_batch: int
    validate_every: int
    validation_batches: int
    log_every: int = 10
    resumes: bool = True
    checkpoints: dict[str, Any] = field(default_factory=dict)
    """Arguments of `ModelCheckpoint`."""
    shows_norms: bool = False
    """Gradient and parameter norm, and sequences a second, as neuronx-nemo-megatron logs them."""
    draws_as_nemo: bool = False


def ranks() -> tuple[int, int]:
    """This process's rank, and how many there are."""
    return int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))


def say(place: str, text: str) -> None:
    """Print a line of NeMo's log, by the first rank."""
    if ranks()[0] == 0:
        sys.stdout.write(f"[NeMo I {time.strftime('%Y-%m-%d %H:%M:%S')} {place}] {text}\n")
        sys.stdout.flush()


def fit(plan: Plan) -> None:
    """Train to the plan's last step, from the last checkpoint if there is one."""
    torch.set_num_threads(1)
    torch.manual_seed(1234)
    logging.captureWarnings(True)
    rank, size = ranks()
    say("exp_manager:394", f"Experiments will be logged at {plan.folder}")
    trainer = lightning.Trainer(
        accelerator="cpu",
        devices=int(os.environ.get("LOCAL_WORLD_SIZE", "1")),
        num_nodes=int(os.environ.get("GROUP_WORLD_SIZE", "1")),
        strategy=DDPStrategy(process_group_backend="gloo", timeout=timedelta(minutes=10)),
        max_steps=plan.schedule.steps,
        max_epochs=-1,
        val_check_interval=min(plan.validate_every, plan.schedule.steps),
        limit_val_batches=plan.validation_batches,
        num_sanity_val_steps=0,
        log_every_n_steps=plan.log_every,
        gradient_clip_val=1.0,
        logger=TensorBoardLogger(str(plan.folder), name="", version="") if rank == 0 else False,
        callbacks=[_checkpoints(plan), (_NemoBar if plan.draws_as_nemo else _Bar)(refresh_rate=1), _Pace(plan)],
        enable_model_summary=rank == 0,
    )
    trainer.fit(_Module(plan, size), ckpt_path=_last_checkpoint(plan))


def _checkpoints(plan: Plan) -> ModelCheckpoint:
    found = ModelCheckpoint(dirpath=plan.folder / "checkpoints", auto_insert_metric_name=True, **plan.checkpoints)
    found.CHECKPOINT_NAME_LAST = f"{found.filename}-last"
    return found


def _last_checkpoint(plan: Plan) -> str | None:
    found = sorted((plan.folder / "checkpoints").glob("*last.ckpt")) if plan.resumes else []
    if len(found) > 1:
        raise ValueError(f"Multiple checkpoints {found} that matches *last.ckpt.")
    if not found:
        return None
    say("exp_manager:530", f"Resuming from {found[0]}")
    return str(found[0])


class _Windows(IterableDataset):
    """Batches of pieces of the tokens: another one for each rank."""

    def __init__(self, tokens: numpy.ndarray, *, batch: int, count: int, seed: int) -> None:
        super().__init__()
        self._tokens, self._batch, self._count, self._seed = tokens, batch, count, seed

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[Tensor]:
        chosen = numpy.random.default_rng(self._seed)
        for _ in range(self._count):
            starts = chosen.integers(0, max(1, len(self._tokens) - LENGTH - 1), self._batch)
            rows = [numpy.resize(self._tokens[start : start + LENGTH + 1], LENGTH + 1) for start in starts]
            yield torch.from_numpy(numpy.stack(rows).astype(numpy.int64))


class TinyModel(nn.Module):
    """A decoder of two layers over bytes."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(256, _WIDTH)
        self.position = nn.Parameter(torch.zeros(LENGTH, _WIDTH))
        layer = nn.TransformerEncoderLayer(_WIDTH, 4, 2 * _WIDTH, 0.0, batch_first=True, norm_first=True)
        self.layers = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(_WIDTH, 256)
        self.register_buffer("mask", torch.triu(torch.full((LENGTH, LENGTH), -torch.inf), 1), persistent=False)

    def loss(self, rows: Tensor) -> Tensor:
        """Return the loss of predicting each token of the rows but the first."""
        hidden = self.layers(self.embedding(rows[:, :-1]) + self.position, self.mask)
        return nn.functional.cross_entropy(self.head(hidden).flatten(0, 1), rows[:, 1:].flatten())

    forward = loss


class _Module(lightning.LightningModule):
    """The step, and what NeMo logs of it."""

    def __init__(self, plan: Plan, ranks_in_all: int) -> None:
        super().__init__()
        self.model = TinyModel()
        self._plan = plan
        self._batch = max(1, plan.global_batch // ranks_in_all)
        self._began = time.monotonic()
        self._peak = 0.0

    def training_step(self, rows: Tensor, _index: int) -> Tensor:
        """Compute the loss of a batch."""
        loss = self.model(rows)
        reduced = loss.detach().clone()
        if torch.distributed.is_initialized():
            torch.distributed.all_reduce(reduced)
            reduced /= torch.distributed.get_world_size()
        now = time.monotonic()
        seconds, self._began = now - self._began, now
        step = self.trainer.global_step
        self.log("reduced_train_loss", reduced, prog_bar=True, rank_zero_only=True, batch_size=1)
        rate = self.optimizers().param_groups[0]["lr"]
        self.log("lr", rate, rank_zero_only=True, batch_size=1)
        if self._plan.shows_norms:
            self._log_norms(seconds)
        self.log("global_step", float(step), prog_bar=True, rank_zero_only=True, batch_size=1)
        samples = float((step + 1) * self._plan.global_batch)
        self.log("consumed_samples", samples, prog_bar=True, batch_size=1)
        self.log(
            "train_step_timing in s", seconds, prog_bar=self._plan.draws_as_nemo, rank_zero_only=True, batch_size=1
        )
        return loss

    def _log_norms(self, seconds: float) -> None:
        """Log the norms of the step before: the gradients of this one are not there yet."""
        weights = list(self.model.parameters())
        gradients = [weight.grad.norm() for weight in weights if weight.grad is not None]
        rate = self._plan.global_batch / max(seconds, 1e-6)
        self._peak = max(self._peak, rate)
        values = {
            "gradient_norm": torch.stack(gradients).norm() if gradients else torch.tensor(0.0),
            "parameter_norm": torch.stack([weight.detach().norm() for weight in weights]).norm(),
            "throughput": torch.tensor(rate),
            "throughput_peak": torch.tensor(self._peak),
        }
        for name, value in values.items():
            self.log(name, value, prog_bar=True, rank_zero_only=True, batch_size=1)

    def optimizer_zero_grad(self, epoch: int, batch_idx: int, optimizer: torch.optim.Optimizer) -> None:
        """Keep the memory of the gradients, so that their norm can be logged."""
        optimizer.zero_grad(set_to_none=False)

    def validation_step(self, rows: Tensor, _index: int) -> None:
        """Compute the loss of a batch that is not trained on."""
        self.log("val_loss", self.model(rows), prog_bar=True, sync_dist=True, batch_size=1)

    def configure_optimizers(self) -> dict[str, Any]:
        """Return Adam and the schedule."""
        schedule = self._plan.schedule
        made = torch.optim.AdamW(self.parameters(), lr=schedule.peak, weight_decay=0.01)
        scheduler = torch.optim.lr_scheduler.LambdaLR(made, lambda step: schedule.rate(step) / schedule.peak)
        return {"optimizer": made, "lr_scheduler": {"scheduler": scheduler, "interval": "step"}}

    def train_dataloader(self) -> DataLoader:
        """Return more batches than there are steps, so that a training that goes on is in its first epoch."""
        return self._loader(10 * self._plan.schedule.steps, seed=self.global_rank)

    def val_dataloader(self) -> DataLoader:
        """Return the same batches each time."""
        return self._loader(self._plan.validation_batches, seed=10_000 + self.global_rank)

    def _loader(self, count: int, *, seed: int) -> DataLoader:
        windows = _Windows(self._plan.tokens, batch=self._batch, count=count, seed=seed)
        return DataLoader(windows, batch_size=None, num_workers=0)

    def on_fit_start(self) -> None:
        """Tell of the network when the group has come together."""
        transport.announce(self.global_rank, self.trainer.world_size)


class _Pace(Callback):
    """Waits out a step's time, and ends the line now and then: a container's log has only whole lines."""

    def __init__(self, plan: Plan) -> None:
        given = os.environ.get("EKSML_STEP_SECONDS")
        self._seconds = float(given) if given else min(0.5, max(0.02, _WHOLE_SECONDS / plan.schedule.steps))
        self._every = plan.log_every
        self._began = time.monotonic()

    def on_train_batch_end(self, trainer: lightning.Trainer, *_: Any) -> None:
        """Wait, on the first rank only: the others wait for it in the next step."""
        if not trainer.is_global_zero:
            return
        time.sleep(max(0.0, self._began + self._seconds - time.monotonic()))
        self._began = time.monotonic()
        if trainer.global_step % self._every == 0:
            sys.stdout.write("\n")
            sys.stdout.flush()


class _Bar(TQDMProgressBar):
    """Lightning's bar, over the run's steps: an epoch is never over before them."""

    def on_train_epoch_start(self, trainer: lightning.Trainer, *_: Any) -> None:
        """Begin the bar."""
        super().on_train_epoch_start(trainer)
        self.train_progress_bar.reset(trainer.max_steps)
        self.train_progress_bar.initial = 0


class _NemoBar(_Bar):
    """NeMo 24.01's (`CustomProgressBar`): two colons, no rate."""

    def init_train_tqdm(self) -> Any:
        """Make the bar."""
        made = super().init_train_tqdm()
        made.bar_format = "{desc}: {percentage:3.0f}%|{bar}| {n_fmt}/{total_fmt} [{elapsed}<{remaining}{postfix}]"
        return made

    def on_train_epoch_start(self, trainer: lightning.Trainer, *_: Any) -> None:
        """Begin the bar."""
        super().on_train_epoch_start(trainer)
        self.train_progress_bar.set_description_str(f"Epoch {trainer.current_epoch}: ")

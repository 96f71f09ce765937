"""A training as NeMo's: real Lightning, DDP over gloo, optimiser, schedule, validation, checkpoints; a small model.

Played are the model's size, and the pace: a small model would be done in a second (`EKSML_STEP_SECONDS`).
"""

from __future__ import annotations

import logging
import math
import os
import shutil
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
from torch import Tensor
from torch.utils.data import DataLoader, IterableDataset

from eksml_cpu import transport
from eksml_cpu.model import TinyModel, windows

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
    """The wishes of a script."""

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
    checkpoints: dict[str, Any] | None = None
    """Arguments of `ModelCheckpoint`; `None` for a run that saves nothing."""
    model_ranks: list[str] = field(default_factory=list)
    """Folders of the parts of a model that is split over devices. Each gets the whole: the model here is not split."""
    step_seconds: float = 0.0
    """The least time of a step; 0 for one by the number of steps."""
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
    checkpoints = _Checkpoints(plan)
    found = checkpoints.newest() if plan.resumes else None
    if found:
        say("exp_manager:530", f"Resuming from {found}")
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
        enable_checkpointing=plan.checkpoints is not None,
        callbacks=[
            *([checkpoints] if plan.checkpoints else []),
            (_NemoBar if plan.draws_as_nemo else _Bar)(refresh_rate=1),
            _Pace(plan),
        ],
        enable_model_summary=rank == 0,
    )
    trainer.fit(_Module(plan, size), ckpt_path=found)


class _Checkpoints(ModelCheckpoint):
    """NeMo's: the newest is called `last`, the end of the training has one, and each part of the model has a file."""

    def __init__(self, plan: Plan) -> None:
        self._folder, self._parts = plan.folder / "checkpoints", plan.model_ranks
        super().__init__(dirpath=self._folder.joinpath(*self._parts[:1]), **(plan.checkpoints or {}))
        self.CHECKPOINT_NAME_LAST = f"{self.filename}-last"

    def newest(self) -> Path | None:
        """Return the checkpoint to go on from.

        Raises:
            ValueError: There are two: NeMo does not choose.
        """
        found = sorted(Path(self.dirpath).glob("*last.ckpt"))
        if len(found) > 1:
            raise ValueError(f"Multiple checkpoints {found} that matches *last.ckpt.")
        return found[0] if found else None

    def on_train_end(self, trainer: lightning.Trainer, *_: Any) -> None:
        """Save the last step."""
        if self.save_last and self._last_global_step_saved != trainer.global_step:
            self._save_last_checkpoint(trainer, self._monitor_candidates(trainer))

    def _save_checkpoint(self, trainer: lightning.Trainer, filepath: str) -> None:
        super()._save_checkpoint(trainer, filepath)
        for folder in self._others() if trainer.is_global_zero else ():
            folder.mkdir(parents=True, exist_ok=True)
            shutil.copy(filepath, folder)

    def _remove_checkpoint(self, trainer: lightning.Trainer, filepath: str) -> None:
        super()._remove_checkpoint(trainer, filepath)
        for folder in self._others() if trainer.is_global_zero else ():
            (folder / Path(filepath).name).unlink(missing_ok=True)

    def _others(self) -> list[Path]:
        return [self._folder / name for name in self._parts[1:]]


class _Windows(IterableDataset):
    """Batches of pieces of the tokens: another one for each rank."""

    def __init__(self, tokens: numpy.ndarray, *, batch: int, count: int, seed: int) -> None:
        super().__init__()
        self._count, self._rows = count, lambda: windows(tokens, batch=batch, count=count, seed=seed)

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[Tensor]:
        return self._rows()


class _Module(lightning.LightningModule):
    """The step, and what NeMo logs of it."""

    def __init__(self, plan: Plan, ranks_in_all: int) -> None:
        super().__init__()
        self.model = TinyModel()
        self._plan = plan
        self._batch = max(1, plan.global_batch // ranks_in_all)
        self._began = time.monotonic()
        self._peak = self._norm = 0.0

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
        rate = self._plan.global_batch / max(seconds, 1e-6)
        self._peak = max(self._peak, rate)
        values = {
            "gradient_norm": torch.tensor(self._norm),
            "parameter_norm": torch.stack([weight.detach().norm() for weight in weights]).norm(),
            "throughput": torch.tensor(rate),
            "throughput_peak": torch.tensor(self._peak),
        }
        for name, value in values.items():
            self.log(name, value, prog_bar=True, rank_zero_only=True, batch_size=1)

    def on_before_optimizer_step(self, _optimizer: torch.optim.Optimizer) -> None:
        """Take the norm of the gradients before they are clipped."""
        gradients = [weight.grad.norm() for weight in self.model.parameters() if weight.grad is not None]
        self._norm = float(torch.stack(gradients).norm())

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
        usual = plan.step_seconds or min(0.5, max(0.02, _WHOLE_SECONDS / plan.schedule.steps))
        self._seconds = float(given) if given else usual
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

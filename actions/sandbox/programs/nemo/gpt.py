"""Pre-training of GPT-3 5B with NeMo 24.01 under torchrun: the output of the processes of one pod.

Rank 0 draws the bar; the ranks of all pods print NCCL's lines. A redraw starts with a carriage return, and the line
ends where something else is logged.

Source:
    The captured bar of NeMo 24.01 on EKS with its loss of 2.6 after 1.28 million samples; files below `results` as the
    guide lists them.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from datetime import UTC, datetime

from actions.sandbox.programs.checkpoints import PART, newest_step
from actions.sandbox.programs.nccl.setup_log import NcclTransport, start_lines
from actions.sandbox.programs.nemo.gpt_settings import (
    PARAMETERS,
    WATCHDOG_SECONDS,
    GptSettings,
    gpt_settings,
    missing_data,
    missing_vocabulary,
    out_of_memory,
    watchdog,
)
from actions.sandbox.programs.program import ContainerView, GpuLoad, PeerLost, Program, ProgramStep, Rendezvous
from actions.sandbox.programs.pytorch import child_failed, group_of, lightning_bar, node_rank
from actions.sandbox.programs.trainings import LossCurve

_SCRIPT = "/opt/NeMo/examples/nlp/language_modeling/megatron_gpt_pretraining.py"
_START_SECONDS = 12.0
"""Imports of Python."""
_BUILD_SECONDS = 14.0
"""Indices of the data set, weights, first communicators."""
_SAVE_SECONDS = 12.0
_BYTES_SAVED = 14
"""For each parameter: weights in bfloat16, and the optimiser's state in single precision."""
_WAITING = GpuLoad(0, 0)
_SEQUENCES_A_STEP = 97
"""Collectives that a step counts."""
_NAN_AFTER_STEPS = 12


def is_wanted_by(container: ContainerView) -> bool:
    """Return whether this container's command pre-trains GPT with NeMo."""
    return "megatron_gpt_pretraining.py" in container.command_line


def train(container: ContainerView) -> Program:
    """Train to `max_steps`, from the newest checkpoint if there is one. Ends with 0, or with 1 and a traceback."""
    settings = gpt_settings(container)
    problem = missing_data(container)
    if problem:
        yield ProgramStep(0.5, problem, is_error=True)
        return 1
    yield ProgramStep(_START_SECONDS, load=_WAITING)
    pod = _GptPod(container, settings)
    try:
        code = yield from pod.run()
    except PeerLost:
        yield from pod.end_after_loss()
        code = 1
    if code:
        yield ProgramStep(0.5, pod.last_lines(), is_error=True, load=_WAITING)
    return code


class _GptPod:
    """The processes of one pod, which go through the same steps together."""

    def __init__(self, container: ContainerView, settings: GptSettings) -> None:
        self._container = container
        self._settings = settings
        self._first_rank = node_rank(container) * settings.processes
        self._curve = _curve_of(settings, container.seed)
        self._step = 0
        self._code = 1

    def run(self) -> Program:
        """Run from the rendezvous to the last step."""
        container, settings = self._container, self._settings
        yield ProgramStep(0.1, rendezvous=Rendezvous(f"{container.namespace}/{group_of(container)}", settings.nodes))
        problem = missing_vocabulary(settings, container)
        if problem:
            yield ProgramStep(2.0, problem, is_error=True)
            return 1
        yield from self._connect()
        yield from self._build()
        problem = out_of_memory(settings, device=self._container.seed % settings.processes)
        if problem:
            yield ProgramStep(settings.step_seconds, problem, is_error=True)
            return 1
        yield from self._epoch()
        yield ProgramStep(1.0, load=_WAITING)
        return 0

    def end_after_loss(self) -> Program:
        """Hang after the loss of a peer in a collective, which never ends; the watchdogs notice after ten minutes."""
        sequence = max(1, self._step) * _SEQUENCES_A_STEP
        yield ProgramStep(load=GpuLoad(100, round(self._settings.needed_mib)))
        yield ProgramStep(WATCHDOG_SECONDS)
        stamp = datetime.fromtimestamp(self._container.started_at, UTC).strftime("%m%d %H:%M:%S.%f")
        for rank in self._ranks():
            yield ProgramStep(0.1, watchdog(rank, sequence=sequence, moment=stamp), is_error=True)
        self._code = -6
        return 1

    def last_lines(self) -> str:
        """Return torchrun's last lines."""
        moment = datetime.fromtimestamp(self._container.started_at, UTC).strftime("%Y-%m-%d_%H:%M:%S")
        return child_failed(_SCRIPT, self._container, rank=self._first_rank, moment=moment, code=self._code)

    def _ranks(self) -> range:
        return range(self._first_rank, self._first_rank + self._settings.processes)

    def _connect(self) -> Program:
        """Print NCCL's start, rank by rank."""
        settings = self._settings
        network = NcclTransport(
            version="2.20.3+cuda12.2",
            efa_interfaces=settings.efa_interfaces,
            platform=self._container.instance_type,
            protocol="RDMA",
        )
        address = f"10.0.{40 + self._first_rank % 8}.{20 + self._first_rank * 7 % 200}"
        for device, rank in enumerate(self._ranks()):
            lines = start_lines(
                self._container.pod,
                rank=rank,
                world_size=settings.world_size,
                address=address,
                process_id=103 + device,
                device=device,
                network=network,
            )
            yield ProgramStep(0.1, "".join(line + "\n" for line in lines))
        return 0

    def _build(self) -> Program:
        """Make data, model and optimiser; rank 0 prints for all."""
        settings = self._settings
        text = "".join(self._opening()) if self._first_rank == 0 else ""
        yield ProgramStep(_BUILD_SECONDS, text, load=GpuLoad(6, round(settings.weights_mib)))
        return 0

    def _opening(self) -> Iterator[str]:
        settings = self._settings
        sizes = f"{settings.tensor_parallel}, {settings.pipeline_parallel}, {settings.data_parallel}"
        yield "GPU available: True (cuda), used: True\nTPU available: False, using: 0 TPU cores\n"
        yield f"[NeMo I megatron_init] Rank 0: tensor, pipeline, data parallel sizes {sizes}\n"
        yield "[NeMo I tokenizer_utils] Getting Megatron tokenizer for pretrained model name: GPT2BPETokenizer\n"
        yield "Padded vocab_size: 50304, original vocab_size: 50257, dummy tokens: 47.\n"
        yield (
            "  | Name  | Type     | Params\n-----------------------------------\n"
            "0 | model | GPTModel | 5.0 B\n-----------------------------------\n"
            "5.0 B     Trainable params\n0         Non-trainable params\n5.0 B     Total params\n"
        )

    def _epoch(self) -> Program:
        settings = self._settings
        start = min(newest_step(self._container.files, f"{settings.results}/checkpoints"), settings.max_steps)
        load = GpuLoad(97, round(settings.needed_mib))
        is_first = self._first_rank == 0
        if is_first:
            self._leave_files()
        if is_first and start:
            yield ProgramStep(3.0, f"Restored all states from the checkpoint of step {start}\n")
        bar = _GptBar(self._curve, settings, start)
        for step in range(start, settings.max_steps):
            self._step = step
            is_logged = (step + 1) % settings.log_every == 0 or step + 1 == settings.max_steps
            text = bar.after(step, end="\n" if is_logged else "") if is_first else ""
            yield ProgramStep(settings.step_seconds, text, is_error=True, load=load)
            if (step + 1) % settings.validate_every == 0:
                yield from self._validate(bar, step)
        if is_first:
            yield ProgramStep(0.2, f"`Trainer.fit` stopped: `max_steps={settings.max_steps}` reached.\n", is_error=True)
        return 0

    def _validate(self, bar: _GptBar, step: int) -> Program:
        """Validate and save; only rank 0 draws."""
        settings = self._settings
        seconds = settings.validation_seconds
        if self._first_rank:
            yield ProgramStep(seconds + _SAVE_SECONDS)
            return 0
        count, half = settings.validation_batches, seconds / 2
        for done, spent in ((max(1, count // 2), half), (count, seconds)):
            rate = done / spent
            drawn = (
                f"\rValidation DataLoader 0: : {done}it [{int(spent) // 60:02d}:{int(spent) % 60:02d}, {rate:5.2f}it/s]"
            )
            yield ProgramStep(half, drawn, is_error=True)
        val_loss = self._curve.validation(step + 1)
        bar.validated(val_loss)
        samples = (step + 1) * settings.global_batch
        name = f"megatron_gpt--val_loss={val_loss:.2f}-step={step + 1}-consumed_samples={samples:.1f}"
        yield ProgramStep(0.0, bar.again(step) + "\n", is_error=True)
        text = f"Epoch 0, global step {step + 1}: 'val_loss' reached {val_loss:.5f}, saving model to '{name}.ckpt'\n"
        self._container.files.write(f"{settings.results}/checkpoints/{name}-last.ckpt", PART)
        yield ProgramStep(_SAVE_SECONDS, text, is_error=True)
        self._save(name)
        return 0

    def _save(self, name: str) -> None:
        """Write a checkpoint twice: under its own name, and as the last one, of which there is one."""
        files, folder = self._container.files, f"{self._settings.results}/checkpoints"
        for old in files.names(folder):
            if old.endswith("-last.ckpt"):
                files.remove(f"{folder}/{old}")
        for ending in (".ckpt", "-last.ckpt"):
            files.write(f"{folder}/{name}{ending}", b"", size_bytes=int(PARAMETERS * _BYTES_SAVED))

    def _leave_files(self) -> None:
        for name in (
            "events.out.tfevents.1709290800.nlp-training-worker-0.103.0",
            "nemo_log_globalrank-0_localrank-0.txt",
            "nemo_error_log.txt",
            "lightning_logs.txt",
            "hparams.yaml",
            "cmd-args.log",
            "git-info.log",
        ):
            self._container.files.write(f"{self._settings.results}/{name}", b"", size_bytes=4096)


class _GptBar:
    """The training bar of rank 0."""

    def __init__(self, curve: LossCurve, settings: GptSettings, start: int) -> None:
        self._curve = curve
        self._settings = settings
        self._start = start
        self._elapsed = 0.0
        self._seconds = 0.0
        self._val_loss: float | None = None

    def after(self, step: int, *, end: str) -> str:
        """The redraw after a step (zero-based)."""
        jitter = random.Random(step * 13 + 5).gauss(0.0, 0.006)
        self._seconds = self._settings.step_seconds * (1 + jitter)
        self._elapsed += self._settings.step_seconds
        return self.again(step) + end

    def validated(self, val_loss: float) -> None:
        """Note that a validation has been made."""
        self._elapsed += self._settings.validation_seconds
        self._val_loss = val_loss

    def again(self, step: int) -> str:
        """The same step, drawn once more."""
        metrics: dict[str, float | str] = {
            "v_num": "",
            "reduced_train_loss": self._curve.training(step),
            **({"lr": self._settings.schedule.rate(step)} if self._settings.shows_rate else {}),
            "global_step": float(step),
            "consumed_samples": float((step + 1) * self._settings.global_batch),
            "train_step_timing in s": self._seconds,
        }
        if self._val_loss is not None:
            metrics["val_loss"] = self._val_loss
        drawn = lightning_bar(
            step + 1,
            self._settings.max_steps,
            first=self._start,
            elapsed_seconds=self._elapsed,
            metrics=metrics,
            is_nemos=True,
        )
        return f"\r{drawn}"


def _curve_of(settings: GptSettings, seed: int) -> LossCurve:
    """10.9 at first, 2.6 after 1.28 million samples; it rises, then ends, where the learning rate is far too high."""

    def smooth(step: int) -> float:
        samples = (step + 1) * settings.global_batch
        rising = 1.0 + step * 0.4 if settings.diverges else 1.0
        return (1.9 + 9.0 * math.pow(1 + samples / 4413, -0.45)) * rising

    nan_from = _NAN_AFTER_STEPS if settings.diverges else math.inf
    return LossCurve(smooth=smooth, seed=seed, noise=0.02, above=0.03, nan_from=nan_from)

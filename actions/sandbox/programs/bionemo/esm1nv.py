"""Pre-training of ESM-1nv with BioNeMo 1.2 under torchrun: one rank's output.

Rank 0 draws the Lightning bar; all ranks print NCCL's lines. A redraw starts with a carriage return, and the line
ends where something else is logged, so a line of the container's log holds several drawings.

Source:
    Captured bars of BioNeMo 1.2; overrides and defaults of `pretrain_small`; pace from the guide's 3 to 4 days for a
    million steps on eight A10G.
"""

from __future__ import annotations

import math

from actions.sandbox.programs.checkpoints import PART, newest_step
from actions.sandbox.programs.nccl.setup_log import start_lines
from actions.sandbox.programs.nvidia import model_of
from actions.sandbox.programs.program import ContainerView, GpuLoad, PeerLost, Program, ProgramStep, Rendezvous
from actions.sandbox.programs.pytorch import (
    cuda_out_of_memory,
    group_of,
    lightning_bar,
    node_rank,
    shows_rate,
)
from actions.sandbox.programs.trainings import LossCurve, TrainerSettings, overrides_of, processes_of, schedule_of

_STEP_SECONDS = 0.3
_VALIDATION_BATCHES = 50
_VALIDATION_SECONDS = 3.0
_LOG_EVERY = 10
_DRIVER_MIB = 512
_MIB_BEFORE_SAMPLES = 1310
_MIB_A_SAMPLE = 215.25
"""From 3032 MiB in use at a micro batch of 8."""
_WAITING = GpuLoad(0, 0)
_LOADED = GpuLoad(4, 1310)
_TRAINING = GpuLoad(95, 3032)


def is_wanted_by(container: ContainerView) -> bool:
    """Return whether this container's command trains ESM-1nv."""
    return "esm1nv/pretrain.py" in container.command_line


class Esm1nvSettings(TrainerSettings, frozen=True, kw_only=True):
    """The settings in the overrides and torchrun's environment."""

    accumulate: int
    dataset: str
    restarts_allowed: int

    @property
    def global_batch(self) -> int:
        """Samples a step."""
        return self.micro_batch * self.world_size * self.accumulate


def settings_of(container: ContainerView) -> Esm1nvSettings:
    """Read the Hydra overrides in the arguments, and `PET_*` as the training operator sets them."""
    given = overrides_of(container)
    asked = given.get("--nproc_per_node") or container.environment.get("PET_NPROC_PER_NODE", "auto")
    max_steps = int(given.get("trainer.max_steps", "1000000"))
    return Esm1nvSettings(
        max_steps=max_steps,
        validate_every=int(given.get("trainer.val_check_interval", "500")),
        micro_batch=int(given.get("model.micro_batch_size", "8")),
        accumulate=int(given.get("trainer.accumulate_grad_batches", "1")),
        dataset=given.get("model.data.dataset_path", "/fsx/processed"),
        results=given.get("exp_manager.exp_dir", "/fsx/results"),
        nodes=int(container.environment.get("PET_NNODES", "1").rpartition(":")[2]),
        processes=processes_of(asked, container),
        restarts_allowed=int(container.environment.get("PET_MAX_RESTARTS", "0")),
        schedule=schedule_of(given, steps=max_steps, peak="2e-4", least="2e-5", warmup="500", constant="50000"),
        shows_rate=shows_rate(container),
    )


def train(container: ContainerView) -> Program:
    """Train to `max_steps`, from the newest checkpoint if there is one. Ends with 0, or with 1 and a traceback."""
    settings = settings_of(container)
    yield ProgramStep(1.5, load=_WAITING)
    for attempt in range(settings.restarts_allowed + 1):
        try:
            return (yield from _attempt(container, settings, attempt))
        except PeerLost:
            yield ProgramStep(
                0.5, _agent(container, "worker group failed: a peer left; will restart worker group"), True, _WAITING
            )
    yield ProgramStep(0.1, _agent(container, "no restarts left, exiting"), True)
    return 1


def _attempt(container: ContainerView, settings: Esm1nvSettings, attempt: int) -> Program:
    group = f"{container.namespace}/{group_of(container)}"
    yield ProgramStep(0.5, _agent(container, f"rendezvous of {settings.nodes} nodes, restart {attempt}"), True)
    yield ProgramStep(0.1, rendezvous=Rendezvous(group, settings.nodes))
    problem = _problem(container, settings)
    if problem:
        yield ProgramStep(2.0, problem, True, _WAITING)
        return 1
    rank = node_rank(container) * settings.processes
    yield ProgramStep(3.0, load=_LOADED)
    address = f"10.0.{40 + rank % 8}.{20 + rank * 7 % 200}"
    lines = start_lines(
        container.pod, rank=rank, world_size=settings.world_size, address=address, process_id=96 + attempt
    )
    for line in lines:
        yield ProgramStep(0.03, line + "\n")
    if rank == 0:
        yield from _opening(settings)
    needed = _MIB_BEFORE_SAMPLES + round(settings.micro_batch * _MIB_A_SAMPLE)
    total = model_of(container.instance_type).total_mib - _DRIVER_MIB
    if needed > total:
        yield ProgramStep(2.0, _first_step_fails(container, settings, total), True, _WAITING)
        return 1
    yield from _epoch(container, settings, rank)
    yield ProgramStep(1.0, load=_WAITING)
    return 0


def _first_step_fails(container: ContainerView, settings: Esm1nvSettings, total_mib: int) -> str:
    free = 500 + container.seed % 300
    asked = settings.micro_batch * _MIB_A_SAMPLE / 6 / 1024
    return (
        "Traceback (most recent call last):\n"
        '  File "/workspace/bionemo/examples/protein/esm1nv/pretrain.py", line 78, in main\n'
        "    trainer.fit(model)\n"
    ) + cuda_out_of_memory(device=0, total_mib=total_mib, free_mib=free, asked_gib=asked)


def _opening(settings: Esm1nvSettings) -> Program:
    yield ProgramStep(
        0.5, "GPU available: True (cuda), used: True\nTPU available: False, using: 0 TPU cores\nHPU available: False\n"
    )
    yield ProgramStep(0.3, f"Loading DATASET from {settings.dataset}\n")
    yield ProgramStep(
        0.5,
        "  | Name                           | Type                     | Params\n"
        "----------------------------------------------------------------------------\n"
        "0 | model                          | BertModel                | 43.6 M\n"
        "----------------------------------------------------------------------------\n"
        "43.6 M    Trainable params\n0         Non-trainable params\n43.6 M    Total params\n",
    )
    return 0


def _epoch(container: ContainerView, settings: Esm1nvSettings, rank: int) -> Program:
    """Train and validate; every rank takes the same time, rank 0 also draws and saves."""
    curve = _curve_of(settings, container.seed)
    start = min(newest_step(container.files, f"{settings.results}/checkpoints"), settings.max_steps)
    main_bar = _MainBar(curve, settings, start)
    if rank == 0:
        events = f"events.out.tfevents.{container.started_at:.0f}.{container.pod}.1.0"
        container.files.write(f"{settings.results}/{events}", b"", size_bytes=4096)
    for step in range(start, settings.max_steps):
        main_bar.elapsed += _STEP_SECONDS
        is_logged = (step + 1) % _LOG_EVERY == 0 or step + 1 == settings.max_steps
        text = main_bar.drawing(step, end="\n" if is_logged else "") if rank == 0 else ""
        yield ProgramStep(_STEP_SECONDS, text, is_error=True, load=_TRAINING)
        if (step + 1) % settings.validate_every == 0:
            val_loss = curve.validation(step + 1)
            yield from _validate(container, settings, rank, step + 1, val_loss)
            main_bar.validated(val_loss)
            if rank == 0:
                yield ProgramStep(0.0, main_bar.drawing(step, end="\n"), is_error=True)
    if rank == 0:
        yield ProgramStep(0.2, f"`Trainer.fit` stopped: `max_steps={settings.max_steps}` reached.\n", True)
    return 0


class _MainBar:
    """Lightning's main bar: its count runs ahead of the steps by the validation batches."""

    def __init__(self, curve: LossCurve, settings: Esm1nvSettings, start: int) -> None:
        rounds = start // settings.validate_every
        self.elapsed = 0.0
        self._curve = curve
        self._settings = settings
        self._extra = rounds * _VALIDATION_BATCHES
        self._first = start + self._extra
        self._total = settings.max_steps + settings.max_steps // settings.validate_every * _VALIDATION_BATCHES
        self._val_loss = curve.validation(start) if rounds else None

    def validated(self, val_loss: float) -> None:
        """Count a round of validation."""
        self.elapsed += _VALIDATION_SECONDS
        self._extra += _VALIDATION_BATCHES
        self._val_loss = val_loss

    def drawing(self, step: int, *, end: str) -> str:
        """The redraw after a step (zero-based)."""
        metrics: dict[str, float | str] = {
            "loss": f"{_running_mean(self._curve, step):.3g}",
            "v_num": "",
            "reduced_train_loss": self._curve.training(step),
            **({"lr": self._settings.schedule.rate(step)} if self._settings.shows_rate else {}),
            "global_step": float(step),
            "consumed_samples": float((step + 1) * self._settings.global_batch),
        }
        if self._val_loss is not None:
            metrics["val_loss"] = self._val_loss
        done = step + 1 + self._extra
        drawn = lightning_bar(done, self._total, first=self._first, elapsed_seconds=self.elapsed, metrics=metrics)
        return f"\r{drawn}{end}"


def _validate(container: ContainerView, settings: Esm1nvSettings, rank: int, step: int, val_loss: float) -> Program:
    if rank:
        yield ProgramStep(_VALIDATION_SECONDS)
        return 0
    for done in (_VALIDATION_BATCHES // 2, _VALIDATION_BATCHES):
        share = done * 100 // _VALIDATION_BATCHES
        blocks = ("█" * (share // 10)).ljust(10)
        bar = f"\rValidation DataLoader 0: {share:3d}%|{blocks}| {done}/{_VALIDATION_BATCHES} [00:0{done // 25}<00:00]"
        yield ProgramStep(_VALIDATION_SECONDS / 2, bar, True)
    samples = step * settings.global_batch
    name = f"megatron_bert--val_loss={val_loss:.2f}-step={step}-consumed_samples={samples:.1f}.ckpt"
    path, size_bytes = f"{settings.results}/checkpoints/{name}", 523_000_000
    container.files.write(path, PART, size_bytes=size_bytes // 2)
    yield ProgramStep(
        0.1, f"\nEpoch 0, global step {step}: 'val_loss' reached {val_loss:.5f}, saving model to '{name}'\n", True
    )
    container.files.write(path, b"", size_bytes=size_bytes)
    return 0


def _curve_of(settings: Esm1nvSettings, seed: int) -> LossCurve:
    """From 2.95 towards 2.5."""
    decay_steps = max(20.0, min(settings.max_steps, 20_000) / 4)
    return LossCurve(
        smooth=lambda step: 2.5 + 0.45 * math.exp(-step / decay_steps), seed=seed, noise=0.018, above=0.012
    )


def _running_mean(curve: LossCurve, step: int) -> float:
    """`loss`: the mean of the last twenty steps, as Lightning 1.x shows it."""
    window = range(max(0, step - 19), step + 1)
    return sum(curve.training(member) for member in window) / len(window)


def _problem(container: ContainerView, settings: Esm1nvSettings) -> str:
    """Return a traceback if the run cannot start here, empty if it can."""
    if not container.files.names(f"{settings.dataset}/train"):
        return (
            "Traceback (most recent call last):\n"
            '  File "/workspace/bionemo/bionemo/data/utils.py", line 214, in expand_dataset_paths\n'
            f"FileNotFoundError: [Errno 2] No such file or directory: '{settings.dataset}/train/x000.csv'\n"
        )
    return ""


def _agent(container: ContainerView, text: str) -> str:
    return f"torch.distributed.elastic.agent.server.api: [{container.pod}] {text}\n"

"""Containers for tests of workloads, and a way to run a program to its end without a clock."""

from __future__ import annotations

from dataclasses import dataclass, field

from actions.sandbox.programs.files import FileView, MemoryVolume
from actions.sandbox.programs.program import ContainerView, GpuLoad, Load, PeerLost, ProcessContext, Program

MOMENT = 1740423095.0
"""2025-02-24 18:51:35 UTC."""

TRAINING = (
    "python3",
    "-m",
    "torch.distributed.run",
    "--nproc_per_node=1",
    "/workspace/bionemo/examples/protein/esm1nv/pretrain.py",
    "trainer.max_steps=60",
    "trainer.val_check_interval=20",
    "model.micro_batch_size=8",
    "exp_manager.exp_dir=/fsx/results",
    "model.data.dataset_path=/fsx/processed",
)


@dataclass(slots=True)
class Outcome:
    """The outcome of a program."""

    exit_code: int = -1
    seconds: float = 0.0
    out: str = ""
    err: str = ""
    parts: list[str] = field(default_factory=list)
    """The pieces that it wrote to either stream, in order."""
    loads: list[Load] = field(default_factory=list)

    @property
    def text(self) -> str:
        """Both streams, as a container's log joins them."""
        return "".join(self.parts)


def a_container(
    pod: str = "esm1nv-pretraining-worker-0",
    argv: tuple[str, ...] = TRAINING,
    *,
    volume: MemoryVolume | None = None,
    gpus: tuple[int, ...] = (0,),
    stays: bool = False,
    **environment: str,
) -> ContainerView:
    """A container with `/fsx` mounted, one of eight workers unless told otherwise."""
    return ContainerView(
        namespace="default",
        pod=pod,
        name="pytorch",
        image="nvcr.io/nvidia/clara/bionemo-framework:1.2",
        argv=argv,
        environment={"PET_NNODES": "8:8", "PET_MAX_RESTARTS": "1"} | environment,
        files=FileView({"/fsx": volume or MemoryVolume()}),
        gpus=gpus,
        stays=stays,
        started_at=MOMENT,
        seed=1,
    )


def context(container: ContainerView, *, load: Load | None = None) -> ProcessContext:
    """Its inside, at a fixed moment."""
    return ProcessContext(container, lambda: load or GpuLoad(), lambda: MOMENT)


def with_dataset(files: int = 2) -> MemoryVolume:
    """A volume on which the data job has done its work."""
    volume = MemoryVolume()
    for split in ("train", "val", "test"):
        for index in range(files):
            volume.put(f"/processed/{split}/x{index:03d}.csv", b"record_id\n")
    return volume


def run(program: Program, *, lose_a_peer_after: float | None = None, for_seconds: float = 1e6) -> Outcome:
    """Take all steps of a program; a peer may be lost once, after so many seconds of its time."""
    outcome = Outcome()
    try:
        step = next(program)
        while outcome.seconds < for_seconds:
            outcome.seconds += step.after_seconds
            outcome.parts.append(step.text)
            if step.is_error:
                outcome.err += step.text
            else:
                outcome.out += step.text
            if step.load is not None:
                outcome.loads.append(step.load)
            if lose_a_peer_after is not None and outcome.seconds > lose_a_peer_after:
                lose_a_peer_after = None
                step = program.throw(PeerLost())
            else:
                step = next(program)
    except StopIteration as end:
        outcome.exit_code = end.value
    return outcome

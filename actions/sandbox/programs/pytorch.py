"""The output that PyTorch programs share: torchrun's group and its failure, Lightning's bar, CUDA's lack of memory.

The bar is as tqdm draws it where there is no terminal.

Source:
    `torch.distributed.run` of PyTorch 2.2; the variables that the training operator 1.8.1 sets;
    `torch.cuda.OutOfMemoryError` of PyTorch 2.2, `c10/cuda/CUDACachingAllocator.cpp`; tqdm's `format_meter` and
    `format_num`, Lightning's padding of metrics to five characters, compared with the captured bars of BioNeMo 1.2
    (`Epoch 0:   3%|▎         | 34103/1100000 [5:28:58<171:22:21, …`) and NeMo 24.01
    (`Epoch 0: :   0%|          | 2000/603000 [1:03:17<317:00:58, …`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import msgspec

from actions.sandbox.programs.program import ContainerView


def group_of(container: ContainerView) -> str:
    """Return where the agents meet: torchrun's endpoint, the master's address, or the common part of pods' names."""
    known = container.environment
    return known.get("PET_RDZV_ENDPOINT") or known.get("MASTER_ADDR") or container.pod.rpartition("-")[0]


def node_rank(container: ContainerView) -> int:
    """The pod's place in the group: torchrun's `RANK`, or the number that the pod's name ends in."""
    given = container.environment.get("RANK", "")
    if given.isdigit():
        return int(given)
    tail = container.pod.rpartition("-")[2]
    return int(tail) if tail.isdigit() else 0


def child_failed(program: str, container: ContainerView, *, rank: int, moment: str, code: int = 1) -> str:
    """Return torchrun's report of a failed process of its group.

    Args:
        program: The script that ran.
        container: The one that it ran in.
        rank: Of the process that failed first; it is the node's first.
        moment: As `2024-03-01_12:00:00`.
        code: Its exit code, negative for a signal.
    """
    signal = " (SIGABRT)" if code == -6 else ""
    return (
        f"torch.distributed.elastic.multiprocessing.api: [ERROR] failed (exitcode: {code}) local_rank: 0 (pid: 103) of "
        "binary: /usr/bin/python\n"
        "torch.distributed.elastic.multiprocessing.errors.ChildFailedError: \n"
        f"{'=' * 60}\n{program} FAILED\n{'-' * 60}\nRoot Cause (first observed failure):\n[0]:\n"
        f"  time      : {moment}\n  host      : {container.pod}\n  rank      : {rank} (local_rank: 0)\n"
        f"  exitcode  : {code}{signal} (pid: 103)\n{'=' * 60}\n"
    )


class CosineAnnealing(msgspec.Struct, frozen=True):
    """NeMo's learning rate: a linear rise, half a cosine down, then `constant` steps at `least`.

    Source: `docs/facts/nemo.md#the-schedule`.
    """

    peak: float
    least: float
    warmup: int
    constant: int
    steps: int

    def rate(self, step: int) -> float:
        """Return the rate of a step, zero-based."""
        if self.warmup > 0 and step <= self.warmup:
            return self.peak * (step / self.warmup if self.constant else (step + 1) / (self.warmup + 1))
        decay = self.steps - self.warmup - self.constant
        if step > self.warmup + decay or step > self.steps:
            return self.least
        share = (step - self.warmup) / decay
        return self.least + (self.peak - self.least) * (1 + math.cos(math.pi * share)) / 2


def shows_rate(container: ContainerView) -> bool:
    """Return whether the training was started in the way that puts `lr` on the bar."""
    return "/config/pretrain.py" in container.argv


_WIDTH = 10
_EIGHTHS = " ▏▎▍▌▋▊▉"
_PADDED = 5


def lightning_bar(
    done: int,
    total: int,
    *,
    elapsed_seconds: float,
    metrics: Mapping[str, float | str],
    first: int = 0,
    is_nemos: bool = False,
) -> str:
    """Draw the main bar of the first epoch once, without the carriage return that starts it.

    Args:
        done: Batches so far, validation batches included, as Lightning 1.x counts.
        total: Batches of the epoch, validation included.
        elapsed_seconds: Since the epoch began.
        first: The count with which the bar began: a resumed run's is not 0.
        metrics: In order; numbers are formatted as metrics, texts are shown as they are.
        is_nemos: As NeMo 24.01 draws it: two colons, no rate, training steps only.
    """
    rate = (done - first) / elapsed_seconds if elapsed_seconds > 0 else 0.0
    left = clock((total - done) / rate) if rate else "?"
    speed = f"{rate:5.2f}it/s, " if rate >= 1 or not rate else f"{1 / rate:5.2f}s/it, "
    head, speed = ("Epoch 0: :", "") if is_nemos else ("Epoch 0:", speed)
    return f"{head} {_count(done, total)} [{clock(elapsed_seconds)}<{left}, {speed}{_values(metrics)}]"


def _count(done: int, total: int) -> str:
    share = done / total if total else 0.0
    return f"{share * 100:3.0f}%|{_blocks(share)}| {done}/{total}"


def _values(metrics: Mapping[str, float | str]) -> str:
    return ", ".join(f"{name}={value if isinstance(value, str) else number(value)}" for name, value in metrics.items())


def number(value: float) -> str:
    """A metric as the bar shows it: three digits, `1e+3` where that is shorter, padded with zeros."""
    short = f"{value:.3g}".replace("e+0", "e+").replace("e-0", "e-")
    text = short if len(short) < len(str(value)) else str(value)
    if "e" in text:
        return text
    if "." not in text and len(text) < _PADDED:
        text += "."
    return text + "0" * (_PADDED - len(text))


def clock(seconds: float) -> str:
    """A duration as tqdm writes it: `MM:SS`, or `H:MM:SS`."""
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours:d}:{minutes:02d}:{rest:02d}" if hours else f"{minutes:02d}:{rest:02d}"


def _blocks(share: float) -> str:
    eighths = int(min(max(share, 0.0), 1.0) * _WIDTH * 8)
    full, part = divmod(eighths, 8)
    drawn = "█" * full + (_EIGHTHS[part] if full < _WIDTH else "")
    return drawn.ljust(_WIDTH)


_RESERVED_GIB = 1.12
_CONTEXT_MIB = 1900
_PROCESS = 103


def cuda_out_of_memory(*, device: int, total_mib: int, free_mib: int, asked_gib: float) -> str:
    """The last line of the traceback."""
    used, allocated = total_mib - free_mib, total_mib - free_mib - _CONTEXT_MIB
    return (
        f"torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate {asked_gib:.2f} GiB. GPU {device} has a"
        f" total capacity of {total_mib / 1024:.2f} GiB of which {free_mib / 1024:.2f} GiB is free. Process {_PROCESS}"
        f" has {used / 1024:.2f} GiB memory in use. Of the allocated memory {allocated / 1024:.2f} GiB is allocated by"
        f" PyTorch, and {_RESERVED_GIB:.2f} GiB is reserved by PyTorch but unallocated. If reserved but unallocated"
        " memory is large try setting PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True to avoid fragmentation.\n"
    )

"""What containers that torchrun starts have in common: their place in the group, and how a failed group ends.

Source: `torch.distributed.run` of PyTorch 2.2; the variables that the training operator 1.8.1 sets.
"""

from __future__ import annotations

from collections.abc import Iterator

from actions.sandbox.workloads.program import Container


def group_of(container: Container) -> str:
    """Where the agents meet: torchrun's endpoint, the master's address, or what the pods' names have in common."""
    known = container.environment
    return known.get("PET_RDZV_ENDPOINT") or known.get("MASTER_ADDR") or container.pod.rpartition("-")[0]


def node_rank(container: Container) -> int:
    """The pod's place in the group: torchrun's `RANK`, or the number that the pod's name ends in."""
    given = container.environment.get("RANK", "")
    if given.isdigit():
        return int(given)
    tail = container.pod.rpartition("-")[2]
    return int(tail) if tail.isdigit() else 0


def newest_step(container: Container, folder: str, max_steps: int) -> int:
    """The step of the newest checkpoint in a folder, as `resume_if_exists` finds it; 0 without one."""
    steps = [step for name in container.files.names(folder) for step in _steps_in(name)]
    return min(max(steps, default=0), max_steps)


def _steps_in(name: str) -> Iterator[int]:
    for part in name.removesuffix(".ckpt").split("-"):
        if part.startswith("step=") and part[5:].isdigit():
            yield int(part[5:])


def child_failed(program: str, container: Container, *, rank: int, moment: str, code: int = 1) -> str:
    """How torchrun says that a process of its group has failed.

    Args:
        program: The script that ran.
        container: In which pod.
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

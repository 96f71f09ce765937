"""The head of a Ray cluster: which workers have joined it, which jobs it has been given, how they stand."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from actions.sandbox.workloads.program import NeuronLoad

TERMINAL = frozenset({"SUCCEEDED", "FAILED", "STOPPED"})
_KEPT_CHARACTERS = 20_000
MESSAGES = {
    "PENDING": "Job has not started yet. It may be waiting for the runtime environment to be set up.",
    "RUNNING": "Job is currently running.",
    "SUCCEEDED": "Job finished successfully.",
    "STOPPED": "Job was intentionally stopped.",
}


class RayJob(msgspec.Struct):
    """One submission."""

    submission_id: str
    entrypoint: str
    runtime_env: dict[str, Any]
    submitted_at: float
    """Seconds since the epoch."""
    status: str = "PENDING"
    message: str = MESSAGES["PENDING"]
    log: list[str] = msgspec.field(default_factory=list)
    """What its driver and its workers have printed, in pieces."""
    ended_at: float = 0.0
    """Seconds since the epoch, 0 while it has not ended."""
    must_stop: bool = False

    @property
    def is_over(self) -> bool:
        """Whether its state will not change any more."""
        return self.status in TERMINAL

    @property
    def environment(self) -> dict[str, str]:
        """Variables that its runtime environment sets."""
        return {str(name): str(value) for name, value in (self.runtime_env.get("env_vars") or {}).items()}

    def begin(self) -> None:
        """Its driver has been started."""
        self._move("RUNNING")

    def end(self, status: str, now: float, *, code: int = 0) -> None:
        """Its driver has ended, or has been ended."""
        self.ended_at = now
        self._move(status)
        if status == "FAILED":
            tail = "".join(self.log)[-_KEPT_CHARACTERS:]
            self.message = (
                f"Job entrypoint command failed with exit code {code}, "
                f"last available logs (truncated to 20,000 chars):\n{tail}"
            )

    def _move(self, status: str) -> None:
        self.status, self.message = status, MESSAGES.get(status, "")


class RayNode(msgspec.Struct):
    """One worker pod that has joined."""

    pod: str
    address: str
    neuron_cores: int
    load: NeuronLoad = msgspec.field(default_factory=NeuronLoad)
    """What the job makes its devices do."""


class RayHead:
    """What the global control store of one Ray cluster knows.

    Args:
        cluster: The RayCluster's name.
        now: Seconds since the epoch.
    """

    def __init__(self, cluster: str, now: Callable[[], float]) -> None:
        self.cluster = cluster
        self.now = now
        self.jobs: dict[str, RayJob] = {}
        self.nodes: dict[str, RayNode] = {}

    def join(self, node: RayNode) -> None:
        """A worker has started."""
        self.nodes[node.pod] = node

    def leave(self, pod: str) -> None:
        """A worker is gone, and what ran on it."""
        self.nodes.pop(pod, None)

    def submit(self, job: RayJob) -> bool:
        """Take a job. Returns whether its id is new."""
        if job.submission_id in self.jobs:
            return False
        self.jobs[job.submission_id] = job
        return True

    def set_load(self, load: NeuronLoad) -> None:
        """What every worker's devices do from now on."""
        for node in self.nodes.values():
            node.load = load

    @property
    def neuron_cores(self) -> int:
        """Of all workers."""
        return sum(node.neuron_cores for node in self.nodes.values())

"""The shape of a program: a generator of steps, without a clock, a thread or a socket of its own.

A program says how long it works before it does something, in seconds of *its* time; whoever runs it decides how fast
that time passes. The same container and seed give the same steps, so a program is tested by listing it.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass

from actions.sandbox.workloads.files import FileView


@dataclass(frozen=True, slots=True)
class GpuLoad:
    """How busy the accelerators of a container are from now on."""

    utilisation_percent: int = 0
    memory_mib: int = 0


@dataclass(frozen=True, slots=True)
class Meeting:
    """A point where the programs of several pods wait for each other, as a rendezvous of torchrun does."""

    group: str
    size: int


@dataclass(frozen=True, slots=True)
class Step:
    """What a program does next: wait, then write."""

    after_seconds: float = 0.0
    text: str = ""
    """Written to the stream as it stands; a line ends where the text says so."""
    is_error: bool = False
    """Whether the text goes to stderr."""
    load: GpuLoad | None = None
    """The accelerators' new load, `None` if it stays."""
    meeting: Meeting | None = None
    """Go on only when all members are here."""


class PeerLost(Exception):
    """Thrown into a program whose meeting lost a member: the collective is broken."""


Program = Generator[Step, None, int]
"""A run of a container's process; returns its exit code."""


@dataclass(frozen=True, slots=True)
class Container:
    """All that a program can see of the container that it runs in."""

    namespace: str
    pod: str
    name: str
    image: str
    argv: tuple[str, ...]
    """`command` and `args` of the manifest; empty if the image decides."""
    environment: dict[str, str]
    files: FileView
    gpus: tuple[int, ...] = ()
    """Indices, on the node, of the accelerators that the device plugin gave to this container."""
    restarts: int = 0
    stays: bool = False
    """Whether the pod is there to stay (restart policy Always)."""
    started_at: float = 0.0
    """Seconds since the epoch, UTC, at which this run of the process began."""
    seed: int = 0

    @property
    def command_line(self) -> str:
        """The arguments, joined by blanks, to look for words in."""
        return " ".join(self.argv)

"""The shape of a program: a generator of steps, without a clock, a thread or a socket of its own.

A step names the seconds of the program's *own* time that pass before it; its runner decides how fast that time passes.
The same container and seed give the same steps, so a program is tested by listing it.
"""

from __future__ import annotations

from collections.abc import Callable, Generator

import msgspec

from actions.sandbox.programs.files import FileView
from actions.sandbox.programs.network import HttpNetwork


class GpuLoad(msgspec.Struct, frozen=True):
    """The load of a container's accelerators from now on."""

    utilisation_percent: int = 0
    memory_mib: int = 0


class NeuronLoad(msgspec.Struct, frozen=True):
    """The load of a container's Neuron devices from now on."""

    utilisation_percent: float = 0.0
    """The utilisation of each core."""
    memory_mib: int = 0
    """On the device, for each core."""
    command: str = ""
    """The command of the process that holds the cores; empty if none does."""


Load = GpuLoad | NeuronLoad


class RemoteProcess(msgspec.Struct, frozen=True):
    """A process that a launcher starts in another pod, as `mpirun` does by ssh."""

    host: str
    """The pod's name, or its DNS name."""
    argv: tuple[str, ...]
    environment: dict[str, str]
    """All that it has besides `PATH` and `HOME`: over ssh a process does not get the container's environment."""
    folder: str = "/"
    tag: str = ""
    """Begins each piece of its output, followed by the stream's name, as `mpirun --tag-output` has it: `[1,0]`."""

    def tagged(self, text: str, *, is_error: bool) -> str:
        """A piece of output with its tag. A piece that begins within a line is tagged there: so lines get glued."""
        if not self.tag or not text:
            return text
        mark = f"{self.tag}<{'stderr' if is_error else 'stdout'}>:"
        body = text.removesuffix("\n")
        return mark + body.replace("\n", "\n" + mark) + text[len(body) :]


class Rendezvous(msgspec.Struct, frozen=True):
    """A point where the programs of several pods wait for each other, as a rendezvous of torchrun does."""

    group: str
    size: int


class ProgramStep(msgspec.Struct, frozen=True):
    """A step of a program: wait, then write."""

    after_seconds: float = 0.0
    text: str = ""
    """Written to the stream unchanged; a line ends only where the text has a newline."""
    is_error: bool = False
    """The text goes to stderr."""
    load: Load | None = None
    """The accelerators' new load, `None` if it stays."""
    rendezvous: Rendezvous | None = None
    """Continue only when all members have joined."""
    accepts_ssh: bool = False
    """From now on launchers may start processes here, as where `sshd` listens."""
    remote: tuple[RemoteProcess, ...] = ()
    """Start these, take their output as this program's own, and continue when all have ended with 0."""


class PeerLost(Exception):
    """Thrown into a program whose rendezvous lost a member: the collective is broken."""


class RemoteFailed(Exception):
    """Thrown into a launcher: a process that it started has failed, and the others have been ended.

    `code` is its exit code; `None` if the host was lost or, with `is_unreachable`, could never be reached.
    """

    def __init__(self, position: int, host: str, code: int | None, *, is_unreachable: bool = False) -> None:
        super().__init__(host)
        self.position = position
        """The position of the process among those started, counted from 0."""
        self.host = host
        self.code = code
        self.is_unreachable = is_unreachable


Program = Generator[ProgramStep, None, int]
"""A run of a container's process; returns its exit code."""


class DeviceUse(msgspec.Struct, frozen=True):
    """A container that was given accelerators, with their load."""

    container: ContainerView
    load: Load


class AcceleratorUsers(msgspec.Struct, frozen=True):
    """The containers of a node that have accelerators, at one moment."""

    moment: float = 0.0
    """Seconds since the epoch, UTC."""
    users: tuple[DeviceUse, ...] = ()


class ContainerView(msgspec.Struct, frozen=True):
    """All that a program can read of the container that it runs in."""

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
    neurons: tuple[int, ...] = ()
    """Indices, on the node, of its Neuron devices."""
    efa_interfaces: int = 0
    """The number of EFA interfaces that it was given."""
    instance_type: str = ""
    """The instance type of its node; empty if the node has no such label."""
    restarts: int = 0
    stays: bool = False
    """The pod stays (restart policy Always)."""
    started_at: float = 0.0
    """Seconds since the epoch, UTC, at which this run of the process began."""
    seed: int = 0
    network: HttpNetwork = msgspec.field(default_factory=HttpNetwork)
    """The network of the cluster."""
    accelerator_users: Callable[[], AcceleratorUsers] = AcceleratorUsers
    """Returns who has which of its node's accelerators at present, as a privileged container can see it."""

    @property
    def command_line(self) -> str:
        """The arguments, joined by blanks, to search for words."""
        return " ".join(self.argv)


class ProcessContext(msgspec.Struct):
    """The surroundings of a command.

    `folder` and `variables` change as a shell runs; the rest is fixed.
    """

    container: ContainerView
    load: Callable[[], Load]
    now: Callable[[], float]
    """Seconds since the epoch."""
    busy_seconds: Callable[[], float] = float
    """Returns for how long its GPUs have been busy so far; a second at half load is half a second."""
    folder: str = "/"
    variables: dict[str, str] = msgspec.field(default_factory=dict)
    last_code: int = 0

    def value(self, name: str) -> str:
        """A variable of the shell or its environment; empty if unset."""
        special = {"?": str(self.last_code), "PWD": self.folder, "HOSTNAME": self.container.pod}
        if name in special:
            return special[name]
        return self.variables.get(name, self.container.environment.get(name, ""))

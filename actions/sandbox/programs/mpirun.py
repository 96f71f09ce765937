"""Open MPI's `mpirun` in a launcher pod, its command line, and the `sshd` of the workers that it reaches.

The processes themselves are programs of the workers: `mpirun` chooses their hosts, gives them their place in the
group, and prints how it ended.

Source:
    Open MPI 4.1 `orterun`: manual page, options, `OMPI_COMM_WORLD_*`, hostfile format, help texts of ORTE (abridged);
    the hostfile that mpi-operator 0.6.0 writes.
"""

from __future__ import annotations

import posixpath
import signal
from collections.abc import Mapping, Sequence

import msgspec

from actions.sandbox.programs.program import ContainerView, Program, ProgramStep, RemoteFailed, RemoteProcess

_ONE_VALUE = frozenset(
    {"np", "n", "c", "N", "npernode", "x", "wdir", "wd", "bind-to", "map-by", "rank-by", "hostfile"}
    | {"machinefile", "prefix", "path", "output-filename"}
)
_TWO_VALUES = frozenset({"mca", "gmca"})
_SAME = {"n": "np", "c": "np", "npernode": "N", "wd": "wdir", "machinefile": "hostfile"}


class MpirunCommand(msgspec.Struct, frozen=True):
    """The settings in a command line."""

    command: tuple[str, ...]
    processes: int | None
    per_node: int | None
    exported: Mapping[str, str | None]
    """Variables for the processes; `None` for the launcher's own value."""
    folder: str
    hostfile: str
    """Empty for the default one."""
    is_tagged: bool
    as_root: bool
    oversubscribe: bool


def request_of(argv: Sequence[str]) -> MpirunCommand:
    """Read the arguments after the program's name; the command is what follows the options.

    Raises:
        ValueError: A number is none.
    """
    words = list(argv)
    options: dict[str, str] = {}
    exported: dict[str, str | None] = {}
    while words and words[0].startswith("-"):
        option, _, value = words.pop(0).lstrip("-").partition("=")
        if option in _TWO_VALUES:
            del words[:2]
            continue
        if option in _ONE_VALUE and not value:
            value = words.pop(0) if words else ""
        if option == "x":
            name, is_given, text = value.partition("=")
            exported[name] = text if is_given else None
        options[_SAME.get(option, option)] = value
    per_node = options.get("N")
    return MpirunCommand(
        command=tuple(words),
        processes=int(options["np"]) if "np" in options else None,
        per_node=int(per_node) if per_node else None,
        exported=exported,
        folder=options.get("wdir", ""),
        hostfile=options.get("hostfile", ""),
        is_tagged="tag-output" in options,
        as_root="allow-run-as-root" in options,
        oversubscribe="oversubscribe" in options,
    )


_START_SECONDS = 1.0
_WHOLE_DAY = 86_400.0
_SIGNALS = 128
"""Exit codes above this number are those of processes that a signal ended: the rest is the signal's number."""
_HOSTFILE = "/etc/mpi/hostfile"
_RULE = "-" * 74 + "\n"


def is_sshd(container: ContainerView) -> bool:
    """Return whether a container waits for launchers."""
    return bool(container.argv) and posixpath.basename(container.argv[0]) == "sshd"


def sshd(_container: ContainerView) -> Program:
    """Accept launchers for as long as the container lives."""
    yield ProgramStep(
        0.2, "Server listening on 0.0.0.0 port 22.\nServer listening on :: port 22.\n", True, accepts_ssh=True
    )
    while True:
        yield ProgramStep(_WHOLE_DAY)


def is_mpirun(container: ContainerView) -> bool:
    """Return whether a container's command is `mpirun`."""
    return bool(container.argv) and posixpath.basename(container.argv[0]) in ("mpirun", "mpiexec")


def launch(container: ContainerView, argv: Sequence[str] | None = None) -> Program:
    """Run `mpirun` with the container's arguments, or those given: start all processes and wait for them."""
    request = request_of(container.argv[1:] if argv is None else argv)
    places = _places(request, _hosts_of(container, request))
    problem = _problem(container, request, len(places))
    if problem:
        yield ProgramStep(0.5, _RULE + problem + _RULE, is_error=True)
        return 1
    yield ProgramStep(_START_SECONDS, "".join(_added_host(host) for host in dict.fromkeys(places)), is_error=True)
    try:
        yield ProgramStep(remote=_processes(container, request, places))
    except RemoteFailed as failed:
        yield ProgramStep(0.5, _failure_text(failed), is_error=True)
        return failed.code or 1
    return 0


def _problem(container: ContainerView, request: MpirunCommand, places: int) -> str:
    """Return why nothing can be started, in mpirun's words; empty if something can."""
    if not request.as_root and container.environment.get("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM") != "1":
        return _ROOT
    if not request.command:
        return _NOTHING
    wanted = request.processes or 1
    return _NO_SLOTS.format(count=wanted, command=request.command[0]) if places < wanted else ""


def _hosts_of(container: ContainerView, request: MpirunCommand) -> list[tuple[str, int]]:
    """Return the hosts with their slots."""
    path = request.hostfile or container.environment.get("OMPI_MCA_orte_default_hostfile", _HOSTFILE)
    found = container.files.file(path)
    hosts = []
    for line in (found.content.decode(errors="replace") if found else "").splitlines():
        words = line.split()
        if not words or words[0].startswith("#"):
            continue
        slots = next((word.partition("=")[2] for word in words[1:] if word.startswith("slots=")), "1")
        hosts.append((words[0], int(slots) if slots.isdigit() else 1))
    return hosts


def _places(request: MpirunCommand, hosts: Sequence[tuple[str, int]]) -> list[str]:
    """The host of each rank: slot by slot, or so many on each host."""
    if request.per_node is not None:
        places = [host for host, _ in hosts for _ in range(request.per_node)]
    else:
        places = [host for host, slots in hosts for _ in range(slots)]
    wanted = len(places) if request.processes is None else request.processes
    if request.oversubscribe and places:
        places *= -(-wanted // len(places))
    return places[:wanted]


def _processes(container: ContainerView, request: MpirunCommand, places: Sequence[str]) -> tuple[RemoteProcess, ...]:
    given = {
        name: container.environment.get(name, "") if value is None else value
        for name, value in request.exported.items()
    }
    on_host: dict[str, int] = {}
    processes = []
    for rank, host in enumerate(places):
        local = on_host.get(host, 0)
        on_host[host] = local + 1
        group = {
            "OMPI_COMM_WORLD_RANK": str(rank),
            "OMPI_COMM_WORLD_SIZE": str(len(places)),
            "OMPI_COMM_WORLD_LOCAL_RANK": str(local),
            "OMPI_COMM_WORLD_LOCAL_SIZE": str(places.count(host)),
            "OMPI_MCA_orte_hnp_uri": container.pod,
            "PMIX_HOSTNAME": host,
        }
        tag = f"[1,{rank}]" if request.is_tagged else ""
        processes.append(RemoteProcess(host, request.command, given | group, request.folder or "/root", tag))
    return tuple(processes)


def _added_host(host: str) -> str:
    return f"Warning: Permanently added '{host}' (ED25519) to the list of known hosts.\r\n"


def _failure_text(failed: RemoteFailed) -> str:
    """Return the lines with which mpirun ends a job, with the reason."""
    if failed.is_unreachable:
        return (
            f"ssh: Could not resolve hostname {failed.host}: Name or service not known\r\n"
            + _RULE
            + "ORTE was unable to reliably start one or more daemons.\n"
            + _RULE
        )
    if failed.code is None:
        return (
            _RULE
            + "ORTE has lost communication with a remote daemon.\n\n"
            + f"  Remote daemon: [[40741,0],{failed.position + 1}] on node {failed.host.partition('.')[0]}\n\n"
            + "This is usually due to either a failure of the TCP network\nconnection to the node, or possibly an "
            + "internal failure of\nthe daemon itself. We cannot recover from this failure, and\ntherefore will "
            + "terminate the job.\n"
            + _RULE
        )
    if failed.code > _SIGNALS:
        number = failed.code - _SIGNALS
        return (
            _RULE
            + f"mpirun noticed that process rank {failed.position} with PID 0 on node "
            + f"{failed.host.partition('.')[0]} exited on signal {number} ({signal.strsignal(number) or 'Unknown'}).\n"
            + _RULE
        )
    return (
        _RULE
        + "Primary job  terminated normally, but 1 process returned\n"
        + "a non-zero exit code. Per user-direction, the job has been aborted.\n"
        + _RULE
        + _RULE
        + "mpirun detected that one or more processes exited with non-zero status, thus causing\n"
        + "the job to be terminated. The first process to do so was:\n\n"
        + f"  Process name: [[40741,1],{failed.position}]\n  Exit code:    {failed.code}\n"
        + _RULE
    )


_ROOT = (
    "mpirun has detected an attempt to run as root.\n\n"
    "Running as root is *strongly* discouraged as any mistake (e.g., in\ndefining TMPDIR) or bug can result in "
    "catastrophic damage to the OS\nfile system, leaving your system in an unusable state.\n"
)
_NOTHING = (
    "mpirun could not find anything to do.\n\nIt is possible that you forgot to specify how many processes to run\n"
    'via the "-np" argument.\n'
)
_NO_SLOTS = (
    "There are not enough slots available in the system to satisfy the {count}\nslots that were requested by the "
    "application:\n\n  {command}\n\nEither request fewer slots for your application, or make more slots\navailable "
    "for use.\n"
)

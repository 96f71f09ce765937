"""The devices of this container, as the device plugins gave them, and the load of its processes: a true number."""

from __future__ import annotations

import os
import re
import time
from dataclasses import dataclass
from pathlib import Path

_INSTANCE_TYPE = Path("/etc/eksml/instance-type")
"""Mounted by the node's device plugin, if at all."""
_RANKS = ("LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_RANK")
_PAGE = os.sysconf("SC_PAGE_SIZE")


def variable(name: str) -> str:
    """Return a variable of the container: a session of ssh has none, so its first process is asked, too."""
    return os.environ.get(name) or _environment(1).get(name, "")


def gpus() -> list[str]:
    """The identifiers of the GPUs."""
    return _named("NVIDIA_VISIBLE_DEVICES")


def neurons() -> list[int]:
    """The indices of the Neuron devices."""
    return [int(re.sub(r"\D", "", name) or 0) for name in _named("AWS_NEURON_VISIBLE_DEVICES")]


def efas() -> int:
    """The number of EFA interfaces: by a variable, or as EFA's own plugin gives them, by device files."""
    return len(_named("EFA_VISIBLE_DEVICES")) or len(list(Path("/dev/infiniband").glob("uverbs*")))


def _named(name: str) -> list[str]:
    found = variable(name)
    return [] if found in ("", "void", "none", "all") else found.split(",")


def instance_type() -> str:
    """The node's type; where nothing tells, the one that has as many devices."""
    if _INSTANCE_TYPE.is_file():
        return _INSTANCE_TYPE.read_text(encoding="utf-8").strip()
    if neurons():
        return "trn1.32xlarge"
    return "p4de.24xlarge" if len(gpus()) == 8 else "g5.12xlarge" if len(gpus()) > 1 else "g5.8xlarge"


@dataclass(frozen=True)
class Work:
    """The load of a process."""

    pid: int
    percent: int
    """Of the time in which its threads had, or wanted, a CPU: on a busy machine, work is mostly waiting for one."""
    mebibytes: int
    command: str


def work(seconds: float = 0.6) -> list[Work]:
    """Watch the processes of the training for a while. In the order of their local ranks."""
    ranks = _ranks()
    before, began = {pid: _busy(pid) for pid in ranks}, time.monotonic()
    time.sleep(seconds if ranks else 0.0)
    span = max(time.monotonic() - began, 1e-6) * 1e9
    return [
        Work(pid, min(100, round((_busy(pid) - before[pid]) / span * 100)), _mebibytes(pid), _command(pid))
        for pid in ranks
    ]


def of_device(works: list[Work], index: int, devices: int) -> Work | None:
    """Return the process that has a device, if they share the devices out evenly."""
    return works[index * len(works) // devices] if works else None


def _ranks() -> list[int]:
    """The processes that torchrun or mpirun started as ranks, or Ray as workers of a training."""
    found: dict[str, dict[int, int]] = {name: {} for name in (*_RANKS, "ray")}
    for pid in (int(path.name) for path in Path("/proc").glob("[0-9]*")):
        command = _command(pid)
        if command.startswith("ray::RayTrainWorker"):
            found["ray"][pid] = pid
        elif "python" in command.partition(" ")[0]:
            environment = _environment(pid)
            for name in _RANKS:
                if environment.get(name, "").isdigit():
                    found[name][pid] = int(environment[name])
    ranks = next((each for each in found.values() if each), {})
    return sorted(ranks, key=lambda pid: ranks[pid])


def _environment(pid: int) -> dict[str, str]:
    try:
        text = Path(f"/proc/{pid}/environ").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return {}
    return dict(line.partition("=")[::2] for line in text.split("\0") if "=" in line)


def _command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text(encoding="utf-8", errors="replace").replace("\0", " ").strip()
    except OSError:
        return ""


def _busy(pid: int) -> int:
    """Nanoseconds on a CPU, and in the queue for one."""
    total = 0
    for path in Path(f"/proc/{pid}/task").glob("*/schedstat"):
        try:
            total += sum(int(word) for word in path.read_text(encoding="ascii").split()[:2])
        except (OSError, ValueError):
            continue
    return total


def _mebibytes(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()[1]) * _PAGE >> 20
    except (OSError, ValueError, IndexError):
        return 0

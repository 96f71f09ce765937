"""The namespaces in which all of a cluster happens: they end with their first process, whatever has ended that."""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

NEEDED = ("containerd", "containerd-shim-runc-v2", "ctr", "runc", "iptables", "ip", "nsenter", "unshare", "setpriv")
CNI_FOLDERS = (Path("/usr/lib/cni"), Path("/opt/cni/bin"))
CGROUPS = Path("/sys/fs/cgroup")
HUGE_PAGES = 512
"""Of 2 MiB, on each node; the machine has them once, as nothing touches them."""
_HUGE_PAGES = Path("/proc/sys/vm/nr_hugepages")
_WATCHERS = Path("/proc/sys/fs/inotify/max_user_instances")
_MOST_WATCHERS = 4096
"""Of all processes of root: a kubelet with its pods takes thirty, and 128 is usual. It stays when all is over."""
PARENT = "parent.pid"
"""The file, in a cluster's folder, with the id that the parent of its first process has outside."""
_PREFIX = "realnode-"
_ENDING_SECONDS = 20.0
"""Until processes that the kernel has killed are out of their control group: seconds on a machine that is busy."""
_ENTER = (
    "setpriv", "--pdeathsig", "KILL", "--",
    "unshare", "--pid", "--net", "--mount", "--ipc", "--fork", "--kill-child=KILL", "--mount-proc", "--",
    "bash", "-c", '"$@"; exit $?', "first-process",  # not an exec: the first process has to wait for all orphans
)  # fmt: skip


def missing() -> str:
    """Return what this machine lacks to run nodes, in words; empty if nothing."""
    if os.geteuid() != 0:
        return "it needs root"
    if absent := [name for name in NEEDED if shutil.which(name) is None]:
        return f"{', '.join(absent)} not on PATH"
    if cni_folder() is None:
        return "no CNI plugins"
    if not any((CGROUPS / name).is_dir() for name in ("memory", "cgroup.controllers")):
        return "no cgroups"
    return ""


def cni_folder() -> Path | None:
    """Return where the CNI plugins are."""
    return next((folder for folder in CNI_FOLDERS if (folder / "ptp").exists()), None)


def inside(arguments: Sequence[str]) -> int:
    """Run this package again in new namespaces, with these arguments and a folder of its own; its exit code."""
    with _own_folder() as folder:
        argv = [*_ENTER, sys.executable, "-m", "tests.realnode.harness", "--inside", str(folder), *arguments]
        child = subprocess.Popen(argv)
        (folder / PARENT).write_text(str(child.pid), encoding="ascii")
        for number in (signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, lambda *_: child.kill())
        while True:
            try:
                return child.wait()
            except KeyboardInterrupt:
                continue  # it has got one itself


@contextmanager
def _own_folder() -> Iterator[Path]:
    """A folder that is removed in the end with its control groups; those of others, who were killed, before."""
    parent = Path(tempfile.gettempdir())
    for left in parent.glob(f"{_PREFIX}*"):
        _remove_unless_locked(left)
    folder = Path(tempfile.mkdtemp(prefix=_PREFIX))
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        try:
            _reserve_huge_pages(folder)
            _WATCHERS.write_text(str(max(int(_WATCHERS.read_text(encoding="ascii")), _MOST_WATCHERS)), encoding="ascii")
            yield folder
        finally:
            _remove(folder)


def _reserve_huge_pages(folder: Path) -> None:
    """Pods of trainers ask for them; how many there were before all clusters is kept in the folder, to be set again."""
    others = _huge_pages_before(folder.parent)
    before = others[0] if others else _HUGE_PAGES.read_text(encoding="ascii")
    (folder / "huge-pages").write_text(before, encoding="ascii")
    _HUGE_PAGES.write_text(str(max(int(before), HUGE_PAGES)), encoding="ascii")


def _huge_pages_before(parent: Path) -> list[str]:
    """Return how many there were before the clusters that have not been removed."""
    found = []
    for file in parent.glob(f"{_PREFIX}*/huge-pages"):
        with suppress(OSError):  # removed by now
            found.append(file.read_text(encoding="ascii"))
    return [text for text in found if text]


def _remove_unless_locked(folder: Path) -> None:
    try:
        with (folder / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            _remove(folder)
    except OSError:
        return  # somebody's who is at work


def _remove(folder: Path) -> None:
    if (kept := folder / "huge-pages").exists():
        before = kept.read_text(encoding="ascii")
        kept.unlink()
        if not _huge_pages_before(folder.parent):  # the last one
            _HUGE_PAGES.write_text(before, encoding="ascii")
    for root in CGROUPS.glob(f"*/{folder.name}") if (CGROUPS / "memory").is_dir() else CGROUPS.glob(folder.name):
        for path, _, _ in os.walk(root, topdown=False):
            _remove_group(Path(path))
    shutil.rmtree(folder, ignore_errors=True)


def _remove_group(path: Path) -> None:
    """Remove a control group once its last process has ended.

    Raises:
        OSError: One has not ended in time.
    """
    deadline = time.monotonic() + _ENDING_SECONDS
    while True:
        try:
            return path.rmdir()
        except OSError as error:
            if error.errno != errno.EBUSY or time.monotonic() > deadline:
                raise
        time.sleep(0.1)

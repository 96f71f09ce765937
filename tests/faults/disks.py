"""Small disks of a test's own, to be filled."""

from __future__ import annotations

import ctypes
import errno
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tests.support.forked import forked
from tests.support.missing import skip_without
from tests.support.program import Program
from tui.cli.main import main

_CHUNKS = (1 << 20, 1 << 16, 1 << 12, 1 << 9, 1)


@contextmanager
def small_disk(folder: Path, *, mebibytes: int = 24) -> Iterator[Path]:
    """A file system in memory at `folder`."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    _mount("-t", "tmpfs", "-o", f"size={mebibytes}m,mode=0700", "tmpfs", str(folder))
    try:
        yield folder
    finally:
        _mount("--lazy", str(folder), program="umount")


@contextmanager
def read_only(folder: Path) -> Iterator[Path]:
    """The folder itself, mounted read-only over itself."""
    _mount("--bind", str(folder), str(folder))
    try:
        _mount("-o", "remount,ro,bind", str(folder))
        yield folder
    finally:
        _mount("--lazy", str(folder), program="umount")


def fill(folder: Path) -> Path:
    """Take all the room on the disk of `folder`. Returns the file that holds it; removing it gives the room back."""
    file = folder / ".filling"
    with file.open("ab", buffering=0) as filling:
        for size in _CHUNKS:
            with suppress(OSError):
                while filling.write(bytes(size)) == size:
                    pass
    return file


def takes_nothing(folder: Path) -> bool:
    """Return whether the disk of `folder` is full."""
    probe = folder / ".probe"
    try:
        probe.write_bytes(bytes(8192))
    except OSError as error:
        return error.errno == errno.ENOSPC
    finally:
        with suppress(OSError):
            probe.unlink()
    return False


def as_an_ordinary_user(
    program: Program, *arguments: str, is_executed: bool = False
) -> subprocess.CompletedProcess[str]:
    """The program, with no more right to files than their modes give it: root has more.

    Args:
        program: Where.
        arguments: Of its command line.
        is_executed: Start it for real, as must be where this process holds a journal of its own open.
    """
    if is_executed:
        setpriv = shutil.which("setpriv") or skip_without("setpriv")
        argv = [setpriv, "--bounding-set", "-dac_override,-dac_read_search", *program.argv(*arguments)]
        return subprocess.run(
            program.argv(*arguments) if os.geteuid() else argv,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
            env=dict(program.environment),
            cwd=program.home,
        )

    def work() -> int:
        _give_up_override()
        return main(arguments)

    return forked(work, environment=program.environment, directory=program.home, seconds=120)


def _give_up_override() -> None:
    """Take CAP_DAC_OVERRIDE and CAP_DAC_READ_SEARCH (1 and 2) from this process: capget(2), version 3."""
    libc = ctypes.CDLL(None, use_errno=True)
    header, sets = (ctypes.c_uint32 * 2)(0x20080522, 0), (ctypes.c_uint32 * 6)()
    assert libc.capget(header, sets) == 0
    for index in range(3):  # effective, permitted, inheritable
        sets[index] &= ~0b110
    assert libc.capset(header, sets) == 0, os.strerror(ctypes.get_errno())


def _mount(*arguments: str, program: str = "mount") -> None:
    done = subprocess.run([program, *arguments], capture_output=True, text=True, check=False)
    if done.returncode:
        skip_without("mount")

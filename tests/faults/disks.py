"""Small disks of a test's own, to be filled."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tests.support.missing import skip_without
from tests.support.program import Program

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
    """Whether the disk of `folder` is full."""
    probe = folder / ".probe"
    try:
        probe.write_bytes(bytes(8192))
    except OSError as error:
        return error.errno == errno.ENOSPC
    finally:
        with suppress(OSError):
            probe.unlink()
    return False


def as_an_ordinary_user(program: Program, *arguments: str) -> subprocess.CompletedProcess[str]:
    """The program, with no more right to files than their modes give it: root has more."""
    argv = program.argv(*arguments)
    if os.geteuid() == 0:
        setpriv = shutil.which("setpriv")
        if setpriv is None:
            skip_without("setpriv")
        argv = [setpriv, "--bounding-set", "-dac_override,-dac_read_search", *argv]
    return subprocess.run(
        argv,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env=dict(program.environment),
        cwd=program.home,
    )


def _mount(*arguments: str, program: str = "mount") -> None:
    done = subprocess.run([program, *arguments], capture_output=True, text=True, check=False)
    if done.returncode:
        skip_without("mount")

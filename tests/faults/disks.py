"""Small disks of a test's own, to be filled; skipped with one line where mounting is not permitted."""

from __future__ import annotations

import errno
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

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


def _mount(*arguments: str, program: str = "mount") -> None:
    done = subprocess.run([program, *arguments], capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"mounting is not permitted here: {done.stderr.strip()}")

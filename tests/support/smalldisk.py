"""A disk of a few megabytes that a test fills and frees."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tests.support.missing import skip_without


class SmallDisk:
    """A file system of its own, at `path`."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._ballast = path / "ballast"

    def fill(self) -> None:
        """Leave no room."""
        with self._ballast.open("ab", buffering=0) as file:
            for size in (1 << 16, 1 << 12, 1):
                with suppress(OSError):
                    while True:
                        file.write(bytes(size))

    def free(self) -> None:
        """Give the room back."""
        self._ballast.unlink()

    def make_read_only(self) -> None:
        """Take no more writes."""
        subprocess.run(["mount", "-o", "remount,ro", str(self.path)], capture_output=True, check=True)


@contextmanager
def a_small_disk(path: Path, *, megabytes: int = 12) -> Iterator[SmallDisk]:
    """Mount one; skips the test where that is not allowed."""
    path.mkdir()
    options = f"size={megabytes}m,mode=0700,uid={os.getuid()}"
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(path)], capture_output=True, text=True, check=False
    )
    if mounted.returncode:
        skip_without("mount")
    try:
        yield SmallDisk(path)
    finally:
        subprocess.run(["umount", "--lazy", str(path)], capture_output=True, check=False)

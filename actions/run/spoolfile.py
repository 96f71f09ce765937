"""A file of the spool on disk: appended to by whole records, set aside when it is damaged."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from actions.base.files import PRIVATE_FILE

MOST_SET_ASIDE = 3
"""So many damaged states of one file are kept, the newest."""
MOST_SET_ASIDE_BYTES = 256 << 20
"""All of them together, but for the newest."""
_BLOCK_BYTES = 1 << 20


class AppendOnly:
    """A private file that grows by whole records. A tail that an earlier writer left torn is cut off.

    Args:
        path: Made if it is not there; then `is_new`.

    Raises:
        OSError: It cannot be made, read or cut.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.is_new = not path.exists()
        self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, PRIVATE_FILE)
        try:
            status = os.fstat(self._descriptor)
            self.modified_at = status.st_mtime
            self.size = _end_of_last_line(self._descriptor)
            if self.size != status.st_size:
                os.ftruncate(self._descriptor, self.size)
        except OSError:
            os.close(self._descriptor)
            raise

    def append(self, data: bytes) -> None:
        """Append whole records in one step.

        Raises:
            OSError: There is no room; nothing was appended.
        """
        written = 0
        try:
            while written < len(data):
                written += os.pwrite(self._descriptor, data[written:], self.size + written)
        except OSError:
            os.ftruncate(self._descriptor, self.size)
            raise
        self.size += written

    def sync(self) -> None:
        """Have on disk what was appended.

        Raises:
            OSError: It cannot be.
        """
        os.fdatasync(self._descriptor)

    def close(self) -> None:
        """Close the file."""
        os.close(self._descriptor)


def replace_damaged(path: Path, pieces: Iterable[bytes | tuple[int, int]]) -> Path:
    """Put a mended file in the place of a damaged one, which stays beside it under another name.

    At every moment there is a file at `path`.

    Args:
        path: The file.
        pieces: What the mended one consists of: bytes, or from where to where in the damaged one.

    Returns:
        Where the damaged one is now.

    Raises:
        OSError: There is no room; nothing was changed.
    """
    scratch = path.with_name(f".{path.name}.mended")
    try:
        with path.open("rb") as source:
            descriptor = os.open(scratch, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, PRIVATE_FILE)
            with os.fdopen(descriptor, "wb") as file:
                for piece in pieces:
                    if isinstance(piece, bytes):
                        file.write(piece)
                        continue
                    source.seek(piece[0])
                    left = piece[1] - piece[0]
                    while left and (block := source.read(min(left, _BLOCK_BYTES))):
                        file.write(block)
                        left -= len(block)
                file.flush()
                os.fsync(file.fileno())
        aside = _next_name(path)
        os.link(path, aside)
        scratch.replace(path)
    except OSError:
        scratch.unlink(missing_ok=True)
        raise
    _forget_old(path)
    return aside


def set_aside(path: Path) -> list[Path]:
    """The damaged states of a file that are kept, oldest first."""
    found = {
        int(number): other
        for other in path.parent.glob(f"{path.name}.damaged-*")
        if (number := other.name.rpartition("-")[2]).isdigit()
    }
    return [found[number] for number in sorted(found)]


def _next_name(path: Path) -> Path:
    numbers = [int(other.name.rpartition("-")[2]) for other in set_aside(path)]
    return path.with_name(f"{path.name}.damaged-{max(numbers, default=0) + 1}")


def _forget_old(path: Path) -> None:
    kept, size = 0, 0
    for other in reversed(set_aside(path)):
        kept, size = kept + 1, size + other.stat().st_size
        if kept > 1 and (kept > MOST_SET_ASIDE or size > MOST_SET_ASIDE_BYTES):
            other.unlink()


def _end_of_last_line(descriptor: int) -> int:
    size = os.fstat(descriptor).st_size
    block = 1 << 16
    while size:
        start = max(size - block, 0)
        newline = os.pread(descriptor, size - start, start).rfind(b"\n")
        if newline >= 0:
            return start + newline + 1
        size = start
    return 0

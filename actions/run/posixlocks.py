"""Reading a database file in a process that may have it open in SQLite as well.

POSIX drops all locks that a process holds on a file as soon as the process closes *any* descriptor of that file
(fcntl(2); "How To Corrupt An SQLite Database File", section 2.2). So a file that SQLite has open here is read through a
descriptor that is closed after SQLite's last one.
"""

from __future__ import annotations

import os
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

FileKey = tuple[int, int]
"""Device and inode."""

_guard = threading.Lock()
_connections: Counter[FileKey] = Counter()
_kept: dict[FileKey, list[int]] = {}


def connection_opened(path: Path) -> FileKey:
    """Note that SQLite opens `path` here, before it does. Give the key to `connection_closed` afterwards.

    Raises:
        OSError: There is no such file.
    """
    with _guard:
        status = path.stat()
        key = (status.st_dev, status.st_ino)
        _connections[key] += 1
    return key


def connection_closed(key: FileKey) -> None:
    """Note that one of SQLite's connections to the file is closed."""
    with _guard:
        _connections[key] -= 1
        if _connections[key] <= 0:
            del _connections[key]
            for descriptor in _kept.pop(key, []):
                os.close(descriptor)


@contextmanager
def reading(path: Path) -> Iterator[int]:
    """A descriptor to read `path` with, by `os.pread`; SQLite's locks outlive it.

    Raises:
        OSError: It cannot be opened.
    """
    with _guard:
        status = path.stat()
        free = _kept.get((status.st_dev, status.st_ino))
        descriptor = free.pop() if free else os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        yield descriptor
    finally:
        with _guard:
            status = os.fstat(descriptor)
            key = (status.st_dev, status.st_ino)
            if key in _connections:
                _kept.setdefault(key, []).append(descriptor)
            else:
                os.close(descriptor)

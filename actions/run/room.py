"""Room on disk that is set aside while there is some, so that a full disk does not stop a cancel or a teardown.

Two kinds. The journal's log is made longer than it is, so that records go where blocks are already. A file of the run's
folder takes up more of them and is removed when that is not enough: the way of etcd's quota, which leaves room for
deletions when it is exceeded.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from actions.base.files import PRIVATE_FILE, free_bytes
from actions.run.folder import journal_path, reserve_path

RESERVE_BYTES = 1 << 20
LOG_ROOM_BYTES = 512 << 10
"""Some hundred records: more than a teardown writes."""
_FULL_BYTES = 128 << 10
_PLENTY_BYTES = 4 * RESERVE_BYTES


def has_room(folder: Path) -> bool:
    """Return whether a journal in `folder` can grow."""
    return free_bytes(folder) >= _FULL_BYTES


def keep_reserve(folder: Path) -> None:
    """Set room aside in a run's folder, if there is none yet and the disk has plenty. Failing is no harm."""
    path = reserve_path(folder)
    if path.exists() or free_bytes(folder) < _PLENTY_BYTES:
        return
    with suppress(OSError):
        _allocate(path, RESERVE_BYTES)


def release_reserve(folder: Path) -> bool:
    """Give the room back to the disk. Returns whether there was any; the caller uses it before others do."""
    try:
        reserve_path(folder).unlink()
    except OSError:
        return False
    return True


def extend_log(folder: Path, *, by: int = 0) -> None:
    """Give the journal's log room for records to come. What is behind its end is not read by SQLite.

    Called while the journal is open, so that there is a log.

    Args:
        folder: The run's.
        by: So many bytes more than it has, rather than what it should have at least.
    """
    path = journal_path(folder)
    log = path.with_name(f"{path.name}-wal")
    with suppress(OSError):
        size = log.stat().st_size
        wanted = max(LOG_ROOM_BYTES, size + by)
        if size < wanted:
            _allocate(log, wanted)


def _allocate(path: Path, size: int) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, PRIVATE_FILE)
    try:
        os.posix_fallocate(descriptor, 0, size)
    finally:
        os.close(descriptor)

"""Changes of a run's journal, and of the lease beside it, behind the program's back."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
from msgspec.structs import replace

from actions.base.clock import SystemClock
from actions.base.process import ProcessIdentity
from actions.run.journal.folder import journal_path, lease_path, write_block
from actions.run.journal.journal_file import HEAD, RecordRow
from actions.run.journal.store import Journal, Lease, line_of, read_runner_lease


def drop_lease(folder: Path) -> None:
    """Take the lease away."""
    assert write_block(lease_path(folder), b"")


def change_lease(folder: Path, *, holder: ProcessIdentity | None = None, token: str = "") -> None:
    """Put the lease into the name of another process, or of another runner."""
    lease = read_runner_lease(folder)
    assert lease is not None
    changed = Lease(holder or lease.holder, token or lease.token, lease.taken_at)
    assert write_block(lease_path(folder), msgspec.json.encode(changed))


def age_lease(folder: Path, *, pid: int = 0) -> None:
    """Make the lease one of an earlier boot, by the number of a process that lives perhaps."""
    lease = read_runner_lease(folder)
    assert lease is not None
    change_lease(folder, holder=replace(lease.holder, pid=pid or lease.holder.pid, boot_id="of an earlier boot"))


@contextmanager
def locked_here(folder: Path) -> Iterator[None]:
    """Hold the lock of a journal; other processes, and other open journals of this one, wait for it."""
    journal = Journal(journal_path(folder), SystemClock(), lock_seconds=0.1)
    try:
        with journal.locked():
            yield
    finally:
        journal.close()


def write_rows(path: Path, rows: list[RecordRow]) -> None:
    """Add rows to a journal as they are, whatever they are."""
    content = path.read_bytes().rstrip(b"\0") if path.exists() else HEAD
    path.write_bytes(content + b"".join(map(line_of, rows)))

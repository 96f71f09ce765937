"""The journal of one run, written by the runner and by commands: each appends, one at a time, by the file's lock."""

from __future__ import annotations

import errno
import fcntl
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TypeVar

import msgspec

from actions.base.clock import Clock, SystemClock
from actions.base.decoding import decode_json
from actions.base.errors import ConflictError, JournalError
from actions.base.files import (
    PRIVATE_FILE,
    filesystem_type,
    is_network_filesystem,
    is_read_only,
    wait_for_lock,
)
from actions.base.process import ProcessIdentity, holders_of_locks, is_alive
from actions.base.readonly import refuse_if_readonly
from actions.run.journal.folder import has_room, journal_path, lease_path, read_block, release_reserve, require_block
from actions.run.journal.journal_file import HEAD, MOST_BYTES, JournalFile, RecordRow, damaged, open_journal, record_of
from actions.run.state.records import OPERATOR, Body, Created, JournalRecord, encode_body, record_kind
from actions.run.state.view import NoticeKind

LOCK_SECONDS = 10.0
"""Time that an operator's command waits for another process to release the journal's lock."""
ROOM_BYTES = 512 << 10
"""Space behind the records for some hundred more: more than a teardown writes."""
_FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
_ENCODER = msgspec.json.Encoder()


class JournalUnwritableError(JournalError):
    """The journal cannot be written at present. Nothing was written; the call may be repeated.

    Args:
        message: The reason.
        kind: The obstacle.
        hint: The remedy.
    """

    def __init__(self, message: str, kind: NoticeKind, *, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.kind = kind


class DiskFullError(JournalUnwritableError):
    """The journal cannot grow at present."""

    def __init__(self, path: Path) -> None:
        super().__init__(
            f"{path}: the disk is full; nothing was written.", NoticeKind.DISK_FULL, hint="Free some space."
        )


class JournalLockedError(JournalUnwritableError):
    """Another process holds the journal's lock."""

    def __init__(self, path: Path, seconds: float) -> None:
        names = holders_of_locks([path])
        who = f" by {names[0]}" if names else " by another process"
        waited = f" for more than {seconds:.0f} s" if seconds >= 1 else ""
        super().__init__(
            f"{path} is locked{who}{waited}; nothing was written.",
            NoticeKind.LOCKED,
            hint="End that process, or try again.",
        )


class Lease(msgspec.Struct, frozen=True):
    """The process that may carry out the run. Written under the journal's lock, as a block beside it."""

    holder: ProcessIdentity
    token: str
    """Empty for a holder that was started and has not taken the lease yet."""
    taken_at: float
    """Seconds since the epoch."""

    @property
    def is_taken(self) -> bool:
        """True if the holder has begun to carry out the run; until then it was started."""
        return bool(self.token)

    @property
    def is_alive(self) -> bool:
        """True if the holder still runs, in this boot of this machine."""
        return is_alive(self.holder)


def read_runner_lease(folder: Path) -> Lease | None:
    """Return the lease as stored, `None` if there is none or it cannot be read; its holder may be dead."""
    return _lease_in(read_block(lease_path(folder)))


def _lease_in(block: bytes) -> Lease | None:
    with suppress(msgspec.MsgspecError):
        return decode_json(block, Lease)
    return None


def create_journal(path: Path, created: Created, clock: Clock) -> None:
    """Create a journal with its first record.

    Raises:
        JournalError: It exists, or lies on a file system that is not safe for it.
    """
    _create(path)
    journal = Journal(path, clock)
    journal.append(created)
    journal.close()


def copy_rows(path: Path, rows: Sequence[RecordRow]) -> None:
    """Add rows of a run's journal to a copy of it, which is made if there is none. Blocking disk I/O.

    Args:
        path: The copy.
        rows: Consecutive; the first one follows the last one of the copy.

    Raises:
        JournalError: The copy cannot be written, or the rows do not follow its last one.
    """
    if not path.exists():
        _create(path)
    journal = Journal(path, SystemClock())
    try:
        with journal.locked():
            last = journal.last_seq()
            if [row.seq for row in rows] != list(range(last + 1, last + 1 + len(rows))):
                raise damaged(path, f"the records that are to follow {last} do not")
            journal.write(rows)
    finally:
        journal.close()


def _create(path: Path) -> None:
    refuse_network_filesystem(path.parent)
    try:
        descriptor = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC, PRIVATE_FILE)
    except OSError as error:
        raise JournalError(f"{path} cannot be created: {error.strerror}.") from error
    try:
        with _translated(path):
            os.write(descriptor, HEAD)
    finally:
        os.close(descriptor)


def refuse_network_filesystem(folder: Path) -> None:
    """Refuse a folder whose file system does not keep locks and appends of several processes apart.

    Raises:
        JournalError: With the remedy as its hint.
    """
    if is_network_filesystem(folder):
        raise JournalError(
            f"{folder} lies on {filesystem_type(folder)}, where a run's journal is not safe.",
            hint="Set XDG_STATE_HOME to a folder on a local disk.",
        )


class Journal:
    """A journal open for writing. One thread may use it. To read a run, use `actions.run.journal.reader`.

    Invariants: records are numbered without gaps; a fenced writer appends only while it has the lease; what
    `append` returned is on disk.

    Args:
        path: The journal's file.
        clock: Stamps the records.
        fence: Token of the lease under which this process writes; empty in any process but the runner.
        lock_seconds: Time that a call waits for a lock that another process holds.

    Raises:
        JournalUnwritableError: It cannot be opened at present.
        JournalError: It does not exist, is damaged, or has another version.
    """

    def __init__(self, path: Path, clock: Clock, *, fence: str = "", lock_seconds: float = LOCK_SECONDS) -> None:
        self.path = path
        self._clock = clock
        self._fence = fence
        self._lock_seconds = lock_seconds
        self._file = JournalFile(path)
        self._newest = b""
        self._own = 0
        self._is_wiped = False
        """There is nothing but zeros behind the records, but for what a writer has begun meanwhile."""
        self._known: list[JournalRecord] = []
        with _translated(path):
            self._descriptor = open_journal(path, os.O_RDWR)
            try:
                self._look()
            except BaseException:
                self.close()
                raise

    def append(self, body: Body, *, stage: str = "", attempt: int = 0) -> JournalRecord:
        """Write one record; it is on disk when this returns.

        Raises:
            JournalUnwritableError: The disk is full, or the journal is locked; nothing was written.
            ConflictError: Another runner has taken the lease.
            JournalError: Any other failure.
        """
        at = self._clock.now().timestamp()
        writer = self._fence or OPERATOR
        with self.locked():
            if self._fence:
                self.require_lease()
            seq = self.last_seq() + 1
            self.write([RecordRow(seq, at, writer, record_kind(body), stage, attempt, encode_body(body))])
        return JournalRecord(seq, at, writer, stage, attempt, body)

    def write(self, rows: Sequence[RecordRow]) -> None:
        """Write the next rows; the caller holds the lock. They are on disk when this returns.

        Raises:
            JournalUnwritableError: Nothing was written.
        """
        with _translated(self.path):
            unfinished = len(self._look())  # of a writer that was killed
            if not self._is_wiped:  # a loss of power may have left the end of a record, behind zeros
                behind = os.pread(self._descriptor, MOST_BYTES, self._file.end)
                unfinished = len(behind.rstrip(b"\0"))
            _write_whole(self._descriptor, bytes(unfinished), self._file.end)
            self._is_wiped = True
            data = b"".join(map(line_of, rows))
            try:
                _write_whole(self._descriptor, data, self._file.end)
                os.fdatasync(self._descriptor)
            except OSError:  # an interrupt takes nothing back: what is whole may have been seen
                with suppress(OSError):  # by zeros: to cut the file would give its reserved space away
                    _write_whole(self._descriptor, bytes(len(data)), self._file.end)
                raise
            self._look()
        self._own += len(rows)

    def _look(self) -> bytes:
        """Find what was added, from the beginning if a record was taken back. Returns what is unfinished behind it."""
        if self._file.end and self._file.newest(self._descriptor) != self._newest:
            self._file = JournalFile(self.path)
            self._known = []
        unfinished = self._file.take(self._descriptor)
        self._newest = self._file.newest(self._descriptor)
        return unfinished

    def all_records(self) -> Sequence[JournalRecord]:
        """Return all records, oldest first; those that are known already are not read again.

        Raises:
            JournalError: One is missing or cannot be read.
        """
        with _translated(self.path):
            self._look()
            rows = self._file.rows(self._descriptor, len(self._known))
        self._known += [record_of(self.path, row) for row in rows]
        return self._known

    def records(self, after: int = 0) -> list[JournalRecord]:
        """Return all records with a number above `after`, oldest first.

        Raises:
            JournalError: One is missing or cannot be read.
        """
        with _translated(self.path):
            self._look()
            return [record_of(self.path, row) for row in self._file.rows(self._descriptor, after)]

    def rows(self, after: int = 0, *, limit: int = 1000) -> list[RecordRow]:
        """Return at most `limit` rows with a number above `after`, oldest first, with their bodies as stored.

        Raises:
            JournalError: One is missing or cannot be read.
        """
        with _translated(self.path):
            self._look()
            return self._file.rows(self._descriptor, after, limit)

    def last_seq(self) -> int:
        """Return the number of the newest record; 0 if there is none."""
        with _translated(self.path):
            self._look()
        return self._file.last_seq

    def foreign_records(self) -> int:
        """Return how many records others have written, here or before."""
        return self.last_seq() - self._own

    def is_locked(self) -> bool:
        """Return whether another process holds the write lock at this moment."""
        if not wait_for_lock(self._descriptor, 0.0):
            return True
        fcntl.flock(self._descriptor, fcntl.LOCK_UN)
        return False

    def is_in_place(self) -> bool:
        """Return whether the open file is still the one at its path: neither deleted nor replaced."""
        with suppress(OSError):
            return os.path.samestat(self.path.stat(), os.fstat(self._descriptor))
        return False

    def lease(self) -> Lease | None:
        """Return the lease as stored, `None` if there is none; its holder may be dead.

        Raises:
            JournalUnwritableError: It cannot be read: its holder is not known.
        """
        with _translated(self.path):
            return _lease_in(require_block(lease_path(self.path.parent)))

    def require_lease(self, *, or_none: bool = False) -> None:
        """Require that the lease is still the one that this process writes under.

        Args:
            or_none: That there is no lease will do, too.

        Raises:
            ConflictError: Another runner has taken it.
            JournalUnwritableError: It cannot be read.
        """
        lease = self.lease()
        if (lease is None and not or_none) or (lease is not None and lease.token != self._fence):
            raise ConflictError(f"another runner has taken over {self.path.parent.name}.")

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the lock of the journal and of the lease beside it.

        Raises:
            JournalLockedError: Another process holds it.
        """
        with _translated(self.path):
            if not wait_for_lock(self._descriptor, self._lock_seconds):
                raise JournalLockedError(self.path, self._lock_seconds)
        try:
            yield
        finally:
            fcntl.flock(self._descriptor, fcntl.LOCK_UN)

    def keep_room(self, least: int = ROOM_BYTES) -> None:
        """Reserve space for later records behind the newest one, if the disk has it, and no one is writing.

        By zeros: blocks that have content already are flushed faster than those that get their first.
        """
        if wait_for_lock(self._descriptor, 0.0):
            with suppress(OSError):
                size = os.fstat(self._descriptor).st_size
                if size < self._file.end + least // 2:
                    _write_whole(self._descriptor, bytes(self._file.end + least - size), size)
            fcntl.flock(self._descriptor, fcntl.LOCK_UN)

    def close(self) -> None:
        """Close the file; a runner gives the reserved space back."""
        if self._fence and self._file.end and wait_for_lock(self._descriptor, 0.0):
            with suppress(OSError, JournalError):
                self._look()
                os.ftruncate(self._descriptor, self._file.end)
        os.close(self._descriptor)


def line_of(row: RecordRow) -> bytes:
    """Return a row as its line of a journal."""
    return _ENCODER.encode(row) + b"\n"


def _write_whole(descriptor: int, data: bytes, place: int) -> None:
    while data:
        written = os.pwrite(descriptor, data, place)
        data, place = data[written:], place + written


@contextmanager
def _translated(path: Path) -> Iterator[None]:
    """Convert the errors of the system's calls to ours."""
    try:
        yield
    except OSError as error:
        if is_read_only(path.parent):
            message = f"{path} lies on a file system that is mounted read-only; nothing was written."
            raise JournalUnwritableError(message, NoticeKind.READ_ONLY) from error
        if error.errno in _FULL or not has_room(path.parent):
            raise DiskFullError(path) from error
        raise JournalUnwritableError(
            f"{path}: {error.strerror}; nothing was written.",
            NoticeKind.READ_ONLY,
            hint="Check the folder's rights and the disk.",
        ) from error


T = TypeVar("T")


def append_record(
    folder: Path, body: Body, *, deed: str, clock: Clock | None = None, stage: str = "", attempt: int = 0
) -> None:
    """Append one record; on a full disk with the run's reserved space. Blocking disk I/O.

    Args:
        folder: The run's.
        body: The record.
        deed: The action, as subject of a sentence, for the refusal of a read-only process.
        clock: Stamps it.
        stage: The stage that it belongs to, if any.
        attempt: The attempt of that stage.

    Raises:
        RefusedError: This process is read-only.
        JournalUnwritableError: The disk is full, or the journal is locked; nothing was written.
        JournalError: The journal is damaged.
    """
    refuse_if_readonly(deed)

    def write() -> None:
        journal = Journal(journal_path(folder), clock or SystemClock())
        try:
            journal.append(body, stage=stage, attempt=attempt)
        finally:
            journal.close()

    with_reserve(folder, write)


def with_reserve(folder: Path, write: Callable[[], T]) -> T:
    """Return the result of `write`; on a full disk, call it again with the run's reserved space released.

    Raises:
        DiskFullError: The reserved space is used up as well.
    """
    try:
        return write()
    except DiskFullError:
        if not release_reserve(folder):
            raise
    return write()

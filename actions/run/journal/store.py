"""The journal of one run: an append-only SQLite file, written by the runner and by commands.

POSIX drops all locks that a process holds on a file as soon as the process closes *any* descriptor of that file
(fcntl(2); "How To Corrupt An SQLite Database File", section 2.2). So a file that SQLite has open here is read through a
descriptor that is closed after SQLite's last one.
"""

from __future__ import annotations

import os
import sqlite3
import threading
import weakref
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import NamedTuple, TypeVar

import msgspec

from actions.base.clock import Clock, SystemClock
from actions.base.errors import ConflictError, JournalError
from actions.base.files import PRIVATE_FILE, filesystem_type, is_network_filesystem, is_read_only
from actions.base.process import holders_of_locks
from actions.base.readonly import refuse_if_readonly
from actions.run.journal.folder import has_room, journal_path, release_reserve
from actions.run.journal.schema import damaged, make_tables, require_version
from actions.run.state.records import OPERATOR, Body, Created, JournalRecord, decode_body, encode_body, record_kind
from actions.run.state.view import NoticeKind

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
def descriptor_of(path: Path) -> Iterator[int]:
    """Open a descriptor to read `path` with, by `os.pread`; closing it leaves SQLite's locks in place.

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


MOST_RECORDS = 50_000
"""A run of a month has some hundred: a journal with more is not one, and takes minutes and gigabytes to read."""
LOCK_SECONDS = 10.0
"""Time that an operator's command waits for another process to release the journal's lock."""
_CHECKPOINT_PAGES = 64
"""Pages in the log after which they are copied into the database, so that the space reserved in the log is reused."""


class RecordRow(NamedTuple):
    """One row of the table of records, its body as the text that is stored."""

    seq: int
    at: float
    writer: str
    kind: str
    stage: str
    attempt: int
    json: str


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
        names = holders_of_locks([path, path.with_name(f"{path.name}-shm")])
        who = f" by {names[0]}" if names else " by another process"
        waited = f" for more than {seconds:.0f} s" if seconds >= 1 else ""
        super().__init__(
            f"{path} is locked{who}{waited}; nothing was written.",
            NoticeKind.LOCKED,
            hint="End that process, or try again.",
        )


def create_journal(path: Path, created: Created, clock: Clock) -> None:
    """Create a journal with its first record.

    Raises:
        JournalError: It exists, or lies on a file system that is not safe for it.
    """
    refuse_network_filesystem(path.parent)
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_NOFOLLOW, PRIVATE_FILE))
    except OSError as error:
        raise JournalError(f"{path} cannot be created: {error.strerror}.") from error
    with translated(path), closing(_connect(path, LOCK_SECONDS)) as connection:
        make_tables(connection, created.run_id)
    journal = Journal(path, clock)
    journal.append(created)
    journal.close()


def copy_rows(path: Path, run_id: str, rows: Sequence[RecordRow]) -> None:
    """Add rows of a run's journal to a copy of it, which is made if there is none. Blocking disk I/O.

    Args:
        path: The copy.
        run_id: The run.
        rows: Consecutive; the first one follows the last one of the copy.

    Raises:
        JournalError: The copy cannot be written, or the rows do not follow its last one.
    """
    refuse_network_filesystem(path.parent)
    with translated(path, LOCK_SECONDS), closing(_connect(path, LOCK_SECONDS)) as connection:
        if not connection.execute("PRAGMA user_version").fetchone()[0]:
            make_tables(connection, run_id)
        require_version(connection, path)
        connection.execute("BEGIN IMMEDIATE")
        last = int(connection.execute("SELECT coalesce(max(seq), 0) FROM record").fetchone()[0])
        if [row.seq for row in rows] != list(range(last + 1, last + 1 + len(rows))):
            raise damaged(path, f"the records that are to follow {last} do not")
        connection.executemany("INSERT INTO record VALUES (?, ?, ?, ?, ?, ?, ?)", rows)
        connection.execute("COMMIT")


def refuse_network_filesystem(folder: Path) -> None:
    """Refuse a folder whose file system cannot share memory between processes, which the journal needs.

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

    def __init__(
        self,
        path: Path,
        clock: Clock,
        *,
        fence: str = "",
        lock_seconds: float = LOCK_SECONDS,
    ) -> None:
        self.path = path
        self._clock = clock
        self._fence = fence
        self._lock_seconds = lock_seconds
        _require_content(path)
        self._key = connection_opened(path)
        self._forget = weakref.finalize(self, connection_closed, self._key)
        with translated(path, lock_seconds):
            self.connection = _connect(path, lock_seconds)
            try:
                require_version(self.connection, path)
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
        with self.transaction() as connection:
            if self._fence:
                self._check_fence(connection)
            seq = self.last_seq() + 1
            connection.execute(
                "INSERT INTO record VALUES (?, ?, ?, ?, ?, ?, ?)",
                (seq, at, writer, record_kind(body), stage, attempt, encode_body(body)),
            )
        return JournalRecord(seq, at, writer, stage, attempt, body)

    def records(self, after: int = 0) -> list[JournalRecord]:
        """Return all records with a number above `after`, oldest first.

        Raises:
            JournalError: One is missing or cannot be read.
        """
        with translated(self.path, self._lock_seconds):
            return records_in(self.connection, self.path, after=after)

    def rows(self, after: int = 0, *, limit: int = 1000) -> list[RecordRow]:
        """Return at most `limit` rows with a number above `after`, oldest first, with their bodies as stored.

        Raises:
            JournalUnwritableError: The journal is locked.
        """
        with translated(self.path, self._lock_seconds):
            found = self.connection.execute(
                "SELECT seq, at, writer, kind, stage, attempt, json FROM record WHERE seq > ? ORDER BY seq LIMIT ?",
                (after, limit),
            )
            return [RecordRow(*row) for row in found]

    def last_seq(self) -> int:
        """Return the number of the newest record; 0 if there is none."""
        with translated(self.path, self._lock_seconds):
            return int(self.connection.execute("SELECT coalesce(max(seq), 0) FROM record").fetchone()[0])

    def data_version(self) -> int:
        """Return a number that changes when another connection has written."""
        with translated(self.path, self._lock_seconds):
            return int(self.connection.execute("PRAGMA data_version").fetchone()[0])

    def is_locked(self) -> bool:
        """Return whether another process holds the write lock at this moment."""
        self.connection.execute("PRAGMA busy_timeout = 0")
        try:
            self.connection.execute("BEGIN IMMEDIATE")
            self.connection.execute("ROLLBACK")
        except sqlite3.OperationalError as error:
            return error.sqlite_errorcode & 0xFF == sqlite3.SQLITE_BUSY
        finally:
            self.connection.execute(f"PRAGMA busy_timeout = {round(self._lock_seconds * 1000)}")
        return False

    def is_in_place(self) -> bool:
        """Return whether the open file is still the one at its path: neither deleted nor replaced."""
        try:
            status = self.path.stat()
        except OSError:
            return False
        return (status.st_dev, status.st_ino) == self._key

    def require_lease(self, *, or_none: bool = False) -> None:
        """Require that the lease is still the one that this process writes under.

        Args:
            or_none: That there is no lease will do, too.

        Raises:
            ConflictError: Another runner has taken it.
        """
        with translated(self.path, self._lock_seconds):
            self._check_fence(self.connection, or_none=or_none)

    def check(self) -> None:
        """Read the whole file.

        Raises:
            JournalError: It is damaged.
        """
        with translated(self.path, self._lock_seconds):
            answer = self.connection.execute("PRAGMA quick_check(1)").fetchone()[0]
        if answer != "ok":
            raise damaged(self.path, str(answer))
        self.records()

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """Open one write transaction: all or nothing, durable at the end."""
        with translated(self.path, self._lock_seconds):
            self.connection.execute("BEGIN IMMEDIATE")
            try:
                yield self.connection
                self.connection.execute("COMMIT")
            except BaseException:
                if self.connection.in_transaction:
                    self.connection.execute("ROLLBACK")
                raise

    def close(self) -> None:
        """Close the file."""
        self.connection.close()
        self._forget()

    def _check_fence(self, connection: sqlite3.Connection, *, or_none: bool = False) -> None:
        row = connection.execute("SELECT token FROM lease WHERE id = 1").fetchone()
        if row is None and or_none:
            return
        if row is None or row[0] != self._fence:
            raise ConflictError(f"another runner has taken over {self.path.parent.name}.")


def records_in(connection: sqlite3.Connection, path: Path, *, after: int = 0) -> list[JournalRecord]:
    """Return the records of an open journal with a number above `after`, oldest first.

    Raises:
        JournalError: One is missing or cannot be read, or there are more than a run writes.
    """
    rows = connection.execute(
        "SELECT seq, at, writer, stage, attempt, json FROM record WHERE seq > ? ORDER BY seq", (after,)
    )
    found: list[JournalRecord] = []
    for expected, (seq, at, writer, stage, attempt, text) in enumerate(rows, start=after + 1):
        if seq != expected:
            raise damaged(path, f"record {expected} is missing")
        if seq > MOST_RECORDS:
            raise damaged(path, f"it has more than {MOST_RECORDS} records, which no run writes")
        try:
            found.append(JournalRecord(seq, at, writer, stage, attempt, decode_body(text)))
        except (msgspec.MsgspecError, RecursionError) as error:
            raise damaged(path, f"record {seq} cannot be read ({error})") from error
    return found


@contextmanager
def translated(path: Path, lock_seconds: float = 0.0) -> Iterator[None]:
    """Convert SQLite's errors to ours.

    Args:
        path: The journal.
        lock_seconds: Time that SQLite waits for a lock.
    """
    try:
        yield
    except sqlite3.OperationalError as error:
        raise _unwritable(path, error, lock_seconds) from error
    except (sqlite3.DatabaseError, UnicodeError, OverflowError) as error:  # its texts and numbers may be anything
        raise damaged(path, str(error)) from error


def _unwritable(path: Path, error: sqlite3.OperationalError, lock_seconds: float) -> JournalError:
    if not hasattr(error, "sqlite_errorcode"):  # of the module itself, not of SQLite: a text that is not UTF-8
        return damaged(path, str(error))
    code = error.sqlite_errorcode & 0xFF
    if code == sqlite3.SQLITE_INTERRUPT:
        return damaged(path, "it takes too long to be read")
    if code == sqlite3.SQLITE_FULL:
        return DiskFullError(path)
    if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_PROTOCOL):
        return JournalLockedError(path, lock_seconds)
    if code not in (sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY):
        return JournalError(f"{path}: {error}.", hint="Check the folder's rights and the disk.")
    if is_read_only(path.parent):
        return JournalUnwritableError(
            f"{path} lies on a file system that is mounted read-only; nothing was written.", NoticeKind.READ_ONLY
        )
    if not has_room(path.parent):
        return DiskFullError(path)
    return JournalUnwritableError(
        f"{path}: {error}; nothing was written.",
        NoticeKind.READ_ONLY,
        hint="Check the folder's rights and the disk.",
    )


def _require_content(path: Path) -> None:
    """Refuse what SQLite would open: it makes a database of an empty file, and waits for a pipe."""
    try:
        size = path.stat().st_size
    except FileNotFoundError as error:
        raise JournalError(f"{path} does not exist.", hint="Name an existing run.") from error
    except OSError as error:
        raise JournalError(f"{path} cannot be read: {error.strerror}.", hint="Check its rights.") from error
    if not path.is_file():
        raise JournalError(f"{path} is not a file.", hint="Move it away.")
    if not size:
        raise damaged(path, "it is empty")


def _connect(path: Path, lock_seconds: float) -> sqlite3.Connection:
    connection = sqlite3.connect(path, isolation_level=None, timeout=lock_seconds, check_same_thread=False)
    try:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute(f"PRAGMA wal_autocheckpoint = {_CHECKPOINT_PAGES}")
    except BaseException:
        connection.close()
        raise
    return connection


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

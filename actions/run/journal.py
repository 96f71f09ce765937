"""The journal of one run: an SQLite file that only grows."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from actions.base.clock import Clock
from actions.base.errors import ConflictError, JournalError
from actions.base.files import PRIVATE_FILE, filesystem_type, is_network_filesystem
from actions.run.records import Body, Created, Record, decode_body, encode_body, kind_of

SCHEMA_VERSION = 1
OPERATOR = "operator"
"""Writer of records that no runner wrote."""

_TABLES = """
CREATE TABLE meta (name TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT;
CREATE TABLE record (
    seq INTEGER PRIMARY KEY, at REAL NOT NULL, writer TEXT NOT NULL, kind TEXT NOT NULL,
    stage TEXT NOT NULL, attempt INTEGER NOT NULL, json TEXT NOT NULL
) STRICT;
CREATE TABLE lease (
    id INTEGER PRIMARY KEY CHECK (id = 1), pid INTEGER NOT NULL, start_ticks INTEGER NOT NULL, boot_id TEXT NOT NULL,
    token TEXT NOT NULL, taken_at REAL NOT NULL, notes TEXT NOT NULL DEFAULT '{}'
) STRICT;
CREATE TRIGGER record_is_kept BEFORE DELETE ON record BEGIN SELECT RAISE(ABORT, 'records are kept'); END;
CREATE TRIGGER record_is_final BEFORE UPDATE ON record BEGIN SELECT RAISE(ABORT, 'records are final'); END;
"""

Boundary = Callable[[int, str], None]
"""Told `(seq, "before" | "after")` around each record; tests end the process there."""


class DiskFullError(JournalError):
    """The journal cannot grow at present. Nothing was written."""


def create_journal(path: Path, created: Created, clock: Clock) -> None:
    """Make a journal with its first record.

    Raises:
        JournalError: It exists, or lies on a file system that it would not be safe on.
    """
    refuse_network_filesystem(path.parent)
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_NOFOLLOW, PRIVATE_FILE))
    except OSError as error:
        raise JournalError(f"{path} cannot be made: {error.strerror}.") from error
    with _translated(path):
        connection = _connect(path)
        connection.executescript("BEGIN;" + _TABLES + f"PRAGMA user_version = {SCHEMA_VERSION}; COMMIT;")
        connection.execute("INSERT INTO meta VALUES ('run', ?)", (created.run_id,))
        connection.close()
    journal = Journal(path, clock)
    journal.append(created)
    journal.close()


def refuse_network_filesystem(folder: Path) -> None:
    """Refuse a folder whose file system cannot share memory between processes, which the journal needs.

    Raises:
        JournalError: With the way out.
    """
    if is_network_filesystem(folder):
        raise JournalError(
            f"{folder} lies on {filesystem_type(folder)}, where a run's journal is not safe.",
            hint="Set XDG_STATE_HOME to a folder on a local disk.",
        )


class Journal:
    """An open journal. One thread may use it.

    Guards: records are numbered without gaps; a fenced writer appends only while the lease is its own; what
    `append` returned is on disk.

    Args:
        path: The journal's file.
        clock: Stamps the records.
        fence: Token of the lease under which this process writes; empty for everybody but the runner.
        boundary: Told before and after each record.

    Raises:
        JournalError: There is none, it is damaged, or of another version.
    """

    def __init__(self, path: Path, clock: Clock, *, fence: str = "", boundary: Boundary | None = None) -> None:
        self.path = path
        self._clock = clock
        self._fence = fence
        self._boundary = boundary
        if not path.is_file():
            raise JournalError(f"{path} is not there.", hint="Name an existing run.")
        with _translated(path):
            self.connection = _connect(path)
            version = int(self.connection.execute("PRAGMA user_version").fetchone()[0])
        if version == 0:  # SQLite makes a database of an empty file
            self.connection.close()
            raise _damaged(path, "it is empty")
        if version != SCHEMA_VERSION:
            self.connection.close()
            raise JournalError(
                f"{path} has version {version}, this program knows {SCHEMA_VERSION}.",
                hint="Use the version of the program that started the run.",
            )

    def append(self, body: Body, *, stage: str = "", attempt: int = 0) -> Record:
        """Write one record; it is on disk when this returns.

        Raises:
            DiskFullError: There is no room; nothing was written.
            ConflictError: Another runner has taken the lease.
            JournalError: Any other failure.
        """
        at = self._clock.now().timestamp()
        writer = self._fence or OPERATOR
        with self.transaction() as connection:
            if self._fence:
                self._check_fence(connection)
            seq = self.last_seq() + 1
            self._at_boundary(seq, "before")
            connection.execute(
                "INSERT INTO record VALUES (?, ?, ?, ?, ?, ?, ?)",
                (seq, at, writer, kind_of(body), stage, attempt, encode_body(body)),
            )
        self._at_boundary(seq, "after")
        return Record(seq, at, writer, stage, attempt, body)

    def records(self, after: int = 0) -> list[Record]:
        """All records with a number above `after`, oldest first.

        Raises:
            JournalError: One is missing or cannot be read.
        """
        with _translated(self.path):
            rows = self.connection.execute(
                "SELECT seq, at, writer, stage, attempt, json FROM record WHERE seq > ? ORDER BY seq", (after,)
            ).fetchall()
        found = []
        for expected, (seq, at, writer, stage, attempt, text) in enumerate(rows, start=after + 1):
            if seq != expected:
                raise _damaged(self.path, f"record {expected} is missing")
            try:
                found.append(Record(seq, at, writer, stage, attempt, decode_body(text)))
            except msgspec.MsgspecError as error:
                raise _damaged(self.path, f"record {seq} cannot be read ({error})") from error
        return found

    def last_seq(self) -> int:
        """Number of the newest record; 0 if there is none."""
        with _translated(self.path):
            return int(self.connection.execute("SELECT coalesce(max(seq), 0) FROM record").fetchone()[0])

    def data_version(self) -> int:
        """A number that changes when another connection has written."""
        with _translated(self.path):
            return int(self.connection.execute("PRAGMA data_version").fetchone()[0])

    def check(self) -> None:
        """Read the whole file.

        Raises:
            JournalError: It is damaged.
        """
        with _translated(self.path):
            answer = self.connection.execute("PRAGMA quick_check(1)").fetchone()[0]
        if answer != "ok":
            raise _damaged(self.path, str(answer))
        self.records()

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """One write transaction: all or nothing, durable at the end."""
        with _translated(self.path):
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

    def _check_fence(self, connection: sqlite3.Connection) -> None:
        row = connection.execute("SELECT token FROM lease WHERE id = 1").fetchone()
        if row is None or row[0] != self._fence:
            raise ConflictError(f"another runner has taken over {self.path.parent.name}.")

    def _at_boundary(self, seq: int, side: str) -> None:
        if self._boundary is not None:
            self._boundary(seq, side)


def _connect(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(path, isolation_level=None, timeout=10, check_same_thread=False)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    return connection


def _damaged(path: Path, detail: str) -> JournalError:
    return JournalError(
        f"{path} is damaged: {detail}.",
        hint="Copy the run's folder away; what the run made is found in the cluster by the label eksml.dev/run.",
    )


@contextmanager
def _translated(path: Path) -> Iterator[None]:
    try:
        yield
    except sqlite3.OperationalError as error:
        if error.sqlite_errorcode == sqlite3.SQLITE_FULL:
            raise DiskFullError(f"{path}: the disk is full.", hint="Free some space; the run goes on then.") from error
        raise JournalError(f"{path}: {error}.", hint="Check the folder's rights and the disk.") from error
    except sqlite3.DatabaseError as error:
        raise _damaged(path, str(error)) from error

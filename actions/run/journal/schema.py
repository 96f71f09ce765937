"""The versions of a journal: tables, migrations, and the form of records for a runner of an older version.

A program reads journals of all versions up to its own, and refuses later ones. A reader brings its copy in memory to
the present version; a file is brought there by the first transaction of a writer, in that transaction, so that there is
never a file between two versions. One exception: while a runner of an older version is alive, its journal stays as it
is, and requests are written in the form that it can read.

A version counts for all of a run's folder: what an older program could not read of its output is written only after the
journal has the version that such a program refuses.

| version | since | adds |
| --- | --- | --- |
| 1 | 0.1.0 | |
| 2 | after 0.1.0 | who made a request, owner, store and limits of a run, its move elsewhere |
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import closing
from functools import cache
from pathlib import Path

import msgspec

from actions.base.errors import JournalError, RefusedError
from actions.base.process import ProcessIdentity, is_alive
from actions.base.untrusted import one_line
from actions.run.state.records import Body, encode_body, record_kind

SCHEMA_VERSION = 2
OLDEST_VERSION = 1
_MOST_OBJECTS = 100
_SHOWN = 3
_Object = tuple[str, str, str | None]

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

MIGRATIONS: Mapping[int, Sequence[str]] = {
    2: ("INSERT OR IGNORE INTO meta VALUES ('first_version', '1')",),
}
"""The statements that lead to each version from the one before it. They keep every record."""

_KINDS_SINCE: Mapping[str, int] = {
    "taken_over": 2,
    "context_chosen": 2,
    "limits_set": 2,
    "limit_reached": 2,
    "ends_known": 2,
    "unlocked": 2,
}
"""The version that has brought a kind of record; the others are as old as the journal."""
_FIELDS_SINCE: Mapping[str, Mapping[str, int]] = {"wish": {"by": 2}, "approval": {"by": 2}}
"""The version that has brought a field, by the kind of record. A record without it means the same, only less."""


def make_tables(connection: sqlite3.Connection, run_id: str) -> None:
    """Create the tables of an empty journal."""
    connection.executescript("BEGIN;" + _TABLES + f"PRAGMA user_version = {SCHEMA_VERSION}; COMMIT;")
    connection.execute("INSERT INTO meta VALUES ('run', ?)", (run_id,))


def damaged(path: Path, detail: str) -> JournalError:
    """Return the error for a journal with unexpected content."""
    return JournalError(
        f"{path} is damaged: {detail}.",
        hint="Copy the run's folder away; what the run made is found in the cluster by the label eksml.dev/run.",
    )


@cache
def _known_objects() -> frozenset[_Object]:
    """Return type, name and SQL of each object of a journal's schema."""
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        connection.executescript(_TABLES)
        return frozenset(connection.execute("SELECT type, name, sql FROM sqlite_master"))


def _require_tables(connection: sqlite3.Connection, path: Path) -> None:
    """Require that a journal has its tables, and nothing else that SQLite would carry out when they are read.

    A view or a virtual table in the place of a table may compute without an end, a trigger may write. Names that begin
    with `sqlite_` are SQLite's own.

    Raises:
        JournalError: It has other ones.
    """
    there = frozenset(connection.execute("SELECT type, name, sql FROM sqlite_master LIMIT ?", (_MOST_OBJECTS,)))
    foreign = {one for one in there - _known_objects() if not str(one[1]).startswith("sqlite_")}
    if foreign:
        names = sorted(one_line(f"{kind} {name}") for kind, name, _ in foreign)
        raise damaged(path, f"it is not a journal, as it has a {', a '.join(names[:_SHOWN])}")
    missing = sorted(name for kind, name, _ in _known_objects() - there if kind == "table")
    if missing:
        raise damaged(path, f"no such table: {', '.join(missing)}")


def require_version(connection: sqlite3.Connection, path: Path) -> int:
    """Return the version of a journal, if this program can read it.

    Raises:
        JournalError: It is a later one, or none, or has other tables than a journal.
    """
    version = int(connection.execute("PRAGMA user_version").fetchone()[0])
    if version == 0:
        raise damaged(path, "it is empty")
    if not OLDEST_VERSION <= version <= SCHEMA_VERSION:
        raise JournalError(
            f"{path} has version {version}; this program reads versions {OLDEST_VERSION} to {SCHEMA_VERSION}.",
            hint="A later version of eksml-tui has written it: install that one.",
        )
    _require_tables(connection, path)
    return version


def migrate(connection: sqlite3.Connection, path: Path) -> None:
    """Bring a journal to the present version, inside of the caller's transaction or in a copy in memory.

    Raises:
        JournalError: It has a version that this program cannot read.
    """
    for version in range(require_version(connection, path) + 1, SCHEMA_VERSION + 1):
        for statement in MIGRATIONS[version]:
            connection.execute(statement)
        connection.execute(f"PRAGMA user_version = {version}")


def migrate_unless_in_use(connection: sqlite3.Connection, path: Path) -> int:
    """Bring a journal to the present version, unless a runner of an older program is alive; return its version.

    A runner brings the journal to its own version when it takes the lease. So one of a lower version has a holder that
    cannot read a later one.

    Raises:
        JournalError: It has a version that this program cannot read.
    """
    version = require_version(connection, path)
    if version == SCHEMA_VERSION or older_runner(connection) is not None:
        return version
    migrate(connection, path)
    return SCHEMA_VERSION


def older_runner(connection: sqlite3.Connection) -> ProcessIdentity | None:
    """Return the living process that holds a journal of an older version, other than this one."""
    row = connection.execute("SELECT pid, start_ticks, boot_id FROM lease WHERE id = 1").fetchone()
    if row is None or row[0] == os.getpid():
        return None
    holder = ProcessIdentity(*row)
    return holder if is_alive(holder) else None


def encode_for(body: Body, version: int, path: Path) -> str:
    """Return the JSON text of a body as programs of a version read it.

    Raises:
        RefusedError: They have no such record.
    """
    if version >= SCHEMA_VERSION:
        return encode_body(body)
    kind = record_kind(body)
    if _KINDS_SINCE.get(kind, OLDEST_VERSION) > version:
        name = path.parent.name
        raise RefusedError(
            f"The runner of {name} is of an earlier version of eksml-tui, which does not support this request.",
            hint=f"End that process, then go on with this version: eksml-tui runs resume {name}",
        )
    later = {field for field, since in _FIELDS_SINCE.get(kind, {}).items() if since > version}
    document = msgspec.json.decode(encode_body(body))
    return msgspec.json.encode({name: value for name, value in document.items() if name not in later}).decode()

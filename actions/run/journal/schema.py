"""The tables of a journal and their version; one of another version is refused."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from functools import cache
from pathlib import Path

from actions.base.errors import JournalError
from actions.base.untrusted import one_line

SCHEMA_VERSION = 1
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
    token TEXT NOT NULL, taken_at REAL NOT NULL
) STRICT;
CREATE TRIGGER record_is_kept BEFORE DELETE ON record BEGIN SELECT RAISE(ABORT, 'records are kept'); END;
CREATE TRIGGER record_is_final BEFORE UPDATE ON record BEGIN SELECT RAISE(ABORT, 'records are final'); END;
"""


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


def require_version(connection: sqlite3.Connection, path: Path) -> None:
    """Require that this program can read a journal.

    Raises:
        JournalError: It has another version, or none, or other tables than a journal.
    """
    version = int(connection.execute("PRAGMA user_version").fetchone()[0])
    if version == 0:
        raise damaged(path, "it is empty")
    if version != SCHEMA_VERSION:
        raise JournalError(
            f"{path} has version {version}; this program reads version {SCHEMA_VERSION}.",
            hint="Another version of eksml-tui has written it: use that one.",
        )
    _require_tables(connection, path)

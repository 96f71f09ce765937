"""The repair of a run's files while it has no runner: spools in place, the journal as a copy beside it."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from pathlib import Path

import msgspec

from actions.base.errors import JournalError, RefusedError
from actions.base.files import PRIVATE_FILE
from actions.run.journal.folder import journal_path, logs_path
from actions.run.journal.lease import read_runner_lease
from actions.run.journal.schema import SCHEMA_VERSION, make_tables, require_version
from actions.run.journal.snapshot import SnapshotReader
from actions.run.spool.files import set_aside
from actions.run.spool.format import lines_file, points_file, sources_file
from actions.run.spool.writer import SpoolWriter
from actions.run.state.records import decode_body, record_kind

_MOST_RECORDS = 1_000_000
Row = tuple[int, float, str, str, int, str]
"""Number, time, writer, stage, attempt and JSON of a record."""


class SpoolRepair(msgspec.Struct, frozen=True):
    """The repair of one stage's spool."""

    stage: str
    done: tuple[str, ...]
    """The repaired parts, one sentence each; empty if it was whole."""
    missing: tuple[str, ...]
    """The missing parts, one sentence each."""
    set_aside: tuple[str, ...]
    """Paths of damaged files that are kept."""
    error: str
    """The reason why it could not be repaired; empty if it could."""


class JournalRepair(msgspec.Struct, frozen=True):
    """The repair of the journal, which itself is never changed."""

    damage: str
    """Empty if it is whole."""
    records: int
    """Number of readable records."""
    copy: str
    """Path of a new journal with these, renumbered; empty if none was made."""


class Repair(msgspec.Struct, frozen=True):
    """The repair of a run."""

    run: str
    journal: JournalRepair
    stages: tuple[SpoolRepair, ...]

    @property
    def is_whole(self) -> bool:
        """True if nothing is damaged after the repair."""
        return not self.journal.damage and not any(stage.error for stage in self.stages)


def repair_run(folder: Path) -> Repair:
    """Repair the spools of a run; if its journal is damaged, copy the readable records.

    Args:
        folder: The run's.

    Raises:
        RefusedError: It has a runner, which repairs its spools itself.
    """
    _refuse_with_runner(folder)
    logs = logs_path(folder, "x").parent
    stages = sorted(entry.name for entry in logs.iterdir() if entry.is_dir()) if logs.is_dir() else []
    return Repair(folder.name, _journal(folder), tuple(_spool(folder, stage) for stage in stages))


def repair_json(repair: Repair) -> str:
    """Return a repair as JSON."""
    document = {"schema": "eksml-repair/1", "whole": repair.is_whole, **msgspec.to_builtins(repair)}
    return msgspec.json.format(msgspec.json.encode(document)).decode() + "\n"


def repair_text(repair: Repair) -> str:
    """Return a repair as text."""
    lines = [f"Journal: whole, {repair.journal.records} records."]
    if repair.journal.damage:
        kept = f"{repair.journal.records} records can be read"
        copied = f"{kept}; they are in {repair.journal.copy}" if repair.journal.copy else kept
        lines = [f"Journal: damaged ({repair.journal.damage}). {copied}. The journal itself was left as it is."]
    for stage in repair.stages:
        sentences = [*stage.done, *stage.missing, *([f"It cannot be repaired: {stage.error}"] if stage.error else [])]
        lines.append(f"{stage.stage}: {' '.join(sentences) or 'whole.'}")
    return "\n".join(lines) + "\n"


def _refuse_with_runner(folder: Path) -> None:
    try:
        connection = SnapshotReader(journal_path(folder)).connect()
        if connection is None:
            return
        with closing(connection):
            lease = read_runner_lease(connection)
    except (sqlite3.DatabaseError, JournalError):
        lease = None
    if lease is not None and lease.is_alive:  # also a stalled one, which may resume at any time
        raise RefusedError(
            f"Run {folder.name} is carried out by process {lease.holder.pid}, which repairs its logs itself.",
            hint="Cancel it, or wait for its end.",
        )


def _spool(folder: Path, stage: str) -> SpoolRepair:
    writer = SpoolWriter(folder, stage)
    error = ""
    try:
        writer.open()
        missing = writer.losses()
        writer.close()
    except OSError as failure:
        missing, error = (), f"{failure.strerror or failure}."
    paths = [path for of in (sources_file, lines_file, points_file) for path in set_aside(of(folder, stage))]
    return SpoolRepair(stage, writer.repairs, missing, tuple(map(str, paths)), error)


def _journal(folder: Path) -> JournalRepair:
    path = journal_path(folder)
    try:
        connection = SnapshotReader(path).connect()
    except (sqlite3.DatabaseError, JournalError) as error:
        return JournalRepair(_reason(error), 0, "")
    if connection is None:
        return JournalRepair("it cannot be read", 0, "")
    try:
        _refuse_later(connection, path)
        damage, rows = _check(connection), _rows(connection)
    finally:
        connection.close()
    gaps = [number for number, row in enumerate(rows, start=1) if row[0] != number]
    if not damage and gaps:
        damage = f"record {gaps[0]} is missing or cannot be read"
    if not damage or not rows:
        return JournalRepair(damage, len(rows), "")
    copy = _free_name(path)
    _write(copy, rows)
    return JournalRepair(damage, len(rows), str(copy))


def _refuse_later(connection: sqlite3.Connection, path: Path) -> None:
    """Refuse a journal of a later version: to this program its records would look damaged."""
    try:
        version = int(connection.execute("PRAGMA user_version").fetchone()[0])
    except sqlite3.DatabaseError:
        return
    if version > SCHEMA_VERSION:
        require_version(connection, path)


def _check(connection: sqlite3.Connection) -> str:
    """Have SQLite check the file; return the damage that it reports, empty if there is none."""
    try:
        answer = str(connection.execute("PRAGMA quick_check(1)").fetchone()[0])
        count = connection.execute("SELECT count(*), coalesce(max(seq), 0) FROM record").fetchone()
    except sqlite3.DatabaseError as error:
        return str(error)
    if answer != "ok":
        return answer
    return "" if count[0] == count[1] else f"{count[1] - count[0]} records are missing"


def _rows(connection: sqlite3.Connection) -> list[Row]:
    """Return every readable record, oldest first; read one by one, as a damaged one would end a common query."""
    try:
        newest = int(connection.execute("SELECT coalesce(max(seq), 0) FROM record").fetchone()[0])
    except sqlite3.DatabaseError:
        newest = _MOST_RECORDS
    found: list[Row] = []
    misses = 0
    for number in range(1, min(newest, _MOST_RECORDS) + 1):
        row = _row(connection, number)
        if row is not None:
            found.append(row)
        misses = 0 if row is not None else misses + 1
        if newest == _MOST_RECORDS and misses > 1000:
            break
    return found


def _row(connection: sqlite3.Connection, number: int) -> Row | None:
    try:
        row = connection.execute(
            "SELECT seq, at, writer, stage, attempt, json FROM record WHERE seq = ?", (number,)
        ).fetchone()
        if row is None:
            return None
        decode_body(row[5])
    except (sqlite3.DatabaseError, msgspec.MsgspecError, UnicodeDecodeError, RecursionError, TypeError):
        return None
    return int(row[0]), float(row[1]), str(row[2]), str(row[3]), int(row[4]), str(row[5])


def _write(path: Path, rows: list[Row]) -> None:
    os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_NOFOLLOW, PRIVATE_FILE))
    connection = sqlite3.connect(path, isolation_level=None)
    try:
        make_tables(connection, path.parent.name)
        connection.execute("BEGIN")
        for number, (_, at, writer, stage, attempt, text) in enumerate(rows, start=1):
            values = (number, at, writer, record_kind(decode_body(text)), stage, attempt, text)
            connection.execute("INSERT INTO record VALUES (?, ?, ?, ?, ?, ?, ?)", values)
        connection.execute("COMMIT")
    finally:
        connection.close()


def _free_name(path: Path) -> Path:
    number = 1
    while (other := path.with_name(f"{path.stem}.salvaged-{number}{path.suffix}")).exists():
        number += 1
    return other


def _reason(error: Exception) -> str:
    return error.message.rstrip(".") if isinstance(error, JournalError) else str(error)

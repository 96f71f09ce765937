"""A journal that somebody has made to do harm: refused with its reason, in bounded time and memory."""

from __future__ import annotations

import resource
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from actions.base.clock import SystemClock
from actions.base.errors import JournalError
from actions.run.client import list_runs, load_run, send_request
from actions.run.journal import snapshot
from actions.run.journal.folder import journal_path
from actions.run.journal.snapshot import SnapshotReader
from actions.run.journal.store import MOST_RECORDS, Journal
from actions.run.state.records import RequestKind, RunRequest, encode_body, record_kind
from tests.unit.run.world import make_run

CLOCK = SystemClock()
MEMORY_BYTES = 2_000_000_000
_ENDLESS = "WITH RECURSIVE n(seq) AS (SELECT 1 UNION ALL SELECT seq + 1 FROM n) SELECT seq"
_COLUMNS = "0.0 AS at, '' AS writer, 'wish' AS kind, '' AS stage, 0 AS attempt, '{}' AS json"


def _record_as_view(connection: sqlite3.Connection) -> None:
    connection.executescript(f"DROP TABLE record; CREATE VIEW record AS {_ENDLESS}, {_COLUMNS} FROM n;")


def _lease_as_view(connection: sqlite3.Connection) -> None:
    columns = "seq AS pid, 0 AS start_ticks, '' AS boot_id, '' AS token, 0.0 AS taken_at, '{}' AS notes"
    connection.executescript(f"DROP TABLE lease; CREATE VIEW lease AS {_ENDLESS} + 1 AS id, {columns} FROM n;")


def _virtual_table(connection: sqlite3.Connection) -> None:
    connection.executescript("DROP TABLE record; CREATE VIRTUAL TABLE record USING fts5(seq, at, json);")


def _computed_column(connection: sqlite3.Connection) -> None:
    connection.executescript(
        "ALTER TABLE record RENAME TO kept; CREATE TABLE record (seq INTEGER PRIMARY KEY, at REAL, writer TEXT, "
        "kind TEXT, stage TEXT, attempt INTEGER, json TEXT AS (hex(zeroblob(100000000))));"
        "INSERT INTO record VALUES (1, 0.0, '', 'wish', '', 0); DROP TABLE kept;"
    )


def _trigger(connection: sqlite3.Connection) -> None:
    connection.executescript(
        "CREATE TRIGGER more AFTER INSERT ON record BEGIN INSERT INTO meta VALUES (hex(randomblob(8)), ''); END;"
    )


def _gap(connection: sqlite3.Connection) -> None:
    connection.execute("INSERT INTO record VALUES (?, 0.0, '', 'wish', '', 0, '{}')", (2**62,))


def _many_records(connection: sqlite3.Connection) -> None:
    body = RunRequest(RequestKind.PAUSE)
    rows = ((seq, 0.0, "", record_kind(body), "", 0, encode_body(body)) for seq in range(2, MOST_RECORDS + 3))
    connection.executemany("INSERT INTO record VALUES (?, ?, ?, ?, ?, ?, ?)", rows)


HOSTILE: dict[str, tuple[Callable[[sqlite3.Connection], object], str]] = {
    "record is a view": (_record_as_view, "has a view record"),
    "lease is a view": (_lease_as_view, "has a view lease"),
    "a virtual table": (_virtual_table, "it is not a journal"),
    "a computed column": (_computed_column, "has a table record"),
    "a trigger": (_trigger, "has a trigger more"),
    "a gap": (_gap, "record 2 is missing"),
    "too many records": (_many_records, f"more than {MOST_RECORDS} records"),
}


@pytest.fixture(params=HOSTILE)
def hostile(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Path, str]:
    """The folder of a run whose journal was changed, and words of the reason."""
    folder = make_run(tmp_path, CLOCK)
    change, words = HOSTILE[request.param]
    connection = sqlite3.connect(journal_path(folder), isolation_level=None)
    connection.execute("BEGIN")
    try:
        change(connection)
        if connection.in_transaction:
            connection.execute("COMMIT")
    finally:
        connection.close()
    return folder, words


def test_it_is_refused_with_its_reason(hostile: tuple[Path, str]) -> None:
    folder, words = hostile
    with pytest.raises(JournalError, match="is damaged") as refused:
        load_run(folder)
    assert words in str(refused.value)
    (listed,) = list_runs(folder.parent)
    assert words in listed.error


def test_no_request_is_written_into_it(hostile: tuple[Path, str]) -> None:
    folder, _ = hostile
    before = journal_path(folder).read_bytes()
    with pytest.raises(JournalError):
        send_request(folder, RequestKind.PAUSE, start=False)
    assert journal_path(folder).read_bytes() == before


@pytest.mark.parametrize("change", [_record_as_view, _lease_as_view, _trigger])
def test_no_writer_opens_it(tmp_path: Path, change: Callable[[sqlite3.Connection], object]) -> None:
    folder = make_run(tmp_path, CLOCK)
    connection = sqlite3.connect(journal_path(folder))
    change(connection)
    connection.close()
    with pytest.raises(JournalError, match="it is not a journal"):
        Journal(journal_path(folder), CLOCK)


def test_reading_has_an_end_whatever_sqlite_computes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second line of defence: what no rule above has foreseen."""
    monkeypatch.setattr(snapshot, "MOST_SECONDS", 0.2)
    connection = SnapshotReader(journal_path(make_run(tmp_path, CLOCK))).connect()
    assert connection is not None
    began = time.monotonic()
    with pytest.raises(sqlite3.OperationalError, match="interrupted"):
        connection.execute(f"SELECT count(*) FROM ({_ENDLESS} FROM n)").fetchone()
    assert time.monotonic() - began < 5.0
    connection.close()


def test_it_takes_bounded_memory(tmp_path: Path) -> None:
    """In a process of its own, whose memory the kernel bounds."""
    folder = make_run(tmp_path, CLOCK)
    connection = sqlite3.connect(journal_path(folder))
    _many_records(connection)
    connection.commit()
    connection.close()
    code = "import sys, pathlib; from actions.run.client import list_runs; [run] = list_runs(pathlib.Path(sys.argv[1]))"
    code += "; print(run.error)"
    done = subprocess.run(
        [sys.executable, "-c", code, str(folder.parent)],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES)),
    )
    assert "which no run writes" in done.stdout


def test_the_reader_asks_sqlite_to_trust_no_schema(tmp_path: Path) -> None:
    connection = SnapshotReader(journal_path(make_run(tmp_path, CLOCK))).connect()
    assert connection is not None
    assert connection.execute("PRAGMA trusted_schema").fetchone() == (0,)
    connection.close()

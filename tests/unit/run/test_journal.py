"""The journal of a run."""

from __future__ import annotations

import os
import sqlite3
import stat
from pathlib import Path

import pytest

from actions.base.clock import SystemClock
from actions.base.errors import ConflictError, JournalError
from actions.base.process import ProcessIdentity, own_identity
from actions.run.journal import store as journal_module
from actions.run.journal.lease import grant_lease, read_runner_lease, release_lease, take_runner_lease
from actions.run.journal.store import DiskFullError, Journal, create_journal
from actions.run.state.records import Action, Intent, Outcome, RequestKind, Result, RunRequest
from tests.unit.run.world import creation

CLOCK = SystemClock()


def a_journal(folder: Path) -> Path:
    path = folder / "journal.db"
    create_journal(path, creation(), CLOCK)
    return path


def test_records_come_back_as_they_were_written(tmp_path: Path) -> None:
    path = a_journal(tmp_path)
    journal = Journal(path, CLOCK)
    written = journal.append(Outcome(Action.PERFORM, Result.DONE, "wörks"), stage="train", attempt=2)
    journal.close()
    assert Journal(path, CLOCK).records()[1:] == [written]
    assert (written.seq, written.writer, written.stage, written.attempt) == (2, "operator", "train", 2)


def test_the_journal_is_private(tmp_path: Path) -> None:
    path = a_journal(tmp_path)
    journal = Journal(path, CLOCK)
    journal.append(RunRequest(RequestKind.PAUSE))
    modes = {file.name: stat.S_IMODE(file.stat().st_mode) for file in tmp_path.iterdir()}
    assert modes == {"journal.db": 0o600, "journal.db-wal": 0o600, "journal.db-shm": 0o600}


def test_records_can_be_neither_changed_nor_deleted(tmp_path: Path) -> None:
    connection = sqlite3.connect(a_journal(tmp_path))
    for statement in ("DELETE FROM record", "UPDATE record SET stage = 'x'"):
        with pytest.raises(sqlite3.IntegrityError, match="records are"):
            connection.execute(statement)


def test_the_data_version_moves_when_another_process_writes(tmp_path: Path) -> None:
    path = a_journal(tmp_path)
    reader, writer = Journal(path, CLOCK), Journal(path, CLOCK)
    before = reader.data_version()
    assert reader.data_version() == before
    writer.append(RunRequest(RequestKind.CANCEL))
    assert reader.data_version() != before


def test_a_damaged_journal_is_said_to_be_damaged(tmp_path: Path) -> None:
    path = a_journal(tmp_path)
    data = bytearray(path.read_bytes())
    data[0:4000] = b"\xff" * 4000
    path.write_bytes(data)
    with pytest.raises(JournalError, match="damaged"):
        Journal(path, CLOCK).check()


def test_a_record_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    path = a_journal(tmp_path)
    journal = Journal(path, CLOCK)
    journal.connection.execute("INSERT INTO record VALUES (2, 0, 'x', 'wish', '', 0, '{\"kind\":\"wish\"}')")
    with pytest.raises(JournalError, match="record 2 cannot be read"):
        journal.records()


def test_a_missing_record_is_named(tmp_path: Path) -> None:
    journal = Journal(a_journal(tmp_path), CLOCK)
    journal.connection.execute("INSERT INTO record VALUES (3, 0, 'x', 'wish', '', 0, '{}')")
    with pytest.raises(JournalError, match="record 2 is missing"):
        journal.records()


def test_a_journal_of_another_version_is_refused(tmp_path: Path) -> None:
    path = a_journal(tmp_path)
    sqlite3.connect(path).execute("PRAGMA user_version = 9")
    with pytest.raises(JournalError, match="version 9"):
        Journal(path, CLOCK)


def test_a_network_file_system_is_refused_with_the_way_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal_module, "is_network_filesystem", lambda path: True)
    with pytest.raises(JournalError) as caught:
        a_journal(tmp_path)
    assert "XDG_STATE_HOME" in caught.value.hint


def test_a_full_disk_is_an_error_that_may_pass_and_writes_nothing(tmp_path: Path) -> None:
    journal = Journal(a_journal(tmp_path), CLOCK)
    pages = journal.connection.execute("PRAGMA page_count").fetchone()[0]
    journal.connection.execute(f"PRAGMA max_page_count = {pages}")
    big = Outcome(Action.PERFORM, Result.DONE, "x" * 200_000)
    with pytest.raises(DiskFullError):
        journal.append(big)
    assert journal.last_seq() == 1
    journal.connection.execute(f"PRAGMA max_page_count = {pages + 1000}")
    assert journal.append(big).seq == 2


def test_only_one_process_holds_the_lease(tmp_path: Path) -> None:
    path = a_journal(tmp_path)
    lease = take_runner_lease(path, CLOCK)
    assert lease.is_alive
    with pytest.raises(ConflictError, match="already carried out by process"):
        take_runner_lease(path, CLOCK)


def test_the_lease_of_a_dead_process_is_taken_over_and_the_dead_cannot_write(tmp_path: Path) -> None:
    path = a_journal(tmp_path)
    first = take_runner_lease(path, CLOCK)
    journal = Journal(path, CLOCK, fence=first.token)
    journal.append(Intent(Action.AUDIT))
    journal.connection.execute("UPDATE lease SET boot_id = 'of an earlier boot'")
    second = take_runner_lease(path, CLOCK)
    assert second.token != first.token
    with pytest.raises(ConflictError, match="taken over"):
        journal.append(Intent(Action.AUDIT))
    assert journal.last_seq() == 2


def test_a_runner_is_started_once_and_takes_the_lease_that_waits_for_it(tmp_path: Path) -> None:
    path = a_journal(tmp_path)
    starts: list[int] = []

    def start() -> ProcessIdentity:
        starts.append(1)
        return own_identity()

    assert grant_lease(path, CLOCK, start) == own_identity()
    assert grant_lease(path, CLOCK, start) is None  # the new process has not yet come to its first line
    lease = take_runner_lease(path, CLOCK)
    assert grant_lease(path, CLOCK, start) is None
    assert len(starts) == 1
    with pytest.raises(ConflictError, match="already carried out"):
        take_runner_lease(path, CLOCK)
    Journal(path, CLOCK, fence=lease.token).append(Intent(Action.AUDIT))


def test_a_runner_that_died_before_it_took_its_lease_is_started_anew(tmp_path: Path) -> None:
    path = a_journal(tmp_path)
    of_the_dead = ProcessIdentity(os.getpid(), 1, "an earlier boot")
    assert grant_lease(path, CLOCK, lambda: of_the_dead) == of_the_dead
    assert grant_lease(path, CLOCK, own_identity) == own_identity()


def test_the_lease_is_kept_while_there_is_an_unseen_wish(tmp_path: Path) -> None:
    path = a_journal(tmp_path)
    lease = take_runner_lease(path, CLOCK)
    journal = Journal(path, CLOCK, fence=lease.token)
    Journal(path, CLOCK).append(RunRequest(RequestKind.TEARDOWN))
    assert not release_lease(journal, lease.token, seen=1)
    assert release_lease(journal, lease.token, seen=2)
    assert read_runner_lease(journal.connection) is None

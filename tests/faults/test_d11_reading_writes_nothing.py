"""D11: runs are read where nothing can be written, and reading leaves no trace."""

from __future__ import annotations

import os
import signal
import sqlite3
import threading
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from actions.base.clock import SystemClock
from actions.base.errors import JournalError
from actions.base.process import is_alive
from actions.run.client import RunReader, list_runs, load_run, send_request
from actions.run.journal.folder import journal_path
from actions.run.journal.lease import take_runner_lease
from actions.run.journal.snapshot import SnapshotReader
from actions.run.journal.store import Journal
from actions.run.state.records import Action, Intent, Outcome, RequestKind, Result, RunRequest
from actions.sandbox.locate import RunningSandbox
from tests.faults.disks import as_an_ordinary_user, read_only
from tests.faults.longruns import a_long_run, runner_of
from tests.support.polling import wait
from tests.support.program import Program
from tests.unit.run.world import make_run

SANDBOX_SPEED = 100.0
CLOCK = SystemClock()


def tree_of(folder: Path) -> dict[str, tuple[int, int, int, bytes]]:
    """Everything that is there: mode, size, time of the last change, content."""
    found = {}
    for path in [folder, *sorted(folder.rglob("*"))]:
        status = path.lstat()
        content = path.read_bytes() if path.is_file() else b""
        found[str(path)] = (status.st_mode, status.st_size, status.st_mtime_ns, content)
    return found


def test_listing_and_showing_change_nothing(
    program: Program, sandbox: RunningSandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = a_long_run(program, sandbox, monkeypatch)
    runner = runner_of(program, folder)
    os.kill(runner.pid, signal.SIGKILL)  # it leaves a log and its index behind
    wait(lambda: not is_alive(runner), "the end of the runner")
    assert (folder / "journal.db-wal").exists()
    make_run(program.state, CLOCK)
    for name in ("empty", "none"):
        (program.state / "runs" / name).mkdir()
    (program.state / "runs" / "empty" / "journal.db").touch()
    before = tree_of(program.state)
    for words in (("list",), ("list", "-o", "json"), ("show", folder.name), ("show", "fake"), ("logs", folder.name)):
        # without --readonly the runner that has died is started again, see D13
        assert program.command("--readonly", "runs", *words).returncode == 0, words
    assert program.command("--readonly", "runs", "show", "empty").returncode == 1
    assert tree_of(program.state) == before


def test_a_run_on_a_read_only_file_system_is_shown_and_says_so(program: Program) -> None:
    folder = make_run(program.state, CLOCK)
    send_request(folder, RequestKind.PAUSE, start=False)
    with read_only(program.state):
        for verb in ("list", "show", "logs"):
            done = program.command("runs", verb, *([] if verb == "list" else ["latest"]))
            assert (done.returncode, done.stderr) == (0, ""), verb
        assert "mounted read-only" in program.command("runs", "show", "latest").stdout
        done = program.command("runs", "cancel", "latest")
        assert done.returncode == 1
        assert "read-only; nothing was written." in done.stderr
        assert len(done.stderr.splitlines()) == 1
    assert load_run(folder).is_paused


@pytest.mark.parametrize("with_log", [False, True])
def test_a_run_whose_files_may_only_be_read_is_shown(program: Program, with_log: bool) -> None:
    folder = make_run(program.state, CLOCK)
    open_journal = Journal(journal_path(folder), CLOCK) if with_log else None
    if open_journal is not None:
        open_journal.append(RunRequest(RequestKind.PAUSE))
    closed = [folder, *folder.rglob("*")]
    for path in closed:
        path.chmod(0o500 if path.is_dir() else 0o400)
    try:
        before = tree_of(folder)
        for words in (("list",), ("logs", "latest"), ("show", "latest")):
            done = as_an_ordinary_user(program, "runs", *words, is_executed=with_log)
            assert (done.returncode, done.stderr) == (0, ""), words
        assert ("paused" in done.stdout) == with_log
        assert as_an_ordinary_user(program, "runs", "cancel", "latest", is_executed=with_log).returncode == 1
        assert tree_of(folder) == before
    finally:
        for path in closed:
            path.chmod(0o700)


def locks_on(path: Path) -> int:
    """Return the number of this process's locks on a file."""
    rows = [line.split() for line in Path("/proc/locks").read_text().splitlines()]
    inode = f":{path.stat().st_ino}"
    return len({tuple(row[1:]) for row in rows if row[4] == str(os.getpid()) and row[5].endswith(inode)})


def test_reading_drops_no_lock_that_this_process_holds_by_sqlite(tmp_path: Path) -> None:
    """Closing any descriptor of the file would: another process could then take the log away under ours."""
    folder = make_run(tmp_path, CLOCK)
    journal = Journal(journal_path(folder), CLOCK)
    journal.append(RunRequest(RequestKind.PAUSE))
    held = locks_on(journal_path(folder))
    assert held > 0
    for _ in range(3):
        assert load_run(folder).is_paused
    # The kernel's table is read in parts, while other processes of the machine lock and unlock: one may be passed over.
    wait(lambda: locks_on(journal_path(folder)) == held, "as many locks as before")
    descriptors = len(list(Path("/proc/self/fd").iterdir()))
    journal.close()
    assert len(list(Path("/proc/self/fd").iterdir())) < descriptors
    assert load_run(folder).is_paused


def records_by_sqlite(path: Path) -> list[tuple[object, ...]]:
    connection = sqlite3.connect(path)
    try:
        return connection.execute("SELECT * FROM record ORDER BY seq").fetchall()
    finally:
        connection.close()


@settings(max_examples=30, deadline=None)
@given(
    st.lists(
        st.one_of(st.integers(1, 30), st.sampled_from(["checkpoint", "truncate", "reopen", "roll back"])), max_size=12
    )
)
def test_what_is_read_is_what_sqlite_reads(tmp_path_factory: pytest.TempPathFactory, steps: list[int | str]) -> None:
    folder = make_run(tmp_path_factory.mktemp("same"), CLOCK)
    path = journal_path(folder)
    journal = Journal(path, CLOCK)
    reader = SnapshotReader(path)
    reader.connect()
    for step in steps:
        match step:
            case int():
                for number in range(step):
                    journal.append(Outcome(Action.AUDIT, Result.CANCELLED, "x" * number * 300))
            case "checkpoint":
                journal.connection.execute("PRAGMA wal_checkpoint(RESTART)")
            case "truncate":
                journal.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            case "roll back":
                journal.connection.execute("PRAGMA cache_size = 1")
                journal.connection.execute("BEGIN IMMEDIATE")
                journal.connection.executemany(
                    "INSERT INTO record VALUES (?, 0, 'x', 'wish', '', 0, ?)",
                    [(number, "y" * 3000) for number in range(1000, 1050)],
                )
                journal.connection.execute("ROLLBACK")
            case _:
                journal.close()
                journal = Journal(path, CLOCK)
        connection = reader.connect()
        assert connection is not None
        assert connection.execute("SELECT * FROM record ORDER BY seq").fetchall() == records_by_sqlite(path)
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        connection.close()
        later = reader.connect(only_news=True)
        if later is not None:  # looking again may cost a reading, and finds the same
            assert later.execute("SELECT count(*) FROM record").fetchone()[0] == journal.last_seq()
            later.close()
    journal.close()


def test_a_reader_sees_a_whole_journal_while_others_write(tmp_path: Path) -> None:
    folder = make_run(tmp_path, CLOCK)
    path = journal_path(folder)
    is_over = threading.Event()

    def write() -> None:
        while not is_over.is_set():
            journal = Journal(path, CLOCK)
            for _ in range(3):
                journal.append(Outcome(Action.AUDIT, Result.CANCELLED, "x" * 2500))
            journal.close()

    writers = [threading.Thread(target=write) for _ in range(2)]
    for writer in writers:
        writer.start()
    try:
        reader, last = RunReader(folder), 0
        while last < 60:
            view = reader.poll()
            if view is not None:
                assert view.last_seq >= last
                last = view.last_seq
            assert load_run(folder).last_seq >= last
    finally:
        is_over.set()
        for writer in writers:
            writer.join()


def test_no_commit_is_missed_however_soon_it_follows_a_look(tmp_path: Path) -> None:
    folder = make_run(tmp_path, CLOCK)
    lease = take_runner_lease(journal_path(folder), CLOCK)
    journal = Journal(journal_path(folder), CLOCK, fence=lease.token)
    reader = RunReader(folder)
    reader.poll()
    for _ in range(100):
        written = journal.append(Intent(Action.AUDIT))
        view = reader.poll()
        assert view is not None
        assert view.last_seq == written.seq
        assert reader.poll() is None
    journal.close()


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_a_damaged_journal_is_a_sentence(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    home = tmp_path_factory.mktemp("damaged")
    folder = make_run(home, CLOCK)
    path = journal_path(folder)
    content = bytearray(path.read_bytes())
    if data.draw(st.booleans()):
        del content[data.draw(st.integers(0, len(content) - 1)) :]
    for _ in range(data.draw(st.integers(0, 20))):
        if content:
            content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    path.write_bytes(bytes(content))
    (only,) = list_runs(home / "runs")
    assert "\n" not in only.error
    if only.error:
        with pytest.raises(JournalError):
            load_run(folder)

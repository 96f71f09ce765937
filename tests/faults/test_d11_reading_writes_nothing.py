"""D11: runs are read where nothing can be written, and reading leaves no trace."""

from __future__ import annotations

import os
import signal
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
    os.kill(runner.pid, signal.SIGKILL)
    wait(lambda: not is_alive(runner), "the end of the runner")
    make_run(program.state, CLOCK)
    for name in ("empty", "none"):
        (program.state / "runs" / name).mkdir()
    (program.state / "runs" / "empty" / "journal.jsonl").touch()
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


@pytest.mark.parametrize("is_open", [False, True])
def test_a_run_whose_files_may_only_be_read_is_shown(program: Program, is_open: bool) -> None:
    folder = make_run(program.state, CLOCK)
    open_journal = Journal(journal_path(folder), CLOCK) if is_open else None
    if open_journal is not None:
        open_journal.append(RunRequest(RequestKind.PAUSE))
    closed = [folder, *folder.rglob("*")]
    for path in closed:
        path.chmod(0o500 if path.is_dir() else 0o400)
    try:
        before = tree_of(folder)
        for words in (("list",), ("logs", "latest"), ("show", "latest")):
            done = as_an_ordinary_user(program, "runs", *words, is_executed=is_open)
            assert (done.returncode, done.stderr) == (0, ""), words
        assert ("paused" in done.stdout) == is_open
        assert as_an_ordinary_user(program, "runs", "cancel", "latest", is_executed=is_open).returncode == 1
        assert tree_of(folder) == before
    finally:
        for path in closed:
            path.chmod(0o700)


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


def test_no_record_is_missed_however_soon_it_follows_a_look(tmp_path: Path) -> None:
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
    places = st.integers(0, 9999).map(lambda part: part * len(content) // 10_000)  # the length is not always the same
    if data.draw(st.booleans()):
        del content[data.draw(places) :]
    for _ in range(data.draw(st.integers(0, 20))):
        place, value = data.draw(places), data.draw(st.integers(0, 255))
        if content:
            content[place] = value
    path.write_bytes(bytes(content))
    (only,) = list_runs(home / "runs")
    assert "\n" not in only.error
    if only.error:
        with pytest.raises(JournalError):
            load_run(folder)

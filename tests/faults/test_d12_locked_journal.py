"""D12: a journal that another process has locked is waited for, told, and ends nothing."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from actions.base.clock import SystemClock
from actions.base.process import is_alive
from actions.run.client import RunReader, load_run, send_request, start_runner
from actions.run.journal.folder import journal_path
from actions.run.journal.store import Journal, JournalLockedError
from actions.run.state.records import RequestKind, RunRequest
from actions.run.state.view import NoticeKind, RunState
from actions.sandbox.locate import RunningSandbox
from tests.faults.longruns import a_long_run, runner_of, until_view
from tests.support import zygote
from tests.support.polling import wait
from tests.support.program import Program
from tests.unit.run.world import make_run

SANDBOX_SPEED = 100.0
CLOCK = SystemClock()

HOLD = """
import fcntl, sys
journal = open(sys.argv[1])
fcntl.flock(journal, fcntl.LOCK_EX)
print("locked", flush=True)
sys.stdin.read()
"""


@contextmanager
def locked(folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Another process has taken the lock, and does nothing more."""
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(journal_path(folder))], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    with holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"locked\n"
        try:
            yield holder
        finally:
            holder.kill()


def is_told_to_be_locked(folder: Path) -> bool:
    return NoticeKind.LOCKED in {notice.kind for notice in load_run(folder).notices}


def test_a_runner_waits_for_a_locked_journal_as_long_as_it_takes(
    program: Program, sandbox: RunningSandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = a_long_run(program, sandbox, monkeypatch, command="echo begun; sleep 1500; echo done")
    runner = runner_of(program, folder)
    with locked(folder) as holder:
        os.kill(holder.pid, signal.SIGSTOP)  # it will not even end by itself
        wait(lambda: is_told_to_be_locked(folder), "the lock to be told")
        shown = program.command("runs", "show", "latest").stdout
        assert "locked by another process" in shown
        assert "(since " in shown
        assert "running" in shown
        assert "locked by another process" in program.command("runs", "list").stdout

        refused = program.command("runs", "cancel", "latest", seconds=60)  # longer than the ten seconds that killed it
        assert refused.returncode == 1
        assert f"process {holder.pid} (python" in refused.stderr
        assert "nothing was written" in refused.stderr
        assert len(refused.stderr.splitlines()) == 1

        assert is_alive(runner)
        assert load_run(folder).state is RunState.RUNNING
        os.kill(holder.pid, signal.SIGCONT)
    # The record that the lock kept back is there a moment before the heartbeat that no longer waits.
    view = until_view(
        folder,
        lambda view: view.state is not RunState.RUNNING and not view.notices,
        "the end of the run, and of its notice",
    )
    assert view.state is RunState.SUCCEEDED
    assert view.stage("work").attempt == 1


def test_a_runner_that_starts_while_the_journal_is_locked_waits_too(
    program: Program, sandbox: RunningSandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = a_long_run(program, sandbox, monkeypatch)
    first = runner_of(program, folder)
    os.kill(first.pid, signal.SIGKILL)
    wait(lambda: not is_alive(first), "the end of the runner")
    monkeypatch.setattr(zygote, "IS_USED", False)  # else it could be there before the lock
    started = start_runner(folder)
    assert started is not None
    with locked(folder):
        wait(lambda: is_told_to_be_locked(folder), "the lock to be told")
        assert is_alive(started)
    wait(lambda: not is_told_to_be_locked(folder), "the lock to be gone")
    send_request(folder, RequestKind.CANCEL)
    until_view(folder, lambda view: view.state is RunState.CANCELLED, "the cancel")


def test_reading_waits_for_no_lock(tmp_path: Path) -> None:
    folder = make_run(tmp_path, CLOCK)
    reader = RunReader(folder)
    with locked(folder):
        assert reader.poll() is not None
        assert load_run(folder).state is RunState.WAITING
        with pytest.raises(JournalLockedError, match="is locked by process"):
            Journal(journal_path(folder), CLOCK, lock_seconds=0.1).append(RunRequest(RequestKind.PAUSE))

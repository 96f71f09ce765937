"""D13: a runner that has stopped is told within ten seconds; one that has ended is started again by whoever sees it."""

from __future__ import annotations

import json
import os
import signal
import time
from pathlib import Path

import pytest
from msgspec.structs import replace

from actions.base.clock import SystemClock
from actions.base.process import ProcessIdentity, is_alive, own_identity
from actions.run.client import load_run, resume_interrupted, send_request
from actions.run.journal.folder import BLOCK_BYTES, heartbeat_path, journal_path, read_block, write_block
from actions.run.journal.lease import (
    MOST_STARTS,
    STALLED_SECONDS,
    START_SECONDS,
    Heartbeat,
    HeartbeatState,
    announce,
    forget_starts,
    has_crashed_too_often,
    may_start_now,
    note_start,
    read_heartbeat,
    take_runner_lease,
)
from actions.run.journal.store import Journal
from actions.run.state.records import Action, Intent, RequestKind
from actions.run.state.view import NoticeKind, RunState
from actions.sandbox.locate import RunningSandbox
from tests.faults.disks import read_only
from tests.faults.longruns import a_long_run, runner_of, started_last, until_view
from tests.faults.rehearsal import uids_by_object
from tests.support.crashing import CRASH_VARIABLE, RUNNER_MODULE
from tests.support.journals import change_lease
from tests.support.polling import wait
from tests.support.program import Program
from tests.support.terminal import Terminal, needs_tmux
from tests.unit.run.world import make_run

SANDBOX_SPEED = 100.0
CLOCK = SystemClock()


class SetClock(SystemClock):
    """A clock that a test sets."""

    seconds = 1000.0

    def monotonic(self) -> float:
        return self.seconds


def test_a_stopped_runner_is_told_within_ten_seconds_and_taken_over_when_it_is_named(
    program: Program, sandbox: RunningSandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = a_long_run(program, sandbox, monkeypatch)
    stopped = runner_of(program, folder)
    os.kill(stopped.pid, signal.SIGSTOP)
    stopped_at = time.monotonic()

    def is_told() -> bool:
        """Look: in ten seconds it is told, however seldom a busy machine looks."""
        looked_at = time.monotonic()
        has_told = load_run(folder).state is RunState.STALLED
        assert has_told or looked_at - stopped_at < 10.0
        return has_told

    wait(is_told, "the runner to be called stalled")

    shown = program.command("runs", "show", "latest").stdout
    assert "stalled" in shown
    assert f"process {stopped.pid}, does not respond. (since " in shown
    listed = json.loads(program.command("runs", "list", "--output", "json").stdout)
    assert (listed[0]["state"], listed[0]["notices"][0]["kind"]) == ("stalled", "stalled")

    asked = program.command("runs", "cancel", "latest")
    assert asked.returncode == 0
    assert f"--takeover {stopped.pid}" in asked.stderr
    for words in ((), ("--takeover", "1")):
        refused = program.command("runs", "resume", "latest", *words)
        assert refused.returncode == 1
        assert str(stopped.pid) in refused.stderr
        assert is_alive(stopped)
    taken = program.command("runs", "resume", "latest", "--takeover", str(stopped.pid))
    assert (taken.returncode, "continues as process" in taken.stdout) == (0, True), taken.stderr
    assert not is_alive(stopped)  # so that it cannot wake up in the middle of what the other one does
    until_view(folder, lambda view: view.state is RunState.CANCELLED, "the cancel")
    assert all(len(uids) == 1 for uids in uids_by_object(folder).values())


def test_a_runner_that_wakes_up_is_stalled_no_more_and_follows(
    program: Program, sandbox: RunningSandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = a_long_run(program, sandbox, monkeypatch)
    runner = runner_of(program, folder)
    os.kill(runner.pid, signal.SIGSTOP)
    until_view(folder, lambda view: view.state is RunState.STALLED, "the runner to be called stalled")
    assert "does not respond" in send_request(folder, RequestKind.CANCEL)
    os.kill(runner.pid, signal.SIGCONT)
    view = until_view(folder, lambda view: view.state is RunState.CANCELLED, "the cancel")
    assert view.notices == ()


def test_whoever_has_lost_the_lease_writes_nothing_and_ends(
    program: Program, sandbox: RunningSandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = a_long_run(program, sandbox, monkeypatch)
    runner = runner_of(program, folder)
    journal = Journal(journal_path(folder), CLOCK)
    change_lease(folder, token="of another runner")
    before = journal.last_seq()
    journal.close()
    wait(lambda: not is_alive(runner), "the end of the runner that was fenced")
    assert load_run(folder).last_seq == before
    assert "another runner has taken over" in (folder / "runner.log").read_text()


@needs_tmux
@pytest.mark.terminal
def test_an_open_console_tells_of_a_stopped_runner_and_starts_a_dead_one_again(
    program: Program, sandbox: RunningSandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = a_long_run(program, sandbox, monkeypatch)
    argv = program.argv("--kubeconfig", str(sandbox.kubeconfig), "--run", "latest")
    console = Terminal(argv, environment=program.environment, size=(120, 30), directory=program.home)
    try:
        console.wait("▶ Work")
        runner = runner_of(program, folder)
        os.kill(runner.pid, signal.SIGSTOP)
        console.press("2")
        console.wait("4 ▲ runner stalled")
        console.press("4")
        console.wait(r"stalled since \d\d:\d\d:\d\d UTC")
        console.wait("▲ Its runner, process .* does not respond")
        console.wait(r"\? Work")
        console.press("R")
        console.wait(rf"takeover={runner.pid}")
        os.kill(runner.pid, signal.SIGCONT)
        console.wait_gone("does not respond")
        console.wait("▶ Work")
        os.kill(runner.pid, signal.SIGKILL)
        console.wait(r"Run small-\S+ was\s+interrupted")
        wait(lambda: started_last(folder) not in (None, runner), "another runner")
        console.wait("▶ Work")
    finally:
        console.close()
    assert all(len(uids) == 1 for uids in uids_by_object(folder).values())


def test_the_next_command_starts_a_runner_again_that_has_died(
    program: Program, sandbox: RunningSandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = a_long_run(program, sandbox, monkeypatch)
    first = runner_of(program, folder)
    os.kill(first.pid, signal.SIGKILL)
    wait(lambda: not is_alive(first), "the end of the runner")
    assert program.command("--readonly", "runs", "list").stderr == ""
    assert started_last(folder) is None
    listed = program.command("runs", "list", "--output", "json")
    assert listed.stderr == f"eksml-tui: Run {folder.name} was interrupted and has been resumed.\n"
    (entry,) = json.loads(listed.stdout)
    assert entry["notices"] == []
    assert started_last(folder) not in (None, first)
    assert program.command("runs", "show", "latest").stderr == ""


def test_no_command_starts_a_runner_where_it_could_not_write(
    program: Program, sandbox: RunningSandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = a_long_run(program, sandbox, monkeypatch)
    first = runner_of(program, folder)
    os.kill(first.pid, signal.SIGKILL)
    wait(lambda: not is_alive(first), "the end of the runner")
    with read_only(program.state):
        listed = program.command("runs", "list")
    assert (listed.returncode, listed.stderr) == (0, "")
    assert "read-only" in listed.stdout
    assert started_last(folder) is None


def test_a_runner_that_dies_again_and_again_is_left_and_said(
    program: Program, sandbox: RunningSandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = a_long_run(program, sandbox, monkeypatch)
    first = runner_of(program, folder)
    os.kill(first.pid, signal.SIGKILL)
    wait(lambda: not is_alive(first), "the end of the runner")
    looked = program.command("--readonly", "runs", "show", "latest")
    assert "It has no runner. Resume it with" in looked.stdout
    assert "It has no runner." in program.command("--readonly", "runs", "list").stdout
    crash_at = {CRASH_VARIABLE: f"{load_run(folder).last_seq + 1}:before"}
    started: set[ProcessIdentity] = set()

    def is_left() -> bool:
        resume_interrupted(environment=crash_at, module=RUNNER_MODULE)
        holder = started_last(folder)
        started.update({holder} - {None})  # type: ignore[arg-type]
        return not holder and has_crashed_too_often(folder, CLOCK)

    wait(is_left, "the runner to be left")
    assert 1 <= len(started) <= MOST_STARTS - 1
    assert resume_interrupted(environment=crash_at, module=RUNNER_MODULE) == []
    assert program.command("runs", "list").stderr == ""
    assert "died five times in ten minutes" in program.command("runs", "show", "latest").stdout
    assert "continues as process" in program.command("runs", "resume", "latest").stdout  # by hand it always is
    send_request(folder, RequestKind.CANCEL)
    until_view(folder, lambda view: view.state is RunState.CANCELLED, "the cancel")
    wait(lambda: not has_crashed_too_often(folder, CLOCK), "the deaths to be forgotten")


def test_reading_read_only_starts_no_runner(
    program: Program, sandbox: RunningSandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = a_long_run(program, sandbox, monkeypatch)
    runner = runner_of(program, folder)
    os.kill(runner.pid, signal.SIGKILL)
    wait(lambda: not is_alive(runner), "the end of the runner")
    for words in (("runs", "list"), ("runs", "show", "latest"), ("runs", "logs", "latest")):
        assert program.command("--readonly", *words).returncode == 0
    assert started_last(folder) is None


def test_silence_is_counted_by_the_monotonic_clock(tmp_path: Path) -> None:
    clock, holder = SetClock(), own_identity()
    folder = make_run(tmp_path, CLOCK)
    heartbeat = Heartbeat(folder, holder, clock)
    heartbeat.beat()
    beat = read_heartbeat(folder, holder)
    assert beat is not None
    assert not beat.is_stalled(clock.seconds + STALLED_SECONDS)
    assert beat.is_stalled(clock.seconds + STALLED_SECONDS + 0.1)
    assert STALLED_SECONDS + 2.0 < 10.0
    assert read_heartbeat(folder, replace(holder, pid=1)) is None
    announce(folder, holder, clock)
    first = read_heartbeat(folder, holder)
    assert first is not None
    assert not first.is_stalled(clock.seconds + START_SECONDS)
    assert first.is_stalled(clock.seconds + START_SECONDS + 1)


def test_a_runner_whose_sign_of_life_is_missing_or_damaged_is_not_called_stalled(tmp_path: Path) -> None:
    folder = make_run(tmp_path, CLOCK)
    lease = take_runner_lease(journal_path(folder), CLOCK)
    Journal(journal_path(folder), CLOCK, fence=lease.token).append(Intent(Action.PERFORM), stage="provision")
    heartbeat_path(folder).unlink()
    assert load_run(folder).state is RunState.RUNNING
    heartbeat_path(folder).write_bytes(os.urandom(BLOCK_BYTES))
    assert load_run(folder).state is RunState.RUNNING


def test_notes_that_are_too_long_are_cut_and_the_sign_of_life_is_left(tmp_path: Path) -> None:
    folder = make_run(tmp_path, CLOCK)
    heartbeat = Heartbeat(folder, own_identity(), CLOCK)
    for number in range(90):
        heartbeat.note(f"stage-{number}", "x" * 390)
    heartbeat.waits_for(NoticeKind.LOCKED)
    beat = read_heartbeat(folder, own_identity())
    assert isinstance(beat, HeartbeatState)
    assert len(beat.notes) == 90
    assert list(beat.waits) == ["locked"]


def test_a_block_is_whole_or_not_there(tmp_path: Path) -> None:
    path = tmp_path / "block"
    assert read_block(path) == b""
    assert write_block(path, b"first")
    assert path.stat().st_size == BLOCK_BYTES
    assert write_block(path, b"2nd")
    assert read_block(path) == b"2nd"
    assert not write_block(path, bytes(BLOCK_BYTES))
    assert read_block(path) == b"2nd"
    with path.open("r+b") as file:
        file.seek(13)
        file.write(b"X")
    assert read_block(path) == b""


def test_the_pauses_between_starts_grow_until_there_are_no_more(tmp_path: Path) -> None:
    clock = SetClock()
    pauses: list[float] = []
    note_start(tmp_path, clock, is_asked_for=True)
    assert may_start_now(tmp_path, clock)
    for _ in range(MOST_STARTS - 1):
        note_start(tmp_path, clock, is_asked_for=False)
        began = clock.seconds
        while not may_start_now(tmp_path, clock) and clock.seconds < began + 100:
            clock.seconds += 0.5
        pauses.append(clock.seconds - began)
    assert pauses == [1.0, 2.0, 4.0, 100.0]
    assert has_crashed_too_often(tmp_path, clock)
    clock.seconds += 600
    assert may_start_now(tmp_path, clock)
    note_start(tmp_path, clock, is_asked_for=False)
    assert not may_start_now(tmp_path, clock)
    forget_starts(tmp_path)
    assert may_start_now(tmp_path, clock)

"""A runner that is killed around any record of its journal: the next one ends in the same world."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

import pytest

from actions.base.clock import SystemClock
from actions.run.client import load_run, send_request
from actions.run.engine.runner_process import main
from actions.run.journal.folder import journal_path
from actions.run.state.records import RequestKind
from actions.run.state.view import RunState, StageState
from tests.support.crashing import crash_around_records
from tests.support.forked import forked
from tests.unit.run.world import FakeWorkshop, World, make_run

ROOT = Path(__file__).parents[2]
RECORDS = 35
"""Of a whole life without a crash: creation, three stages, teardown. Kept honest by the first test."""

HISTORY = [
    "make provision", "make operators", "make train", "remove train", "remove operators", "remove provision",
]  # fmt: skip

pytestmark = pytest.mark.kill


def one_runner(folder: Path, crash_at: str) -> subprocess.CompletedProcess[str]:
    """A runner, in a process of its own, until it ends or kills itself."""

    def work() -> int:
        crash_around_records(lambda seq, side: f"{seq}:{side}" == crash_at)
        return main(folder, FakeWorkshop)

    return forked(work, environment=os.environ.copy(), directory=ROOT, seconds=120)


def run_to_its_end(folder: Path, crash_at: str = "") -> int:
    """Start runners until one ends by itself. Returns how many were killed."""
    killed = 0
    while True:
        ended = one_runner(folder, crash_at)
        if ended.returncode == 0:
            return killed
        assert ended.returncode == -signal.SIGKILL, ended.stderr
        killed += 1
        if crash_at.endswith("before"):  # the record was not written: the next runner would die at the same number
            crash_at = ""
        assert killed < 3


def whole_life(home: Path, crash_at: str = "") -> tuple[Path, int]:
    folder = make_run(home, SystemClock())
    killed = run_to_its_end(folder, crash_at)
    assert load_run(folder).state is RunState.SUCCEEDED
    assert World(folder).names() == ["operators", "provision", "train"]
    send_request(folder, RequestKind.TEARDOWN, start=False)
    killed += run_to_its_end(folder, "" if killed else crash_at)
    return folder, killed


def test_the_whole_life_without_a_crash(tmp_path: Path) -> None:
    folder, killed = whole_life(tmp_path)
    view = load_run(folder)
    assert (killed, view.last_seq, view.state) == (0, RECORDS, RunState.TORN_DOWN)
    assert World(folder).history() == HISTORY


@pytest.mark.parametrize("side", ["before", "after"])
@pytest.mark.parametrize("seq", range(2, RECORDS + 1))
def test_a_killed_runner_is_resumed_to_the_same_world(tmp_path: Path, seq: int, side: str) -> None:
    folder, killed = whole_life(tmp_path, f"{seq}:{side}")
    view = load_run(folder)
    wished_from_outside = next(item.seq for item in view.requests)
    assert killed == 1 or (killed == 0 and seq == wished_from_outside)
    assert World(folder).history() == HISTORY
    assert view.state is RunState.TORN_DOWN
    assert view.audit is not None
    assert view.audit.leftovers == ()
    assert {stage.state for stage in view.stages} == {StageState.UNDONE}


@pytest.mark.parametrize("seq", range(2, 20))
def test_a_journal_torn_by_a_power_cut_loses_its_last_record_and_nothing_else(tmp_path: Path, seq: int) -> None:
    folder = make_run(tmp_path, SystemClock())
    ended = one_runner(folder, f"{seq}:after")
    assert ended.returncode, "the run ended before this record"
    content = journal_path(folder).read_bytes().rstrip(b"\0")
    missing = bytes(20) if seq % 2 else b""  # a block that was never written, or a file that never grew
    journal_path(folder).write_bytes(content[:-20] + missing)
    assert load_run(folder).last_seq == seq - 1
    run_to_its_end(folder)
    assert World(folder).history() == HISTORY[:3]
    assert load_run(folder).state is RunState.SUCCEEDED

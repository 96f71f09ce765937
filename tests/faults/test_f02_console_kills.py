"""F2: a console that is killed around anything that it does to a run; the next one ends in the same world."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from actions.base.clock import SystemClock
from actions.run.client import load_run, send_request, start_runner
from actions.run.state.records import RequestKind
from actions.run.state.view import RunState, RunView, StageState
from tests.faults.test_runner_kills import HISTORY, ROOT
from tests.support.leftover import processes_of
from tests.support.polling import wait
from tests.unit.run.world import World, make_run

pytestmark = pytest.mark.kill

RUNNER = "tests.unit.run.world"

CONSOLE = """
import os, signal, sys
from pathlib import Path
from actions.run import client
from actions.run.state.records import RequestKind
from tests.support.crashing import crash_around_records

folder, deed, point = Path(sys.argv[1]), sys.argv[2], sys.argv[3]
spawn = client.spawn_detached

def die():
    os.kill(os.getpid(), signal.SIGKILL)

def spawn_or_die(*arguments, **settings):
    if point == "start:before":
        die()
    found = spawn(*arguments, **settings)
    if point == "start:after":
        die()
    return found

crash_around_records(lambda seq, side: point == f"record:{side}")
client.spawn_detached = spawn_or_die
if deed == "approve":
    client.send_request(folder, RequestKind.APPROVE, plan_hash="hash-1", start=False)
elif deed == "teardown":
    client.send_request(folder, RequestKind.TEARDOWN, start=False)
client.start_runner(folder, module="tests.unit.run.world")
"""

POINTS = [("launch", point) for point in ("start:before", "start:after")] + [
    (deed, point) for deed in ("approve", "teardown") for point in ("record:before", "record:after", "start:before")
]


def a_console_does(folder: Path, deed: str, point: str) -> int:
    """Let a console do it, killed at the point; its exit code."""
    argv = [sys.executable, "-c", CONSOLE, str(folder), deed, point]
    return subprocess.run(argv, cwd=ROOT, timeout=60, check=False).returncode


def the_next_console_does(folder: Path, deed: str) -> None:
    """Do what an operator does who finds it undone."""
    view = load_run(folder)
    if deed == "approve" and RequestKind.APPROVE not in {item.kind for item in view.requests}:
        send_request(folder, RequestKind.APPROVE, plan_hash="hash-1", start=False)
    if deed == "teardown" and RequestKind.TEARDOWN not in {item.kind for item in view.requests}:
        send_request(folder, RequestKind.TEARDOWN, start=False)
    start_runner(folder, module=RUNNER)


def is_offered(view: RunView) -> bool:
    return view.stage("provision").state is StageState.AWAITING_APPROVAL


@pytest.mark.parametrize(("killed_deed", "point"), POINTS)
def test_f02_a_killed_console_is_followed_by_one_that_ends_in_the_same_world(
    tmp_path: Path, killed_deed: str, point: str
) -> None:
    folder = make_run(tmp_path, SystemClock(), auto_approve=False)
    for deed, is_done in (
        ("launch", is_offered),
        ("approve", lambda view: view.state is RunState.SUCCEEDED),
        ("teardown", lambda view: view.state is RunState.TORN_DOWN),
    ):
        if deed == killed_deed:
            if deed == "teardown":  # a runner that has not ended yet would take the request: no other one is started
                wait(lambda: not list(processes_of(folder)), "the end of the first runner")
            assert a_console_does(folder, deed, point) in _ends(deed, point)
        the_next_console_does(folder, deed)
        wait(lambda done=is_done: done(load_run(folder)), deed)  # type: ignore[misc]
    assert World(folder).history() == HISTORY
    view = load_run(folder)
    assert (view.audit.leftovers if view.audit else None) == ()
    assert {stage.attempt for stage in view.stages} == {1}


def _ends(deed: str, point: str) -> tuple[int, ...]:
    """A runner that waits for the approval is at work already, unless it has carried it out before one is started."""
    return (0, -signal.SIGKILL) if (deed, point) == ("approve", "start:before") else (-signal.SIGKILL,)

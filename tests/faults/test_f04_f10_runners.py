"""F4, F10: a machine that is started again, two operators."""

from __future__ import annotations

import os
import signal
import threading

import pytest

from actions.base.process import ProcessIdentity, is_alive
from actions.run.client import load_run, send_request, start_runner
from actions.run.state.records import RequestKind
from actions.run.state.view import RunState
from actions.sandbox.locate import RunningSandbox
from tests.faults.longruns import a_long_run, runner_of, until_view
from tests.faults.rehearsal import uids_by_object
from tests.support.journals import age_lease
from tests.support.polling import wait
from tests.support.program import Program

SANDBOX_SPEED = 100.0


def test_f04_after_a_reboot_no_process_id_is_trusted(
    program: Program, sandbox: RunningSandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = a_long_run(program, sandbox, monkeypatch)
    runner = runner_of(program, folder)
    os.kill(runner.pid, signal.SIGKILL)
    wait(lambda: not is_alive(runner), "the end of the runner")
    before = uids_by_object(folder)
    age_lease(folder, pid=os.getpid())  # something else has its number now
    assert load_run(folder).state is RunState.UNKNOWN
    assert start_runner(folder) is not None
    until_view(folder, lambda view: view.state is RunState.RUNNING, "the run to go on")
    assert uids_by_object(folder) == before


def test_f10_of_two_operators_one_starts_the_runner_and_both_are_heard(
    program: Program, sandbox: RunningSandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = a_long_run(program, sandbox, monkeypatch)
    runner = runner_of(program, folder)
    os.kill(runner.pid, signal.SIGKILL)
    wait(lambda: not is_alive(runner), "the end of the runner")
    started: list[ProcessIdentity | None] = []
    operators = [threading.Thread(target=lambda: started.append(start_runner(folder))) for _ in range(6)]
    for operator in operators:
        operator.start()
    for operator in operators:
        operator.join()
    assert len([one for one in started if one is not None]) == 1
    for kind in (RequestKind.PAUSE, RequestKind.CANCEL):
        send_request(folder, kind)
    view = until_view(folder, lambda view: view.state is RunState.CANCELLED, "the cancel")
    assert [one.kind for one in view.requests] == [RequestKind.PAUSE, RequestKind.CANCEL]
    assert all(len(uids) == 1 for uids in uids_by_object(folder).values())

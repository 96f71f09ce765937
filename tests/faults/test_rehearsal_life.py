"""The rehearsal with a person in it: approvals, a console that dies, a change of mind, data that is kept."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest

from actions.base.process import ProcessIdentity, identity_of
from actions.run.client import send_request
from actions.run.journal.store import read_runner_lease
from actions.run.output.reader import OutputReader
from actions.run.state.records import RequestKind
from actions.run.state.view import RunState, RunView, StageState
from tests.faults.rehearsal import CREDENTIALS, SKIPPED, a_rehearsal, a_sandbox, begin, tear_down, wait_for_run
from tests.support.polling import wait

pytestmark = pytest.mark.kill

CONSOLE = """
import sys, time
from pathlib import Path
from tests.faults.rehearsal import begin
begin(Path(sys.argv[1]))
print("started", flush=True)
time.sleep(600)
"""


def runner_of(folder: Path) -> ProcessIdentity:
    lease = read_runner_lease(folder)
    assert lease is not None
    return lease.holder


def start_from_a_console_that_dies(folder: Path) -> None:
    """A console, with its whole process group, is killed right after it started the runner."""
    console = subprocess.Popen(
        [sys.executable, "-c", CONSOLE, str(folder)],
        cwd=Path(__file__).parents[2],
        stdout=subprocess.PIPE,
        start_new_session=True,
    )
    with console:
        assert console.stdout is not None
        assert console.stdout.readline() == b"started\n"
        os.killpg(console.pid, signal.SIGKILL)
    assert identity_of(console.pid) is None


def offered(view: RunView, stage: str) -> bool:
    return view.stage(stage).state is StageState.AWAITING_APPROVAL


def approve_all(folder: Path) -> None:
    for stage in ("network", "provision", "filesystem"):
        plan = wait_for_run(folder, partial(offered, stage=stage), f"{stage}'s plan").stage(stage).plan
        assert plan is not None
        assert plan.add > 0
        send_request(folder, RequestKind.APPROVE, plan_hash=plan.plan_hash, environment=CREDENTIALS)


def is_training(view: RunView) -> bool:
    return view.stage("train").state is StageState.RUNNING and "8 of 8" in view.stage("train").message


def test_a_run_outlives_its_console_and_keeps_data_until_told_otherwise(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    with a_sandbox("life", speed=20.0) as sandbox:
        folder = a_rehearsal(sandbox, auto_approve=False, is_endless=True)
        start_from_a_console_that_dies(folder)
        approve_all(folder)
        wait_for_run(folder, is_training, "the training")
        assert os.getsid(runner_of(folder).pid) != os.getsid(0)
        assert begin(folder) is None

        send_request(folder, RequestKind.PARK, environment=CREDENTIALS)
        parked = wait_for_run(folder, lambda view: view.state is RunState.PARKED, "the park")
        assert parked.stage("operators").state is StageState.SUCCEEDED
        assert parked.stage("train").state is StageState.UNDONE

        send_request(folder, RequestKind.RETRY, environment=CREDENTIALS)
        wait_for_run(folder, is_training, "the training again")
        wait(lambda: OutputReader(folder, "train").accelerators(), "a sample of an accelerator")

        send_request(folder, RequestKind.TEARDOWN, environment=CREDENTIALS)
        torn = wait_for_run(folder, lambda view: view.state is RunState.TORN_DOWN, "the teardown")
        assert torn.audit is not None
        assert torn.audit.leftovers == ()
        assert any("filesystem" in line for line in torn.audit.retained)
        assert torn.stage("provision").state is StageState.UNDONE
        assert torn.stage("filesystem").state is StageState.SUCCEEDED

        tear_down(folder)
        gone = wait_for_run(folder, lambda view: view.deletes_data and view.state is RunState.TORN_DOWN, "the rest")
        assert gone.audit is not None
        assert (gone.audit.leftovers, gone.audit.retained) == ((), ())
        assert {stage.state for stage in gone.stages if stage.id not in SKIPPED} == {StageState.UNDONE}
        wait(lambda: not _is_held(folder), "the runner to give the lease back")


def _is_held(folder: Path) -> bool:
    return read_runner_lease(folder) is not None

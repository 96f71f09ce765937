"""Runs of a small blueprint in the state folder of a real program, whose job lasts as long as a test wants it to."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from actions.base.process import ProcessIdentity
from actions.run.client import RunReader, load_run, start_runner
from actions.run.state.view import RunView, StageState
from actions.sandbox.locate import RunningSandbox
from tests.faults.small import WORK, a_run, job_of
from tests.support.polling import wait
from tests.support.program import Program
from tests.support.smallrun import own_name

FOR_EVER = "echo begun; sleep 1000000"
CLUSTER = "bionemo-on-eks"


def a_long_run(
    program: Program,
    sandbox: RunningSandbox,
    monkeypatch: pytest.MonkeyPatch,
    *,
    command: str = FOR_EVER,
    environment: Mapping[str, str] | None = None,
) -> Path:
    """A run in the program's state folder, with its runner at work on its job.

    Args:
        program: Whose state folder it is.
        sandbox: Its cluster.
        monkeypatch: Points this process to the same state folder.
        command: What the job's container does.
        environment: Given to the runner.
    """
    monkeypatch.setenv("XDG_STATE_HOME", str(program.state.parent))
    program.state.mkdir(mode=0o700, parents=True, exist_ok=True)
    folder = a_run(program.state, sandbox, WORK, job=job_of(command), name=own_name(program.home))
    start_runner(folder, environment=environment)
    until_view(folder, has_run, "the job to run")
    return folder


def has_run(view: RunView) -> bool:
    """Return whether the job runs, or has ended well: a short one may, between two looks of a busy machine."""
    work = view.stage("work")
    return "1 of 1 pods ready" in work.message or work.state is StageState.SUCCEEDED


def until_view(folder: Path, holds: Callable[[RunView], object], what: str) -> RunView:
    """Wait until the run is as wanted, and return it."""
    found: list[RunView] = []

    def is_found() -> bool:
        found[:] = [load_run(folder)]
        return bool(holds(found[0]))

    wait(is_found, what)
    return found[0]


def runner_of(program: Program, folder: Path) -> ProcessIdentity:
    """The process that holds the lease."""
    runner = program.runner(folder)
    assert runner is not None
    return runner


def started_last(folder: Path) -> ProcessIdentity | None:
    """The runner that is alive."""
    reader = RunReader(folder)
    reader.poll()
    return reader.holder if reader.runner_alive else None

"""The ways out of a run, on the sandbox: finished, parked, launched twice, resumed, torn down, with a claim in use."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from actions.run.client import load_run
from actions.run.state.view import RunState, RunView
from tests.support.polling import wait
from tests.support.program import Program

LONGEST_SECONDS = 400.0
LAUNCH = ("--demo", "launch", "efa-nccl-tests", "--preset", "rehearsal", "--yes", "--auto-approve")


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Program]:
    started = Program(tmp_path_factory.mktemp("exits"))
    yield started
    started.end_all()


def newest(program: Program) -> Path:
    return max(program.run_folders(), key=lambda folder: folder.stat().st_ctime)


def is_now(folder: Path, state: RunState) -> RunView:
    wait(lambda: load_run(folder).state is state, f"it is {state.value}", deadline_seconds=LONGEST_SECONDS)
    return load_run(folder)


def test_a_finished_run_refuses_a_second_launch_in_its_place_and_a_resume(program: Program) -> None:
    done = program.command(*LAUNCH)
    assert done.returncode == 0, done.stderr
    (folder,) = program.run_folders()
    is_now(folder, RunState.SUCCEEDED)
    again = program.command(*LAUNCH)
    assert again.returncode == 1
    assert "kubectl delete -n default mpijob/" in again.stderr
    assert "--existing-cluster" in again.stderr
    assert program.run_folders() == [folder]
    resumed = program.command("--demo", "runs", "resume", "latest")
    assert resumed.returncode == 1
    assert "Nothing is left to do" in resumed.stderr


def test_a_parked_run_that_has_finished_buys_nothing(program: Program) -> None:
    folder = newest(program)
    assert program.command("--demo", "runs", "park", "latest").returncode == 0
    is_now(folder, RunState.PARKED)
    before = [stage.attempt for stage in load_run(folder).stages]
    done = program.command("--demo", "runs", "resume", "latest")
    assert done.returncode == 1
    assert "would only make" in done.stderr
    assert f"eksml-tui runs teardown {folder.name}" in done.stderr
    assert load_run(folder).state is RunState.PARKED
    assert [stage.attempt for stage in load_run(folder).stages] == before


def test_after_its_teardown_the_place_is_free_and_a_cancelled_run_is_resumed_to_its_end(program: Program) -> None:
    first = newest(program)
    name = load_run(first).cluster.name
    assert program.command("--demo", "runs", "teardown", "latest", "--confirm", name).returncode == 0
    is_now(first, RunState.TORN_DOWN)
    done = program.command(*LAUNCH)
    assert done.returncode == 0, done.stderr
    second = newest(program)
    wait(lambda: load_run(second).stage("provision").attempt > 0, "its cluster", deadline_seconds=LONGEST_SECONDS)
    assert program.command("--demo", "runs", "cancel", "latest").returncode == 0
    is_now(second, RunState.CANCELLED)
    resumed = program.command("--demo", "runs", "resume", "latest")
    assert resumed.returncode == 0, resumed.stderr
    assert "Left to do: " in resumed.stderr
    is_now(second, RunState.SUCCEEDED)
    assert program.command("--demo", "runs", "teardown", "latest", "--confirm", name).returncode == 0
    is_now(second, RunState.TORN_DOWN)

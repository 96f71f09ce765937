"""Limits of a real run, without any console: a budget is spent, and the run parks; killed, resumed, given new ones."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from actions.base.process import is_alive, kill
from actions.run.client import load_run
from actions.run.state.records import RequestKind
from actions.run.state.view import RunState, RunView
from tests.support.polling import wait
from tests.support.program import Program

LONGEST_SECONDS = 400.0


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Program]:
    started = Program(tmp_path_factory.mktemp("limits"))
    yield started
    started.end_all()


def said(program: Program, *words: str) -> str:
    done = program.command(*words)
    assert done.returncode == 0, done.stderr
    return done.stdout


def view(folder: Path) -> RunView:
    return load_run(folder)


def test_a_budget_that_is_spent_parks_the_run_and_the_record_has_the_value(program: Program) -> None:
    words = ("launch", "efa-nccl-tests", "--preset", "rehearsal", "--yes", "--auto-approve")
    said(program, "--demo", *words, "--budget", "0.05")
    (folder,) = program.run_folders()
    wait(lambda: view(folder).state is RunState.PARKED, "the park", deadline_seconds=LONGEST_SECONDS)
    parked = view(folder)
    assert [(one.kind, one.is_of_limit, one.by) for one in parked.requests] == [(RequestKind.PARK, True, None)]
    (reached,) = parked.limits_reached
    assert reached.limit == "budget_usd"
    assert "The budget of $0.05: about $0.0" in reached.text
    assert "paid by use" in reached.text
    wait(lambda: program.runner(folder) is None, "the runner's end", deadline_seconds=LONGEST_SECONDS)
    shown = json.loads(said(program, "--readonly", "runs", "show", "latest", "-o", "json"))
    assert shown["limits"]["reached"][0]["limit"] == "budget_usd"


def test_a_resumed_run_is_warned_of_and_parks_again_without_new_limits(program: Program) -> None:
    (folder,) = program.run_folders()
    done = program.command("--demo", "runs", "resume", "latest")
    assert done.returncode == 0, done.stderr
    assert "unless it gets another one" in done.stdout
    wait(lambda: len(view(folder).limits_reached) == 2, "the second time", deadline_seconds=LONGEST_SECONDS)
    wait(lambda: view(folder).state is RunState.PARKED, "the park", deadline_seconds=LONGEST_SECONDS)


def test_with_new_limits_it_succeeds_and_is_watched_also_by_the_next_runner(program: Program) -> None:
    (folder,) = program.run_folders()
    assert "budget $100.00" in said(program, "--demo", "runs", "limit", "latest", "--budget", "100")
    said(program, "--demo", "runs", "resume", "latest")
    wait(lambda: view(folder).state is RunState.SUCCEEDED, "its success", deadline_seconds=LONGEST_SECONDS)
    runner = program.runner(folder)
    assert runner is not None, "it holds nodes, and somebody has to look"
    kill(runner)
    wait(lambda: not is_alive(runner), "its end")
    said(program, "--demo", "runs", "list")
    wait(lambda: program.runner(folder) not in (None, runner), "the next one")
    said(program, "--demo", "runs", "limit", "latest", "--max-hourly", "1", "--at-limit", "teardown")
    wait(lambda: view(folder).state is RunState.TORN_DOWN, "the teardown", deadline_seconds=LONGEST_SECONDS)
    torn = view(folder)
    assert torn.limits_reached[-1].limit == "max_usd_per_hour"
    assert torn.audit is not None
    assert torn.audit.is_clean, torn.audit

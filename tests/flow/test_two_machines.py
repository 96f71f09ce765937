"""One cluster, two machines: the second has another home, sees the run of the first, opens it, leaves it alone."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from actions.run.client import load_run
from actions.run.state.view import RunState, StageState
from tests.support.polling import wait
from tests.support.program import Program

LAUNCH = """\
eksml-script: 1
steps:
  - launch: {blueprint: bionemo-esm1nv, preset: rehearsal, set: {workers: 2, max_steps: 9000000}, auto_approve: true}
"""
WATCH = """\
eksml-script: 1
steps:
  - open: runs
  - wait: {text: "SHORT.*running +train", within: 2m}
  - press: enter
  - wait: {text: "can only be watched", within: 2m}
  - wait: {text: "▶ Pre-training", within: 1m}
  - open: {pane: logs, of: train, within: 1m}
  - wait: {text: "Epoch 0", within: 2m}
  - open: {pane: charts, of: train, within: 1m}
  - wait: {text: "train_loss", within: 2m}
"""


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Program]:
    """A machine with a training."""
    program = Program(tmp_path_factory.mktemp("first"))
    script = program.home / "launch.yaml"
    script.write_text(LAUNCH)
    done = program.run("--demo", "--speed", "60", "--script", str(script))
    assert done.returncode == 0, done.stdout + done.stderr
    (folder,) = program.run_folders()
    wait(lambda: load_run(folder).stage("train").state is StageState.RUNNING, "the training")
    yield program
    program.end_all()


@pytest.fixture(scope="module")
def second(tmp_path_factory: pytest.TempPathFactory) -> Program:
    """Another machine, which has nothing but the kubeconfig."""
    return Program(tmp_path_factory.mktemp("second"))


def run_id(first: Program) -> str:
    return first.run_folders()[0].name


def listed(second: Program, first: Program) -> list[dict[str, object]]:
    done = second.command("--kubeconfig", str(first.kubeconfig()), "runs", "list", "--cluster", "-o", "json")
    assert done.returncode == 0, done.stderr
    rows: list[dict[str, object]] = json.loads(done.stdout)
    return rows


def test_the_second_machine_lists_the_run_with_its_owner(first: Program, second: Program) -> None:
    wait(lambda: any(row["stage"] == "train" for row in listed(second, first)), "the stage")
    (row,) = listed(second, first)
    assert (row["id"], row["here"], row["silent"], row["epoch"]) == (run_id(first), False, False, 1)
    assert "@" in str(row["owner"])
    (own,) = listed(first, first)
    assert (own["id"], own["here"]) == (row["id"], True)


def test_it_opens_the_run_with_stages_log_and_curve(first: Program, second: Program) -> None:
    script = second.home / "watch.yaml"
    script.write_text(WATCH.replace("SHORT", run_id(first)[:24]))
    done = second.command("--kubeconfig", str(first.kubeconfig()), "--script", str(script))
    assert done.returncode == 0, done.stdout + done.stderr
    assert second.run_folders() == []


@pytest.mark.parametrize("verb", ["cancel", "park", "approve", "teardown", "resume", "export"])
def test_it_is_refused_with_owner_and_the_way_to_take_over(first: Program, second: Program, verb: str) -> None:
    done = second.command("--kubeconfig", str(first.kubeconfig()), "runs", verb, run_id(first)[:-2])
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    assert "can only be watched here" in line
    assert f"eksml-tui runs takeover {run_id(first)}" in line


def test_it_shows_the_stages_as_text(first: Program, second: Program) -> None:
    done = second.command("--kubeconfig", str(first.kubeconfig()), "runs", "show", run_id(first), "-o", "json")
    view = json.loads(done.stdout)
    assert (view["id"], view["state"]) == (run_id(first), "running")
    assert {stage["id"]: stage["state"] for stage in view["stages"]}["train"] == "running"


def test_after_the_teardown_no_machine_lists_it(first: Program, second: Program) -> None:
    (folder,) = first.run_folders()
    done = first.command("runs", "teardown", folder.name, "--confirm", "bionemo-on-eks", "--delete-data")
    assert done.returncode == 0, done.stderr
    wait(lambda: load_run(folder).state is RunState.TORN_DOWN, "the teardown", deadline_seconds=400)
    audit = load_run(folder).audit
    assert audit is not None
    assert audit.is_clean, audit
    assert listed(second, first) == []
    assert Path(folder / "journal.jsonl").is_file()

"""A run that outlives the folder of its machine: what its store has is enough to see it from anywhere."""

from __future__ import annotations

import csv
import io
import json
import os
import signal
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from actions.base.process import is_alive
from actions.run.journal.reader import load_run
from actions.run.state.view import StageState
from tests.support.leftover import delete_folder
from tests.support.polling import wait
from tests.support.program import Program
from tests.support.stores import CREDENTIALS, URL, Proxy, a_home

pytestmark = pytest.mark.kill


class _Member(Program):
    """The program of somebody whose S3 is the tests' home; the rest of the account is the demo's.

    Args:
        home: Of the user.
    """

    address = ""

    @property
    def environment(self) -> Mapping[str, str]:
        return {**super().environment, **CREDENTIALS, "AWS_ENDPOINT_URL_S3": self.address}


@pytest.fixture
def home() -> Iterator[Proxy]:
    with a_home() as proxy:
        yield proxy


@pytest.fixture
def member(home: Proxy, tmp_path: Path) -> Iterator[_Member]:
    made = type("Member", (_Member,), {"address": home.address})(tmp_path)
    yield made
    made.end_all()


def test_a_run_whose_folder_is_gone_is_seen_from_its_home(home: Proxy, member: _Member) -> None:
    options = ("--yes", "--auto-approve", "--preset", "rehearsal", "--store", URL, "max_steps=900000")
    launched = member.run("--demo", "--speed", "60", "launch", "bionemo-esm1nv", *options)
    assert launched.returncode == 0, launched.stderr
    run_id = launched.stdout.strip()
    (folder,) = member.run_folders()
    wait(lambda: load_run(folder).stage("train").state is StageState.RUNNING, "the training")
    wait(lambda: home.puts(f"{run_id}/output/train/points/"), "points in the home")
    wait(lambda: _stage(member, run_id, "train")["state"] == "running", "the training in the home")
    runner = member.runner(folder)
    assert runner is not None
    os.kill(runner.pid, signal.SIGKILL)
    wait(lambda: not is_alive(runner), "the runner's end")
    delete_folder(member.state / "runs")

    listed = json.loads(member.run("runs", "list", "--store", URL, "-o", "json").stdout)
    assert [(run["id"], run["state"], run["stage"]) for run in listed] == [(run_id, "running", "train")]
    train = _stage(member, run_id, "train")
    assert (train["kind"], train["attempt"]) == ("job", 1)
    curves = member.run("runs", "curves", run_id, "--store", URL, "-o", "csv")
    assert curves.returncode == 0, curves.stderr
    losses = [row["train_loss"] for row in csv.DictReader(io.StringIO(curves.stdout)) if row["train_loss"]]
    assert len(losses) > 10, curves.stdout[:500]


def _stage(member: _Member, run_id: str, stage_id: str) -> dict[str, object]:
    shown = member.run("runs", "show", run_id, "--store", URL, "-o", "json")
    if shown.returncode:
        return {"state": shown.stderr}
    stages: list[dict[str, object]] = json.loads(shown.stdout)["stages"]
    return next(stage for stage in stages if stage["id"] == stage_id)

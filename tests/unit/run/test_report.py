"""Runs on the command line."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path

from msgspec.structs import replace

from actions.base.clock import SystemClock
from actions.run.client import list_runs
from actions.run.journal.store import append_record
from actions.run.paid import PaidThing
from actions.run.report import run_json, run_table, runs_json, runs_table
from actions.run.spending import Spending
from actions.run.state.records import Action, Intent, Outcome, RequestKind, Result
from tests.support.streams import append_raw
from tests.unit.run.test_fold import begun, done, ended, view_of, wished
from tests.unit.run.world import make_run


def test_a_list_names_each_run_with_its_state(tmp_path: Path) -> None:
    folder = make_run(tmp_path, SystemClock())
    lines = runs_table(list_runs(tmp_path / "runs")).splitlines()
    heads = ["RUN", "STATE", "STAGE", "TOOK", "LOSS", "SPENT", "$/H", "BLUEPRINT", "CLUSTER", "CREATED"]
    assert lines[0].split() == heads
    assert lines[1].split()[:4] == [folder.name, "waiting", "fake", "pretend"]
    assert json.loads(runs_json(list_runs(tmp_path / "runs")))[0]["state"] == "waiting"


def test_a_list_on_a_terminal_names_runs_as_far_as_they_differ(tmp_path: Path) -> None:
    (run,) = list_runs((make_run(tmp_path, SystemClock())).parent)
    tails = ("a3f2a7pqrstuv", "a3f2b7pqrstuv", "zzzzz7pqrstuv")
    runs = [replace(run, id=f"bionemo-esm1nv-1121-{tail}") for tail in tails]
    first = [line.split()[0] for line in runs_table(runs, is_short=True).splitlines()[1:]]
    assert first == ["bionemo-esm1nv-1121-a3f2a", "bionemo-esm1nv-1121-a3f2b", "bionemo-esm1nv-1121-zzzz"]
    assert [line.split()[0] for line in runs_table(runs).splitlines()[1:]] == [run.id for run in runs]


def test_an_empty_list_says_so() -> None:
    assert runs_table([]) == "There are no runs on this machine.\n"
    assert json.loads(runs_json([])) == []


def test_a_plan_that_waits_is_shown_whole() -> None:
    text = run_table(view_of(begun("provision"), ended("provision", Result.AWAITING_APPROVAL)))
    assert "1 to add, 0 to change, 0 to destroy.\n  + cluster\n" in text


def test_what_is_left_after_a_teardown_is_listed() -> None:
    lines = [*done("provision"), wished(RequestKind.TEARDOWN), begun("provision", Action.UNDO)]
    lines += [ended("provision", Result.DONE, Action.UNDO), ("", Intent(Action.AUDIT))]
    lines += [("", Outcome(Action.AUDIT, Result.DONE, leftovers=("Job default/x",), retained=("FSx fs-1",)))]
    view = view_of(*lines)
    assert "Still there, 1:\n  Job default/x\nKept on purpose:\n  FSx fs-1\n" in run_table(view)
    assert json.loads(run_json(view))["audit"]["leftovers"] == ["Job default/x"]


def test_a_list_shows_duration_loss_money_and_what_is_held(tmp_path: Path) -> None:
    folder = make_run(tmp_path, SystemClock())
    lines = [
        '{"type":"point","number":0,"metric":"train_loss","step":1,"value":3.5}',
        '{"type":"point","number":0,"metric":"train_loss","step":2,"value":2.5125}',
        '{"type":"point","number":0,"metric":"lr","step":2,"value":0.1}',
        '{"type":"point","number":0,"metric":"train_loss","step":3,"va',
    ]
    append_raw(folder, "fake", "points", "\n".join(lines).encode())
    append_raw(folder, "another", "lines", b"a stage without points\n")
    (run,) = list_runs(tmp_path / "runs")
    assert run.last_loss == 2.5125
    spent = Spending(Decimal("12.345"), {}, Decimal("1.5"), ("a NAT gateway",), is_simulated=False)
    things = tuple(PaidThing(title, Decimal("0.5"), run.id) for title in ("2 × p5", "core nodes", "FSx"))
    assert run.paid is not None
    paid = replace(run.paid, things=things, is_by_use=True)
    run = replace(run, began_at=100.0, ended_at=None, spending=spent, paid=paid)
    row = runs_table([run], now=825.0).splitlines()[1]
    assert "12m05s  2.513  ≥ $12.35  ≥ $1.50/h" in row
    over = runs_table([replace(run, ended_at=112.0)]).splitlines()[1]
    assert "12s" in over
    (fields,) = json.loads(runs_json([run]))
    assert (fields["last_loss"], fields["spent"]["usd"], fields["paid"][0]["title"]) == (2.5125, "12.345", "2 × p5")


def test_a_failed_run_names_the_stage_that_failed(tmp_path: Path) -> None:
    folder = make_run(tmp_path, SystemClock())
    for stage, body in (begun("provision"), ended("provision", Result.FAILED)):
        append_record(folder, body, deed="test", stage=stage, attempt=1)
    (run,) = list_runs(tmp_path / "runs")
    assert (run.state.value, run.stage) == ("failed", "provision")
    assert run.ended_at is not None

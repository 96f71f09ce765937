"""Limits on the command line: at a launch, changed later, by default from config.yaml."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from actions.run import client
from actions.run.client import list_runs, load_run, send_request
from actions.run.journal.store import append_record
from actions.run.state.records import Action, Intent, LimitAction, Limits, Outcome, RequestKind, Result
from actions.run.state.view import RunState
from tui.cli.arguments import parse_arguments
from tui.cli.main import main

WORDS = ["launch", "efa-nccl-tests", "--preset", "rehearsal", "--yes"]
PLAN = ["plan", "efa-nccl-tests", "--preset", "rehearsal", "--no-checks"]


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HOME", "XDG_STATE_HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME"):
        monkeypatch.setenv(name, str(tmp_path))
    monkeypatch.setattr(client, "start_runner", lambda *_, **__: None)


def limits() -> Limits:
    (run,) = list_runs()
    return load_run(run.folder).limits


def test_a_launch_has_the_limits_that_were_typed(capsys: pytest.CaptureFixture[str]) -> None:
    more = ["--budget", "12.50", "--max-hourly", "400", "--before-credentials-end", "--at-limit", "teardown"]
    assert main([*WORDS, *more, "--watchdog", "90m"]) == 0
    assert limits() == Limits(
        budget_usd="12.50",
        max_usd_per_hour="400",
        credentials_end=True,
        action=LimitAction.TEARDOWN,
        watchdog_minutes=90,
    )
    said = capsys.readouterr().err
    assert "Limits: tear down at: budget $12.50, $400.00/h at most, before the credentials end" in said
    assert "The teardown begins up to" in said
    assert "90 min after the last heartbeat" in said


def test_limits_that_were_not_typed_are_those_of_the_settings(tmp_path: Path) -> None:
    settings = tmp_path / "eksml-tui" / "config.yaml"
    settings.parent.mkdir()
    settings.write_text("limit_budget: 40\nlimit_action: teardown\nlimit_before_capacity_end: true\n")
    assert main([*WORDS, "--budget", "9"]) == 0
    assert limits() == Limits(budget_usd="9", capacity_end=True, action=LimitAction.TEARDOWN)


def test_the_end_of_the_settings_needs_no_limit_and_a_typed_one_does(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = tmp_path / "eksml-tui" / "config.yaml"
    settings.parent.mkdir()
    settings.write_text("limit_action: teardown\n")
    assert main(WORDS) == 0
    assert limits() == Limits(action=LimitAction.TEARDOWN)
    assert main(["runs", "limit", "latest", "--at-limit", "park"]) == 2
    assert "There is no limit at which the run would be parked" in capsys.readouterr().err
    assert limits() == Limits(action=LimitAction.TEARDOWN)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--until", "yesterday"], "'yesterday' is not a time."),
        (["--until", "2020-01-01T00:00:00Z"], "has passed."),
        (["--budget", "-1"], "'-1' is not a budget."),
        (["--max-hourly", "0.01"], "The dearest hour of the plan costs"),
        (["--watchdog", "1"], "'1' is not a time for the watchdog."),
        (["--at-limit", "teardown"], "There is no limit at which the run would be torn down"),
        (["--at-limit", "teardown", "--watchdog", "1h"], "A watchdog is not a limit: it only stops jobs."),
    ],
)
def test_a_limit_that_cannot_be_is_refused_and_nothing_is_launched(
    words: list[str], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*WORDS, *words]) == 2
    assert sentence in capsys.readouterr().err
    assert list_runs() == []


def test_the_plan_has_the_limits_and_what_they_mean(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*PLAN, "--budget", "0.01", "-o", "json"]) == 0
    notes = json.loads(capsys.readouterr().out)["notes"]
    assert "Limits: park at: budget $0.01." in notes
    assert any("it is parked before it is done" in note for note in notes)
    assert any("only while this machine runs" in note for note in notes)


def test_the_plan_names_what_a_budget_keeps_for_the_park(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*PLAN, "-o", "json"]) == 0
    most = float(json.loads(capsys.readouterr().out)["total_high"])
    assert main([*PLAN, "--budget", f"{most + 0.01:.4f}", "-o", "json"]) == 0
    (note,) = (one for one in json.loads(capsys.readouterr().out)["notes"] if "keeps up to" in one)
    assert "for parking (" in note
    assert note.endswith("then it is parked before it is done.")
    assert main([*PLAN, "--budget", "5000", "-o", "json"]) == 0
    assert "keeps up to" not in capsys.readouterr().out


def test_limits_are_changed_one_by_one_and_taken_away(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*WORDS, "--budget", "10"]) == 0
    capsys.readouterr()
    assert main(["runs", "limit", "latest", "--max-hourly", "500", "--before-capacity-end"]) == 0
    assert limits() == Limits(budget_usd="10", max_usd_per_hour="500", capacity_end=True)
    assert "budget $10.00, $500.00/h at most, before the capacity block ends." in capsys.readouterr().out
    assert main(["runs", "limit", "latest", "--output", "json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["budget_usd"], document["capacity_end"], document["until"]) == ("10", True, None)
    assert main(["runs", "show", "latest", "-o", "json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert document == {"id": shown["id"], **shown["limits"]}
    assert main(["runs", "limit", "latest", "--no-before-capacity-end", "--budget", "none"]) == 0
    assert limits() == Limits(max_usd_per_hour="500")
    assert main(["runs", "limit", "latest", "--none"]) == 0
    assert limits() == Limits()
    capsys.readouterr()
    assert main(["runs", "limit", "latest"]) == 0
    assert capsys.readouterr().out.endswith("none.\n")
    assert main(["runs", "limit", "latest", "--none", "--budget", "5"]) == 2


def test_a_parked_run_goes_on_by_resume_as_by_retry(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(WORDS) == 0
    (run,) = list_runs()
    send_request(run.folder, RequestKind.PARK, start=False)
    for body in (Intent(Action.DRAIN), Outcome(Action.DRAIN, Result.DONE)):
        append_record(run.folder, body, deed="the park")
    assert load_run(run.folder).state is RunState.PARKED
    assert main(["runs", "resume", "latest"]) == 0
    assert "continues" in capsys.readouterr().out
    assert [request.kind for request in load_run(run.folder).requests] == [RequestKind.PARK, RequestKind.RETRY]


def test_a_run_that_is_torn_down_takes_no_limits(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(WORDS) == 0
    (run,) = list_runs()
    send_request(run.folder, RequestKind.TEARDOWN, start=False)
    assert main(["runs", "limit", "latest", "--budget", "5"]) == 1
    assert "takes no limits: it is tearing down." in capsys.readouterr().err


def test_runs_show_has_each_limit_with_its_value(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*WORDS, "--budget", "10", "--until", "+8h"]) == 0
    capsys.readouterr()
    assert main(["--readonly", "runs", "show", "latest"]) == 0
    said = capsys.readouterr().out
    assert "park at: until" in said
    assert "The budget of $10.00: $0.00 spent" in said
    assert "The runner acts at" in said
    assert main(["--readonly", "runs", "show", "latest", "-o", "json"]) == 0
    document = json.loads(capsys.readouterr().out)["limits"]
    assert [one["limit"] for one in document["status"]] == ["until", "budget_usd"]
    assert main(["--readonly", "runs", "list"]) == 0
    assert "LIMITS" in capsys.readouterr().out


@pytest.mark.parametrize(("words", "has_default"), [(["launch"], True), (["plan"], True), (["runs", "limit"], False)])
def test_only_where_it_has_one_the_help_names_a_default_end(
    words: list[str], has_default: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        parse_arguments([*words, "--help"])
    assert ("how it ends (default: park)" in capsys.readouterr().out) is has_default

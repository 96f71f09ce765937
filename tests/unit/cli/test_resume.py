"""`runs resume`: what follows is printed, and what costs money is asked about."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from actions.base.clock import SystemClock
from actions.run import client
from actions.run.client import load_run
from actions.run.journal.store import append_record
from actions.run.state.records import Action, HeldPrice, Intent, Outcome, RequestKind, Result, RunRequest
from tests.unit.run.world import creation, make_run
from tui.cli.main import main

NODES = HeldPrice(title="16 × A100", stage="provision", usd_per_hour="54.51")


@pytest.fixture
def parked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A run of a real account that was parked before it began."""
    for name in ("HOME", "XDG_STATE_HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME"):
        monkeypatch.setenv(name, str(tmp_path))
    monkeypatch.setattr(client, "start_runner", lambda *_, **__: None)
    for module in ("client", "summaries"):
        monkeypatch.setattr(f"actions.run.{module}.runs_folder", lambda: tmp_path / "runs")
    folder = make_run(tmp_path, SystemClock(), created=replace(creation(), prices=(NODES,)))
    for body in (RunRequest(RequestKind.PARK), Intent(Action.DRAIN), Outcome(Action.DRAIN, Result.DONE)):
        append_record(folder, body, deed="the park")
    return folder


def test_without_a_terminal_a_resume_that_buys_needs_a_yes(parked: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["runs", "resume", parked.name]) == 2
    told = capsys.readouterr().err
    assert "Left to do: Provision, Operators, Train" in told
    assert "$54.51/h at the peak." in told
    assert "Add --yes." in told
    assert len(load_run(parked).requests) == 1
    assert main(["runs", "resume", parked.name, "--yes"]) == 0
    assert "continues" in capsys.readouterr().out
    assert [request.kind for request in load_run(parked).requests] == [RequestKind.PARK, RequestKind.RETRY]


def test_a_stage_that_is_not_left_to_do_is_refused(parked: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["runs", "resume", parked.name, "--stage", "nothing", "--yes"]) == 1
    assert "has no stage 'nothing'" in capsys.readouterr().err

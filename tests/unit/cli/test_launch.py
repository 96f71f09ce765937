"""A launch without the console."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from actions.base.errors import RefusedError
from actions.run import client
from actions.run.client import list_runs, load_run
from actions.run.doctor.report import DoctorLine
from actions.run.state.records import CheckResult
from tui.cli import launch
from tui.cli.main import main

WORDS = ["launch", "efa-nccl-tests", "--preset", "rehearsal"]


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HOME", "XDG_STATE_HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME"):
        monkeypatch.setenv(name, str(tmp_path))
    monkeypatch.setattr(client, "start_runner", lambda *_, **__: None)


def test_the_id_of_the_run_is_all_that_stdout_has(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*WORDS, "--yes", "nodes=2", "--auto-approve"]) == 0
    printed = capsys.readouterr()
    (run,) = list_runs()
    assert printed.out == f"{run.id}\n"
    assert "peak" in printed.err
    view = load_run(run.folder)
    assert (view.preset, view.auto_approve, view.parameters["nodes"]) == ("rehearsal", True, 2)


def test_for_programs_it_is_a_document(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*WORDS, "--yes", "-o", "json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document.keys() == {"id", "folder", "blueprint", "pid"}


def test_without_a_terminal_nothing_is_launched_unasked(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(WORDS) == 2
    assert "--yes" in capsys.readouterr().err
    assert list_runs() == []


def test_read_only_launches_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--readonly", *WORDS, "--yes"]) == 1
    assert "read-only" in capsys.readouterr().err
    assert list_runs() == []


def test_a_check_that_failed_refuses_unless_it_is_waived(capsys: pytest.CaptureFixture[str]) -> None:
    line = DoctorLine("terraform", CheckResult.FAILED, "not on PATH.", "Install it.", is_blocking=True)
    with pytest.raises(RefusedError, match="terraform"):
        launch._require_passed([line], waived=[])
    launch._require_passed([line], waived=["terraform"])
    assert "Install it." in capsys.readouterr().err

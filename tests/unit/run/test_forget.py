"""Forgetting runs: never one that lives, or of which something may be left."""

from __future__ import annotations

import io
import re
import shutil
from contextlib import redirect_stdout
from pathlib import Path

import pytest
from msgspec.structs import replace

from actions.base.clock import SystemClock
from actions.base.errors import ConfigError, RefusedError
from actions.run import forget
from actions.run.client import list_runs, load_run, send_request
from actions.run.forget import forget_run, survey_run
from actions.run.journal.store import append_record
from actions.run.state.records import Action, Intent, RequestKind
from actions.run.state.view import Notice, NoticeKind
from actions.run.terraform_changes import TerraformStageReport
from tests.unit.run.world import creation, make_run
from tui.cli.run_verbs.storage import _say_loss

CLOCK = SystemClock()


def _stage(*, resources: int | None = 0, running: str = "") -> TerraformStageReport:
    return TerraformStageReport(
        stage="network",
        folder="/f",
        running=running,
        pid=None,
        is_interrupted=False,
        resources=resources,
        unsaved=None,
        pending=(),
        providers={},
    )


@pytest.fixture
def cancelled(tmp_path: Path) -> Path:
    folder = make_run(tmp_path, CLOCK)
    send_request(folder, RequestKind.CANCEL, start=False)
    return folder


def test_a_run_that_may_go_on_is_not_forgotten(tmp_path: Path) -> None:
    folder = make_run(tmp_path, CLOCK)
    (obstacle,) = survey_run(folder).obstacles
    assert "may go on" in obstacle
    with pytest.raises(RefusedError, match="cannot be forgotten"):
        forget_run(folder, confirm=folder.name)
    assert folder.exists()


def test_a_run_that_is_over_and_made_nothing_is_forgotten_by_its_id(
    tmp_path: Path, cancelled: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(forget, "OVER", frozenset({survey_state(cancelled)}))
    assert survey_run(cancelled).obstacles == ()
    with pytest.raises(ConfigError, match=re.escape(str(cancelled))):
        forget_run(cancelled, confirm="")
    assert forget_run(cancelled, confirm=cancelled.name).files > 1
    assert list_runs(tmp_path / "runs") == []
    assert list((tmp_path / "runs").glob(f"*{cancelled.name}*")) == []


def test_a_copy_in_the_home_is_named(tmp_path: Path) -> None:
    folder = make_run(tmp_path, CLOCK, created=replace(creation(), store="s3://team/runs"))
    assert survey_run(folder).store == "s3://team/runs"
    assert "stays in s3://team/runs" in said(folder)


def said(folder: Path) -> str:
    told = io.StringIO()
    with redirect_stdout(told):
        _say_loss(survey_run(folder), is_archived=False)
    return told.getvalue()


def survey_state(folder: Path) -> object:
    """Return the state of a run, which without a runner stays what its request found."""
    return load_run(folder).state


@pytest.mark.parametrize(
    ("stage", "words"),
    [
        (_stage(resources=3), "holds 3 resources"),
        (_stage(resources=None), "cannot be read"),
        (_stage(running="apply"), "terraform apply of network runs"),
    ],
)
def test_what_terraform_holds_keeps_its_run(
    stage: TerraformStageReport, words: str, cancelled: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(forget, "terraform_report", lambda *_: [stage])
    assert any(words in obstacle for obstacle in survey_run(cancelled).obstacles)


def test_a_run_that_another_machine_has_from_the_home_is_forgotten_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = make_run(tmp_path, CLOCK)
    taken = replace(load_run(folder), notices=(Notice(NoticeKind.ELSEWHERE, "ben has taken it over."),))
    monkeypatch.setattr(forget, "load_run", lambda _: taken)
    assert survey_run(folder).obstacles  # without a home its Terraform state may be here alone
    monkeypatch.setattr(forget, "load_run", lambda _: replace(taken, store="s3://team-runs/ml"))
    assert survey_run(folder).obstacles == ()


def test_a_copy_of_a_run_may_go_while_the_run_itself_is_there(tmp_path: Path) -> None:
    folder = make_run(tmp_path, CLOCK)
    append_record(folder, Intent(Action.PERFORM), deed="it", stage="provision", attempt=1)
    copy, link = folder.with_name("copy"), folder.with_name("link")
    shutil.copytree(folder, copy)
    link.symlink_to(folder)
    with pytest.raises(RefusedError, match="its folder is a link to another one"):
        forget_run(link, confirm="link")
    forget_run(copy, confirm="copy")
    assert not copy.exists()
    shutil.copytree(folder, copy)
    shutil.rmtree(folder)
    with pytest.raises(RefusedError, match="a runner may go on with it"):
        forget_run(copy, confirm="copy")

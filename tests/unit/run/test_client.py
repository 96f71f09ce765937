"""Runs from the outside: created, listed, asked, watched."""

from __future__ import annotations

import json
import os
import shutil
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from actions.base.clock import SystemClock
from actions.base.errors import MissingError, RefusedError
from actions.base.process import own_identity
from actions.run.client import (
    find_run,
    list_runs,
    load_run,
    replace_runner,
    resume_run,
    send_request,
    set_limits,
    start_runner,
)
from actions.run.journal.folder import environment_path, journal_path
from actions.run.journal.lease import Heartbeat, grant_lease, take_runner_lease
from actions.run.journal.reader import RunReader
from actions.run.journal.store import Journal
from actions.run.report import run_table
from actions.run.state.records import Action, Intent, Limits, RequestKind
from actions.run.state.view import RunState, StageState
from actions.terraform.program import program_variable
from tests.unit.run.world import make_run

CLOCK = SystemClock()


def test_a_new_run_has_a_private_folder_with_its_blueprint(tmp_path: Path) -> None:
    folder = make_run(tmp_path, CLOCK)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert (folder / "blueprint" / "blueprint.yaml").read_text() == "schema: eksml/v1\n"
    assert json.loads(environment_path(folder).read_bytes()) == program_variable()
    assert all(stat.S_IMODE(path.stat().st_mode) & 0o077 == 0 for path in folder.rglob("*"))


def test_a_run_is_found_by_the_beginning_of_its_id(tmp_path: Path) -> None:
    folder = make_run(tmp_path, CLOCK)
    assert find_run("fake-11", base=tmp_path / "runs") == folder
    assert find_run("latest", base=tmp_path / "runs") == folder
    with pytest.raises(MissingError, match="no run 'zzz'"):
        find_run("zzz", base=tmp_path / "runs")


def test_a_runner_that_was_started_and_has_not_begun_is_not_missing(tmp_path: Path) -> None:
    folder = make_run(tmp_path, CLOCK)
    reader = RunReader(folder)
    reader.poll()
    assert "It has no runner. Resume it with" in run_table(load_run(folder))
    grant_lease(journal_path(folder), CLOCK, own_identity)
    text = run_table(load_run(folder))
    assert text.endswith("\nIts runner is starting.\n")
    seen = reader.poll()
    assert seen is not None
    assert seen.is_starting
    assert reader.runner_alive
    take_runner_lease(journal_path(folder), CLOCK)
    text, view = run_table(load_run(folder)), load_run(folder)
    assert "runner" not in text
    assert view.state is RunState.RUNNING
    assert not view.is_starting
    reader.close()


def test_a_list_shows_an_unreadable_run_with_the_reason(tmp_path: Path) -> None:
    folder = make_run(tmp_path, CLOCK)
    broken = tmp_path / "runs" / "broken"
    broken.mkdir()
    (broken / "journal.jsonl").write_bytes(b"not a database" * 100)
    listed = list_runs(tmp_path / "runs")
    assert [(run.id, bool(run.error)) for run in listed] == [(folder.name, False), ("broken", True)]


def test_a_reader_answers_only_when_something_has_changed(tmp_path: Path) -> None:
    folder = make_run(tmp_path, CLOCK)
    reader = RunReader(folder)
    first = reader.poll()
    assert first is not None
    assert first.state is RunState.WAITING
    assert reader.poll() is None
    send_request(folder, RequestKind.PAUSE, start=False)
    second = reader.poll()
    assert second is not None
    assert second.is_paused


def test_a_reader_shows_what_a_living_runner_waits_for(tmp_path: Path) -> None:
    folder = make_run(tmp_path, CLOCK)
    lease = take_runner_lease(journal_path(folder), CLOCK)
    journal = Journal(journal_path(folder), CLOCK, fence=lease.token)
    journal.append(Intent(Action.PERFORM), stage="provision", attempt=1)
    heartbeat = Heartbeat(folder, lease.holder, CLOCK)
    heartbeat.note("provision", "3 of 8 resources")
    heartbeat.flush()
    reader = RunReader(folder)
    view = reader.poll()
    assert view is not None
    assert reader.runner_alive
    assert view.stage("provision").message == "3 of 8 resources"


def test_a_runner_that_is_gone_turns_its_stage_unknown_without_any_write(tmp_path: Path) -> None:
    folder = make_run(tmp_path, CLOCK)
    child = os.fork()
    if not child:
        lease = take_runner_lease(journal_path(folder), CLOCK)
        Journal(journal_path(folder), CLOCK, fence=lease.token).append(Intent(Action.PERFORM), stage="provision")
        os._exit(0)
    os.waitpid(child, 0)
    view = load_run(folder)
    assert view.stage("provision").state is StageState.UNKNOWN
    assert view.state is RunState.UNKNOWN


@pytest.mark.parametrize("kind", [RequestKind.APPROVE, RequestKind.RETRY])
def test_a_wish_that_the_run_cannot_follow_is_refused(tmp_path: Path, kind: RequestKind) -> None:
    folder = make_run(tmp_path, CLOCK)
    with pytest.raises(RefusedError, match="does not accept the request"):
        send_request(folder, kind, plan_hash="x", start=False)
    assert load_run(folder).last_seq == 1


@pytest.mark.parametrize("is_linked", [False, True])
def test_a_copy_of_a_run_never_acts(tmp_path: Path, is_linked: bool) -> None:
    folder = make_run(tmp_path, CLOCK)
    copy = folder.with_name("copy")
    copy.symlink_to(folder) if is_linked else shutil.copytree(folder, copy)
    before = journal_path(copy).read_bytes()
    acts: list[Callable[[], object]] = [
        lambda: send_request(copy, RequestKind.TEARDOWN, start=False),
        lambda: start_runner(copy),
        lambda: resume_run(copy),
        lambda: replace_runner(copy, 1),
        lambda: set_limits(copy, Limits(), start=False),
    ]
    for act in acts:
        with pytest.raises(RefusedError, match="it is a copy of the folder of run fake-1121-0001"):
            act()
    assert journal_path(copy).read_bytes() == before
    assert send_request(folder, RequestKind.PAUSE, start=False) == ""

"""D5, the journal's half: a full disk fails nothing, hides nothing, and stops no teardown."""

from __future__ import annotations

import asyncio
import os
import signal
from contextlib import suppress
from pathlib import Path

import pytest

from actions.base.clock import SystemClock
from actions.base.process import is_alive
from actions.run.client import load_run, send_request, start_runner
from actions.run.engine.runner import Runner
from actions.run.journal.folder import journal_path, release_reserve
from actions.run.journal.lease import take_runner_lease
from actions.run.journal.runner_journal import RunnerJournal, StageRecorder
from actions.run.journal.store import DiskFullError, Journal
from actions.run.state.records import Action, Outcome, RequestKind, Result
from actions.run.state.view import NoticeKind, OwnedObject, RunState, StageState
from actions.sandbox.locate import RunningSandbox
from tests.faults.disks import fill, small_disk, takes_nothing
from tests.faults.longruns import CLUSTER, a_long_run, runner_of, until_view
from tests.support.polling import until, wait
from tests.support.program import Program
from tests.unit.run.world import FakeWorkshop, World, make_run

SANDBOX_SPEED = 100.0
CLOCK = SystemClock()
AN_OBJECT = OwnedObject("provision", "v1", "Thing", "", "a-thing", "", existed=False, is_deleted=False)


def use_all_room(journal: Journal, folder: Path) -> None:
    """Write until the room set aside behind the records is used up as well."""
    for size in (3000, 100, 0):
        with suppress(DiskFullError):
            while True:
                journal.append(Outcome(Action.AUDIT, Result.CANCELLED, "x" * size))
    assert takes_nothing(folder)


def is_told(folder: Path) -> bool:
    """Return whether the run says that its disk is full, and since when."""
    told = [notice for notice in load_run(folder).notices if notice.kind is NoticeKind.DISK_FULL]
    return any(notice.since is not None for notice in told)


async def test_what_a_handler_owns_waits_for_room_before_the_world_is_touched(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk") as disk:
        folder = make_run(disk, CLOCK)
        lease = take_runner_lease(journal_path(folder), CLOCK)
        journal = Journal(journal_path(folder), CLOCK, fence=lease.token)
        desk = RunnerJournal(journal, lease, CLOCK)
        await desk.view()
        filling = fill(disk)
        use_all_room(journal, folder)

        owning = asyncio.create_task(StageRecorder(desk, "provision", 1).own(AN_OBJECT))
        await until(lambda: is_told(folder), "the full disk to be told, and since when")
        assert not owning.done()
        assert [item.name for item in load_run(folder).owned] == []

        filling.unlink()
        await asyncio.wait_for(owning, 60)
        assert [item.name for item in load_run(folder).owned] == ["a-thing"]
        assert not is_told(folder)
        journal.close()


async def test_no_stage_begins_on_a_full_disk_and_what_ends_the_run_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with small_disk(tmp_path / "disk") as disk:
        folder = make_run(disk, CLOCK)
        (folder / "hold-provision").touch()
        lease = take_runner_lease(journal_path(folder), CLOCK)
        journal = Journal(journal_path(folder), CLOCK, fence=lease.token)
        desk = RunnerJournal(journal, lease, CLOCK)
        desk.keep_alive()
        answers: list[bool] = []
        really_may_begin = desk.may_begin

        def may_begin() -> bool:
            answers.append(really_may_begin())
            return answers[-1]

        monkeypatch.setattr(desk, "may_begin", may_begin)
        runner = asyncio.create_task(Runner(desk, FakeWorkshop(folder, CLOCK), CLOCK, lambda line: None).run())
        await until(lambda: load_run(folder).stage("provision").message == "waiting to be let go", "the first stage")
        fill(disk)
        (folder / "hold-provision").unlink()
        await until(lambda: load_run(folder).stage("provision").state is StageState.SUCCEEDED, "its end")
        answers.clear()
        await until(lambda: len(answers) > 1, "the runner to ask for room, and to ask again")
        assert answers[0] is False
        assert load_run(folder).stage("operators").attempt == 0
        assert World(folder).names() == ["provision"]

        send_request(folder, RequestKind.TEARDOWN, start=False)
        assert (await asyncio.wait_for(runner, 60)).state is RunState.TORN_DOWN
        assert World(folder).names() == []
        journal.close()


async def test_the_reserve_lets_a_teardown_go_on_when_even_the_log_is_full(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk") as disk:
        folder = make_run(disk, CLOCK)
        lease = take_runner_lease(journal_path(folder), CLOCK)
        journal = Journal(journal_path(folder), CLOCK, fence=lease.token)
        desk = RunnerJournal(journal, lease, CLOCK)
        fill(disk)
        use_all_room(journal, folder)
        send_request(folder, RequestKind.TEARDOWN, start=False)
        view = await asyncio.wait_for(Runner(desk, FakeWorkshop(folder, CLOCK), CLOCK, lambda line: None).run(), 60)
        assert view.state is RunState.TORN_DOWN
        assert not release_reserve(folder)
        journal.close()


def test_a_full_disk_is_told_and_the_job_goes_on_to_its_end(
    program: Program, sandbox: RunningSandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    with small_disk(program.state.parent, mebibytes=16):
        try:
            folder = a_long_run(program, sandbox, monkeypatch, command="echo begun; sleep 1500; echo done")
            fill(folder)
            shown = program.command("runs", "show", "latest")
            assert (shown.returncode, "running" in shown.stdout) == (0, True), shown
            wait(lambda: "disk is full" in program.command("runs", "show", "latest").stdout, "the full disk to be told")
            assert "disk is full" in program.command("runs", "list").stdout
            assert '"disk full"' in program.command("runs", "show", "latest", "--output", "json").stdout
            view = until_view(folder, lambda view: view.state is not RunState.RUNNING, "the end")
            assert (view.state, view.stage("work").attempt) == (RunState.SUCCEEDED, 1)
        finally:
            program.end_all()


def test_on_a_full_disk_without_a_runner_a_run_is_listed_shown_and_torn_down(
    program: Program, sandbox: RunningSandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    with small_disk(program.state.parent, mebibytes=16):
        try:
            folder = a_long_run(program, sandbox, monkeypatch, command="echo begun; sleep 600")
            until_view(folder, lambda view: view.state is RunState.SUCCEEDED, "success")
            runner = program.runner(folder)
            wait(lambda: runner is None or not is_alive(runner), "the end of the runner")
            fill(folder)
            for verb in ("list", "show", "logs"):
                done = program.command("runs", verb, *([] if verb == "list" else [folder.name]))
                assert (done.returncode, done.stderr) == (0, ""), (verb, done)
            done = program.command("runs", "teardown", folder.name, "--confirm", CLUSTER)
            assert done.returncode == 0, done.stderr
            view = until_view(folder, lambda view: view.state in (RunState.TORN_DOWN, RunState.FAILED), "the teardown")
            assert view.state is RunState.TORN_DOWN
            assert view.audit is not None
            assert view.audit.leftovers == ()
        finally:
            program.end_all()


def test_on_a_full_disk_a_run_whose_runner_was_killed_is_taken_up_and_cancelled(
    program: Program, sandbox: RunningSandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    with small_disk(program.state.parent, mebibytes=16):
        try:
            folder = a_long_run(program, sandbox, monkeypatch)
            runner = runner_of(program, folder)
            os.kill(runner.pid, signal.SIGKILL)
            wait(lambda: not is_alive(runner), "the end of the runner")
            fill(folder)
            assert "unknown" in program.command("runs", "show", folder.name).stdout
            assert start_runner(folder) is not None
            done = program.command("runs", "cancel", folder.name)
            assert done.returncode == 0, done.stderr
            until_view(folder, lambda view: view.state is RunState.CANCELLED, "the cancel")
        finally:
            program.end_all()

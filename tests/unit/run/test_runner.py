"""The runner, in one process, over a pretend world."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from actions.base.clock import SystemClock
from actions.base.errors import ConfigError
from actions.base.guard import FencedError
from actions.run.client import load_run, send_request
from actions.run.context.protocols import Performed
from actions.run.engine.runner import Runner
from actions.run.engine.runner_process import BROKEN, main
from actions.run.engine.systemd import CANNOT
from actions.run.journal.folder import journal_path
from actions.run.journal.lease import take_runner_lease
from actions.run.journal.runner_journal import RunnerJournal
from actions.run.journal.store import Journal
from actions.run.state.records import RequestKind
from actions.run.state.view import RunState, RunView, StageState
from tests.support import polling
from tests.unit.run.world import FakeStage, FakeWorkshop, World, make_run

CLOCK = SystemClock()


async def carry_out(folder: Path, *, is_behind: Callable[[], bool] = lambda: False) -> RunView:
    lease = take_runner_lease(journal_path(folder), CLOCK)
    journal = Journal(journal_path(folder), CLOCK, fence=lease.token)
    try:
        backend = FakeWorkshop(folder, CLOCK)
        own = RunnerJournal(journal, lease, CLOCK)
        return await Runner(own, backend, CLOCK, lambda line: None, is_behind=is_behind).run()
    finally:
        journal.close()


@asynccontextmanager
async def at_work(folder: Path) -> AsyncIterator[asyncio.Task[RunView]]:
    task = asyncio.create_task(carry_out(folder))
    try:
        yield task
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def until(folder: Path, condition: Callable[[RunView], bool]) -> RunView:
    seen: list[RunView] = []

    def holds() -> bool:
        seen.append(load_run(folder))
        return condition(seen[-1])

    await polling.until(holds, "the run", deadline_seconds=60)
    return seen[-1]


async def test_a_plan_is_carried_out_after_its_approval_only(tmp_path: Path) -> None:
    folder = make_run(tmp_path, CLOCK, auto_approve=False)
    async with at_work(folder) as runner:
        view = await until(folder, lambda view: view.state is RunState.AWAITING_APPROVAL)
        assert World(folder).history() == []
        plan = view.stage("provision").plan
        assert plan is not None
        send_request(folder, RequestKind.APPROVE, plan_hash=plan.plan_hash, start=False)
        assert (await runner).state is RunState.SUCCEEDED
    assert load_run(folder).stage("provision").attempt == 1


async def test_a_runner_stays_while_the_home_is_behind_and_does_what_it_is_asked_for(tmp_path: Path) -> None:
    folder = make_run(tmp_path, CLOCK)
    behind = {"home"}
    runner = asyncio.create_task(carry_out(folder, is_behind=lambda: bool(behind)))
    try:
        await until(folder, lambda view: view.state is RunState.SUCCEEDED)
        send_request(folder, RequestKind.TEARDOWN, start=False)
        await until(folder, lambda view: view.state is RunState.TORN_DOWN)
        assert not runner.done()
        behind.clear()
        assert (await asyncio.wait_for(runner, 60)).state is RunState.TORN_DOWN
    finally:
        runner.cancel()
        await asyncio.gather(runner, return_exceptions=True)


async def test_a_cancel_interrupts_the_job_and_removes_it(tmp_path: Path) -> None:
    folder = make_run(tmp_path, CLOCK)
    (folder / "hold-train").touch()
    async with at_work(folder) as runner:
        await until(folder, lambda view: view.stage("train").message == "waiting to be let go")
        send_request(folder, RequestKind.CANCEL, start=False)
        assert (await runner).state is RunState.CANCELLED
    assert World(folder).names() == ["operators", "provision"]


async def test_the_work_of_a_stage_comes_to_its_own_end_when_the_run_is_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A program that it runs has been asked to end: the loop must not close under it."""
    folder = make_run(tmp_path, CLOCK)

    async def perform(_: object) -> Performed:
        (folder / "begun").touch()
        try:
            await asyncio.sleep(3600)
        finally:
            await asyncio.sleep(0.1)
            (folder / "ended").touch()
        raise AssertionError

    monkeypatch.setattr(FakeStage, "perform", perform)
    async with at_work(folder) as runner:
        await until(folder, lambda _: (folder / "begun").exists())
        runner.cancel()
        await asyncio.wait({runner})
        assert (folder / "ended").exists()


@pytest.mark.parametrize(
    ("error", "logged"),
    [(FencedError("taken over."), []), (OSError("gone"), ["OSError at the end of the work: gone"])],
    ids=["fenced", "failed"],
)
async def test_work_that_ends_in_an_error_is_not_forgotten(error: Exception, logged: list[str]) -> None:
    """Python complains of an error that nobody has looked at, in the log of the run."""
    complaints: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: complaints.append(context))

    async def work() -> None:
        try:
            await asyncio.sleep(3600)
        finally:
            raise error

    nothing: Any = None
    told: list[str] = []
    task = asyncio.ensure_future(work())
    await asyncio.sleep(0)
    await Runner(nothing, nothing, CLOCK, told.append)._stop(task)
    del task
    gc.collect()
    assert (complaints, told) == ([], logged)


async def test_a_parked_run_goes_on_with_retry(tmp_path: Path) -> None:
    folder = make_run(tmp_path, CLOCK)
    (folder / "hold-train").touch()
    async with at_work(folder) as runner:
        await until(folder, lambda view: view.stage("train").state is StageState.RUNNING)
        send_request(folder, RequestKind.PARK, start=False)
        assert (await runner).state is RunState.PARKED
    (folder / "hold-train").unlink()
    send_request(folder, RequestKind.RETRY, start=False)
    assert (await carry_out(folder)).state is RunState.SUCCEEDED
    assert load_run(folder).stage("train").attempt == 2


async def test_a_failed_stage_is_retried_and_says_why_it_failed(tmp_path: Path) -> None:
    folder = make_run(tmp_path, CLOCK)
    (folder / "fail-operators").touch()
    assert (await carry_out(folder)).stage("operators").message == "operators was told to fail."
    (folder / "fail-operators").unlink()
    send_request(folder, RequestKind.RETRY, start=False)
    assert (await carry_out(folder)).state is RunState.SUCCEEDED


async def test_a_second_runner_is_refused_while_the_first_is_at_work(tmp_path: Path) -> None:
    folder = make_run(tmp_path, CLOCK, auto_approve=False)
    async with at_work(folder):
        await until(folder, lambda view: view.state is RunState.AWAITING_APPROVAL)
        with pytest.raises(Exception, match="already carried out"):
            await carry_out(folder)


async def test_a_wish_for_a_teardown_in_the_middle_of_a_job_ends_with_nothing_left(tmp_path: Path) -> None:
    folder = make_run(tmp_path, CLOCK)
    (folder / "hold-train").touch()
    async with at_work(folder) as runner:
        await until(folder, lambda view: view.stage("train").state is StageState.RUNNING)
        send_request(folder, RequestKind.TEARDOWN, start=False)
        view = await runner
    assert (view.state, World(folder).names()) == (RunState.TORN_DOWN, [])


@pytest.mark.parametrize(
    ("error", "code", "first", "has_places"),
    [
        (
            ValueError("no such field, HF_TOKEN=hf_abcdefghijklmnopqrstuvwxyz0123"),
            BROKEN,
            "Unexpected ValueError",
            True,
        ),
        (ConfigError("The backend is missing."), CANNOT, "The backend is missing.", True),
        (FencedError("ben@laptop-2 has it."), CANNOT, "ben@laptop-2 has it.", False),
    ],
    ids=["defect", "reason", "fenced"],
)
def test_the_log_keeps_what_has_ended_a_runner(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], error: Exception, code: int, first: str, *, has_places: bool
) -> None:
    """Nothing else has it: the process has no terminal, and its exit code is the same for many ends."""

    def without_backend(*_: object) -> Any:
        raise error

    assert main(make_run(tmp_path, CLOCK), without_backend) == code
    log = capsys.readouterr().err
    assert log.splitlines()[0].endswith("Z " + first) or f"Z {first}:" in log.splitlines()[0], log
    assert ("in without_backend" in log) is has_places
    assert "hf_abc" not in log

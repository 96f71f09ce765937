"""F7: a stage that finds no room for a file of its own waits for it, and is begun again from its beginning."""

from __future__ import annotations

import asyncio
import errno
import os
from pathlib import Path

import pytest

from actions.base.clock import SystemClock
from actions.run.client import load_run, send_request
from actions.run.context.protocols import Performed, StageHandler, StageJournal
from actions.run.engine.runner import Runner
from actions.run.journal.folder import journal_path
from actions.run.journal.lease import take_runner_lease
from actions.run.journal.runner_journal import RunnerJournal
from actions.run.journal.store import Journal
from actions.run.state.records import RequestKind
from actions.run.state.view import RunState, RunView, StageView
from tests.support.polling import until
from tests.unit.run.world import FakeStage, FakeWorkshop, World, make_run

CLOCK = SystemClock()


class CrampedStage(FakeStage):
    """Writes a file first, for which there is no room while there is a file `full`."""

    def write(self) -> None:
        if (self._world.folder / "full").exists():
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "run.tfvars.json")

    async def perform(self) -> Performed:
        self.write()
        return await super().perform()

    async def undo(self) -> str:
        self.write()
        return await super().undo()


class CrampedWorkshop(FakeWorkshop):
    def handler(self, view: RunView, stage: StageView, journal: StageJournal) -> StageHandler:
        return CrampedStage(self.world, stage, journal)


async def carry_out(folder: Path) -> RunView:
    lease = take_runner_lease(journal_path(folder), CLOCK)
    journal = Journal(journal_path(folder), CLOCK, fence=lease.token)
    workshop = CrampedWorkshop(folder, CLOCK)
    try:
        return await Runner(RunnerJournal(journal, lease, CLOCK), workshop, CLOCK, lambda line: None).run()
    finally:
        journal.close()


def waits(folder: Path) -> bool:
    view = load_run(folder)
    return any("Waiting for disk space" in step.message for step in (*view.stages, *view.teardown))


async def test_f07_a_stage_and_its_undoing_wait_for_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("actions.run.engine.runner.ROOM_SECONDS", 0.05)
    folder = make_run(tmp_path, CLOCK)
    for reached in (RunState.SUCCEEDED, RunState.TORN_DOWN):
        (folder / "full").touch()
        runner = asyncio.create_task(carry_out(folder))
        await until(lambda: waits(folder), "the words")
        (folder / "full").unlink()
        assert (await runner).state is reached
        if reached is RunState.SUCCEEDED:
            assert World(folder).names() == ["operators", "provision", "train"]
            assert {stage.attempt for stage in load_run(folder).stages} == {1}
            send_request(folder, RequestKind.TEARDOWN, start=False)
    assert World(folder).names() == []


async def test_f07_a_wish_interrupts_the_waiting(tmp_path: Path) -> None:
    folder = make_run(tmp_path, CLOCK)
    (folder / "full").touch()
    runner = asyncio.create_task(carry_out(folder))
    await until(lambda: waits(folder), "the words")
    send_request(folder, RequestKind.CANCEL, start=False)
    assert (await runner).state is RunState.CANCELLED

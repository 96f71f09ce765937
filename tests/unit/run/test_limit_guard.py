"""The guard of limits beside a real journal and runner: one record, one request, whatever dies in between."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from msgspec.structs import replace

from actions.base.clock import SystemClock
from actions.run.client import load_run, send_request
from actions.run.engine.limit_guard import ENDS_SECONDS, LimitGuard
from actions.run.engine.runner import Runner
from actions.run.engine.runner_process import main
from actions.run.journal.folder import journal_path
from actions.run.journal.lease import take_runner_lease
from actions.run.journal.reader import RunReader
from actions.run.journal.runner_journal import RunnerJournal
from actions.run.journal.store import Journal, append_record
from actions.run.state.records import (
    EndsKnown,
    HeldPrice,
    LimitAction,
    LimitReached,
    Limits,
    LimitsSet,
    RequestKind,
    RunRequest,
)
from actions.run.state.view import RunState, RunView
from tests.support.crashing import crash_around_records
from tests.support.forked import forked
from tests.support.polling import until
from tests.support.virtual import VirtualClock, run_virtually
from tests.unit.run.world import FakeWorkshop, World, creation, make_run

ROOT = Path(__file__).parents[3]
CLOCK = SystemClock()
PRICES = (
    HeldPrice(title="cluster", stage="provision", usd_per_hour="2"),
    HeldPrice(title="nodes", stage="train", usd_per_hour="100", is_of_work=True),
)


async def no_ends(_view: RunView) -> EndsKnown:
    raise AssertionError("no limit refers to an end")


def a_run(home: Path, limits: Limits) -> Path:
    stages = tuple(replace(stage, holds_accelerators=stage.id == "train") for stage in creation().stages)
    first = replace(creation(), limits=limits, prices=PRICES, stages=stages)
    return make_run(home, CLOCK, created=first)


def guarded(
    folder: Path,
    work: Callable[[RunnerJournal, LimitGuard, VirtualClock], Awaitable[None]],
    fetch: Callable[[RunView], Awaitable[EndsKnown]] = no_ends,
) -> RunView:
    """Do something with a guard in loop time, and return the run after it."""

    async def body() -> None:
        clock = VirtualClock()
        lease = take_runner_lease(journal_path(folder), clock)
        journal = Journal(journal_path(folder), clock, fence=lease.token)
        try:
            runner_journal = RunnerJournal(journal, lease, clock)
            await work(runner_journal, LimitGuard(runner_journal, fetch, clock), clock)
        finally:
            journal.close()

    run_virtually(body())
    return load_run(folder)


def test_a_limit_is_looked_at_every_fifteen_seconds_and_acted_on_once(tmp_path: Path) -> None:
    until = CLOCK.now().timestamp() + 3600

    async def an_hour(journal: RunnerJournal, guard: LimitGuard, clock: VirtualClock) -> None:
        task = asyncio.create_task(guard.accompany())
        await clock.sleep(3500)
        assert not (await journal.view()).requests
        await clock.sleep(3600)
        task.cancel()

    view = guarded(a_run(tmp_path, Limits(until=until)), an_hour)
    assert [(one.kind, one.is_of_limit, one.by) for one in view.requests] == [(RequestKind.PARK, True, None)]
    assert view.requests[0].at - until < 16
    assert [one.limit for one in view.limits_reached] == ["until"]
    assert "The limit until" in view.limits_reached[0].text


def test_a_request_that_is_missing_after_a_crash_is_written_and_no_second_record(tmp_path: Path) -> None:
    folder = a_run(tmp_path, Limits(until=1.0, action=LimitAction.TEARDOWN))

    async def crashed(journal: RunnerJournal, guard: LimitGuard, clock: VirtualClock) -> None:
        await journal.write(LimitReached("until", "The limit."))
        await guard.look()
        await guard.look()

    view = guarded(folder, crashed)
    assert [one.kind for one in view.requests] == [RequestKind.TEARDOWN]
    assert [one.text for one in view.limits_reached] == ["The limit."]


def test_a_person_who_was_faster_is_not_overruled(tmp_path: Path) -> None:
    folder = a_run(tmp_path, Limits(until=1.0))

    async def torn(journal: RunnerJournal, guard: LimitGuard, clock: VirtualClock) -> None:
        await journal.write(LimitReached("until", "The limit."))
        append_record(folder, RunRequest(RequestKind.TEARDOWN), deed="a test")
        await guard.look()

    assert [one.kind for one in guarded(folder, torn).requests] == [RequestKind.TEARDOWN]


def test_a_teardown_of_what_others_use_becomes_a_park_and_is_not_repeated(tmp_path: Path) -> None:
    folder = a_run(tmp_path, Limits(until=1.0, action=LimitAction.TEARDOWN))

    async def used(journal: RunnerJournal, guard: LimitGuard, clock: VirtualClock) -> None:
        async def users(_view: RunView) -> list[str]:
            return ["run other-1121-0002 has 3 objects in the cluster"]

        careful = LimitGuard(journal, no_ends, clock, find_users=users)
        for _ in range(3):
            await careful.look()

    view = guarded(folder, used)
    assert [one.kind for one in view.requests] == [RequestKind.PARK]
    assert len(view.limits_reached) == 1


def test_the_runner_has_news_of_a_request_that_its_own_process_wrote(tmp_path: Path) -> None:
    async def reached(journal: RunnerJournal, guard: LimitGuard, clock: VirtualClock) -> None:
        journal.has_news()
        assert not journal.has_news()
        await guard.look()
        assert journal.has_news()
        assert not journal.has_news()

    guarded(a_run(tmp_path, Limits(until=1.0)), reached)


def test_new_limits_count_at_once(tmp_path: Path) -> None:
    folder = a_run(tmp_path, Limits(until=1.0))

    async def changed(journal: RunnerJournal, guard: LimitGuard, clock: VirtualClock) -> None:
        append_record(folder, LimitsSet(Limits(budget_usd="5")), deed="a test")
        await guard.look()

    assert guarded(folder, changed).requests == ()


def test_ends_are_fetched_every_five_minutes_and_written_when_they_change(tmp_path: Path) -> None:
    fetched: list[EndsKnown] = []
    end = CLOCK.now().timestamp() + 7200

    async def fetch(view: RunView) -> EndsKnown:
        fetched.append(view.ends)
        return EndsKnown(credentials_end=end if len(fetched) > 2 else end + 3600)

    async def two_hours(journal: RunnerJournal, guard: LimitGuard, clock: VirtualClock) -> None:
        task = asyncio.create_task(guard.accompany())
        await clock.sleep(7000)
        task.cancel()

    folder = a_run(tmp_path, Limits(credentials_end=True))
    view = guarded(folder, two_hours, fetch)
    assert 7000 / ENDS_SECONDS - 4 < len(fetched) < 7000 / ENDS_SECONDS + 2
    assert view.ends == EndsKnown(credentials_end=end)
    assert end - 600 <= view.requests[0].at < end - 580
    written = [record for record in RunReader(folder).records() if isinstance(record.body, EndsKnown)]
    assert len(written) == 2


async def carry_out(folder: Path) -> RunView:
    """Carry out the run with its guard, as the runner's process does."""
    lease = take_runner_lease(journal_path(folder), CLOCK)
    journal = Journal(journal_path(folder), CLOCK, fence=lease.token)
    runner_journal = RunnerJournal(journal, lease, CLOCK)
    guard = asyncio.create_task(LimitGuard(runner_journal, no_ends, CLOCK).accompany())
    try:
        return await Runner(runner_journal, FakeWorkshop(folder, CLOCK), CLOCK, lambda line: None).run()
    finally:
        guard.cancel()
        journal.close()


@pytest.mark.parametrize("action", list(LimitAction))
async def test_a_limit_that_is_over_lets_no_stage_begin(tmp_path: Path, action: LimitAction) -> None:
    folder = a_run(tmp_path, Limits(until=1.0, action=action))
    view = await carry_out(folder)
    assert view.state is (RunState.PARKED if action is LimitAction.PARK else RunState.TORN_DOWN)
    assert World(folder).history() == []


async def test_a_run_that_succeeded_is_watched_while_it_holds_nodes(tmp_path: Path) -> None:
    folder = a_run(tmp_path, Limits(budget_usd="1000000"))
    work = asyncio.create_task(carry_out(folder))
    await until(lambda: load_run(folder).state is RunState.SUCCEEDED, "the run's success")
    assert RunReader(folder).poll() is not None
    append_record(folder, LimitsSet(Limits()), deed="a test")
    assert (await asyncio.wait_for(work, 30)).state is RunState.SUCCEEDED


def one_runner(folder: Path, crash_at: str = "") -> int:
    def work() -> int:
        crash_around_records(lambda seq, side: f"{seq}:{side}" == crash_at)
        return main(folder, FakeWorkshop)

    return forked(work, environment=os.environ.copy(), directory=ROOT, seconds=30).returncode


@pytest.mark.kill
@pytest.mark.parametrize("point", ["2:before", "2:after", "3:before", "3:after"])
def test_a_runner_that_is_killed_between_record_and_request_leaves_one_of_each(tmp_path: Path, point: str) -> None:
    folder = a_run(tmp_path, Limits(until=1.0))
    assert one_runner(folder, point) < 0
    assert one_runner(folder) == 0
    view = load_run(folder)
    assert view.state is RunState.PARKED
    assert [(one.kind, one.is_of_limit) for one in view.requests] == [(RequestKind.PARK, True)]
    assert len(view.limits_reached) == 1


def test_a_resumed_run_parks_again_until_it_has_other_limits(tmp_path: Path) -> None:
    folder = a_run(tmp_path, Limits(until=1.0))
    assert one_runner(folder) == 0
    send_request(folder, RequestKind.RETRY, start=False)
    assert one_runner(folder) == 0
    assert load_run(folder).state is RunState.PARKED
    assert World(folder).history() == []
    append_record(folder, LimitsSet(Limits()), deed="a test")
    send_request(folder, RequestKind.RETRY, start=False)
    assert one_runner(folder) == 0
    assert load_run(folder).state is RunState.SUCCEEDED


def test_a_request_that_a_companion_has_read_keeps_the_runner(tmp_path: Path) -> None:
    folder = a_run(tmp_path, Limits())

    async def work(runner_journal: RunnerJournal, _guard: LimitGuard, _clock: VirtualClock) -> None:
        seen = await runner_journal.view()
        append_record(folder, RunRequest(RequestKind.PAUSE), deed="a test")
        assert (await runner_journal.view()).last_seq > seen.last_seq, "as a companion reads it"
        assert not await runner_journal.release(seen.last_seq)

    guarded(folder, work)

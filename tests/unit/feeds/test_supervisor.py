"""Endless work and its health."""

from __future__ import annotations

import asyncio

from actions.base.clock import SystemClock
from actions.base.errors import AccessError, UnreachableError
from tui.feeds.supervisor import FeedHealth, FeedState, Supervisor


class QuickClock(SystemClock):
    """Waits as long as a turn of the loop."""

    def __init__(self) -> None:
        self.waits: list[float] = []

    async def sleep(self, seconds: float) -> None:
        self.waits.append(seconds)
        await asyncio.sleep(0)


def nothing() -> None:
    """Nobody looks."""


async def test_work_that_fails_is_begun_again_after_longer_and_longer_waits() -> None:
    clock, tries = QuickClock(), 0
    finished = asyncio.Event()

    async def work() -> None:
        nonlocal tries
        tries += 1
        if tries == 4:
            finished.set()
            await asyncio.Event().wait()
        raise UnreachableError("nobody answers")

    supervisor = Supervisor(clock, nothing)
    supervisor.keep("feed", work)
    await finished.wait()
    await supervisor.aclose()

    assert tries == 4
    assert clock.waits == sorted(clock.waits)


async def test_a_failure_is_told_in_one_sentence_and_its_kind() -> None:
    told = asyncio.Event()
    blocked = asyncio.Event()

    class Patient(SystemClock):
        async def sleep(self, seconds: float) -> None:
            await blocked.wait()

    async def work() -> None:
        raise AccessError("forbidden: pods/exec")

    supervisor = Supervisor(Patient(), told.set)
    supervisor.keep("feed", work)
    await told.wait()
    health = supervisor.health("feed")
    await supervisor.aclose()

    assert (health.state, health.detail) == (FeedState.REFUSED, "forbidden: pods/exec")


async def test_a_defect_in_one_feed_does_not_touch_another() -> None:
    told = asyncio.Event()

    async def broken() -> None:
        raise ZeroDivisionError("a defect")

    async def fine() -> None:
        supervisor.mark_live("fine")
        await asyncio.Event().wait()

    supervisor = Supervisor(SystemClock(), told.set)
    supervisor.keep("fine", fine)
    supervisor.keep("broken", broken)
    while (
        supervisor.health("broken").state is FeedState.STARTING or supervisor.health("fine").state is FeedState.STARTING
    ):
        told.clear()
        await told.wait()
    states = supervisor.health("fine").state, supervisor.health("broken").state
    await supervisor.aclose()

    assert states == (FeedState.LIVE, FeedState.WAITING)


async def test_work_that_returns_has_ended() -> None:
    told = asyncio.Event()

    async def work() -> None:
        return

    supervisor = Supervisor(SystemClock(), told.set)
    supervisor.keep("feed", work)
    await told.wait()

    assert supervisor.health("feed").state is FeedState.ENDED


def test_a_stale_source_tells_its_age_and_why() -> None:
    assert (
        FeedHealth(FeedState.WAITING, "connection refused", since=100.0).label(142.0) == "stale 42s: connection refused"
    )


def test_the_seconds_of_a_refusal_are_not_counted() -> None:
    refused = FeedHealth(FeedState.REFUSED, "forbidden", since=100.0)
    assert (refused.label(142.0), refused.changes_in(142.0)) == ("refused: forbidden", 18.0)
    assert (refused.label(230.0), refused.changes_in(230.0)) == ("refused 2m: forbidden", 50.0)
    stale = FeedHealth(FeedState.WAITING, since=100.0)
    assert (stale.label(142.5), stale.changes_in(142.5)) == ("stale 42s", 0.5)


def test_a_kept_snapshot_tells_its_time_before_the_state_of_its_source() -> None:
    starting = FeedHealth(FeedState.STARTING, as_of="as of 14:02 UTC")
    assert starting.label(0.0) == "as of 14:02 UTC · reading"
    waiting = FeedHealth(FeedState.WAITING, "connection refused", since=100.0, as_of="as of 14:02 UTC")
    assert waiting.label(142.0) == "as of 14:02 UTC · stale 42s: connection refused"

"""Programs that wait for each other."""

from __future__ import annotations

import asyncio

from actions.sandbox.kubelet.rendezvous import Meetings
from actions.sandbox.programs.program import Meeting


async def test_nobody_goes_on_before_all_are_there() -> None:
    meetings = Meetings()
    first = asyncio.create_task(meetings.join(Meeting("job", 2), "a"))
    await asyncio.sleep(0)
    assert not first.done()
    second = await meetings.join(Meeting("job", 2), "b")
    assert await first is second


async def test_a_member_that_is_lost_breaks_the_round_for_the_others() -> None:
    meetings = Meetings()
    gathering, _ = await asyncio.gather(meetings.join(Meeting("job", 2), "a"), meetings.join(Meeting("job", 2), "b"))
    meetings.leave("a", is_finished=False)
    assert gathering.is_broken


async def test_a_member_that_has_finished_breaks_nothing() -> None:
    meetings = Meetings()
    gathering, _ = await asyncio.gather(meetings.join(Meeting("job", 2), "a"), meetings.join(Meeting("job", 2), "b"))
    meetings.leave("a", is_finished=True)
    assert not gathering.is_broken


async def test_a_member_that_leaves_while_it_waits_is_not_counted() -> None:
    meetings = Meetings()
    waiting = asyncio.create_task(meetings.join(Meeting("job", 2), "a"))
    await asyncio.sleep(0)
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    meetings.leave("a", is_finished=False)
    other = asyncio.create_task(meetings.join(Meeting("job", 2), "b"))
    await asyncio.sleep(0)
    assert not other.done()
    other.cancel()

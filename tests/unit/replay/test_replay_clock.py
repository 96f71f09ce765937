"""The time of a replay: paused, fast, at any moment."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from actions.base.errors import ParameterError
from actions.replay.clock import FASTEST, ReplayClock
from actions.replay.replay import Replay
from tests.support.captures import WALL, MadeCapture, MovedClock, event, thing
from tui.feeds.replay import badge_text


def a_clock(*, length: float = 100.0, speed: float = 1.0) -> tuple[ReplayClock, MovedClock]:
    machine = MovedClock()
    return ReplayClock(WALL, length, speed=speed, clock=machine), machine


def test_it_stands_still_until_it_is_started_and_ends_at_the_end() -> None:
    clock, machine = a_clock()
    machine.seconds += 10
    assert clock.at == 0
    clock.play()
    machine.seconds += 10
    assert (clock.at, clock.now().timestamp(), clock.has_ended) == (10, WALL + 10, False)
    machine.seconds += 1000
    assert (clock.at, clock.has_ended) == (100, True)


def test_a_step_of_less_than_a_second_is_seen_in_the_header() -> None:
    clock, machine = a_clock(speed=4)
    clock.play()
    machine.seconds += 0.5
    assert badge_text(clock).endswith(" ×4")
    clock.pause()
    before = badge_text(clock)
    clock.seek(clock.at + 0.0045)
    assert (before[-11:], badge_text(clock)[-11:]) == (".000 paused", ".004 paused")
    clock.seek(100.0)
    assert badge_text(clock).endswith(" end")


def test_speed_pause_and_moments() -> None:
    clock, machine = a_clock(speed=4)
    clock.play()
    machine.seconds += 5
    assert clock.at == 20
    clock.pause()
    machine.seconds += 5
    assert clock.at == 20
    clock.run_at(10)
    clock.play()
    machine.seconds += 1
    assert clock.at == 30
    assert clock.seek(-5) == clock.at == 0
    assert clock.seek(500) == clock.at == 100
    clock.run_at(1e9)
    assert clock.speed == FASTEST


async def test_a_wait_for_a_moment_ends_when_the_time_is_moved() -> None:
    clock, _ = a_clock()
    waiting = asyncio.create_task(clock.reach(50))
    await asyncio.sleep(0)
    assert not waiting.done()
    clock.seek(60)
    await asyncio.wait_for(waiting, 60)
    clock.play()
    await asyncio.wait_for(clock.reach(10), 60)  # it is past


MOMENTS = {
    "start": 0.0, "end": 7200.0, "90s": 90.0, "1h": 3600.0, "1h30m": 5400.0, "+30s": 630.0, "-2m": 480.0,
    "14:02": 120.0, "14:02:07": 127.0, "2026-11-23T15:00:00Z": 3600.0, "2026-11-23T15:00": 3600.0,
}  # fmt: skip


def test_moments_are_read_as_people_write_them(tmp_path: Path) -> None:
    made = MadeCapture()
    made.end(7200.0, 99)
    replay = Replay(made.index(tmp_path), clock=MovedClock())
    try:
        replay.clock.seek(600)
        assert {text: replay.moment(text) for text in MOMENTS} == MOMENTS
        for text in ("", "soon", "+", "+14:02", "25:99", "5 parsecs", "..s", "2026-99-99T00:00"):
            with pytest.raises(ParameterError, match="is not a moment"):
                replay.moment(text)
    finally:
        replay.close()


def test_steps_go_from_change_to_change(tmp_path: Path) -> None:
    made = MadeCapture()
    number = made.watch(1.0, "/api/v1/pods", [thing("a")])
    for second in (2.0, 3.5, 3.5, 9.0):
        made.part(second, number, event("ADDED", thing(f"at-{second}")))
    made.end(20.0, 99)
    index = made.index(tmp_path)
    try:
        assert [index.step_from(at, 1) for at in (0.0, 1.0, 2.0, 3.5, 9.0)] == [1.0, 2.0, 3.5, 9.0, 20.0]
        assert [index.step_from(at, -1) for at in (20.0, 9.0, 3.5, 2.0, 1.0, 0.0)] == [9.0, 3.5, 2.0, 1.0, 0.0, 0.0]
        assert index.step_from(0.0, 3) == 3.5
        assert index.changes_between(1.5, 5.0) == 2
    finally:
        index.close()

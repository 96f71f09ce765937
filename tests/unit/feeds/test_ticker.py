"""The times at which the screen is painted."""

from __future__ import annotations

import asyncio

import pytest

from tests.support.virtual import run_virtually
from tui.feeds.ticker import LONGEST_INTERVAL_SECONDS, UNSEEN_INTERVAL_SECONDS, Ticker


def test_many_changes_are_one_paint() -> None:
    async def request_paint() -> list[float]:
        painted: list[float] = []
        ticker = Ticker(lambda: painted.append(asyncio.get_running_loop().time()), interval_seconds=0.25)
        for _ in range(100):
            ticker.request_paint()
        await asyncio.sleep(10)
        return painted

    assert run_virtually(request_paint()) == [0.0]


def test_the_second_paint_waits_for_the_interval() -> None:
    async def request_paint() -> list[float]:
        painted: list[float] = []
        ticker = Ticker(lambda: painted.append(asyncio.get_running_loop().time()), interval_seconds=0.25)
        for _ in range(60):
            ticker.request_paint()
            await asyncio.sleep(1 / 64)
        return painted

    assert run_virtually(request_paint()) == pytest.approx([0.0, 0.25, 0.5, 0.75])


def test_a_change_after_a_quiet_time_is_painted_at_once() -> None:
    async def request_paint() -> list[float]:
        painted: list[float] = []
        ticker = Ticker(lambda: painted.append(asyncio.get_running_loop().time()), interval_seconds=0.25)
        for moment in (0.0, 3.0):
            await asyncio.sleep(moment)
            ticker.request_paint()
        await asyncio.sleep(1)
        return painted

    assert run_virtually(request_paint()) == [0.0, 3.0]


def test_what_the_operator_waits_for_is_painted_at_once_and_only_once() -> None:
    async def request_paint() -> list[float]:
        painted: list[float] = []
        ticker = Ticker(lambda: painted.append(asyncio.get_running_loop().time()), interval_seconds=0.25)
        ticker.request_paint()
        await asyncio.sleep(0.125)
        ticker.request_paint()
        ticker.paint_now()
        await asyncio.sleep(1)
        return painted

    assert run_virtually(request_paint()) == [0.0, 0.125]


@pytest.mark.parametrize(("cost", "interval"), [(0.005, 0.25), (0.012, 0.4), (0.2, LONGEST_INTERVAL_SECONDS)])
def test_frames_that_cost_much_come_less_often_but_still_come(cost: float, interval: float) -> None:
    async def request_paint() -> list[float]:
        painted: list[float] = []
        spent = 0.0
        done = asyncio.Event()

        def paint() -> None:
            nonlocal spent
            painted.append(asyncio.get_running_loop().time())
            spent += cost
            done.set()

        ticker = Ticker(paint, interval_seconds=0.25, spent=lambda: spent)
        for _ in range(3):
            ticker.request_paint()
            await done.wait()
            done.clear()
            ticker.painted()
        return painted

    assert run_virtually(request_paint()) == pytest.approx([0.0, interval, 2 * interval])


def test_without_a_change_and_after_its_end_nothing_is_painted() -> None:
    async def request_paint() -> list[float]:
        painted: list[float] = []
        ticker = Ticker(lambda: painted.append(asyncio.get_running_loop().time()), interval_seconds=0.25)
        await asyncio.sleep(10)
        ticker.request_paint()
        ticker.request_paint_in(5)
        ticker.stop()
        await asyncio.sleep(10)
        return painted

    assert run_virtually(request_paint()) == []


def test_a_screen_that_is_on_no_terminal_is_painted_rarely_until_it_is_read() -> None:
    async def request_paint() -> list[float]:
        painted: list[float] = []
        ticker = Ticker(lambda: painted.append(asyncio.get_running_loop().time()), interval_seconds=0.25)
        ticker.is_seen = False
        for tick in range(96):
            ticker.request_paint()
            if tick == 80:  # a quarter of the way to the next paint
                ticker.hasten()
            await asyncio.sleep(1 / 16)
        return painted

    assert UNSEEN_INTERVAL_SECONDS == 2.0
    assert run_virtually(request_paint()) == pytest.approx([0.0, 2.0, 4.0, 5.0])

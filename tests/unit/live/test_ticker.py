"""When the screen is painted."""

from __future__ import annotations

import asyncio

import pytest

from tests.support.virtual import run_virtually
from tui.live.ticker import Ticker


def test_many_changes_are_one_paint() -> None:
    async def poke() -> list[float]:
        painted: list[float] = []
        ticker = Ticker(lambda: painted.append(asyncio.get_running_loop().time()), interval_seconds=0.25)
        for _ in range(100):
            ticker.poke()
        await asyncio.sleep(10)
        assert not ticker.is_armed
        return painted

    assert run_virtually(poke()) == [0.0]


def test_the_second_paint_waits_for_the_interval() -> None:
    async def poke() -> list[float]:
        painted: list[float] = []
        ticker = Ticker(lambda: painted.append(asyncio.get_running_loop().time()), interval_seconds=0.25)
        for _ in range(60):
            ticker.poke()
            await asyncio.sleep(1 / 64)
        return painted

    assert run_virtually(poke()) == pytest.approx([0.0, 0.25, 0.5, 0.75])


def test_a_change_after_a_quiet_time_is_painted_at_once() -> None:
    async def poke() -> list[float]:
        painted: list[float] = []
        ticker = Ticker(lambda: painted.append(asyncio.get_running_loop().time()), interval_seconds=0.25)
        for moment in (0.0, 3.0):
            await asyncio.sleep(moment)
            ticker.poke()
        await asyncio.sleep(1)
        return painted

    assert run_virtually(poke()) == [0.0, 3.0]


async def test_at_rest_nothing_is_armed() -> None:
    ticker = Ticker(lambda: None)
    assert not ticker.is_armed

    ticker.poke()
    ticker.stop()

    assert not ticker.is_armed

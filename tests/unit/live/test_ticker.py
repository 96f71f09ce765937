"""When the screen is painted."""

from __future__ import annotations

import asyncio
from itertools import pairwise

from tui.live.ticker import Ticker


async def test_many_changes_are_one_paint() -> None:
    painted: list[float] = []
    ticker = Ticker(lambda: painted.append(asyncio.get_running_loop().time()), interval_seconds=0.02)
    for _ in range(100):
        ticker.poke()
    while ticker.is_armed:
        await asyncio.sleep(0.001)

    assert len(painted) == 1


async def test_the_second_paint_waits_for_the_interval() -> None:
    painted: list[float] = []
    ticker = Ticker(lambda: painted.append(asyncio.get_running_loop().time()), interval_seconds=0.02)
    while len(painted) < 3:
        ticker.poke()
        await asyncio.sleep(0.001)

    assert min(later - earlier for earlier, later in pairwise(painted)) >= 0.019


async def test_at_rest_nothing_is_armed() -> None:
    ticker = Ticker(lambda: None)
    assert not ticker.is_armed

    ticker.poke()
    ticker.stop()

    assert not ticker.is_armed

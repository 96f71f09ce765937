"""A clock that a test turns, and the paints that a feed asks for."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import datetime, timedelta

from tests.support.builders import NOW, StillClock


class Turning(StillClock):
    """A clock whose time a test sets."""

    seconds = 100.0

    def now(self) -> datetime:
        return NOW + timedelta(seconds=self.seconds - 100.0)

    def monotonic(self) -> float:
        return self.seconds


class Waits:
    """The paints that a feed has asked for."""

    def __init__(self) -> None:
        self.changed = asyncio.Event()
        self.later: list[float] = []


async def until(waits: Waits, holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not holds():
            await waits.changed.wait()
            waits.changed.clear()

"""A clock whose waits take no time."""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime, timedelta


class HastyClock:
    """The machine's clock, on which every `sleep` is over at once and counts as slept."""

    def __init__(self) -> None:
        self.slept: list[float] = []
        self._began = datetime(2026, 11, 21, 10, tzinfo=UTC)

    def now(self) -> datetime:
        return self._began + timedelta(seconds=self.monotonic())

    def monotonic(self) -> float:
        return time.monotonic() + sum(self.slept)

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        await asyncio.sleep(0)

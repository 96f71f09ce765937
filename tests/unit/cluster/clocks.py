"""Clocks that do as a test says."""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime, timedelta

from actions.base.clock import SystemClock


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


class HandClock(SystemClock):
    """Time that passes only when told; waits are real."""

    def __init__(self) -> None:
        self._seconds = 0.0

    def pass_by(self, seconds: float) -> None:
        """Go on by so much."""
        self._seconds += seconds

    def now(self) -> datetime:
        return datetime(2026, 11, 21, 10, tzinfo=UTC) + timedelta(seconds=self._seconds)

    def monotonic(self) -> float:
        return self._seconds

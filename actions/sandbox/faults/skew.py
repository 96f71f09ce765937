"""A clock that can be set wrong."""

from __future__ import annotations

from datetime import datetime, timedelta

from actions.base.clock import Clock


class SkewedClock:
    """`base` with its wall time `offset_seconds` ahead; durations are not touched."""

    def __init__(self, base: Clock) -> None:
        self._base = base
        self.offset_seconds = 0.0

    def now(self) -> datetime:
        return self._base.now() + timedelta(seconds=self.offset_seconds)

    def monotonic(self) -> float:
        return self._base.monotonic()

    async def sleep(self, seconds: float) -> None:
        await self._base.sleep(seconds)

"""The time of a replay: it can stand still, run faster, and go to any moment of the capture."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime

from actions.base.clock import Clock, SystemClock

FASTEST = 600.0
SLOWEST = 0.1
_SHORTEST_SLEEP = 0.02
"""However fast a replay is, waits of the console's feeds leave it time for keys."""


class ReplayClock:
    """The clock of a console that shows a capture; used on its loop.

    `now` is the wall time at which things happened. `monotonic` is this machine's: it measures work, not the replay.

    Args:
        began_at: Wall time of the capture's begin, in seconds since the epoch.
        length: Seconds from its begin to its end.
        speed: Seconds of the capture in one second.
        clock: This machine's time.
    """

    def __init__(self, began_at: float, length: float, *, speed: float = 1.0, clock: Clock | None = None) -> None:
        self.began_at = began_at
        self.length = length
        self.speed = speed
        self.is_paused = True
        """A new clock stands still at the begin."""
        self.changed: Callable[[], None] = lambda: None
        """Called when the time was moved, or runs otherwise than before."""
        self._clock = clock or SystemClock()
        self._anchor = self._clock.monotonic()
        self._anchored_at = 0.0
        self._moved = asyncio.Event()

    @property
    def at(self) -> float:
        """The moment that is shown, in seconds since the capture's begin."""
        if self.is_paused:
            return self._anchored_at
        return min(self.length, self._anchored_at + (self._clock.monotonic() - self._anchor) * self.speed)

    @property
    def has_ended(self) -> bool:
        """True at the end of the capture."""
        return self.at >= self.length

    def now(self) -> datetime:
        """Wall time in the capture, aware, UTC."""
        return datetime.fromtimestamp(self.began_at + self.at, UTC)

    def monotonic(self) -> float:
        """Seconds of this machine, that never go backwards."""
        return self._clock.monotonic()

    async def sleep(self, seconds: float) -> None:
        """Hand the loop back for `seconds` of the capture; while it stands still, of this machine."""
        speed = 1.0 if self.is_paused else max(1.0, self.speed)
        await self._clock.sleep(max(min(seconds, _SHORTEST_SLEEP), seconds / speed))

    def pause(self) -> None:
        """Stand still."""
        self._set(self.at, is_paused=True)

    def play(self) -> None:
        """Run."""
        self._set(self.at, is_paused=False)

    def run_at(self, speed: float) -> None:
        """Run at another speed."""
        at = self.at
        self.speed = min(FASTEST, max(SLOWEST, speed))
        self._set(at, is_paused=self.is_paused)

    def seek(self, at: float) -> float:
        """Go to a moment; return it, which is within the capture."""
        at = min(max(0.0, at), self.length)
        self._set(at, is_paused=self.is_paused)
        return at

    async def reach(self, at: float) -> None:
        """Return when the moment is `at` or later, or when the time was moved."""
        moved = self._moved
        if self.is_paused:
            await moved.wait()
            return
        left = (at - self.at) / self.speed
        if left <= 0:
            return
        try:
            async with asyncio.timeout(left):
                await moved.wait()
        except TimeoutError:
            return

    def _set(self, at: float, *, is_paused: bool) -> None:
        self._anchored_at, self._anchor, self.is_paused = at, self._clock.monotonic(), is_paused
        moved, self._moved = self._moved, asyncio.Event()
        moved.set()
        self.changed()

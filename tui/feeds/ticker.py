"""When the screen is painted: soon after a change, not more often than it can be afforded, never at rest."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from actions.base.clock import processor_seconds

PAINT_INTERVAL_SECONDS = 0.25
"""Four times a second reads as live; ten times would double what goes over a slow line."""
LONGEST_INTERVAL_SECONDS = 0.5
_SHARE = 0.03
"""Of a core, for painting: where frames are dear (a slow machine, a screen that changes whole) they come less often."""


class Ticker:
    """A one-shot timer that the first change arms.

    The first change after a quiet time is painted at once; those that follow within the interval are painted
    together at its end. The interval grows with what a frame costs. All calls are made on the loop.

    Args:
        paint: Pulls what is visible.
        interval_seconds: The least time between two paints.
        spent: Processor seconds of this thread.
    """

    def __init__(
        self,
        paint: Callable[[], None],
        *,
        interval_seconds: float = PAINT_INTERVAL_SECONDS,
        spent: Callable[[], float] = processor_seconds,
    ) -> None:
        self._paint = paint
        self._least = self._interval = interval_seconds
        self._spent = spent
        self._begun_at: float | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._later: asyncio.TimerHandle | None = None
        self._painted_at = float("-inf")

    def request_paint(self) -> None:
        """Say that something changed."""
        if self._timer is not None:
            return
        loop = asyncio.get_running_loop()
        wait = max(0.0, self._painted_at + self._interval - loop.time())
        self._timer = loop.call_later(wait, self._fire)

    def paint_now(self) -> None:
        """Say that something changed that somebody waits for: it is painted at once."""
        self.stop()
        self._timer = asyncio.get_running_loop().call_later(0, self._fire)

    def request_paint_in(self, seconds: float) -> None:
        """Say that something will have changed by itself in so many seconds: an age that is on screen."""
        loop = asyncio.get_running_loop()
        due = loop.time() + seconds
        if self._later is not None:
            if self._later.when() <= due:
                return
            self._later.cancel()
        self._later = loop.call_at(due, self._aged)

    def painted(self) -> None:
        """Say that the frame is on the terminal: what it cost decides when the next one may come."""
        if self._begun_at is not None:
            cost = self._spent() - self._begun_at
            self._interval = max(self._least, min(cost / _SHARE, LONGEST_INTERVAL_SECONDS))
            self._begun_at = None

    def stop(self) -> None:
        """Forget the paints that are due."""
        for timer in filter(None, (self._timer, self._later)):
            timer.cancel()
        self._timer = self._later = None

    @property
    def is_armed(self) -> bool:
        """Whether a paint is due."""
        return self._timer is not None

    def _aged(self) -> None:
        self._later = None
        self.request_paint()

    def _fire(self) -> None:
        self._timer = None
        self._painted_at = asyncio.get_running_loop().time()
        self._begun_at = self._spent()
        self._paint()

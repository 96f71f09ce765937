"""The ticker: paints the screen soon after a change, within a share of the processor, and never at rest."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from actions.base.clock import processor_seconds

PAINT_INTERVAL_SECONDS = 0.25
"""Four times a second looks live; ten times would double the traffic on a slow line."""
LONGEST_INTERVAL_SECONDS = 0.5
UNSEEN_INTERVAL_SECONDS = 2.0
"""While a script plays without a terminal, nothing is seen but what it requests."""
_SHARE = 0.03
"""Share of a core for painting: expensive frames (slow machine, whole screen changed) are painted less often."""


class Ticker:
    """A one-shot timer, armed by the first change.

    The first change after a quiet time is painted at once; those that follow within the interval are painted together
    at its end. The interval grows with the cost of a frame. All calls are made on the loop.

    Args:
        paint: Refreshes the visible panes.
        interval_seconds: Minimum time between two paints.
        spent: Returns the processor seconds of this thread.
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
        self.is_seen = True
        """False if the screen is on no terminal: then changes are painted every `UNSEEN_INTERVAL_SECONDS`."""

    def request_paint(self) -> None:
        """Request a paint after a change."""
        if self._timer is None:
            self._arm(self._interval if self.is_seen else UNSEEN_INTERVAL_SECONDS)

    def hasten(self) -> None:
        """Let the paint that is due come as on a screen that is seen: a script reads it, or uses keys."""
        if self._timer is not None and not self.is_seen:
            self._timer.cancel()
            self._arm(self._interval)

    def paint_now(self) -> None:
        """Paint at once, after a change that the operator waits for."""
        self.stop()
        self._timer = asyncio.get_running_loop().call_later(0, self._fire)

    def request_paint_in(self, seconds: float) -> None:
        """Request a paint in this many seconds, when something on screen will have changed with time: an age."""
        loop = asyncio.get_running_loop()
        due = loop.time() + seconds
        if self._later is not None:
            if self._later.when() <= due:
                return
            self._later.cancel()
        self._later = loop.call_at(due, self._aged)

    def painted(self) -> None:
        """Account for a frame that reached the terminal: its cost decides when the next one may come."""
        if self._begun_at is not None:
            cost = self._spent() - self._begun_at
            self._interval = max(self._least, min(cost / _SHARE, LONGEST_INTERVAL_SECONDS))
            self._begun_at = None

    def stop(self) -> None:
        """Cancel the paints that are due."""
        for timer in filter(None, (self._timer, self._later)):
            timer.cancel()
        self._timer = self._later = None

    def _arm(self, interval: float) -> None:
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(max(0.0, self._painted_at + interval - loop.time()), self._fire)

    def _aged(self) -> None:
        self._later = None
        self.request_paint()

    def _fire(self) -> None:
        self._timer = None
        self._painted_at = asyncio.get_running_loop().time()
        self._begun_at = self._spent()
        self._paint()

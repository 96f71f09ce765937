"""When the screen is painted: soon after a change, not more often than the interval, never at rest."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

PAINT_INTERVAL_SECONDS = 0.25
"""Four times a second reads as live; ten times would double what goes over a slow line."""


class Ticker:
    """A one-shot timer that the first change arms.

    The first change after a quiet time is painted at once; those that follow within the interval are painted
    together at its end. All calls are made on the loop.

    Args:
        paint: Pulls what is visible.
        interval_seconds: The least time between two paints.
    """

    def __init__(self, paint: Callable[[], None], *, interval_seconds: float = PAINT_INTERVAL_SECONDS) -> None:
        self._paint = paint
        self._interval = interval_seconds
        self._timer: asyncio.TimerHandle | None = None
        self._painted_at = float("-inf")

    def poke(self) -> None:
        """Say that something changed."""
        if self._timer is not None:
            return
        loop = asyncio.get_running_loop()
        wait = max(0.0, self._painted_at + self._interval - loop.time())
        self._timer = loop.call_later(wait, self._fire)

    def stop(self) -> None:
        """Forget a paint that is due."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    @property
    def is_armed(self) -> bool:
        """Whether a paint is due."""
        return self._timer is not None

    def _fire(self) -> None:
        self._timer = None
        self._painted_at = asyncio.get_running_loop().time()
        self._paint()

"""How often a busy log is read: what comes in small pieces is let come together."""

from __future__ import annotations

import math

from actions.base.clock import Clock

REST_SECONDS = 0.1
PLENTY_BYTES = 1 << 15


class LogPace:
    """Waits after small pieces that follow each other closely: each costs as much as some fifty lines in it.

    A line after a silence is not kept waiting, nor is a log that sends faster than it is read.

    Args:
        clock: For waits.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._went_on_at = -math.inf

    async def rest(self, size_bytes: int) -> None:
        """Come back when the next piece may be read.

        Args:
            size_bytes: Of the piece that has just been taken.
        """
        if size_bytes < PLENTY_BYTES and self._clock.monotonic() - self._went_on_at < REST_SECONDS:
            await self._clock.sleep(REST_SECONDS)
        self._went_on_at = self._clock.monotonic()

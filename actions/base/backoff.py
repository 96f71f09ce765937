"""Back-off: waits before the next attempt that double with every failure."""

from __future__ import annotations

import math
import random

from actions.base.clock import Clock


class Backoff:
    """Waits that double from attempt to attempt, and start again after a time without failures.

    Args:
        clock: For the waits, and the time between them.
        first_seconds: The first wait.
        longest_seconds: Of a wait, without jitter.
        jitter: Up to this part of a wait is added to it at random.
        peace_seconds: The time without a wait after which the next one is a first one.
    """

    def __init__(
        self,
        clock: Clock,
        *,
        first_seconds: float,
        longest_seconds: float,
        jitter: float = 0.0,
        peace_seconds: float = math.inf,
    ) -> None:
        self._clock = clock
        self._first = first_seconds
        self._longest = longest_seconds
        self._jitter = jitter
        self._peace = peace_seconds
        self._failures = 0
        self._last_at = clock.monotonic()

    async def wait(self, at_least_seconds: float | None = None) -> None:
        """Wait before the next attempt, at least as long as a server asked for."""
        await self._clock.sleep(max(self.next_seconds(), at_least_seconds or 0.0))

    def reset(self) -> None:
        """Make the next wait a first one, as there was progress."""
        self._failures = 0

    def next_seconds(self) -> float:
        """Return the next wait, and count it as used."""
        now = self._clock.monotonic()
        self._failures = 1 if now - self._last_at > self._peace else self._failures + 1
        wait = backoff_seconds(self._failures, first_seconds=self._first, longest_seconds=self._longest)
        wait *= 1.0 + self._jitter * random.random()
        self._last_at = now + wait
        return wait


def backoff_seconds(failures: int, *, first_seconds: float, longest_seconds: float = math.inf) -> float:
    """Return the wait after so many failures in a row, from one on."""
    return min(first_seconds * 2.0 ** min(failures - 1, 64), longest_seconds)

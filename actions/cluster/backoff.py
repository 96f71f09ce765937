"""How long to wait before asking a server again that did not answer well."""

from __future__ import annotations

import random

from actions.base.clock import Clock


class Backoff:
    """Waits that double from attempt to attempt, with jitter, and begin anew after a time of peace.

    The defaults are client-go's (`tools/cache/reflector.go`): 0.8 s to 30 s, each plus up to as much again, forgotten
    after two minutes without a failure.
    """

    def __init__(
        self,
        clock: Clock,
        *,
        first_seconds: float = 0.8,
        longest_seconds: float = 30.0,
        peace_seconds: float = 120.0,
    ) -> None:
        self._clock = clock
        self._first = first_seconds
        self._longest = longest_seconds
        self._peace = peace_seconds
        self._next = first_seconds
        self._last_at = clock.monotonic()

    async def wait(self, at_least_seconds: float | None = None) -> None:
        """Wait before the next attempt; not shorter than the server wished."""
        await self._clock.sleep(max(self.next_seconds(), at_least_seconds or 0.0))

    def reset(self) -> None:
        """There was progress: the next wait is a short one."""
        self._next = self._first

    def next_seconds(self) -> float:
        """The next wait, counted as used."""
        now = self._clock.monotonic()
        if now - self._last_at > self._peace:
            self._next = self._first
        wait = self._next * (1.0 + random.random())
        self._next = min(self._next * 2, self._longest)
        self._last_at = now + wait
        return wait

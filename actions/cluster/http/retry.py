"""Waits between requests: exponential backoff with jitter, and the server's `Retry-After`.

Source: RFC 9110, sections 5.6.7 (dates) and 10.2.3.
"""

from __future__ import annotations

import math
import random
import re
from datetime import UTC, datetime

from actions.base.clock import Clock, SystemClock
from actions.cluster.bounds import RETRY_AFTER_SECONDS


class Backoff:
    """Waits that double from attempt to attempt, with jitter, and start again after a time without failures.

    The defaults are client-go's (`tools/cache/reflector.go`): 0.8 s to 30 s, each plus up to as much again, and reset
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
        """Wait before the next attempt, at least as long as the server asked for."""
        await self._clock.sleep(max(self.next_seconds(), at_least_seconds or 0.0))

    def reset(self) -> None:
        """Make the next wait a short one, as there was progress."""
        self._next = self._first

    def next_seconds(self) -> float:
        """Return the next wait, and count it as used."""
        now = self._clock.monotonic()
        if now - self._last_at > self._peace:
            self._next = self._first
        wait = self._next * (1.0 + random.random())
        self._next = min(self._next * 2, self._longest)
        self._last_at = now + wait
        return wait


_DELTA = re.compile(r"[0-9]+", re.ASCII)
_LONG_DIGITS = 9


def read_retry_after(text: str, *, date: str = "", now: datetime | None = None) -> float | None:
    """Read seconds from 0 to `RETRY_AFTER_SECONDS`; `None` for a text that is neither seconds nor a date.

    Args:
        text: The header.
        date: The answer's `Date`: a moment is measured from it, so that our own clock need not be right.
        now: Used if there is no `Date`; the machine's clock by default.
    """
    text = text.strip()
    if _DELTA.fullmatch(text):
        return capped_wait(float(text) if len(text) <= _LONG_DIGITS else math.inf)
    moment = read_date(text)
    if moment is None:
        return None
    since = read_date(date.strip()) or now or SystemClock().now()
    return capped_wait((moment - since).total_seconds())


def capped_wait(seconds: float | None) -> float | None:
    """Limit a requested wait, which may be any number; `None` for none."""
    if seconds is None or math.isnan(seconds):
        return None
    return min(max(seconds, 0.0), RETRY_AFTER_SECONDS)


def read_date(text: str) -> datetime | None:
    """Read an HTTP date; `None` for a text that is not one."""
    from email.utils import parsedate_to_datetime  # takes as long to import as a frame to draw, and is rarely needed

    try:
        moment = parsedate_to_datetime(text)
    except (ValueError, TypeError, IndexError, OverflowError):
        return None
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment

"""Asking again: what cannot be reached at present is not gone, and not failed."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable
from typing import TypeVar

import msgspec

from actions.base.clock import Clock, time_of_day
from actions.base.errors import AccessError, ConsoleError, UnreachableError
from actions.cluster.http.endpoint import UntrustedError
from actions.cluster.http.errors import ApiError, requested_wait_seconds

T = TypeVar("T")

_FIRST_PAUSE_SECONDS = 0.5
_LONGEST_PAUSE_SECONDS = 20.0
_YOUNG_SECONDS = 180.0
_GENTLE_SECONDS = 5.0
_FORBIDDEN = 403


class RetryPolicy(msgspec.Struct, frozen=True):
    """How long an answer is waited for, and what besides silence and errors of the server is waited out.

    `waits_for_login`: credentials that are not accepted, or cannot be had at present, and a TLS connection that
    cannot be made. `waits_for_rights`: a right that is missing.
    """

    seconds: float
    waits_for_login: bool = False
    waits_for_rights: bool = False

    def retries(self, error: ConsoleError) -> bool:
        """Return whether it waits after this error, if there is time left."""
        if isinstance(error, UnreachableError):
            return True
        if isinstance(error, ApiError) and error.status.code == _FORBIDDEN:
            return self.waits_for_rights
        return self.waits_for_login and isinstance(error, AccessError | UntrustedError)


AWAY = RetryPolicy(20.0)
"""The cluster was destroyed by the run itself: no answer is what is expected."""
ONCE = RetryPolicy(0.0)
"""For a caller that asks again by itself, or a person who can."""
REQUEST = RetryPolicy(300.0)
"""One request in the middle of work."""
STAGE = RetryPolicy(900.0, waits_for_login=True)
"""The first request of a stage that names no deadline: a machine that was rebooted may have no VPN and no login yet."""
ALIVE = RetryPolicy(math.inf, waits_for_login=True, waits_for_rights=True)
"""Something of the run is at work, whoever can see it."""
ANSWERED = RetryPolicy(math.inf, waits_for_login=True)
"""Something that has ended is to be judged: any answer will do, a refusal too."""
TEARDOWN = RetryPolicy(1800.0, waits_for_login=True)
"""Something is to be removed: generous, then failed."""


async def retry_unreachable(
    call: Callable[[], Awaitable[T]],
    *,
    clock: Clock,
    note: Callable[[str], None],
    policy: RetryPolicy = REQUEST,
) -> T:
    """The result of `call`, asked again with growing pauses while the other side cannot be reached.

    A pause is not shorter than the server's `Retry-After`, up to a minute.

    Args:
        call: Must be safe to repeat.
        clock: For the pauses.
        note: Told what it waits for and since when; the caller's next note replaces it.
        policy: What is waited out, and for how long.

    Raises:
        UnreachableError: Still, at the end of `policy`.
        ConsoleError: Any failure of `call` that `policy` does not bear, at once.
    """
    began = clock.now()
    deadline = clock.monotonic() + policy.seconds
    pause = _FIRST_PAUSE_SECONDS
    while True:
        try:
            return await call()
        except ConsoleError as error:
            wait, left = max(pause, requested_wait_seconds(error)), deadline - clock.monotonic()
            if not policy.retries(error) or left <= 0:
                raise
            note(f"Waiting since {time_of_day(began.timestamp())} UTC, asking again: {error.message}")
        await clock.sleep(min(wait, left))
        pause = min(pause * 2, _LONGEST_PAUSE_SECONDS)


async def wait_until(
    look: Callable[[], Awaitable[str]],
    *,
    clock: Clock,
    note: Callable[[str], None],
    timeout: Callable[[str], ConsoleError],
    deadline_seconds: float = math.inf,
    interval_seconds: float = 1.0,
) -> None:
    """Look again and again until there is nothing left to wait for.

    Args:
        look: Returns what is still waited for, in words; empty when it is reached. Unreachable, or not logged in,
            counts as not reached.
        clock: For the pauses.
        note: Told what is waited for.
        timeout: Makes the error for the deadline, from the last words.
        deadline_seconds: For all of it.
        interval_seconds: Between two looks.

    Raises:
        ConsoleError: What `timeout` made, or what `look` raised.
    """
    end = clock.monotonic() + deadline_seconds
    while True:
        policy = RetryPolicy(max(end - clock.monotonic(), 0.0), waits_for_login=True)
        words = await retry_unreachable(look, clock=clock, note=note, policy=policy)
        if not words:
            return
        if clock.monotonic() >= end:
            raise timeout(words)
        note(words)
        await clock.sleep(interval_seconds)


class PollInterval:
    """Seconds between two looks at something that may take seconds or days: quick at first, gentle later.

    Args:
        clock: Tells how long it has taken.
        first_seconds: Between looks while it is young.
        longest_seconds: Between looks that fail one after the other.
    """

    def __init__(self, clock: Clock, *, first_seconds: float, longest_seconds: float = _LONGEST_PAUSE_SECONDS) -> None:
        self._clock = clock
        self._first_seconds = first_seconds
        self._longest_seconds = longest_seconds
        self._since = clock.monotonic()
        self._failures = 0

    async def pause(self) -> None:
        """Wait until the next look, after one that was answered."""
        self._failures = 0
        is_young = self._clock.monotonic() - self._since < _YOUNG_SECONDS
        await self._clock.sleep(self._first_seconds if is_young else _GENTLE_SECONDS)

    async def pause_after(self, error: ConsoleError | None = None) -> None:
        """Wait until the next look, after one that failed: longer each time, not shorter than the server asks."""
        grown = self._first_seconds * 2.0 ** min(self._failures, 16)
        self._failures += 1
        wish = requested_wait_seconds(error) if error is not None else 0.0
        await self._clock.sleep(max(min(grown, self._longest_seconds), wish))

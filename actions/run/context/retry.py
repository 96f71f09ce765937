"""Retries: a service that cannot be reached at present is neither gone nor failed."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable
from typing import TypeVar

import msgspec

from actions.base.backoff import Backoff
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
    """The time to retry for, and the refusals to retry besides unreachable services and server errors.

    `waits_for_login`: credentials that are not accepted or not available, and TLS connections that fail.
    `waits_for_rights`: missing rights.
    """

    seconds: float
    waits_for_login: bool = False
    waits_for_rights: bool = False

    def retries(self, error: ConsoleError) -> bool:
        """Return whether to retry after this error, if there is time left."""
        if isinstance(error, UnreachableError):
            return True
        if isinstance(error, ApiError) and error.status.code == _FORBIDDEN:
            return self.waits_for_rights
        return self.waits_for_login and isinstance(error, AccessError | UntrustedError)


AWAY = RetryPolicy(20.0)
"""For a cluster that the run itself has destroyed: no answer is expected."""
ONCE = RetryPolicy(0.0)
"""For a caller that repeats the call itself, or an operator who can."""
REQUEST = RetryPolicy(300.0)
"""For one request in the middle of work."""
STAGE = RetryPolicy(900.0, waits_for_login=True)
"""For the first request of a stage without a deadline: a rebooted machine may have no VPN and no login yet."""
ALIVE = RetryPolicy(math.inf, waits_for_login=True, waits_for_rights=True)
"""For following a workload of the run, which works on whether it can be observed or not."""
ANSWERED = RetryPolicy(math.inf, waits_for_login=True)
"""For the result of an ended workload: any answer will do, a refusal too."""
TEARDOWN = RetryPolicy(1800.0, waits_for_login=True)
"""For a removal: generous, then failed."""


async def retry_unreachable(
    call: Callable[[], Awaitable[T]],
    *,
    clock: Clock,
    note: Callable[[str], None],
    policy: RetryPolicy = REQUEST,
) -> T:
    """Return the result of `call`, repeated with growing pauses while the service cannot be reached.

    A pause is not shorter than the server's `Retry-After`, up to a minute.

    Args:
        call: Must be safe to repeat.
        clock: For the pauses.
        note: Gets the reason and the start of the wait; the caller's next note replaces it.
        policy: The refusals to retry, and for how long.

    Raises:
        UnreachableError: Still unreachable at the end of `policy`.
        ConsoleError: Any failure of `call` that `policy` does not retry, at once.
    """
    began = clock.now()
    deadline = clock.monotonic() + policy.seconds
    backoff = Backoff(clock, first_seconds=_FIRST_PAUSE_SECONDS, longest_seconds=_LONGEST_PAUSE_SECONDS)
    while True:
        try:
            return await call()
        except ConsoleError as error:
            wait, left = max(backoff.next_seconds(), requested_wait_seconds(error)), deadline - clock.monotonic()
            if not policy.retries(error) or left <= 0:
                raise
            note(f"Waiting since {time_of_day(began.timestamp())} UTC, retrying: {error.message}")
        await clock.sleep(min(wait, left))


async def wait_until(
    look: Callable[[], Awaitable[str]],
    *,
    clock: Clock,
    note: Callable[[str], None],
    timeout: Callable[[str], ConsoleError],
    deadline_seconds: float = math.inf,
    interval_seconds: float = 1.0,
) -> None:
    """Poll until there is nothing left to wait for.

    Args:
        look: Returns a sentence on what is still missing; empty when nothing is. Unreachable, or not logged in, counts
            as missing.
        clock: For the pauses.
        note: Gets that sentence.
        timeout: Makes the error for the deadline, from the last sentence.
        deadline_seconds: Limit of the whole.
        interval_seconds: Pause between two calls of `look`.

    Raises:
        ConsoleError: From `timeout`, or raised by `look`.
    """
    end = clock.monotonic() + deadline_seconds
    while True:
        policy = RetryPolicy(max(end - clock.monotonic(), 0.0), waits_for_login=True)
        missing = await retry_unreachable(look, clock=clock, note=note, policy=policy)
        if not missing:
            return
        if clock.monotonic() >= end:
            raise timeout(missing)
        note(missing)
        await clock.sleep(interval_seconds)


class PollInterval:
    """The pause between two polls of what may take seconds or days: short at first, longer later.

    Args:
        clock: For the time that has passed, and the pauses.
        first_seconds: Pause during the first three minutes.
        longest_seconds: Upper limit of the pause after failures in a row.
    """

    def __init__(self, clock: Clock, *, first_seconds: float, longest_seconds: float = _LONGEST_PAUSE_SECONDS) -> None:
        self._clock = clock
        self._first_seconds = first_seconds
        self._backoff = Backoff(clock, first_seconds=first_seconds, longest_seconds=longest_seconds)
        self._since = clock.monotonic()

    async def pause(self) -> None:
        """Wait until the next poll, after one that succeeded."""
        self._backoff.reset()
        is_young = self._clock.monotonic() - self._since < _YOUNG_SECONDS
        await self._clock.sleep(self._first_seconds if is_young else _GENTLE_SECONDS)

    async def pause_after(self, error: ConsoleError | None = None) -> None:
        """Wait until the next poll, after one that failed: longer each time, at least the server's `Retry-After`."""
        await self._backoff.wait(requested_wait_seconds(error) if error is not None else None)

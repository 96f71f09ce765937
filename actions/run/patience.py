"""Asking again: what cannot be reached at present is not gone, and not failed."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable
from typing import TypeVar

from actions.base.clock import Clock
from actions.base.errors import AccessError, ConsoleError, UnreachableError

T = TypeVar("T")

_FIRST_PAUSE_SECONDS = 0.5
_LONGEST_PAUSE_SECONDS = 20.0
_YOUNG_SECONDS = 180.0
_GENTLE_SECONDS = 5.0


async def patiently(
    call: Callable[[], Awaitable[T]],
    *,
    clock: Clock,
    note: Callable[[str], None],
    give_up_seconds: float = 300.0,
    waits_for_access: bool = False,
) -> T:
    """The result of `call`, asked again with growing pauses while the other side cannot be reached.

    Args:
        call: Must be safe to repeat.
        clock: For the pauses.
        note: Told why it waits; the caller's next note replaces it.
        give_up_seconds: Infinite for what must not end because of somebody else's bad night.
        waits_for_access: Whether credentials that have run out are waited for as well.

    Raises:
        UnreachableError: Still, after `give_up_seconds`.
        ConsoleError: Any other failure of `call`, at once.
    """
    deadline = clock.monotonic() + give_up_seconds
    pause = _FIRST_PAUSE_SECONDS
    while True:
        try:
            return await call()
        except (UnreachableError, AccessError) as error:
            if isinstance(error, AccessError) and not waits_for_access:
                raise
            if clock.monotonic() + pause > deadline:
                raise
            note(f"Asking again: {error.message}")
        await clock.sleep(pause)
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
        look: Returns what is still waited for, in words; empty when it is reached. Unreachable counts as not reached.
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
        words = await patiently(look, clock=clock, note=note, give_up_seconds=max(end - clock.monotonic(), 0.0))
        if not words:
            return
        if clock.monotonic() >= end:
            raise timeout(words)
        note(words)
        await clock.sleep(interval_seconds)


class Pace:
    """Seconds between two looks at something that may take seconds or days: quick at first, gentle later.

    Args:
        clock: Tells how long it has taken.
        first_seconds: Between looks while it is young.
    """

    def __init__(self, clock: Clock, *, first_seconds: float) -> None:
        self._clock = clock
        self._first_seconds = first_seconds
        self._since = clock.monotonic()

    async def pause(self) -> None:
        """Wait until the next look."""
        is_young = self._clock.monotonic() - self._since < _YOUNG_SECONDS
        await self._clock.sleep(self._first_seconds if is_young else _GENTLE_SECONDS)

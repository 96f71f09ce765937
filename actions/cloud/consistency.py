"""AWS tells of what was just made in its own time: *not found* is an answer only when it is still one after a while.

Source: EC2 API Reference, "Eventual consistency in the Amazon EC2 API".
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from actions.base.clock import Clock
from actions.base.errors import MissingError

Answer = TypeVar("Answer")

GRACE_SECONDS: Final = 20.0
_FIRST_PAUSE_SECONDS: Final = 0.5


async def settled(
    call: Callable[[], Awaitable[Answer]], *, clock: Clock, grace_seconds: float = GRACE_SECONDS
) -> Answer:
    """The result of `call`, asked again with growing pauses while AWS knows no such thing.

    Args:
        call: Must be safe to repeat.
        clock: For the pauses.
        grace_seconds: For all of them.

    Raises:
        MissingError: It is still unknown after the grace.
        ConsoleError: Any other failure of `call`, at once.
    """
    until = clock.monotonic() + grace_seconds
    pause = _FIRST_PAUSE_SECONDS
    while True:
        try:
            return await call()
        except MissingError:
            left = until - clock.monotonic()
            if left <= 0:
                raise
        await clock.sleep(min(pause, left))
        pause *= 2

"""Signs of life of one server: a source that is shown as live has had one within the last ten seconds.

A watch may be silent for a minute: bookmarks come that seldom. A connection whose other side is gone without a word
is found out in two ways. The kernel asks the other side's kernel (`actions.cluster.http.stream`), which costs nothing
here. And while every stream is silent the server itself is asked for `/livez`, without credentials: any answer is a
sign of life.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NoReturn

from actions.base.clock import Clock
from actions.base.errors import ConsoleError
from actions.cluster.auth.session import KubeSession

QUIET_SECONDS: Final = 5.0
"""After so much silence of all streams the server is asked."""
ANSWER_SECONDS: Final = 4.0
"""So long its answer may take. With `QUIET_SECONDS` less than the ten seconds that *live* may last without a sign."""


class ServerLiveness:
    """When a server last gave a sign of life. Used on one loop.

    Args:
        clock: Time.
        changed: Called when `is_silent` has changed.
    """

    def __init__(self, clock: Clock, changed: Callable[[], None] = lambda: None) -> None:
        self.is_silent = False
        self.heard_at = clock.monotonic()
        """Monotonic seconds."""
        self._clock = clock
        self._changed = changed

    def mark_alive(self) -> None:
        """There was a sign of life."""
        self.heard_at = self._clock.monotonic()
        if self.is_silent:
            self.is_silent = False
            self._changed()

    def mark_silent(self) -> None:
        """It was asked for a sign of life, and gave none."""
        if not self.is_silent:
            self.is_silent = True
            self._changed()


async def probe_liveness(
    session: KubeSession, liveness: ServerLiveness, *, clock: Clock, is_wanted: Callable[[], bool]
) -> NoReturn:
    """Ask for a sign of life whenever there was none for a while, until cancelled.

    Args:
        session: With the server.
        liveness: Learns of the answers.
        clock: For waits.
        is_wanted: Whether anybody is shown as live; a server that is known to be away is left to its sources.
    """
    while True:
        silent_seconds = clock.monotonic() - liveness.heard_at
        if silent_seconds < QUIET_SECONDS:
            await clock.sleep(QUIET_SECONDS - silent_seconds)
            continue
        if is_wanted():
            try:
                await session.ping(deadline_seconds=ANSWER_SECONDS)
            except ConsoleError:
                liveness.mark_silent()
            else:
                liveness.mark_alive()
                continue
        await clock.sleep(QUIET_SECONDS)

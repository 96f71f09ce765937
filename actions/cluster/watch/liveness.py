"""The liveness of one server: a source is shown as live only if the server was heard within the last ten seconds.

A watch may be silent for a minute: bookmarks are that rare. A connection whose other side has vanished is detected in
two ways. The kernel probes it (`actions.cluster.http.stream`), which costs nothing here. And while every stream is
silent, `/livez` is requested without credentials: any answer counts.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NoReturn

from actions.base.clock import Clock
from actions.base.errors import ConsoleError
from actions.cluster.auth.session import KubeSession

QUIET_SECONDS: Final = 5.0
"""The silence of all streams after which the server is probed."""
ANSWER_SECONDS: Final = 4.0
"""The time limit of a probe. With `QUIET_SECONDS` less than the ten seconds for which a silent source stays *live*."""


class ServerLiveness:
    """The time when a server was last heard. Used on one loop.

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
        """Record that the server was heard."""
        self.heard_at = self._clock.monotonic()
        if self.is_silent:
            self.is_silent = False
            self._changed()

    def mark_silent(self) -> None:
        """Record that the server did not answer a probe."""
        if not self.is_silent:
            self.is_silent = True
            self._changed()


async def probe_liveness(
    session: KubeSession, liveness: ServerLiveness, *, clock: Clock, is_wanted: Callable[[], bool]
) -> NoReturn:
    """Probe the server whenever it has been silent for a while, until cancelled.

    Args:
        session: The session with the server.
        liveness: Receives the results.
        clock: For waits.
        is_wanted: Whether a source is shown as live; else the sources themselves retry.
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

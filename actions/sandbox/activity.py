"""Whether anybody uses the sandbox: how long ago the last request of a client ended."""

from __future__ import annotations

from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

from actions.base.clock import Clock
from actions.sandbox.api.question import ACTOR_AGENT

_POLL_SECONDS = 5.0


class Activity:
    """Counts the requests of clients; an open watch is use for as long as it is open.

    Args:
        clock: For the time since the last use.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._open = 0
        self._last_used = clock.monotonic()

    def middleware(self) -> Middleware:
        """To be the outermost middleware of the server."""

        @web.middleware
        async def count(request: web.Request, handler: Handler) -> web.StreamResponse:
            if request.headers.get("User-Agent", "").startswith(ACTOR_AGENT):
                return await handler(request)
            self._open += 1
            try:
                return await handler(request)
            finally:
                self._open -= 1
                self._last_used = self._clock.monotonic()

        return count

    def idle_seconds(self) -> float:
        """How long nobody has asked for anything; 0 while a request is open."""
        return 0.0 if self._open else self._clock.monotonic() - self._last_used

    async def idle_for(self, seconds: float) -> None:
        """Wait until the sandbox has been idle for so long."""
        while (left := seconds - self.idle_seconds()) > 0:
            await self._clock.sleep(min(left, _POLL_SECONDS))

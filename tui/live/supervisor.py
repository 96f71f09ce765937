"""What keeps the endless work behind the screen going: restart with back-off, health for all to see."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable

from actions.base.clock import Clock
from actions.base.errors import AccessError, ConfigError, ConsoleError
from actions.base.untrusted import one_line, redact
from tui.live.health import FeedHealth, FeedState

FIRST_WAIT_SECONDS = 0.5
LONGEST_WAIT_SECONDS = 30.0
_CALM_SECONDS = 60.0

Work = Callable[[], Awaitable[None]]


class Supervisor:
    """Runs named pieces of endless work, each in a task of its own, until `aclose`.

    Work that raises is started again after a wait that doubles up to half a minute; work that returns has ended
    for good. A failure of one never touches another, and never the screen. Called on the loop only.

    Args:
        clock: Time for waits and for `since`.
        changed: Called when the health of any piece changes.
    """

    def __init__(self, clock: Clock, changed: Callable[[], None]) -> None:
        self._clock = clock
        self._changed = changed
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._health: dict[str, FeedHealth] = {}

    def keep(self, name: str, work: Work) -> None:
        """Start `work` under `name`. Work that runs under that name already is ended first."""
        self.drop(name)
        self._health[name] = FeedHealth(FeedState.STARTING, since=self._clock.monotonic())
        self._tasks[name] = asyncio.create_task(self._run(name, work), name=f"feed {name}")

    def drop(self, name: str) -> None:
        """End the work of that name, if there is any."""
        task = self._tasks.pop(name, None)
        if task is not None:
            task.cancel()
        self._health.pop(name, None)

    def health(self, name: str) -> FeedHealth:
        """How the work of that name is doing. Unknown names have ended."""
        return self._health.get(name) or FeedHealth(FeedState.ENDED)

    def mark_live(self, name: str) -> None:
        """Called by the work itself when it has reached its source."""
        self._publish(name, FeedState.LIVE, "")

    async def aclose(self) -> None:
        """End everything and wait for it."""
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._tasks.clear()

    async def _run(self, name: str, work: Work) -> None:
        wait = FIRST_WAIT_SECONDS
        while True:
            started = self._clock.monotonic()
            try:
                await work()
            except Exception as error:  # noqa: BLE001 - the one place where a source may fail in any way
                self._publish(name, *_reading_of(error))
            else:
                self._publish(name, FeedState.ENDED, "")
                return
            if self._clock.monotonic() - started > _CALM_SECONDS:
                wait = FIRST_WAIT_SECONDS
            await self._clock.sleep(wait * (1 + random.random() / 2))
            wait = min(LONGEST_WAIT_SECONDS, wait * 2)

    def _publish(self, name: str, state: FeedState, detail: str) -> None:
        known = self._health.get(name)
        if known is not None and (known.state, known.detail) == (state, detail):
            return
        since = known.since if known is not None and known.state is state else self._clock.monotonic()
        self._health[name] = FeedHealth(state, detail, since)
        self._changed()


def _reading_of(error: Exception) -> tuple[FeedState, str]:
    match error:
        case ExceptionGroup(exceptions=(first, *_)):
            return _reading_of(first)
        case AccessError() | ConfigError():
            return FeedState.REFUSED, one_line(redact(error.sentence()))
        case ConsoleError():
            return FeedState.WAITING, one_line(redact(error.sentence()))
        case _:
            return FeedState.WAITING, one_line(redact(f"{type(error).__name__}: {error}"))

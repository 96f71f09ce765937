"""The supervisor of endless tasks: restart with back-off, and the health of each source for the pane borders."""

from __future__ import annotations

import asyncio
import enum
from collections.abc import Awaitable, Callable

import msgspec

from actions.base.backoff import Backoff
from actions.base.clock import Clock
from actions.base.errors import AccessError, ConfigError, ConsoleError
from actions.base.untrusted import one_line, redact
from actions.base.wording import UNITS, rough_duration


class FeedState(enum.StrEnum):
    """The state of a source, as far as it matters to the operator."""

    STARTING = "starting"
    LIVE = "live"
    WAITING = "waiting"
    """Lost or refused for the moment; retried automatically."""
    REFUSED = "refused"
    """Not retried: permissions, credentials, a broken file."""
    ENDED = "ended"
    """Finished: there is no more data."""


MAY_NOT = "you may not "
"""The beginning of the details on a missing right, which are whole sentences."""
_COUNTED_SECONDS = 60
"""From then on the time since a refusal is shown: to count its seconds paints the screen for nothing."""


class FeedHealth(msgspec.Struct, frozen=True):
    """The health of one source.

    Args:
        state: The state.
        detail: Reason in one line, cleaned; empty while healthy.
        since: Monotonic seconds at which `state` began.
        as_of: `as of 14:02 UTC` while the data are a kept snapshot's; else empty.
    """

    state: FeedState
    detail: str = ""
    since: float = 0.0
    as_of: str = ""

    def label(self, now: float) -> str:
        """Return the text for a border: `live`, `stale 42 s: connection refused`, `as of 14:02 UTC · reading`.

        Args:
            now: Monotonic seconds.
        """
        label = self._label(now)
        if not self.as_of:
            return label
        is_to_come = self.state is FeedState.STARTING or not label
        return f"{self.as_of} · {'reading' if is_to_come else label}"

    def _label(self, now: float) -> str:
        match self.state:
            case FeedState.ENDED:
                return self.detail
            case FeedState.LIVE | FeedState.STARTING:
                return f"{self.state}: {self.detail}" if self.detail else self.state.value
            case FeedState.WAITING | FeedState.REFUSED:
                is_stale, age = self.state is FeedState.WAITING, now - self.since
                is_counted = is_stale or age >= _COUNTED_SECONDS
                if self.detail.startswith(MAY_NOT):
                    return self.detail
                since = ("stale" if is_stale else "refused") + (f" {rough_duration(age)}" if is_counted else "")
                return f"{since}: {self.detail}" if self.detail else since

    def changes_in(self, now: float) -> float | None:
        """Return the seconds until `label` changes with time; `None` if it does not.

        Args:
            now: Monotonic seconds.
        """
        if self.state not in (FeedState.WAITING, FeedState.REFUSED):
            return None
        age = max(0.0, now - self.since)
        least = 1 if self.state is FeedState.WAITING else _COUNTED_SECONDS
        step = max(least, next((size for _, size in UNITS if age >= size), 1))
        return step - age % step


FIRST_WAIT_SECONDS = 0.5
LONGEST_WAIT_SECONDS = 30.0
_CALM_SECONDS = 60.0

Work = Callable[[], Awaitable[None]]


class Supervisor:
    """A runner of named endless tasks, until `aclose`.

    Work that raises is restarted after a wait that doubles up to half a minute; work that returns has ended for good.
    A failure of one never affects another, nor the screen. Called on the loop only.

    Args:
        clock: Time for waits and for `since`.
        changed: Called when the health of any work changes.
    """

    def __init__(self, clock: Clock, changed: Callable[[], None]) -> None:
        self._clock = clock
        self._changed = changed
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._health: dict[str, FeedHealth] = {}

    def keep(self, name: str, work: Work) -> None:
        """Start `work` under `name`; running work of that name is ended first."""
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
        """Return the health of the work of that name; unknown names have ended."""
        return self._health.get(name) or FeedHealth(FeedState.ENDED)

    def mark_live(self, name: str) -> None:
        """Mark work as live; it calls this itself when it has reached its source."""
        self._publish(name, FeedState.LIVE, "")

    async def aclose(self) -> None:
        """End all work, and wait for its end."""
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._tasks.clear()

    async def _run(self, name: str, work: Work) -> None:
        backoff = Backoff(
            self._clock,
            first_seconds=FIRST_WAIT_SECONDS,
            longest_seconds=LONGEST_WAIT_SECONDS,
            jitter=0.5,
            peace_seconds=_CALM_SECONDS,
        )
        while True:
            try:
                await work()
            except Exception as error:  # noqa: BLE001 - the one place where a source may fail in any way
                self._publish(name, *_reading_of(error))
            else:
                self._publish(name, FeedState.ENDED, "")
                return
            await backoff.wait()

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

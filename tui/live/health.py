"""How well a source of the screen is doing, in the words that a pane's border shows."""

from __future__ import annotations

import enum

import msgspec

_LONG_SECONDS = 120


class FeedState(enum.StrEnum):
    """What the operator can expect of a source."""

    STARTING = "starting"
    LIVE = "live"
    WAITING = "waiting"
    """Lost or refused for the moment; tried again by itself."""
    REFUSED = "refused"
    """Will not come back by itself: rights, credentials, a broken file."""
    ENDED = "ended"
    """Has said all it had to say."""


class FeedHealth(msgspec.Struct, frozen=True):
    """One source's state.

    Args:
        state: Class of the state.
        detail: One line, cleaned; empty while all is well.
        since: Monotonic seconds at which `state` began.
    """

    state: FeedState
    detail: str = ""
    since: float = 0.0

    def label(self, now: float) -> str:
        """Text for a border: `live`, `waiting 42 s: connection refused`.

        Args:
            now: Monotonic seconds.
        """
        match self.state:
            case FeedState.ENDED:
                return self.detail
            case FeedState.LIVE | FeedState.STARTING:
                return f"{self.state}: {self.detail}" if self.detail else self.state.value
            case FeedState.WAITING | FeedState.REFUSED:
                word = "stale" if self.state is FeedState.WAITING else "refused"
                since = f"{word} {_age(max(0, int(now - self.since)))}"
                return f"{since}: {self.detail}" if self.detail else since

    def changes_in(self, now: float) -> float | None:
        """Seconds until `label` says something else by itself; `None` if it never does.

        Args:
            now: Monotonic seconds.
        """
        if self.state not in (FeedState.WAITING, FeedState.REFUSED):
            return None
        age = max(0.0, now - self.since)
        step = 1 if age < _LONG_SECONDS else 60 if age < 60 * _LONG_SECONDS else 3600
        return step - age % step


def _age(seconds: int) -> str:
    """As much of it as an operator wants to know: `42 s`, `12 min`, `7 h`."""
    if seconds < _LONG_SECONDS:
        return f"{seconds} s"
    return f"{seconds // 60} min" if seconds < 60 * _LONG_SECONDS else f"{seconds // 3600} h"

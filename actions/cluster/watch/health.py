"""The health of a source of live data, as the border of every pane shows it."""

from __future__ import annotations

from enum import Enum

import msgspec


class Health(Enum):
    """The state of one source."""

    SYNCING = "syncing"
    """The first complete list is on its way."""
    LIVE = "live"
    RECONNECTING = "reconnecting"
    """The connection broke a moment ago."""
    THROTTLED = "throttled"
    """The server asked us to wait."""
    FORBIDDEN = "forbidden"
    UNAUTHORIZED = "unauthorized"
    """The credentials are not accepted, or cannot be made."""
    MISSING = "missing"
    """The cluster does not know the kind (its CRD is not installed)."""
    STALE = "stale"
    """The server has not been heard for longer than a moment."""


class SourceHealth(msgspec.Struct, frozen=True):
    """The health of one source.

    `since` is on the monotonic clock: for `LIVE` the time when it became so, else the time when the data was last known
    to be current (the source's start, if never). `detail` is one clean line, or empty. `skipped` counts objects that
    could not be read since the last complete list.
    """

    state: Health
    detail: str
    since: float
    skipped: int = 0

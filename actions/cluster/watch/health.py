"""How well a source of live data is doing, as every pane's border tells."""

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
    """There has been no contact for longer than a moment."""


class SourceHealth(msgspec.Struct, frozen=True):
    """What is known of a source.

    `since` is on the monotonic clock: for `LIVE` when it became so, else when the data was last known to be current
    (when the source began, if never). `detail` is one clean line, or empty. `skipped` counts objects that could not
    be read since the last complete list.
    """

    state: Health
    detail: str
    since: float
    skipped: int = 0

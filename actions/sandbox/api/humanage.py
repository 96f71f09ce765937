"""Ages and durations as `kubectl` shows them.

Source: k8s.io/apimachinery `duration.HumanDuration`.
"""

from __future__ import annotations

from datetime import datetime

from actions.base.clock import parse_rfc3339

_MINUTE, _HOUR, _DAY, _YEAR = 60, 3600, 86_400, 31_536_000
_STEPS = (
    # below this many seconds: larger unit, its letter, smaller unit, its letter
    (_MINUTE * 2, 1, "s", 0, ""),
    (_MINUTE * 10, _MINUTE, "m", 1, "s"),
    (_HOUR * 3, _MINUTE, "m", 0, ""),
    (_HOUR * 8, _HOUR, "h", _MINUTE, "m"),
    (_DAY * 2, _HOUR, "h", 0, ""),
    (_DAY * 8, _DAY, "d", _HOUR, "h"),
    (_YEAR * 2, _DAY, "d", 0, ""),
    (_YEAR * 8, _YEAR, "y", _DAY, "d"),
)


def human_duration(elapsed_seconds: float) -> str:
    """At most two units: `59s`, `3m20s`, `5h`, `2d3h`."""
    seconds = int(elapsed_seconds)
    if seconds < -1:
        return "<invalid>"
    seconds = max(seconds, 0)
    for limit, large, large_letter, small, small_letter in _STEPS:
        if seconds < limit:
            head = f"{seconds // large}{large_letter}"
            rest = seconds % large // small if small else 0
            return f"{head}{rest}{small_letter}" if rest else head
    return f"{seconds // _YEAR}y"


def age_of(timestamp: object, now: datetime) -> str:
    """The age of an RFC 3339 timestamp; `<unknown>` if there is none."""
    if not isinstance(timestamp, str) or not timestamp:
        return "<unknown>"
    try:
        return human_duration((now - parse_rfc3339(timestamp)).total_seconds())
    except ValueError:
        return "<invalid>"

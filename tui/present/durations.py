"""Lengths of time as the screen writes them: the two largest units."""

from __future__ import annotations

import math

UNKNOWN = "?"


def duration(seconds: float | None) -> str:
    """A length of time: `42s`, `3m07s`, `2h05m`, `3d04h`; `?` if unknown. Negative lengths count as none."""
    if seconds is None or not math.isfinite(seconds):
        return UNKNOWN
    whole = max(0, round(seconds))
    if whole < 60:
        return f"{whole}s"
    if whole < 3600:
        return f"{whole // 60}m{whole % 60:02}s"
    if whole < 86400:
        return f"{whole // 3600}h{whole % 3600 // 60:02}m"
    return f"{whole // 86400}d{whole % 86400 // 3600:02}h"


def expected(low_seconds: float, high_seconds: float) -> str:
    """A range of durations: `35m–45m`; one value where both are the same; empty if nothing is expected."""
    if high_seconds <= 0:
        return ""
    low, high = _without_zeros(duration(low_seconds)), _without_zeros(duration(high_seconds))
    return high if low == high else f"{low}–{high}"


def age(now: float, then: float) -> str:
    """How long ago `then` was; `?` for an unknown moment.

    Args:
        now: Seconds since the epoch.
        then: Seconds since the epoch; 0 is unknown.
    """
    return UNKNOWN if then <= 0 else duration(max(0.0, now - then))


def clock_time(at: float) -> str:
    """Time of day in UTC, `10:42:07`; empty for an unknown moment.

    Args:
        at: Seconds since the epoch; 0 is unknown.
    """
    if at <= 0:
        return ""
    whole = int(at) % 86400
    return f"{whole // 3600:02}:{whole // 60 % 60:02}:{whole % 60:02}"


def _without_zeros(text: str) -> str:
    for tail in ("00s", "00m", "00h"):
        if text.endswith(tail) and len(text) > len(tail):
            return text.removesuffix(tail)
    return text

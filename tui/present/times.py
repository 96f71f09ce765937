"""Durations and moments as an operator reads them: two units at most, never a clock call."""

from __future__ import annotations

from itertools import pairwise

_UNITS = (("d", 86_400), ("h", 3_600), ("m", 60), ("s", 1))


def duration(seconds: float) -> str:
    """A length of time: `0.4s`, `42s`, `3m12s`, `2h05m`, `4d07h`. A negative one counts as none."""
    if seconds < 0:
        return "0s"
    if 0 < seconds < 1:
        return f"{seconds:.1f}s"
    whole = int(seconds)
    for (name, size), (below, below_size) in pairwise(_UNITS):
        if whole >= size:
            return f"{whole // size}{name}{whole % size // below_size:02}{below}"
    return f"{whole}s"


def rough_duration(seconds: float) -> str:
    """The same in one unit: `42s`, `3m`, `2h`, `4d`."""
    whole = max(0, int(seconds))
    return next((f"{whole // size}{name}" for name, size in _UNITS if whole >= size), "0s")


def duration_range(low_seconds: float, high_seconds: float) -> str:
    """An expectation: `35m…45m`, or one value if both are equal."""
    low, high = rough_duration(low_seconds), rough_duration(high_seconds)
    return low if low == high else f"{low}…{high}"


def clock_of(at_ns: int) -> str:
    """The time of day of a moment, UTC, with milliseconds: `10:42:07.123`; blanks if unknown (0)."""
    if at_ns == 0:
        return " " * 12
    milliseconds = at_ns // 1_000_000 % 86_400_000
    seconds, fraction = divmod(milliseconds, 1000)
    return f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}.{fraction:03}"


def age(now: float, then: float) -> str:
    """How long ago a moment was; `?` for an unknown one.

    Args:
        now: Seconds since the epoch.
        then: Seconds since the epoch; 0 is unknown.
    """
    return "?" if then <= 0 else duration(now - then)

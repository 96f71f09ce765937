"""Time, handed in rather than looked up: the two clocks never mix."""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    """The time as a component may read it."""

    def now(self) -> datetime:
        """Wall time, aware, UTC. For records and display, never for durations."""
        ...

    def monotonic(self) -> float:
        """Seconds that never go backwards. For durations and deadlines within one process."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Hand the loop back for `seconds`."""
        ...


class SystemClock:
    """The machine's own clocks."""

    def now(self) -> datetime:
        return datetime.now(UTC)

    def monotonic(self) -> float:
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


def boot_seconds() -> float:
    """Return the seconds since the machine's start, those included in which it slept or this process was stopped."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def processor_seconds() -> float:
    """Return the processor time that the calling thread has used so far: the cost of the work between two calls."""
    return time.thread_time()


def parse_rfc3339(text: str) -> datetime:
    """Read a Kubernetes or Terraform timestamp.

    Args:
        text: RFC 3339, with any number of fractional digits (Python keeps six).

    Raises:
        ValueError: The text is not a timestamp.
    """
    body, zone = (text[:-1], "+00:00") if text.endswith("Z") else (text, "")
    if "." in body:
        head, _, fraction = body.partition(".")
        digits = fraction[: next((i for i, c in enumerate(fraction) if not c.isdigit()), len(fraction))]
        rest = fraction[len(digits) :]
        body = f"{head}.{digits[:6]:0<6}{rest}"
    try:
        return datetime.fromisoformat(body + zone).astimezone(UTC)
    except OverflowError as error:  # in UTC it is before the year 1, or behind 9999
        raise ValueError(f"{text[:40]!r} is not a timestamp") from error


def stamp_seconds(stamp: object) -> float:
    """Return a timestamp of a document in seconds since the epoch; 0.0 for anything else."""
    try:
        return parse_rfc3339(stamp).timestamp() if isinstance(stamp, str) and stamp else 0.0
    except (ValueError, OverflowError):
        return 0.0


def format_rfc3339(moment: datetime) -> str:
    """Write a moment as Kubernetes does: UTC, whole seconds, `Z`."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def timestamp_of(at: float | None) -> str | None:
    """Write seconds since the epoch as `format_rfc3339` does; `None` for what is unknown, or in no calendar."""
    try:
        return None if at is None else format_rfc3339(datetime.fromtimestamp(at, UTC))
    except (OverflowError, ValueError, OSError):  # a damaged journal may hold any number
        return None


def time_of_day(at: float) -> str:
    """The time of day of a moment, in UTC: `12:03:04`.

    Args:
        at: Seconds since the epoch.
    """
    return f"{datetime.fromtimestamp(at, UTC):%H:%M:%S}"


def as_of_words(at: float, *, now: float) -> str:
    """The time of what was kept: `as of 14:02 UTC`, of another day `as of 2026-11-20 14:02 UTC`.

    Args:
        at: Seconds since the epoch.
        now: Seconds since the epoch.
    """
    moment, today = datetime.fromtimestamp(at, UTC), datetime.fromtimestamp(now, UTC)
    return f"as of {moment:%H:%M} UTC" if moment.date() == today.date() else f"as of {moment:%Y-%m-%d %H:%M} UTC"

"""Waiting for what nothing tells of: other processes, servers, files."""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import Awaitable, Callable

_LEAST_SECONDS = 0.02
_LONGEST_SECONDS = 0.3
_SHARE = 0.05
"""The share of a processor that looking may take, as what is waited for needs it too."""
_LATENESS = 0.05
"""Part of the time waited by which the end may be seen too late."""


def pause_after(cost_seconds: float, waited_seconds: float) -> float:
    """Return the seconds until the next look: after one of this cost, so long after the first one."""
    return min(max(cost_seconds / _SHARE, _LEAST_SECONDS, waited_seconds * _LATENESS), _LONGEST_SECONDS)


async def until(
    holds: Callable[[], object] | Callable[[], Awaitable[object]], what: str, *, deadline_seconds: float = 120.0
) -> None:
    """Let the loop work until `holds()` is true.

    Args:
        holds: Looks, or does what may be done again; may be asynchronous.
        what: Is waited for, as it shall read in the failure: "two runners".
        deadline_seconds: How long.

    Raises:
        AssertionError: It never was.
    """
    first = time.perf_counter()
    try:
        async with asyncio.timeout(deadline_seconds):
            while True:
                began = time.perf_counter()
                found = holds()
                if await found if inspect.isawaitable(found) else found:
                    return
                now = time.perf_counter()
                await asyncio.sleep(pause_after(now - began, now - first))
    except TimeoutError:
        raise AssertionError(f"waited {deadline_seconds:.0f} s for {what}") from None


def wait(holds: Callable[[], object], what: str, *, deadline_seconds: float = 120.0) -> None:
    """Block until `holds()` is true; see `until`."""
    first = time.monotonic()
    while True:
        began = time.monotonic()
        if holds():
            return
        now = time.monotonic()
        assert now < first + deadline_seconds, f"waited {deadline_seconds:.0f} s for {what}"
        time.sleep(pause_after(now - began, now - first))

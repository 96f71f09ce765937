"""Waiting for what nothing tells of: other processes, servers, files."""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import Awaitable, Callable

_LEAST_SECONDS = 0.02
_LONGEST_SECONDS = 0.1
_SHARE = 0.1
"""How much of a processor looking may take, as what is waited for needs it too."""


def _pause(cost_seconds: float) -> float:
    """Until the next look, after one of this length."""
    return min(max(cost_seconds / _SHARE, _LEAST_SECONDS), _LONGEST_SECONDS)


async def until(
    holds: Callable[[], object] | Callable[[], Awaitable[object]], what: str, *, deadline_seconds: float = 60.0
) -> None:
    """Let the loop work until `holds()` is true.

    Args:
        holds: Looks, and has no effect; may be asynchronous.
        what: Is waited for, as it shall read in the failure: "two runners".
        deadline_seconds: How long.

    Raises:
        AssertionError: It never was.
    """
    try:
        async with asyncio.timeout(deadline_seconds):
            while True:
                began = time.perf_counter()
                found = holds()
                if await found if inspect.isawaitable(found) else found:
                    return
                await asyncio.sleep(_pause(time.perf_counter() - began))
    except TimeoutError:
        raise AssertionError(f"waited {deadline_seconds:.0f} s for {what}") from None


def wait(holds: Callable[[], object], what: str, *, deadline_seconds: float = 120.0) -> None:
    """Block until `holds()` is true; see `until`."""
    deadline = time.monotonic() + deadline_seconds
    while True:
        began = time.monotonic()
        if holds():
            return
        assert time.monotonic() < deadline, f"waited {deadline_seconds:.0f} s for {what}"
        time.sleep(_pause(time.monotonic() - began))

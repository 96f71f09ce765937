"""Waiting for what nothing tells of: other processes, servers, files."""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import Awaitable, Callable

_LOOK_SECONDS = 0.02


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
                found = holds()
                if await found if inspect.isawaitable(found) else found:
                    return
                await asyncio.sleep(_LOOK_SECONDS)
    except TimeoutError:
        raise AssertionError(f"waited {deadline_seconds:.0f} s for {what}") from None


def wait(holds: Callable[[], object], what: str, *, deadline_seconds: float = 120.0) -> None:
    """Block until `holds()` is true; see `until`."""
    deadline = time.monotonic() + deadline_seconds
    while not holds():
        assert time.monotonic() < deadline, f"waited {deadline_seconds:.0f} s for {what}"
        time.sleep(_LOOK_SECONDS)

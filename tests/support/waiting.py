"""Waiting for a condition of a running app, which is the only way a test may wait."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from itertools import count
from typing import TypeVar

from textual import events
from textual.pilot import Pilot

from tests.support.polling import pause_after
from tui.textual_private import screen_text

AppResultT = TypeVar("AppResultT")

_AT_ONCE = 4
"""Looks without a pause between them: most of what is waited for is there by then."""


async def wait_for(
    pilot: Pilot[AppResultT],
    predicate: Callable[[], object],
    description: str,
    *,
    deadline_seconds: float = 60.0,
) -> None:
    """Let the app work until `predicate()` is true.

    Args:
        pilot: The pilot of `App.run_test()`.
        predicate: Looks at the screen or at a model; must have no effect.
        description: What is waited for, as it shall read in the failure: "the table shows 3 rows".

    Raises:
        AssertionError: The deadline passed; the message says what never came and what the screen showed.
    """
    try:
        async with asyncio.timeout(deadline_seconds):
            first = time.perf_counter()
            for look in count():
                spent = time.thread_time()
                if predicate():
                    return
                await settle(pilot)
                if look >= _AT_ONCE:
                    await asyncio.sleep(pause_after(time.thread_time() - spent, time.perf_counter() - first))
    except TimeoutError:
        message = f"waited {deadline_seconds} s for: {description}\n{screen_text(pilot.app)}"
        raise AssertionError(message) from None


async def settle(pilot: Pilot[AppResultT]) -> None:
    """Let every widget of the screen handle what is in its queue, then lay out and paint once."""
    app = pilot.app
    widgets = [app, *app.screen.walk_children(with_self=True)]
    done = asyncio.Event()
    waiting = len(widgets)

    def arrived() -> None:
        nonlocal waiting
        waiting -= 1
        if waiting <= 0:
            done.set()

    for widget in widgets:  # as `call_later` does, whose partial of `arrived` is inspected anew each time
        if not widget.post_message(events.Callback(arrived)):
            arrived()
    await done.wait()
    await asyncio.sleep(0.005)  # gives the screen's own update timer (60 Hz) a chance; never asserted upon

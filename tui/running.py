"""Running a coroutine as the whole of a program: what it leaves behind is not waited for."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any, TypeVar

ResultT = TypeVar("ResultT")

_TASKS_SECONDS = 0.5
"""For tasks that were cancelled."""


def run_to_the_end(work: Coroutine[Any, Any, ResultT]) -> ResultT:
    """Run as `asyncio.run` does, but wait half a second only for what does not end when it is cancelled.

    Threads of the loop's pool are not waited for at all: `tui.ending.leave` does.
    """
    runner = asyncio.Runner()
    try:
        return runner.run(work)
    finally:
        loop = runner.get_loop()
        loop.set_exception_handler(lambda *_: None)  # of what was not waited for
        with suppress(TimeoutError, asyncio.CancelledError):
            loop.run_until_complete(asyncio.wait_for(_end_tasks(), 2 * _TASKS_SECONDS))
        loop.close()
        asyncio.set_event_loop(None)


async def _end_tasks() -> None:
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    if others:
        await asyncio.wait(others, timeout=_TASKS_SECONDS)
    await asyncio.get_running_loop().shutdown_asyncgens()

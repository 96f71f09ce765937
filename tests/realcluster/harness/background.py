"""Tasks of the harness that nobody awaits: how one ended that should not have is told at once."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Coroutine
from typing import Any


def in_background(work: Coroutine[Any, Any, None], name: str) -> asyncio.Task[None]:
    """Start a task. A failure is a difference between sandbox and real server to be found, not to be waited for."""
    task = asyncio.create_task(work, name=name)
    task.add_done_callback(_complain)
    return task


def _complain(task: asyncio.Task[None]) -> None:
    if not task.cancelled() and (error := task.exception()) is not None:
        sys.stderr.write(f"realcluster: {task.get_name()}: {error!r}\n")

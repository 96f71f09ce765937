"""A replicated run on virtual time, and what a test reads of its journal."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from actions.base.clock import Clock, SystemClock
from actions.run.engine.companions import accompanied as engine_accompanied
from actions.run.journal.folder import journal_path
from actions.run.journal.journal_file import RecordRow, read_stored
from actions.run.output.segments import StreamWriter
from actions.run.output.streams import stream_path
from tests.support.stores import Published, a_run_with_store
from tests.support.virtual import VirtualClock
from tests.unit.run.world import creation


def a_run(tmp_path: Path) -> Path:
    """A run with an id of its own: all tests share one home."""
    return a_run_with_store(tmp_path, replace(creation(), run_id=f"fake-{abs(hash(tmp_path)):x}"), SystemClock())


def stored(folder: Path) -> list[RecordRow]:
    """The records of a run's journal, in order."""
    return read_stored(journal_path(folder))


@asynccontextmanager
async def accompanied(run: Published) -> Any:
    """The companions of a runner, while the block lasts."""
    task = asyncio.ensure_future(engine_accompanied(run.publisher, VirtualClock(), run.log.append))
    try:
        yield task
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def seconds_until(clock: Clock, holds: Callable[[], bool], most: float) -> float:
    """Let the loop's time pass until `holds()`; return how much of it has."""
    begin = clock.monotonic()
    while not holds():
        assert clock.monotonic() - begin < most, f"not within {most:.0f} s"
        await clock.sleep(0.5)
    return clock.monotonic() - begin


def growing(folder: Path, stage: str, stream: str) -> StreamWriter:
    """A stream of a stage's output, open to be appended to."""
    return StreamWriter(stream_path(folder, stage, stream))

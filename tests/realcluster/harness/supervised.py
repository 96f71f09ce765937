"""Programs that are started again whenever they have ended, as an init system does."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from tests.realcluster.harness.programs import RunningProgram, running

_PAUSE_SECONDS = 0.2


@asynccontextmanager
async def supervised(argv: Sequence[str], *, name: str, folder: Path) -> AsyncIterator[RunningProgram]:
    """Keep a program running until the context is left; it is entered with the first process.

    While `NAME.down` is in the folder, it is not started again; `NAME.pid` has the process that runs, if one does.
    """
    first: asyncio.Future[RunningProgram] = asyncio.get_running_loop().create_future()
    task = asyncio.create_task(_keep(argv, name, folder, first), name=name)
    try:
        await asyncio.wait((first, task), return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            task.result()  # the program could not be started
        yield await first
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def _keep(argv: Sequence[str], name: str, folder: Path, first: asyncio.Future[RunningProgram]) -> None:
    pid, down = folder / f"{name}.pid", folder / f"{name}.down"
    while True:
        if down.exists():
            await asyncio.sleep(_PAUSE_SECONDS)
            continue
        async with running(argv, name=name, logs=folder) as started:
            pid.write_text(str(started.process.pid), encoding="ascii")
            if not first.done():
                first.set_result(started)
            try:
                await started.process.wait()
            finally:
                pid.unlink()
        await asyncio.sleep(_PAUSE_SECONDS)

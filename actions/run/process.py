"""The runner's process: takes the lease, carries the run out, gives it back."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path

from actions.base.clock import Clock, SystemClock, format_rfc3339
from actions.base.errors import ConsoleError
from actions.base.untrusted import redact
from actions.run.desk import Desk
from actions.run.folder import journal_path
from actions.run.journal import Boundary, Journal
from actions.run.lease import take_lease
from actions.run.runner import Runner
from actions.run.workshop import Workshop

WorkshopFactory = Callable[[Path, Clock], Workshop]
"""From the run's folder to what its runner works with."""

CRASH_VARIABLE = "EKSML_CRASH_AT"
"""`SEQ:before` or `SEQ:after`: the process kills itself around that record. For tests of resumption."""


def main(folder: Path, make_workshop: WorkshopFactory) -> int:
    """Be the runner of the run in `folder`. Returns the exit code."""
    os.umask(0o077)
    try:
        asyncio.run(_carry_out(folder, make_workshop, SystemClock()))
    except ConsoleError as error:
        _log(SystemClock(), error.sentence())
        return 1
    return 0


async def _carry_out(folder: Path, make_workshop: WorkshopFactory, clock: Clock) -> None:
    path = journal_path(folder)
    lease = take_lease(path, clock)
    journal = Journal(path, clock, fence=lease.token, boundary=_crash_boundary())
    try:
        journal.check()
        workshop = make_workshop(folder, clock)
        try:
            runner = Runner(Desk(journal, lease, clock), workshop, clock, lambda line: _log(clock, line))
            view = await runner.run()
            _log(clock, f"run {view.state.value}")
        finally:
            await workshop.aclose()
    finally:
        journal.close()


def _log(clock: Clock, line: str) -> None:
    sys.stderr.write(f"{format_rfc3339(clock.now())} {redact(line)}\n")
    sys.stderr.flush()


def _crash_boundary() -> Boundary | None:
    wanted = os.environ.get(CRASH_VARIABLE, "")
    if not wanted:
        return None

    def crash(seq: int, side: str) -> None:
        if f"{seq}:{side}" == wanted:
            os.kill(os.getpid(), signal.SIGKILL)

    return crash

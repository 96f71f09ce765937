"""The runner's process: takes the lease, carries out the run, releases the lease."""

from __future__ import annotations

import asyncio
import os
import sys
import traceback
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

from actions.base.clock import Clock, SystemClock, format_rfc3339
from actions.base.errors import ConflictError, ConsoleError
from actions.base.executors import in_thread
from actions.base.guard import guarded_by
from actions.base.process import own_identity
from actions.base.untrusted import plain_text, redact
from actions.run.alarms.alarm_companion import AlarmCompanion
from actions.run.context.operator import present_operator
from actions.run.context.protocols import RunBackend
from actions.run.engine.companions import Companion, access_of, accompanied, companions_of, finished
from actions.run.engine.runner import Runner
from actions.run.engine.systemd import CANNOT
from actions.run.journal.folder import journal_path
from actions.run.journal.lease import BEAT_SECONDS, Heartbeat, take_runner_lease
from actions.run.journal.runner_journal import RunnerJournal, when_usable
from actions.run.journal.store import Journal
from actions.run.state.view import NoticeKind, RunView
from actions.run.store.access import store_of
from actions.run.store.fence import Fence
from actions.run.store.lease import this_holder
from actions.run.store.objects import RunStore
from actions.run.store.publish import Publisher

BackendFactory = Callable[[Path, Clock], RunBackend]
"""Makes the backend of the run in a folder."""

BROKEN = 1
"""Exit code after a defect: another start may end otherwise."""
_LOCK_SECONDS = 0.5
"""Limit of one wait for a lock, which blocks the loop; the wait is repeated without end."""

T = TypeVar("T")


def main(folder: Path, make_backend: BackendFactory) -> int:
    """Carry out the run in `folder` as its runner.

    Returns:
        The exit code: 0 if there is nothing left to do, `CANNOT` if another start would end the same way, `BROKEN`
        after a defect. The log has the reason; with the places in the program, if that was not another machine's or
        another runner's.
    """
    os.umask(0o077)
    clock = SystemClock()
    try:
        asyncio.run(_carry_out(folder, make_backend, clock))
    except ConflictError as error:
        _log(clock, error.sentence())
        return CANNOT
    except ConsoleError as error:
        _log(clock, f"{error.sentence()}\n{_places_of(error)}")
        return CANNOT
    except Exception as error:  # noqa: BLE001 - the end of the process: nothing else keeps what has ended it
        _log(clock, f"Unexpected {type(error).__name__}: {error}\n{_places_of(error)}")
        return BROKEN
    return 0


def _places_of(error: Exception) -> str:
    """Return the traceback of an error, and of those before it, without secrets and controls."""
    return plain_text(redact("".join(traceback.format_exception(error)))).rstrip()


async def _carry_out(folder: Path, make_backend: BackendFactory, clock: Clock) -> None:
    path = journal_path(folder)
    heartbeat = Heartbeat(folder, own_identity(), clock)

    async def usable(call: Callable[[], T]) -> T:
        return await when_usable(call, folder=folder, heartbeat=heartbeat, clock=clock)

    lease = await usable(lambda: take_runner_lease(path, clock, lock_seconds=_LOCK_SECONDS))

    def opened() -> Journal:
        return Journal(path, clock, fence=lease.token, lock_seconds=_LOCK_SECONDS)

    journal = await usable(opened)
    try:
        await usable(journal.records)
        backend = make_backend(folder, clock)
        try:
            runner_journal = RunnerJournal(journal, lease, clock, heartbeat)
            store = store_of(await runner_journal.view())
            fence = await _fence_of(folder, runner_journal, backend, clock, store)
            companions = [fence, *companions_of(folder, runner_journal, backend, clock, store)]
            lasting = [one for one in companions if isinstance(one, Publisher | AlarmCompanion)]
            runner = Runner(
                runner_journal,
                backend,
                clock,
                lambda line: _log(clock, line),
                is_behind=lambda: any(companion.is_behind() for companion in lasting),
            )
            with guarded_by(fence):
                view = await _kept_alive(runner_journal, runner, companions, clock)
            _log(clock, f"run {view.state.value}")
        finally:
            await backend.aclose()
    finally:
        journal.close()


async def _fence_of(
    folder: Path, runner_journal: RunnerJournal, backend: RunBackend, clock: Clock, store: RunStore | None
) -> Fence:
    def note(text: str) -> None:
        if text:
            runner_journal.heartbeat.waits_for(NoticeKind.UNCERTAIN, text)
        else:
            runner_journal.heartbeat.waits_no_more(NoticeKind.UNCERTAIN)

    return Fence(
        folder,
        await runner_journal.view(),
        access_of(folder, runner_journal.view_if_readable, backend, store),
        require_lease=runner_journal.require_lease,
        clock=clock,
        log=lambda line: _log(clock, line),
        note=note,
        holder=await in_thread("fence", this_holder, present_operator()),
    )


async def _kept_alive(
    runner_journal: RunnerJournal, runner: Runner, companions: Sequence[Companion], clock: Clock
) -> RunView:
    """Run the runner with a heartbeat every few seconds and its companions; stop it as soon as the lease is lost.

    Raises:
        ConflictError: Another runner took over.
    """

    async def keep_alive() -> None:
        while True:
            runner_journal.keep_alive()
            await clock.sleep(BEAT_SECONDS)

    def log(line: str) -> None:
        _log(clock, line)

    beside = [asyncio.ensure_future(keep_alive())]
    beside += [asyncio.ensure_future(accompanied(companion, clock, log)) for companion in companions]
    work = asyncio.ensure_future(runner.run())  # after the others: a limit that is reached lets no stage begin
    try:
        done, _ = await asyncio.wait({work, *beside}, return_when=asyncio.FIRST_COMPLETED)
        if work not in done:
            done.pop().result()  # raises: nothing else ends it
        view = await work
    finally:
        for task in (work, *beside):
            task.cancel()
        await asyncio.gather(work, *beside, return_exceptions=True)
    await finished(companions, view, log)
    return view


def _log(clock: Clock, line: str) -> None:
    with suppress(OSError):  # a disk that is full, or a log that is gone, must not end the run
        sys.stderr.write(f"{format_rfc3339(clock.now())} {redact(line)}\n")
        sys.stderr.flush()

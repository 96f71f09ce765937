"""Tasks beside the runner's work, in its process: they replicate, publish and watch, and never delay a stage."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Protocol, runtime_checkable

from actions.base.clock import Clock
from actions.base.errors import ConflictError, ConsoleError
from actions.base.executors import in_thread
from actions.run.context.access import ClusterConnection
from actions.run.context.operator import present_operator
from actions.run.context.protocols import RunBackend, StageJournal
from actions.run.context.stage_context import StageContext
from actions.run.engine.fence import CLUSTER_ARBITER, STORE_ARBITER, Arbiter, ReadingArbiter, SeenLease
from actions.run.engine.live_backend import LiveBackend
from actions.run.engine.runner_journal import RunnerJournal, StageRecorder
from actions.run.limits.guard import LimitGuard
from actions.run.presence.lease import read_cluster_lease
from actions.run.presence.publish import PresenceCompanion
from actions.run.presence.record import OLD_SECONDS
from actions.run.state.records import EndsKnown
from actions.run.state.view import RunView
from actions.run.store.drivers import open_store
from actions.run.store.objects import RunStore
from actions.run.store.replica import Replica
from actions.run.teardown.sharing import local_users
from actions.run.watchdog.keeper import WatchdogKeeper

AGAIN_SECONDS = 5.0
"""Pause before a companion that failed is started again."""
FINISH_SECONDS = 10.0
"""Time that each companion has after the runner's last step."""


Log = Callable[[str], None]


@runtime_checkable
class ClusterReader(Protocol):
    """A backend whose cluster also serves requests that belong to no stage."""

    async def cluster_of(self, view: RunView) -> ClusterConnection | None:
        """Return the connection to the run's cluster; `None` before the run has one.

        Raises:
            ConsoleError: It cannot be reached, or is another one.
        """
        ...

    def removes_cluster(self, view: RunView) -> bool:
        """Return whether a step of the run's teardown that has begun removes the cluster."""
        ...


class Companion(Protocol):
    """A task beside the runner's work. It shares the runner's loop: no call of it may block for long."""

    name: str
    """For the runner's log, a word or two."""

    async def accompany(self) -> None:
        """Work until cancelled.

        Raises:
            ConflictError: This machine may no longer carry out the run: the runner is to end at once.
        """
        ...

    async def finish(self, view: RunView) -> None:
        """Do what is left when the runner has nothing left to do. Cancelled after `FINISH_SECONDS`.

        Args:
            view: The run as the runner leaves it.
        """
        ...


def store_of(view: RunView) -> RunStore | None:
    """Return the store of a run; `None` if it has none."""
    return open_store(view.store, region=view.cluster.region) if view.store else None


def arbiters_of(
    current: Callable[[], RunView], backend: RunBackend, clock: Clock, store: RunStore | None
) -> list[Arbiter]:
    """Return the places that name the machine that carries out a run, for its fence.

    Args:
        current: Returns the run, without waiting.
        backend: The run's.
        clock: The machine's.
        store: See `store_of`.
    """
    arbiters: list[Arbiter] = []
    view = current()
    if isinstance(backend, ClusterReader):

        async def read() -> SeenLease | None:
            connection = await backend.cluster_of(view)
            lease = await read_cluster_lease(connection, view.id) if connection else None
            if lease is None:
                return None
            is_old = clock.now().timestamp() - lease.seen_at > OLD_SECONDS
            return SeenLease(lease.epoch, lease.owner, lease.presence.machine, lease.presence.heartbeat, is_old)

        arbiters.append(ReadingArbiter(CLUSTER_ARBITER, read, lambda: backend.removes_cluster(current())))
    if store is not None:

        async def read_store() -> SeenLease | None:
            lease = await store.lease(view.id)
            return None if lease is None else SeenLease(lease.epoch, lease.owner, lease.holder, lease.tag)

        arbiters.append(ReadingArbiter(STORE_ARBITER, read_store))
    return arbiters


def companions_of(
    folder: Path, runner_journal: RunnerJournal, backend: RunBackend, clock: Clock, store: RunStore | None
) -> list[Companion]:
    """Return the companions of a run.

    Args:
        folder: The run's.
        runner_journal: The run's journal, as the runner sees it.
        backend: The run's.
        clock: For waiting.
        store: See `store_of`; closed when the run's copy there is complete.
    """
    view = runner_journal.view_if_readable()
    find_users = partial(_users_of, folder, backend, StageRecorder(runner_journal, "", 0))
    guard = LimitGuard(runner_journal, partial(_fetch_ends, backend), clock, find_users=find_users)
    found: list[Companion] = [guard, PresenceCompanion(folder, runner_journal, clock)]
    if isinstance(backend, LiveBackend):
        found.append(WatchdogKeeper(runner_journal, partial(_context_of, backend, runner_journal), clock))
    if store is not None:
        found.append(Replica(store, folder, runner_journal, view.owner or present_operator(), clock))
    return found


class _QuietRecorder(StageRecorder):
    """A recorder of what belongs to no stage, without messages: those of the drain are shown in their place."""

    def note(self, text: str) -> None:
        return


def _context_of(backend: LiveBackend, runner_journal: RunnerJournal, view: RunView) -> StageContext:
    return backend.context(view, view.stages[0], _QuietRecorder(runner_journal, "", 0))


async def _users_of(folder: Path, backend: RunBackend, journal: StageJournal, view: RunView) -> Sequence[str]:
    """Return others who use what a teardown removes: runs of this machine, and what the cluster shows."""
    if view.even_if_shared:
        return ()
    local = await in_thread("limits", lambda: local_users(folder, view, deletes_data=view.deletes_data))
    return [*local, *await backend.others_using(view, journal)]


async def _fetch_ends(backend: RunBackend, view: RunView) -> EndsKnown:
    """Return the ends that the limits of a run refer to."""
    from actions.run.limits.ends import fetch_ends  # few runs have such limits

    reservation = await in_thread("limits", backend.reservation, view) if view.limits.capacity_end else ""
    return await fetch_ends(view.limits, view.ends, region=view.cluster.region, reservation=reservation)


async def accompanied(companion: Companion, clock: Clock, log: Log) -> None:
    """Run a companion until it is cancelled; start it again after a failure.

    Raises:
        ConflictError: As `Companion.accompany`.
    """
    told = ""
    while True:
        try:
            await companion.accompany()
        except ConflictError:
            raise
        except Exception as error:  # noqa: BLE001 - whatever fails beside the work must not end it
            sentence = error.sentence() if isinstance(error, ConsoleError) else f"{type(error).__name__}: {error}"
            if sentence != told:
                log(f"{companion.name}: {sentence}")
            told = sentence
        await clock.sleep(AGAIN_SECONDS)


async def finished(companions: Sequence[Companion], view: RunView, log: Log) -> None:
    """Let all companions finish, each within its time."""

    async def finish(companion: Companion) -> None:
        try:
            async with asyncio.timeout(FINISH_SECONDS):
                await companion.finish(view)
        except Exception as error:  # noqa: BLE001 - the run has ended, however this does
            log(f"{companion.name}: {type(error).__name__}: {error}")

    await asyncio.gather(*(finish(companion) for companion in companions))

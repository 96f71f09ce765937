"""Tasks beside the runner's work, in its process: they publish, guard and watch, and never delay a stage."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Protocol

from actions.base.clock import Clock
from actions.base.errors import ConflictError, ConsoleError
from actions.base.executors import in_thread
from actions.cloud.eks import token_factory
from actions.run.alarms.alarm_companion import AlarmCompanion
from actions.run.alarms.run_sampler import RunSampler
from actions.run.alarms.ways import load_ways
from actions.run.context.access import ClusterAccess
from actions.run.context.operator import present_operator
from actions.run.context.protocols import RunBackend, StageJournal
from actions.run.context.stage_context import StageContext, known_cluster_uid
from actions.run.engine.limit_guard import LimitGuard
from actions.run.engine.live_backend import LiveBackend
from actions.run.journal.folder import kubeconfig_path
from actions.run.journal.runner_journal import RunnerJournal, StageRecorder
from actions.run.state.records import EndsKnown
from actions.run.state.view import RunView
from actions.run.store.access import StoreAccess, chosen_cluster_store, cluster_store, require_traces
from actions.run.store.objects import RunStore
from actions.run.store.publish import Publisher
from actions.run.teardown.sharing import local_users
from actions.run.watchdog.keeper import WatchdogKeeper

AGAIN_SECONDS = 5.0
"""Pause before a companion that failed is started again."""
FINISH_SECONDS = 10.0
"""Time that each companion has after the runner's last step."""


Log = Callable[[str], None]


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


def access_of(folder: Path, current: Callable[[], RunView], backend: RunBackend, store: RunStore | None) -> StoreAccess:
    """Return the way to a run's store by the connection that its stages have, to read there.

    Args:
        folder: The run's.
        current: Returns the run, without waiting.
        backend: The run's.
        store: See `store_of`.
    """

    async def opened(view: RunView) -> RunStore | None:
        connection = await backend.cluster_of(view)
        return None if connection is None else cluster_store(connection, folder, view)

    async def traced(view: RunView) -> None:
        connection = await backend.cluster_of(view)
        if connection is not None:
            await require_traces(connection, folder, view)

    return StoreAccess(current, store, opened, removes_cluster=backend.removes_cluster, require_traces=traced)


def own_access_of(
    folder: Path, current: Callable[[], RunView], backend: RunBackend, store: RunStore | None, clock: Clock
) -> StoreAccess:
    """Return a way to a run's store by a connection of its own, for which no stage waits; see `access_of`."""
    cluster = ClusterAccess(kubeconfig_path(folder), "", clock, token_factory)

    async def opened(view: RunView) -> RunStore | None:
        uid = known_cluster_uid(view)
        return await chosen_cluster_store(await cluster.open(uid), folder, view) if uid else None

    async def traced(view: RunView) -> None:
        await require_traces(await cluster.open(known_cluster_uid(view)), folder, view)

    return StoreAccess(
        current,
        store,
        opened,
        disconnect=cluster.aclose,
        removes_cluster=backend.removes_cluster,
        require_traces=traced,
    )


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
    current = runner_journal.view_if_readable
    find_users = partial(_users_of, folder, backend, StageRecorder(runner_journal, "", 0))
    sampler = RunSampler(folder, runner_journal.heartbeat, clock)
    guard = LimitGuard(
        runner_journal, partial(_fetch_ends, backend), clock, find_users=find_users, read_loads=sampler.loads
    )
    access = own_access_of(folder, current, backend, store, clock)
    owner = current().owner or present_operator()
    alarms = AlarmCompanion(runner_journal, sampler.alarms, load_ways, clock)
    found: list[Companion] = [guard, alarms, Publisher(access, folder, runner_journal, owner, clock)]
    if isinstance(backend, LiveBackend):
        found.append(WatchdogKeeper(runner_journal, partial(_context_of, backend, runner_journal), clock))
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
    from actions.run.limits.ends import fetch_ends  # loads boto3

    reservation = await in_thread("limits", backend.reservation, view) if view.limits.capacity_end else ""
    region, has_account = view.cluster.region, view.account is not None
    return await fetch_ends(view.limits, view.ends, region=region, reservation=reservation, has_account=has_account)


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

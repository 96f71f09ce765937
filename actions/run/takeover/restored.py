"""A run that was restored from an archive becomes one that this machine carries out, if no other machine has it.

The operator states that; the places that a runner's fence reads are read first. A run with a lease in its store is
taken over from there: the archive is older than the store, and another copy of the run has that lease.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

from actions.base.clock import Clock, format_rfc3339
from actions.base.errors import ConsoleError, MissingError, RefusedError
from actions.base.readonly import refuse_if_readonly
from actions.base.untrusted import one_line
from actions.run.context.operator import present_operator
from actions.run.engine.fence import CLUSTER_ARBITER, STORE_ARBITER
from actions.run.engine.live_backend import LiveBackend
from actions.run.journal.elsewhere import takeover_hint
from actions.run.journal.machine import machine_id
from actions.run.journal.reader import load_run
from actions.run.journal.store import append_record
from actions.run.presence.lease import claim_cluster_lease, read_cluster_lease, time_in_cluster
from actions.run.state.records import Operator, TakenOver
from actions.run.state.view import RunView
from actions.run.storage.archive import require_fit, take_up
from actions.run.store.drivers import open_store
from actions.run.store.objects import StoreLease
from actions.run.takeover.take_over import is_young

_ANSWER_SECONDS = 10.0


async def take_up_restored(folder: Path, clock: Clock, *, confirm: str = "") -> None:
    """Make a restored run one that this machine may carry out.

    A lease that a silent machine has left in the run's cluster is taken with the next epoch: should it wake up, it
    changes nothing more.

    Args:
        folder: The run's.
        clock: The machine's.
        confirm: The run's id, typed by the operator: needed where store or cluster do not answer.

    Raises:
        RefusedError: Another machine has the run, or that cannot be found out; or it cannot be carried out here
            (`require_fit`). Nothing was changed.
        ConflictError: Another machine takes it over at the same time.
        ConsoleError: Its files cannot be read or written.
    """
    refuse_if_readonly(f"carrying out {folder.name}")
    require_fit(folder)
    view = load_run(folder)
    is_confirmed = confirm == view.id
    found = await _home_lease(view, is_confirmed=is_confirmed)
    if found is not None:
        raise _refusal(view, found.owner, found.epoch, STORE_ARBITER)
    backend = LiveBackend(folder, clock)
    try:
        await _claim_cluster(folder, view, backend, clock, is_confirmed=is_confirmed)
    finally:
        await backend.aclose()
    take_up(folder, clock)


async def _home_lease(view: RunView, *, is_confirmed: bool) -> StoreLease | None:
    """Return the lease of a run in its store; `None` if there is none, or no such store any more."""
    if not view.store:
        return None
    store = open_store(view.store, region=view.cluster.region)
    try:
        async with asyncio.timeout(_ANSWER_SECONDS):
            return await store.lease(view.id)
    except MissingError:
        return None
    except (ConsoleError, TimeoutError) as error:
        if is_confirmed:
            return None
        raise _unknown(view, STORE_ARBITER, error) from error
    finally:
        store.close()


async def _claim_cluster(
    folder: Path, view: RunView, backend: LiveBackend, clock: Clock, *, is_confirmed: bool
) -> None:
    """Take the run's lease in its cluster, if there is one that no living machine has."""
    try:
        async with asyncio.timeout(_ANSWER_SECONDS):
            connection = await backend.cluster_of(view)
            lease = await read_cluster_lease(connection, view.id) if connection else None
    except (ConsoleError, TimeoutError) as error:
        if is_confirmed:
            return
        raise _unknown(view, CLUSTER_ARBITER, error) from error
    if lease is None or connection is None:
        return
    if lease.epoch > view.epoch or is_young(lease, time_in_cluster(connection, clock)):
        raise _refusal(view, lease.owner, lease.epoch, CLUSTER_ARBITER)
    owner, epoch = present_operator(), lease.epoch + 1
    append_record(folder, TakenOver(owner, epoch, lease.owner), deed=f"carrying out {view.id}", clock=clock)
    stamp, machine = format_rfc3339(clock.now()), machine_id(folder)
    await claim_cluster_lease(connection, lease, owner, epoch=epoch, heartbeat=stamp, machine=machine)


def _refusal(view: RunView, owner: Operator, epoch: int, place: str) -> RefusedError:
    name = one_line(str(owner))
    if view.store:
        hint = takeover_hint(view.id, view.store)
    else:
        hint = f"Ask them, or rebuild it from its cluster: eksml-tui runs adopt {view.cluster.name} {view.id}"
    return RefusedError(f"{name} carries out run {view.id} (epoch {epoch}), as {place} says.", hint=hint)


def _unknown(view: RunView, place: str, error: Exception) -> RefusedError:
    why = error.message if isinstance(error, ConsoleError) else "it did not answer."
    return RefusedError(
        f"Whether another machine carries out run {view.id} is not known, as {place} was not reached: {why}",
        hint=f"If none does: eksml-tui runs resume {view.id} --restored --confirm {view.id}",
    )

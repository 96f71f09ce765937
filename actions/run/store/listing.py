"""The runs of a store, and what is written of a run at its launch."""

from __future__ import annotations

from collections.abc import Collection

import msgspec

from actions.base.clock import Clock, SystemClock
from actions.base.errors import ConfigError, ConflictError, ConsoleError, FormatError
from actions.base.executors import at_once
from actions.base.names import is_subdomain
from actions.base.untrusted import one_line
from actions.run.context.operator import present_operator
from actions.run.context.store_address import run_key
from actions.run.state.records import Created
from actions.run.store.lease import about_launch, take_lease
from actions.run.store.objects import LEASE, RunStore, TakenError
from actions.run.store.remote import MOST_RUNS, RemoteRun


async def announce_run(store: RunStore, created: Created, *, clock: Clock | None = None) -> None:
    """Write the run's first lease, and make sure that the store is fit: it refuses to replace what it has.

    Raises:
        ConfigError: The store ignores the condition of a write: two machines could write the same run.
        ConflictError: The store has a run of this id.
        ConsoleError: As `RunStore`: no bucket, no access, no answer.
    """
    run_id, owner = created.run_id, created.owner or present_operator()
    about = about_launch(created, (clock or SystemClock()).now().timestamp())
    try:
        await take_lease(store, run_id, owner, after=None, about=about, seconds=0.0)
    except TakenError as error:
        raise ConflictError(f"{store.address} has a run {run_id} already.") from error
    try:
        await take_lease(store, run_id, owner, after=None, about=about, seconds=0.0)
    except TakenError:
        return
    except BaseException as error:
        await withdraw_announced(store, run_id, error)
        raise
    await store.remove_run(run_id)
    raise ConfigError(
        f"{store.address} cannot be a store: its store replaces an object that a write must not replace.",
        hint="Use a store with conditional writes, such as Amazon S3.",
    )


async def withdraw_announced(store: RunStore, run_id: str, error: BaseException) -> None:
    """Remove a run that was not created after all; if that fails, too, name its lease in the error's hint."""
    try:
        await store.remove_run(run_id)
    except ConsoleError:
        if isinstance(error, ConsoleError):
            place = f"{store.address}/{run_key(run_id, LEASE)}"
            error.hint = (
                f"{error.hint} Nothing was launched, but the store lists {run_id} until `aws s3 rm {place}`.".strip()
            )


async def list_store(store: RunStore) -> list[RemoteRun]:
    """Return the runs of a store, newest first. One that is damaged is listed with the reason.

    Raises:
        ConsoleError: As `RunStore`.
    """
    leases, unread = await store.leases()
    place = str(store.address)
    runs = [
        *(RemoteRun(lease.run_id, lease, place) for lease in leases),
        *(RemoteRun(run_id, None, place, error=sentence) for run_id, sentence in unread.items()),
    ]
    return sorted(runs, key=lambda run: (run.about.created_at, run.id), reverse=True)


class StoreLook(msgspec.Struct, frozen=True):
    """The result of one look at a store."""

    ids: frozenset[str]
    """Of all runs that the store has."""
    runs: tuple[RemoteRun, ...] = ()
    """Those at work, and others that still cost something."""
    over: frozenset[str] = frozenset()
    """Ids of the others: they may be begun again."""


async def look_at_runs(store: RunStore, *, skipped: Collection[str]) -> StoreLook:
    """Look at the leases of a store.

    Args:
        store: The store.
        skipped: Ids of runs that are not read.

    Raises:
        ConsoleError: As `RunStore`.
    """
    ids = [run_id for run_id in await store.run_ids() if is_subdomain(run_id)]
    found = await at_once([run_id for run_id in ids if run_id not in skipped], lambda run_id: _read(store, run_id))
    runs = tuple(run for run in found if run is not None and (not run.is_over or run.usd_per_hour))
    over = {run.id for run in found if run is not None}.difference(run.id for run in runs)
    return StoreLook(frozenset(ids), runs[:MOST_RUNS], frozenset(over))


async def _read(store: RunStore, run_id: str) -> RemoteRun | None:
    """Return one run; `None` if it cannot be read now."""
    try:
        lease = await store.lease(run_id)
    except FormatError as error:
        return RemoteRun(run_id, None, str(store.address), error=one_line(error.message))
    except ConsoleError:
        return None
    return None if lease is None else RemoteRun(run_id, lease, str(store.address))

"""The runs of a store or of a cluster, by their leases, and what is written of a run at its launch."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from contextlib import suppress

import msgspec

from actions.base.clock import Clock, SystemClock
from actions.base.errors import ConfigError, ConflictError, ConsoleError, FormatError, MissingError
from actions.base.executors import at_once
from actions.base.names import is_subdomain
from actions.base.untrusted import one_line
from actions.cluster.auth.session import KubeSession
from actions.cluster.http.errors import ApiAccessError
from actions.cluster.objects.client import list_pages
from actions.run.context.operator import present_operator
from actions.run.context.store_address import run_key
from actions.run.state.fold import fold
from actions.run.state.records import OPERATOR, Created, JournalRecord
from actions.run.store.lease import about_run, take_lease
from actions.run.store.lease_object import EVERYWHERE, NAMESPACE, SELECTOR, leases_path
from actions.run.store.objects import LEASE, RunStore, TakenError
from actions.run.store.remote import MOST_RUNS, RemoteRun, newest_runs, remote_of

PAGE_SIZE = 100
_FORBIDDEN = 403


async def announce_run(store: RunStore, created: Created, *, clock: Clock | None = None) -> None:
    """Write the run's first lease, and make sure that the store is fit: it refuses to replace what it has.

    Raises:
        ConfigError: The store ignores the condition of a write: two machines could write the same run.
        ConflictError: The store has a run of this id.
        ConsoleError: As `RunStore`: no bucket, no access, no answer.
    """
    run_id, owner = created.run_id, created.owner or present_operator()
    at = (clock or SystemClock()).now().timestamp()
    about = about_run(fold([JournalRecord(1, at, OPERATOR, "", 0, created)]))
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
    runs = await at_once(await store.run_ids(), lambda run_id: _read(store, run_id))
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

    async def look(run_id: str) -> RemoteRun | None:
        with suppress(ConsoleError):  # it cannot be read now
            return await _read(store, run_id)
        return None

    found = await at_once([run_id for run_id in ids if run_id not in skipped], look)
    runs = tuple(run for run in found if run is not None and (not run.is_over or run.usd_per_hour))
    over = {run.id for run in found if run is not None}.difference(run.id for run in runs)
    return StoreLook(frozenset(ids), runs[:MOST_RUNS], frozenset(over))


async def _read(store: RunStore, run_id: str) -> RemoteRun:
    """Return one run, with the reason if it is damaged.

    Raises:
        ConsoleError: As `RunStore`.
    """
    lease, error = None, f"{store.address} has objects of {one_line(run_id)}, and no lease of it."
    try:
        lease = await store.lease(run_id)
    except (FormatError, ConfigError) as failure:
        error = one_line(failure.message)
    return RemoteRun(one_line(run_id), lease, store.address, error="" if lease else error)


class ClusterRuns(msgspec.Struct, frozen=True):
    """The runs in the stores of a cluster."""

    runs: tuple[RemoteRun, ...] = ()
    """Newest first, each id once."""
    note: str = ""
    """The part that could not be read, in one sentence; empty if everything was."""
    at: float | None = None
    """The present time by the API server's clock, in seconds since the epoch; `None` if it has named none."""


def paths_of(namespace: str) -> Sequence[str]:
    """Return the paths of Leases, in this order: a later one counts where the earlier ones may not be listed.

    Args:
        namespace: Of the caller's context; empty for none.
    """
    named = [NAMESPACE, *([namespace] if namespace not in ("", NAMESPACE) else [])]
    return (EVERYWHERE, *map(leases_path, named))


async def list_cluster_runs(session: KubeSession) -> ClusterRuns:
    """Return the runs of a cluster.

    Raises:
        ConsoleError: It does not answer, or accepts no credentials.
    """
    runs: list[RemoteRun] = []
    note = ""
    for path in paths_of(session.namespace):
        try:
            runs += await _leased(session, path)
        except ApiAccessError as error:
            if error.status.code != _FORBIDDEN:
                raise
            note = f"Runs of other machines are unknown: {error.message}"
        else:
            if path == EVERYWHERE:
                break
    return ClusterRuns(newest_runs(runs), "" if runs else note, session.answered_at)


async def find_cluster_run(session: KubeSession, run_id: str) -> RemoteRun:
    """Return the run of a cluster with this id, or an unambiguous prefix of it.

    Raises:
        MissingError: There is none, or more than one.
        ConsoleError: The cluster does not answer.
    """
    found = await list_cluster_runs(session)
    named = [run for run in found.runs if run.id == run_id]
    named = named or [run for run in found.runs if run_id and run.id.startswith(run_id)]
    if len(named) == 1:
        return named[0]
    count = f"{run_id!r} is a prefix of {len(named)} run ids" if named else f"The cluster has no run {run_id!r}"
    raise MissingError(f"{count}. {found.note}".rstrip(), hint="List them with `eksml-tui runs list --cluster`.")


async def _leased(session: KubeSession, path: str) -> list[RemoteRun]:
    documents = await list_pages(session, path, {"labelSelector": SELECTOR}, size=PAGE_SIZE)
    return [run for document in documents[:MOST_RUNS] if (run := remote_of(document)) is not None]

"""The place that a run is taken over from: its cluster, a bucket, or the file of an archive; the way in for callers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from msgspec.structs import replace

from actions.base.clock import Clock
from actions.base.errors import ConsoleError, MissingError, RefusedError, UsageError
from actions.base.executors import in_thread
from actions.base.files import expanded
from actions.base.untrusted import one_line
from actions.cloud.eks import token_factory
from actions.cluster.auth.kubeconfig import ClusterTarget, load_context
from actions.cluster.auth.session import KubeSession
from actions.run.journal.folder import journal_path, runs_folder
from actions.run.journal.reader import load_run
from actions.run.state.view import RunState
from actions.run.store.archive import ArchivedRun, opened_archive
from actions.run.store.copy import copy_path, read_mark
from actions.run.store.elsewhere import takeover_hint
from actions.run.store.kubernetes import open_cluster_store
from actions.run.store.objects import RunStore, StoreLease
from actions.run.store.s3 import open_store
from actions.run.takeover.takeover import CLUSTER, Say, Takeover, take_over_run

_BUCKET = "s3://"
_ANSWER_SECONDS = 10.0


def source_for(run_id: str, source: str, store: str) -> str:
    """Return the place that a run is taken over from.

    Args:
        run_id: The run's whole id.
        source: As the operator has named it; empty for the bucket that the run's folder or copy here names, else that
            of the settings, else the cluster.
        store: The bucket of the settings; empty for none.
    """
    return source or _store_known_here(run_id) or store or CLUSTER


async def take_over_from(
    source: str,
    run_id: str,
    target: ClusterTarget,
    clock: Clock,
    *,
    is_chosen: bool,
    confirm: str,
    is_machine_gone: bool,
    environment: Mapping[str, str],
    say: Say,
) -> Takeover:
    """Take a run over from a place; see `take_over_run`.

    Args:
        source: See `source_for`.
        run_id: The run's whole id.
        target: The cluster.
        clock: The machine's.
        is_chosen: The operator has chosen that cluster.
        confirm: The run's id, as typed.
        is_machine_gone: The earlier machine no longer exists.
        environment: Variables of the run's processes.
        say: Takes a sentence on each step.

    Raises:
        ConsoleError: See `opened_source` and `take_over_run`.
    """
    pinned = None
    if is_chosen or source == CLUSTER:
        found = await in_thread("takeover", load_context, target)
        pinned = replace(target, context=found.context)  # the current one may change later
    async with opened_source(source, run_id, pinned or target, clock, confirm=confirm) as store:
        return await take_over_run(
            run_id,
            store,
            clock,
            confirm=confirm,
            is_machine_gone=is_machine_gone,
            environment=environment,
            target=pinned,
            say=say,
        )


@asynccontextmanager
async def opened_source(
    source: str, run_id: str, target: ClusterTarget, clock: Clock, *, confirm: str = ""
) -> AsyncIterator[RunStore]:
    """Open the store that a run is taken over from, and close it at the end.

    Args:
        source: `cluster`, `s3://BUCKET/PREFIX`, or the path of an archive.
        run_id: The run's whole id.
        target: The cluster.
        clock: The machine's.
        confirm: The run's id, as typed: an archive does not tell whether another machine carries it out.

    Raises:
        UsageError: It is an archive of a run that another machine may carry out, and `confirm` is not its id.
        RefusedError: It is one of a run that another machine carries out, as its store says.
        ConsoleError: It cannot be opened.
    """
    if source == CLUSTER:
        session = await KubeSession.connect(target, token_factory=token_factory)
        try:
            yield await open_cluster_store(session, target.namespace)
        finally:
            await session.aclose()
    elif source.startswith(_BUCKET):
        store = open_store(source)
        try:
            yield store
        finally:
            store.close()
    else:
        with opened_archive(expanded(Path(source)), clock) as archive:
            await _require_free(archive, run_id, confirm)
            yield archive


async def _require_free(archive: ArchivedRun, run_id: str, confirm: str) -> None:
    """Require that no other machine carries out the run of an archive, as far as that can be found out."""
    if archive.run_id != run_id:
        raise MissingError(f"{archive.address} is an archive of {archive.run_id}, not of {one_line(run_id)}.")
    lease = await archive.lease(run_id)
    if lease is None or lease.status.state == RunState.TORN_DOWN.value:
        return
    found = await _lease_in_bucket(lease)
    if found is not None:
        raise RefusedError(
            f"{found.owner} carries out {run_id} (epoch {found.epoch}), as {lease.about.store} says, which is newer.",
            hint=takeover_hint(run_id, lease.about.store),
        )
    if confirm != run_id:
        raise UsageError(
            f"{lease.owner} had {run_id}, and may carry it out: a file does not tell. What it did later is not in it.",
            hint=f"Add --confirm {run_id}, if its machine and its store are gone.",
        )


async def _lease_in_bucket(lease: StoreLease) -> StoreLease | None:
    """Return the lease in the bucket that an archived run was kept in; `None` without an answer, or without one."""
    if not lease.about.store.startswith(_BUCKET):
        return None
    store = None
    try:
        store = open_store(lease.about.store, region=lease.about.region)
        async with asyncio.timeout(_ANSWER_SECONDS):
            return await store.lease(lease.run_id)
    except (ConsoleError, TimeoutError):
        return None
    finally:
        if store is not None:
            store.close()


def _store_known_here(run_id: str) -> str:
    """Return the store that a run's folder or copy on this machine names; empty if there is neither."""
    with suppress(ConsoleError):
        folder = runs_folder() / run_id
        if journal_path(folder).exists():
            return load_run(folder).store
        mark = read_mark(copy_path(run_id))
        return mark.store if mark is not None else ""
    return ""

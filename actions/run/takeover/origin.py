"""The place that a run is taken over from: its cluster, a bucket, or the file of an archive."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from actions.base.clock import Clock
from actions.base.errors import ConsoleError, MissingError, RefusedError, UsageError
from actions.base.files import expanded
from actions.base.untrusted import one_line
from actions.cloud.eks import token_factory
from actions.cluster.auth.kubeconfig import ClusterTarget
from actions.cluster.auth.session import KubeSession
from actions.run.state.view import RunState
from actions.run.store.archive import ArchivedRun, opened_archive
from actions.run.store.elsewhere import takeover_hint
from actions.run.store.kubernetes import open_cluster_store
from actions.run.store.objects import RunStore, StoreLease
from actions.run.store.s3 import open_store
from actions.run.takeover.takeover import CLUSTER

_BUCKET = "s3://"
_ANSWER_SECONDS = 10.0


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

"""The runs of a cluster, by their Leases: in all namespaces that the caller may list, else in those that are named."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from actions.base.errors import MissingError
from actions.cluster.auth.session import KubeSession
from actions.cluster.http.errors import ApiAccessError
from actions.cluster.objects.client import list_pages
from actions.run.store.lease_object import EVERYWHERE, NAMESPACE, SELECTOR, leases_path
from actions.run.store.remote import MOST_RUNS, RemoteRun, newest_runs, remote_of

PAGE_SIZE = 100
_FORBIDDEN = 403


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
            runs += await _read(session, path)
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


async def _read(session: KubeSession, path: str) -> list[RemoteRun]:
    documents = await list_pages(session, path, {"labelSelector": SELECTOR}, size=PAGE_SIZE)
    return [run for document in documents[:MOST_RUNS] if (run := remote_of(document)) is not None]

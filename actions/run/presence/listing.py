"""The runs of a cluster, read from their ConfigMaps: once, or followed; in all namespaces that the caller may list."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from actions.base.errors import MissingError, RefusedError
from actions.cluster.auth.session import KubeSession
from actions.cluster.http.errors import ApiAccessError
from actions.cluster.objects.client import Document, list_pages, read_item
from actions.cluster.watch.json_format import Raw
from actions.run.journal.elsewhere import elsewhere_sentence, takeover_hint
from actions.run.presence.record import NAMESPACE, SELECTOR, RemoteRun, read_run

EVERYWHERE = "/api/v1/configmaps"
IN_DEFAULT = f"/api/v1/namespaces/{NAMESPACE}/configmaps"
PAGE_SIZE = 20
"""Objects of one page: each may have a megabyte."""
MOST_RUNS = 500
"""Runs that are kept of one cluster."""
_FORBIDDEN = 403


class ClusterRuns(msgspec.Struct, frozen=True):
    """The runs recorded in a cluster."""

    runs: tuple[RemoteRun, ...] = ()
    """Newest first, each id once."""
    note: str = ""
    """The part that could not be read, in one sentence; empty if everything was."""
    at: float | None = None
    """The present time by the API server's clock, in seconds since the epoch; `None` if it has named none."""


async def list_cluster_runs(session: KubeSession) -> ClusterRuns:
    """Return the runs of a cluster.

    Raises:
        ConsoleError: It does not answer, or accepts no credentials.
    """
    try:
        return ClusterRuns(await _read(session, EVERYWHERE), at=session.answered_at)
    except ApiAccessError as error:
        if error.status.code != _FORBIDDEN:
            raise
    try:
        return ClusterRuns(await _read(session, IN_DEFAULT), at=session.answered_at)
    except ApiAccessError as error:
        if error.status.code != _FORBIDDEN:
            raise
        return ClusterRuns(note=f"Runs of other machines are unknown: {error.message}")


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
    count = (
        f"{run_id!r} is a prefix of {len(named)} run ids" if named else f"The cluster has no record of a run {run_id!r}"
    )
    raise MissingError(f"{count}. {found.note}".rstrip(), hint="List them with `eksml-tui runs list --cluster`.")


def run_in(raw: Raw) -> RemoteRun:
    """Decode a ConfigMap of a list or of a watch.

    Raises:
        ValueError: It is not a record of a run.
    """
    document = msgspec.json.decode(raw)
    run = read_run(document) if isinstance(document, dict) else None
    if run is None:
        raise ValueError("it is not the record of a run")
    return run


def ordered(runs: Iterable[RemoteRun]) -> tuple[RemoteRun, ...]:
    """Return runs newest first, each id once: that of the namespace where runners write, before a copy elsewhere."""
    by_id: dict[str, RemoteRun] = {}
    for run in sorted(runs, key=lambda one: (one.namespace == NAMESPACE, one.seen_at), reverse=True):
        by_id.setdefault(run.id, run)
    return tuple(sorted(by_id.values(), key=_age, reverse=True)[:MOST_RUNS])


def refusal_of(run: RemoteRun) -> RefusedError:
    """Return the error of what would act on a run that another machine carries out."""
    return RefusedError(
        elsewhere_sentence(run.id, run.owner), hint=takeover_hint(run.id, run.presence.store if run.presence else "")
    )


def _age(run: RemoteRun) -> tuple[float, str]:
    return run.presence.created_at if run.presence else 0.0, run.id


async def _read(session: KubeSession, path: str) -> tuple[RemoteRun, ...]:
    runs: list[RemoteRun] = []

    async def take(items: list[msgspec.Raw]) -> list[Document]:
        """Keep of each object what is shown, not its megabyte."""
        documents = [read_item(raw) for raw in items]
        found = [run for document in documents if (run := read_run(document)) is not None]
        runs.extend(found[: max(0, MOST_RUNS - len(runs))])
        return [{"metadata": {"uid": _uid_of(document)}} for document in documents]

    await list_pages(session, path, {"labelSelector": SELECTOR}, take=take, size=PAGE_SIZE)
    return ordered(runs)


def _uid_of(document: Mapping[str, object]) -> str:
    metadata = document.get("metadata")
    return str(metadata.get("uid")) if isinstance(metadata, dict) else ""

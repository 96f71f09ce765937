"""The lease of a run in its cluster: epoch and owner in its record there.

Other machines read from it who carries the run out, and a takeover writes the next epoch into it, unless another one
has meanwhile. Only the namespace in which runners write counts here: a record elsewhere is shown, and no more.
"""

from __future__ import annotations

from typing import Any

import msgspec

from actions.base.clock import Clock
from actions.base.decoding import decode_json
from actions.base.errors import ConflictError, FormatError
from actions.base.untrusted import one_line
from actions.cluster.objects.client import Document, merge_patch
from actions.run.context.access import ClusterConnection
from actions.run.journal.machine import is_same_machine
from actions.run.presence.record import NAMESPACE, RUN_KEY, SELECTOR, RunPresence, read_run, ref_of
from actions.run.state.records import Created, Operator

_LONGEST_NAME = 253
_CLAIMS = 4
"""Attempts to write between two heartbeats of the earlier machine."""


class ClusterLease(msgspec.Struct, frozen=True):
    """The lease of one run as its cluster has it."""

    presence: RunPresence
    seen_at: float
    """The newest sign of its machine, in seconds since the epoch: its heartbeat, or the API server's time of its last
    write. The clocks of two machines may differ: the later of both counts."""
    version: str
    """Of the ConfigMap; a change names it, so that it is refused if another one was first."""
    created: Created | None
    """The first record of the run's journal; `None` if it is missing or damaged."""

    @property
    def run_id(self) -> str:
        """The run's id."""
        return self.presence.id

    @property
    def epoch(self) -> int:
        """Number of the machines that have carried the run out."""
        return self.presence.epoch

    @property
    def owner(self) -> Operator:
        """The operator and machine that carry it out."""
        return self.presence.owner


async def read_cluster_lease(connection: ClusterConnection, run_id: str) -> ClusterLease | None:
    """Return the lease of a run; `None` if the cluster has none.

    Raises:
        FormatError: The ConfigMap holds something else.
        ConsoleError: The cluster does not answer, or the right is missing.
    """
    document = await connection.find(ref_of(run_id))
    return None if document is None else lease_of(document)


async def list_cluster_leases(connection: ClusterConnection) -> tuple[list[ClusterLease], list[str]]:
    """Return the leases of all runs recorded in the cluster, and a sentence on each that cannot be read.

    Raises:
        ConsoleError: The cluster does not answer, or the right is missing.
    """
    documents = await connection.list_objects("v1", "ConfigMap", namespace=NAMESPACE, label_selector=SELECTOR)
    found: list[ClusterLease] = []
    unread: list[str] = []
    for document in documents:
        try:
            found.append(lease_of(document))
        except FormatError as error:
            unread.append(error.message)
    return found, unread


def time_in_cluster(connection: ClusterConnection, clock: Clock) -> float:
    """Return the present time by the API server's clock, in seconds since the epoch, as of its newest answer.

    Call it after a request; if no answer has named its time, it is this machine's.
    """
    answered_at = connection.session.answered_at
    return clock.now().timestamp() if answered_at is None else answered_at


def lease_of(document: Document) -> ClusterLease:
    """Read a ConfigMap.

    Raises:
        FormatError: It is not that of a run.
    """
    run = read_run(document)
    if run is None or run.presence is None:
        name = one_line(str((document.get("metadata") or {}).get("name") or ""), limit=_LONGEST_NAME)
        why = run.error if run else "It is not the record of a run."
        raise FormatError(f"The ConfigMap {NAMESPACE}/{name} cannot be read. {why}")
    return ClusterLease(run.presence, max(run.seen_at, run.presence.heartbeat_at), run.version, run.created)


async def claim_cluster_lease(
    connection: ClusterConnection,
    lease: ClusterLease,
    owner: Operator,
    *,
    epoch: int,
    heartbeat: str,
    machine: str,
    may_be_alive: bool = True,
) -> None:
    """Write the next owner into a run's ConfigMap, unless another machine has since it was read.

    The earlier machine, if it is alive, writes its heartbeats into the same ConfigMap: between two of them is room.

    Args:
        connection: The run's cluster.
        lease: As it was read.
        owner: The next one.
        epoch: Greater than that of the lease.
        heartbeat: The present moment, RFC 3339.
        machine: The identity of the next machine's copy of the run (`actions.run.journal.machine`): owners may have
            one name.
        may_be_alive: It was confirmed that the earlier machine loses the run even if it is alive; else a sign of it
            since the lease was read keeps the run there.

    Raises:
        ConflictError: Another machine takes it over, too, or the earlier one is alive.
        ConsoleError: The cluster does not answer, or the right is missing.
    """
    ref = ref_of(lease.run_id)
    for attempt in range(_CLAIMS):
        document = await connection.fetch(ref)
        now = lease_of(document)
        is_changed = now.epoch != lease.epoch or str(now.owner) != str(lease.owner)
        if is_changed or not is_same_machine(now.presence.machine, lease.presence.machine):
            raise ConflictError(
                f"{ref.describe()} was changed meanwhile: {now.owner} has taken the run over (epoch {now.epoch}).",
                hint="Look at `eksml-tui runs list --cluster`.",
            )
        if now.version != lease.version and not may_be_alive:
            raise ConflictError(f"{now.owner} has given a sign meanwhile: it carries out {lease.run_id}.")
        run = decode_json(str((document.get("data") or {}).get(RUN_KEY) or "{}"), dict[str, Any])
        run |= {"epoch": epoch, "owner": msgspec.to_builtins(owner), "heartbeat": heartbeat, "machine": machine}
        patch = {"metadata": {"resourceVersion": now.version}, "data": {RUN_KEY: msgspec.json.encode(run).decode()}}
        try:
            await merge_patch(connection.session, connection.discovery, ref, patch)
        except ConflictError:
            if attempt + 1 == _CLAIMS:
                raise
        else:
            return

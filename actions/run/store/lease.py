"""The lease of a run in its store: one machine carries the run out, numbered by an epoch that only grows.

Every write is conditional on the lease that was read, so of two machines that take it one gets `ConflictError`. Its age
is a difference of the store's own times, so no clock of ours counts. The lease alone does not fence: a machine that
slept through its end may still be about to write. What fences is the journal in the store: each record has one place
there, and the `TakenOver` record of the next epoch takes the place of the old machine's next one.
"""

from __future__ import annotations

import hashlib
import os
import secrets
from collections import deque
from contextlib import suppress
from pathlib import Path

from msgspec.structs import replace

from actions.base.clock import Clock, SystemClock, format_rfc3339
from actions.base.errors import RefusedError
from actions.base.files import read_file
from actions.base.process import boot_id
from actions.run.state.records import Operator
from actions.run.state.view import RunView
from actions.run.store.elsewhere import deed_of
from actions.run.store.objects import (
    LeaseConflictError,
    LeaseDocument,
    RunAbout,
    RunStatus,
    RunStore,
    StoreLease,
    TakenError,
)

LEASE_SECONDS = 30.0
RENEW_SECONDS = 10.0
_MACHINE_FILES = ("/etc/machine-id", "/var/lib/dbus/machine-id")
_NAMESPACE = "/proc/self/ns/pid"
_MACHINE_BYTES = 64
_OWN_WRITES = 3
"""Writes against earlier ones of this process that land late."""
_CLAIMS = 3
"""Attempts against late writes of an earlier runner of this machine."""
_sent: deque[str] = deque(maxlen=1000)
"""Marks of the writes of this process, by which one is known whose answer was lost."""


class LeaseHeldError(RefusedError):
    """Another machine has the lease at the epoch of this one: it is to be seen whether it lives.

    Args:
        message: One sentence.
        lease: As it was read.
    """

    def __init__(self, message: str, lease: StoreLease) -> None:
        super().__init__(message)
        self.lease = lease


def this_holder(owner: Operator) -> str:
    """Return what names this machine since its start, and the operator on it, in a lease. Blocking."""
    return f"{owner}/{boot()}"


def boot() -> str:
    """Return an identity of this machine since its start, unlike all others; two containers of one machine are two."""
    parts = [boot_id()]
    for path in _MACHINE_FILES:
        with suppress(OSError):
            parts.append(read_file(Path(path), _MACHINE_BYTES, is_cut=True).decode("ascii", "replace").strip())
            break
    with suppress(OSError):
        parts.append(os.readlink(_NAMESPACE))
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]


def about_run(view: RunView) -> RunAbout:
    """Return a run in a few words."""
    account = view.account.id if view.account else ""
    return RunAbout(
        view.id,
        view.title,
        view.blueprint_id,
        view.cluster.name,
        view.cluster.region,
        account,
        view.created_at,
        view.store,
        view.is_cost_simulated,
    )


async def take_lease(
    store: RunStore,
    run_id: str,
    owner: Operator,
    *,
    after: StoreLease | None,
    epoch: int = 0,
    holder: str = "",
    status: RunStatus | None = None,
    about: RunAbout | None = None,
    seconds: float = LEASE_SECONDS,
) -> StoreLease:
    """Take the lease, whoever has it; the caller has decided that it may.

    Args:
        store: The store.
        run_id: The run.
        owner: The new one.
        after: The lease as it was read; `None` if there was none.
        epoch: The new one; 0 for the one behind that of `after`.
        holder: See `LeaseDocument`.
        status: The run's state, if known; else that of `after`.
        about: The run, if known; else that of `after`.
        seconds: Time for which it holds; 0 for a run that no runner has begun with.

    Raises:
        ConflictError: Another took it since `after` was read.
    """
    number = epoch or (after.epoch + 1 if after else 1)
    known = status or (after.status if after else RunStatus())
    run = about or (after.about if after else RunAbout(run_id))
    document = LeaseDocument(number, owner, holder, _now(), seconds, secrets.token_hex(8), known, run)
    return await _written(store, run_id, document, after)


async def renew_lease(
    store: RunStore,
    run_id: str,
    lease: StoreLease,
    *,
    status: RunStatus | None = None,
    seconds: float = LEASE_SECONDS,
) -> StoreLease:
    """Renew our lease, also after its end if no other machine has taken it; with `seconds` 0, give it back.

    One of an earlier epoch is written over: while ours was removed, that machine, which it ends, has made its own anew.

    Raises:
        TakenError: Another has it.
        LeaseConflictError: It was removed.
        RefusedError: The store takes none of several writes.
    """
    document = replace(
        lease.document,
        renewed_at=_now(),
        seconds=seconds,
        nonce=secrets.token_hex(8),
        status=status or lease.status,
    )
    return await _written(store, run_id, document, lease, is_renewal=True)


async def claim_lease(
    store: RunStore,
    run_id: str,
    owner: Operator,
    *,
    epoch: int,
    holder: str,
    status: RunStatus,
    about: RunAbout | None = None,
    held: StoreLease | None = None,
) -> StoreLease:
    """Take the lease for the machine whose journal has this epoch: at the launch, and with every later runner there.

    Args:
        store: The store.
        run_id: The run.
        owner: Who carries it out.
        epoch: Of the journal.
        holder: See `LeaseDocument`.
        status: The run's state.
        about: The run, if known; else that of the lease that is there.
        held: The lease of an earlier `LeaseHeldError`: if it has been renewed since, that machine lives, and has it.

    Raises:
        TakenError: A later epoch has it, or a machine that lives at the same epoch.
        LeaseHeldError: Another machine has it at the same epoch, and it has not ended: try again, with this lease.
        RefusedError: Machines of earlier epochs were faster each time.
    """
    for attempt in range(1, _CLAIMS + 1):
        found = await store.lease(run_id)
        if found is not None and found.epoch > epoch:
            raise _taken_by(run_id, found, epoch)
        if found is not None and _is_held(found, epoch, holder):
            if held is not None and held.tag != found.tag:
                raise _taken_by(run_id, found, epoch)
            raise LeaseHeldError(
                f"{found.owner} has renewed the lease of {run_id} {found.age_seconds:.0f} s ago.", found
            )
        try:
            return await take_lease(
                store, run_id, owner, after=found, epoch=epoch, holder=holder, status=status, about=about
            )
        except TakenError as error:
            if attempt == _CLAIMS and error.epoch < epoch:
                raise _outrun(store, run_id, error.epoch, attempt) from error
            if attempt == _CLAIMS:
                raise
    raise AssertionError


def _is_held(found: StoreLease, epoch: int, holder: str) -> bool:
    """Return whether another machine has a lease that has not ended; one without a holder is of no machine yet."""
    return found.epoch == epoch and found.is_live and bool(found.holder) and found.holder != holder


async def _written(
    store: RunStore, run_id: str, document: LeaseDocument, after: StoreLease | None, *, is_renewal: bool = False
) -> StoreLease:
    """Write a lease over what an earlier write of ours has left.

    A renewal is written over a lease of an earlier epoch, too; another write again if that of before was removed.
    Several of ours may be on their way, if the store is slow: each of them may land between a read and the next write.

    Raises:
        TakenError: Another machine has written.
        LeaseConflictError: It was removed, and this is a renewal.
        RefusedError: The store refuses each write, though no machine of this epoch or a later one has written.
    """
    _sent.append(document.nonce)
    condition = after
    for _ in range(_OWN_WRITES + 1):
        try:
            return await store.put_lease(run_id, document, after=condition)
        except LeaseConflictError as error:
            if error.found is None and is_renewal:
                raise
            condition = error.found
        if is_renewal and condition is not None and condition.epoch < document.epoch:
            continue
        if condition is not None and not (after is not None and _is_ours(condition, document)):
            raise _taken_by(run_id, condition, document.epoch)
    if condition is not None and condition.epoch < document.epoch:
        raise _outrun(store, run_id, condition.epoch, _OWN_WRITES + 1)
    raise RefusedError(f"{store.address} refuses the lease of {run_id}, though no other machine has written it.")


def _outrun(store: RunStore, run_id: str, epoch: int, attempts: int) -> RefusedError:
    return RefusedError(
        f"{store.address} has not taken the lease of {run_id} in {attempts} attempts: before the last one a machine of "
        f"an earlier epoch ({epoch}) has written its own."
    )


def _is_ours(found: StoreLease, document: LeaseDocument) -> bool:
    """Return whether an earlier write of this process took, whose answer was lost."""
    is_same = bool(document.holder) and (found.epoch, found.holder) == (document.epoch, document.holder)
    return is_same and found.document.nonce in _sent


def _taken_by(run_id: str, lease: StoreLease, epoch: int) -> TakenError:
    """Return the refusal. At the epoch of the machine that is refused, another one has a copy of the run's folder."""
    deed = f"{lease.owner} has taken over {run_id} (epoch {lease.epoch})"
    if lease.epoch == epoch:
        deed = f"Run {run_id} {deed_of(lease.owner, epoch, is_copy=True)}"
    return TakenError(
        f"{deed}: this machine stops carrying it out.",
        epoch=lease.epoch,
        owner=lease.owner,
        hint="Watch it with `eksml-tui runs list --store`.",
    )


def _now() -> str:
    clock: Clock = SystemClock()
    return format_rfc3339(clock.now())

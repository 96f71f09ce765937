"""The lease of a run in its store: one machine carries the run out, numbered by an epoch that only grows.

Every write of `lease.json` is conditional on the object that was read, so of two machines that take it one gets
`ConflictError`. Its age is a difference of the store's own times, so no clock of ours counts. The lease alone does not
fence: a machine that slept through its end may still be about to write. What fences is the journal in the store: each
record has one place there, and the `TakenOver` record of the next epoch takes the place of the old machine's next one.
"""

from __future__ import annotations

import secrets
from collections import deque

import msgspec
from msgspec.structs import replace

from actions.base.clock import Clock, SystemClock, format_rfc3339
from actions.base.errors import ConflictError, RefusedError
from actions.base.untrusted import one_line
from actions.cloud.s3 import PreconditionError, S3Object, S3Written
from actions.run.context.store_address import run_key
from actions.run.journal.elsewhere import deed_of
from actions.run.journal.machine import is_same_copy, is_same_machine
from actions.run.state.records import Operator
from actions.run.store.objects import RunStore, TakenError, decoded

LEASE_SECONDS = 30.0
RENEW_SECONDS = 10.0
_NAME = "lease.json"
_MOST_BYTES = 64 << 10
_OWN_WRITES = 3
"""Writes against earlier ones of this process that land late."""
_CLAIMS = 3
"""Attempts against late writes of an earlier runner of this machine."""
_sent: deque[str] = deque(maxlen=1000)
"""Marks of the writes of this process, by which one is known whose answer was lost."""


class LeaseHeldError(RefusedError):
    """Another machine with the same copy of the run has given a sign lately: it is to be seen whether it lives."""


class RunStatus(msgspec.Struct, frozen=True, omit_defaults=True):
    """The newest state of a run, as its lease carries it."""

    state: str = ""
    """A value of `RunState`."""
    stage: str = ""
    """Id of the stage that is under way, or has failed."""
    last_seq: int = 0
    """Number of the newest record in the store."""
    writer: str = ""
    """The runner's token, by which its records in the journal are known."""
    spent_usd: str = ""
    usd_per_hour: str = ""
    notes: dict[str, str] = {}
    """Progress messages by stage id."""
    troubles: dict[str, str] = {}
    """Present trouble of pods by stage id."""


class _LeaseDocument(msgspec.Struct, frozen=True):
    """The content of `lease.json`."""

    epoch: int
    owner: Operator
    machine: str
    renewed_at: str
    seconds: float
    nonce: str
    status: RunStatus = RunStatus()


class StoreLease(msgspec.Struct, frozen=True):
    """A lease as it was read or written last."""

    epoch: int
    """Counts the machines that have carried the run out; 1 for the one that launched it."""
    owner: Operator
    renewed_at: float
    """Seconds since the epoch, by the store's clock."""
    seconds: float
    """Time for which it holds since then; 0 if it was given back."""
    tag: str
    """The object's etag: the condition of the next write."""
    age_seconds: float = 0.0
    """Time since it was renewed, when it was read, by the store's clock."""
    machine: str = ""
    """See `actions.run.journal.machine`; empty after a takeover, before its runner has begun."""
    status: RunStatus = RunStatus()

    @property
    def is_live(self) -> bool:
        """True if it held when it was read."""
        return self.seconds > 0 and self.age_seconds <= self.seconds


async def read_lease(store: RunStore, run_id: str) -> StoreLease | None:
    """Return the lease of a run; `None` if there was never one.

    Raises:
        FormatError: It is damaged.
        ConsoleError: As `S3Bucket`.
    """
    found = await store.get(run_key(run_id, _NAME), limit_bytes=_MOST_BYTES)
    return None if found is None else _lease_of(found, run_id)


async def take_lease(
    store: RunStore,
    run_id: str,
    owner: Operator,
    *,
    after: StoreLease | None,
    epoch: int = 0,
    machine: str = "",
    status: RunStatus | None = None,
) -> StoreLease:
    """Take the lease, whoever has it; the caller has decided that it may.

    Args:
        store: The store.
        run_id: The run.
        owner: The new one.
        after: The lease as it was read; `None` if there was none.
        epoch: The new one; 0 for the one behind that of `after`.
        machine: See `StoreLease`.
        status: The run's state, if known; else that of `after`.

    Raises:
        ConflictError: Another took it since `after` was read.
    """
    known = status or (after.status if after else RunStatus())
    number = epoch or (after.epoch + 1 if after else 1)
    document = _document(number, owner, machine, LEASE_SECONDS, known)
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

    Raises:
        ConflictError: Another has it.
    """
    document = _document(lease.epoch, lease.owner, lease.machine, seconds, status or lease.status)
    return await _written(store, run_id, document, lease)


async def _written(store: RunStore, run_id: str, document: _LeaseDocument, after: StoreLease | None) -> StoreLease:
    name, data = run_key(run_id, _NAME), msgspec.json.encode(document)
    _sent.append(document.nonce)
    try:
        if after is None:
            receipt = await store.put_if_absent(name, data)
        else:
            receipt = await store.replace(name, data, etag=after.tag)
    except PreconditionError as error:
        receipt = await _again(store, run_id, document, after, error.found)
    return StoreLease(
        document.epoch,
        document.owner,
        receipt.at,
        document.seconds,
        receipt.etag,
        machine=document.machine,
        status=document.status,
    )


async def _again(
    store: RunStore, run_id: str, document: _LeaseDocument, after: StoreLease | None, found: S3Object | None
) -> S3Written:
    """Write over what an earlier write of ours has left, or again what was removed.

    Several of ours may be on their way, if the store is slow: each of them may land between a read and the next write.

    Raises:
        ConflictError: Another machine has written.
        RefusedError: The store refuses each write, and has none but ours.
    """
    name, data = run_key(run_id, _NAME), msgspec.json.encode(document)
    for _ in range(_OWN_WRITES):
        if found is not None and not (after is not None and _is_ours(found, document)):
            raise _taken(run_id, found, document.epoch)
        try:
            if found is None:
                return await store.put_if_absent(name, data)
            return await store.replace(name, data, etag=found.etag)
        except PreconditionError as error:
            found = error.found
    raise RefusedError(
        f"{store.address} refuses to renew the lease of {run_id}, though no other machine has written it (412)."
    )


async def claim_lease(
    store: RunStore, run_id: str, owner: Operator, *, epoch: int, machine: str, status: RunStatus
) -> StoreLease:
    """Take the lease for the machine whose journal has this epoch: at the launch, and with every later runner there.

    Raises:
        TakenError: A later epoch has it, or another copy of the run at the same epoch.
        LeaseHeldError: Another machine with the same copy has it, and it has not ended: try again.
    """
    for attempt in range(1, _CLAIMS + 1):
        found = await read_lease(store, run_id)
        if found is not None and found.epoch > epoch:
            raise _taken_by(run_id, found, epoch)
        if found is not None and found.epoch == epoch and not is_same_machine(machine, found.machine):
            if not is_same_copy(machine, found.machine):
                raise _taken_by(run_id, found, epoch)
            if found.is_live:
                raise LeaseHeldError(f"{found.owner} has renewed the lease of {run_id} {found.age_seconds:.0f} s ago.")
        try:
            return await take_lease(store, run_id, owner, after=found, epoch=epoch, machine=machine, status=status)
        except TakenError:
            if attempt == _CLAIMS:
                raise
    raise AssertionError


def _is_ours(found: S3Object, document: _LeaseDocument) -> bool:
    """Return whether an earlier write of this process took, whose answer was lost."""
    there = decoded(found.body, _LeaseDocument, _NAME)
    is_same = bool(document.machine) and (there.epoch, there.machine) == (document.epoch, document.machine)
    return is_same and there.nonce in _sent


def _taken(run_id: str, found: S3Object, epoch: int) -> ConflictError:
    return _taken_by(run_id, _lease_of(found, run_id), epoch)


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


def _document(epoch: int, owner: Operator, machine: str, seconds: float, status: RunStatus) -> _LeaseDocument:
    clock: Clock = SystemClock()
    return _LeaseDocument(epoch, owner, machine, format_rfc3339(clock.now()), seconds, secrets.token_hex(8), status)


def _lease_of(found: S3Object, run_id: str) -> StoreLease:
    document = decoded(found.body, _LeaseDocument, f"{run_id}/{_NAME}")
    return StoreLease(
        document.epoch,
        clean_owner(document.owner),
        found.modified_at,
        document.seconds,
        found.etag,
        age_seconds=found.age_seconds,
        machine=document.machine,
        status=_clean(document.status),
    )


def clean_owner(owner: Operator) -> Operator:
    """Return a person and machine, as a store names them, in printable form."""
    return Operator(one_line(owner.user), one_line(owner.host), one_line(owner.arn))


def _clean(status: RunStatus) -> RunStatus:
    """Return a state with its texts in printable form."""
    return replace(
        status,
        state=one_line(status.state),
        stage=one_line(status.stage),
        writer=one_line(status.writer),
        spent_usd=one_line(status.spent_usd),
        usd_per_hour=one_line(status.usd_per_hour),
        notes={one_line(stage): one_line(text) for stage, text in status.notes.items()},
        troubles={one_line(stage): one_line(text) for stage, text in status.troubles.items()},
    )

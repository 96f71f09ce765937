"""The protocol of a store: where other machines find a run, its lease and its objects.

A run on one machine knows nothing of others. Its store is the one place that all machines see: `s3.py` and
`kubernetes.py` are its drivers, and `archive.py` has one in memory. Every write is conditional on what was read, so of
two machines that write the same object one gets `PreconditionError`, or `LeaseConflictError` for the lease.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import Annotated, Protocol, TypeVar

import msgspec
from msgspec.structs import replace

from actions.base.decoding import decode_json
from actions.base.errors import ConfigError, ConflictError, FormatError, UnreachableError
from actions.base.executors import at_once
from actions.base.guard import guarded_by, require_guard
from actions.base.objects import MOST_OBJECT_BYTES, ListedObject, PreconditionError, StoredObject, WriteReceipt
from actions.base.untrusted import one_line
from actions.run.context.store_address import run_key
from actions.run.state.records import Operator

LATEST = 4e9
"""Seconds since the epoch: later times are damage."""
LEASE = "lease.json"
"""The name of a lease, below its run, where it is an object."""
MOST_LEASE_BYTES = 64 << 10
MOST_EPOCH = 1_000_000
"""Higher ones are damage: a Lease of a cluster has 31 bits for them."""
REMOVAL_ROUNDS = 20
"""Lists of a run that is removed: each may have what another process has written since the last one."""

T = TypeVar("T")


class RunAbout(msgspec.Struct, frozen=True, omit_defaults=True):
    """A run in a few words, as it was launched."""

    run_id: str
    title: str = ""
    blueprint_id: str = ""
    cluster: str = ""
    region: str = ""
    account: str = ""
    """Twelve digits; empty if it works in none."""
    created_at: float = 0.0
    """Seconds since the epoch, by the clock of the launch."""
    store: str = ""
    """The address of the store that names the run's owner, for who reads the lease in another place."""
    is_cost_simulated: bool = False
    """Its costs are those of the simulation."""


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
    nodes_usd_per_hour: str = ""
    """The part of it that nodes are."""
    notes: dict[str, str] = {}
    """Progress messages by stage id."""
    troubles: dict[str, str] = {}
    """Present trouble of pods by stage id."""


class LeaseDocument(msgspec.Struct, frozen=True):
    """The content of a lease. Foreign text, filtered when it is read (`lease_document`)."""

    epoch: Annotated[int, msgspec.Meta(ge=1, le=MOST_EPOCH)]
    """Counts the machines that have carried the run out; 1 for the one that launched it."""
    owner: Operator
    holder: str
    """The machine since its start (`actions.run.store.lease.this_holder`); empty after a takeover, before its runner
    has begun."""
    renewed_at: str
    """RFC 3339 in UTC, by the clock of the holder."""
    seconds: Annotated[float, msgspec.Meta(ge=0.0, le=86400.0)]
    """Time for which it holds since then; 0 if it was given back."""
    nonce: str
    """Unlike that of any other write."""
    status: RunStatus = RunStatus()
    about: RunAbout = RunAbout("")


class StoreLease(msgspec.Struct, frozen=True):
    """A lease as it was read or written last."""

    document: LeaseDocument
    tag: str
    """The condition of the next write; changes with each."""
    renewed_at: float
    """Seconds since the epoch, by the store's clock."""
    age_seconds: float = 0.0
    """Time since it was renewed, when it was read, by the store's clock."""

    @property
    def epoch(self) -> int:
        """See `LeaseDocument`."""
        return self.document.epoch

    @property
    def owner(self) -> Operator:
        """The operator and machine that carry the run out."""
        return self.document.owner

    @property
    def holder(self) -> str:
        """See `LeaseDocument`."""
        return self.document.holder

    @property
    def seconds(self) -> float:
        """See `LeaseDocument`."""
        return self.document.seconds

    @property
    def status(self) -> RunStatus:
        """The run's newest state."""
        return self.document.status

    @property
    def about(self) -> RunAbout:
        """The run in a few words."""
        return self.document.about

    @property
    def run_id(self) -> str:
        """The run's id."""
        return self.document.about.run_id

    @property
    def is_live(self) -> bool:
        """True if it held when it was read."""
        return self.seconds > 0 and self.age_seconds <= self.seconds


class TakenError(ConflictError):
    """Another machine carries the run out, by its store.

    Args:
        message: One sentence.
        epoch: Of that machine.
        owner: Its operator; `None` if the place that names the machine does not name one.
        hint: See `ConsoleError`.
    """

    def __init__(self, message: str, *, epoch: int, owner: Operator | None = None, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.epoch = epoch
        self.owner = owner


def taken_by_epoch(run_id: str, epoch: int) -> TakenError:
    """Return the error for a sign of a later epoch that does not name its machine."""
    hint = "Look at who has it: eksml-tui runs list --store."
    return TakenError(f"Another machine has taken over {run_id} meanwhile (epoch {epoch}).", epoch=epoch, hint=hint)


class LeaseConflictError(ConflictError):
    """A lease was not written: it is not the one that was read.

    Args:
        message: One sentence.
        found: The lease that is there; `None` if there is none any more.
    """

    def __init__(self, message: str, found: StoreLease | None) -> None:
        super().__init__(message)
        self.found = found


class DamagedError(FormatError):
    """A lease or an object of a store is not one that this program writes: its run's own machine may write it again.

    Args:
        message: One sentence.
        etag: Of what is there: the condition of the write that replaces it.
        epoch: That it shows all the same; 0 if it shows none, and none of damage.
    """

    def __init__(self, message: str, etag: str, *, epoch: int = 0) -> None:
        super().__init__(message)
        self.etag = etag
        self.epoch = epoch if 1 <= epoch <= MOST_EPOCH else 0

    def lease(self, owner: Operator, epoch: int) -> StoreLease:
        """Return a stand-in for a damaged lease, to be written over: no sign of a machine, so its age has no end."""
        return StoreLease(LeaseDocument(epoch, owner, "", "", 0.0, ""), self.etag, 0.0, math.inf)


class RunStore(Protocol):
    """One store. Names of objects are `runs/RUN_ID/…`. Every call may raise these, each for another remedy:

    `UnreachableError` (no answer), `AccessError` (credentials, a permission), `MissingError` (the bucket or namespace
    is not there), `RefusedError` (any other refusal, or this process is read-only), `ConfigError` (profile, folder),
    `FormatError` (what is there is damaged, or too large), and of this `DamagedError` for what may be written again.
    """

    @property
    def address(self) -> str:
        """The place, for sentences: `s3://team/ml`."""
        ...

    @property
    def takes_output(self) -> bool:
        """True if what containers print is kept here, too."""
        ...

    @property
    def most_bytes(self) -> int:
        """Limit of one object."""
        ...

    async def run_ids(self) -> list[str]:
        """Return the ids of all runs of which the store has anything, sorted."""
        ...

    async def lease(self, run_id: str) -> StoreLease | None:
        """Return the lease of a run; `None` if there is certainly none."""
        ...

    async def put_lease(self, run_id: str, document: LeaseDocument, *, after: StoreLease | None) -> StoreLease:
        """Write a lease over the one that was read; with `None`, the first one.

        Success, too, if this document is there already: its answer was lost.

        Raises:
            LeaseConflictError: Another one is there, or none any more.
        """
        ...

    async def get(self, name: str, *, limit_bytes: int = MOST_OBJECT_BYTES) -> StoredObject | None:
        """Return an object; `None` if there is none."""
        ...

    async def put_if_absent(self, name: str, data: bytes) -> WriteReceipt:
        """Create an object, or find one of the same bytes. `PreconditionError`: there is another one."""
        ...

    async def replace(self, name: str, data: bytes, *, etag: str) -> WriteReceipt:
        """Replace the object that has this etag. `PreconditionError`: it is another one, or gone."""
        ...

    async def objects(self, prefix: str) -> list[ListedObject]:
        """Return the objects whose names begin with `prefix`, which names a run, sorted; without its lease.

        States of Terraform are left out for a user who may not list them, unless the prefix names their folder.
        """
        ...

    async def delete(self, name: str) -> None:
        """Delete an object; one that does not exist is deleted."""
        ...

    async def remove_run(self, run_id: str) -> None:
        """Delete everything of a run, its lease last."""
        ...

    def close(self) -> None:
        """Take no more calls."""
        ...


class ObjectStore(ABC):
    """A store in which a lease is an object as well; its driver has the objects.

    Each write consults the guard (`actions.base.guard`), but that of a lease: its conditions are the fence.
    """

    address: str
    takes_output = True
    most_bytes = MOST_OBJECT_BYTES

    async def lease(self, run_id: str) -> StoreLease | None:
        found = await self.get(run_key(run_id, LEASE), limit_bytes=MOST_LEASE_BYTES)
        return None if found is None else lease_in(found, run_id)

    async def put_lease(self, run_id: str, document: LeaseDocument, *, after: StoreLease | None) -> StoreLease:
        name, data = run_key(run_id, LEASE), lease_bytes(document)
        try:
            with guarded_by(None):
                if after is None:
                    receipt = await self.put_if_absent(name, data)
                else:
                    receipt = await self.replace(name, data, etag=after.tag)
        except PreconditionError as error:
            found = None if error.found is None else lease_in(error.found, run_id)
            raise LeaseConflictError(f"The lease of {run_id} in {self.address} is another one.", found) from error
        return StoreLease(lease_document(data, run_id), receipt.etag, receipt.at)

    async def put_if_absent(self, name: str, data: bytes) -> WriteReceipt:
        await require_guard(f"PUT {name}", in_store=True)
        return await self._put(name, data, etag="")

    async def replace(self, name: str, data: bytes, *, etag: str) -> WriteReceipt:
        await require_guard(f"PUT {name}", in_store=True)
        return await self._put(name, data, etag=etag)

    async def delete(self, name: str) -> None:
        await require_guard(f"DELETE {name}", in_store=True)
        await self._delete(name)

    async def remove_run(self, run_id: str) -> None:
        for _ in range(REMOVAL_ROUNDS):
            listed = await self.objects(run_key(run_id))
            if not listed:
                await self.delete(run_key(run_id, LEASE))
                return
            await at_once([item.key for item in listed], self.delete)
        raise UnreachableError(f"{self.address} gets new objects of {run_id} while it is removed there.")

    @abstractmethod
    async def run_ids(self) -> list[str]: ...

    @abstractmethod
    async def get(self, name: str, *, limit_bytes: int = MOST_OBJECT_BYTES) -> StoredObject | None: ...

    @abstractmethod
    async def objects(self, prefix: str) -> list[ListedObject]: ...

    @abstractmethod
    async def _put(self, name: str, data: bytes, *, etag: str) -> WriteReceipt:
        """Write over the object that has this etag; without one, create it."""

    @abstractmethod
    async def _delete(self, name: str) -> None: ...


def decoded(data: bytes, kind: type[T], name: str) -> T:
    """Return the content of a JSON object of a store, which is foreign text.

    Raises:
        FormatError: It is something else.
    """
    try:
        return decode_json(data, kind)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise FormatError(f"{name} in the store is damaged: {error}.") from error


def run_id_in(name: str) -> str:
    """Return the id of the run whose object, or prefix of objects, this names.

    Raises:
        ConfigError: It names no run.
    """
    parts = name.split("/")
    if len(parts) < 3 or parts[0] != "runs" or not run_key(parts[1]):
        raise ConfigError(f"{one_line(name)!r} is not an object of a run.")
    return parts[1]


def is_state(name: str) -> bool:
    """Return whether an object is the state of a stage of Terraform, `runs/RUN_ID/terraform/STAGE.tfstate`."""
    return name.split("/")[2:3] == ["terraform"]


def lease_bytes(document: LeaseDocument) -> bytes:
    """Return a lease as stores keep it: without messages, if they are too long."""
    data = msgspec.json.encode(document)
    if len(data) <= MOST_LEASE_BYTES:
        return data
    return msgspec.json.encode(replace(document, status=replace(document.status, notes={}, troubles={})))


def lease_document(data: bytes, run_id: str) -> LeaseDocument:
    """Return a lease that a store has, with its texts in printable form.

    Raises:
        FormatError: It is something else, or too large.
    """
    if len(data) > MOST_LEASE_BYTES:
        raise FormatError(f"The lease of {run_id} has more than {MOST_LEASE_BYTES} bytes.")
    document = decoded(data, LeaseDocument, f"The lease of {one_line(run_id)}")
    return replace(
        document,
        owner=clean_owner(document.owner),
        holder=one_line(document.holder),
        renewed_at=one_line(document.renewed_at),
        nonce=one_line(document.nonce),
        status=_clean_status(document.status),
        about=_clean_about(document.about, run_id),
    )


def lease_in(found: StoredObject, run_id: str) -> StoreLease:
    """Return the lease in an object.

    Raises:
        DamagedError: It is something else.
    """
    try:
        document = lease_document(found.body, run_id)
    except FormatError as error:
        raise DamagedError(error.message, found.etag, epoch=_epoch_shown(found.body)) from error
    return StoreLease(document, found.etag, found.modified_at, found.age_seconds)


class _Numbered(msgspec.Struct):
    """The part of a lease that counts also where the rest is damage, or of a later version."""

    epoch: int


def _epoch_shown(body: bytes) -> int:
    try:
        return decode_json(body, _Numbered).epoch
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return 0


def clean_owner(owner: Operator) -> Operator:
    """Return a person and machine, as a store names them, in printable form."""
    return Operator(one_line(owner.user), one_line(owner.host), one_line(owner.arn))


def _clean_status(status: RunStatus) -> RunStatus:
    return replace(
        status,
        state=one_line(status.state),
        stage=one_line(status.stage),
        writer=one_line(status.writer),
        spent_usd=one_line(status.spent_usd),
        usd_per_hour=one_line(status.usd_per_hour),
        nodes_usd_per_hour=one_line(status.nodes_usd_per_hour),
        notes={one_line(stage): one_line(text) for stage, text in status.notes.items()},
        troubles={one_line(stage): one_line(text) for stage, text in status.troubles.items()},
    )


def _clean_about(about: RunAbout, run_id: str) -> RunAbout:
    return RunAbout(
        run_id,
        one_line(about.title),
        one_line(about.blueprint_id),
        one_line(about.cluster),
        one_line(about.region),
        one_line(about.account),
        about.created_at if 0 <= about.created_at < LATEST else 0.0,
        one_line(about.store),
        about.is_cost_simulated,
    )

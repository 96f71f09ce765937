"""The runs of a store, and what is written of a run at its launch."""

from __future__ import annotations

import msgspec

from actions.base.clock import Clock, SystemClock
from actions.base.errors import ConfigError, ConflictError, ConsoleError, FormatError
from actions.base.untrusted import one_line
from actions.run.context.operator import present_operator
from actions.run.context.store_address import run_key
from actions.run.state.records import Created, Operator
from actions.run.store.lease import about_launch, take_lease
from actions.run.store.objects import RunStore, StoreLease, TakenError
from actions.run.store.s3 import LEASE


class StoredRun(msgspec.Struct, frozen=True):
    """One run of a store."""

    id: str
    lease: StoreLease | None = None
    error: str = ""
    """The reason why it cannot be read; empty otherwise."""

    @property
    def title(self) -> str:
        """Of its blueprint."""
        return self.lease.about.title if self.lease else ""

    @property
    def blueprint_id(self) -> str:
        """Of its blueprint."""
        return self.lease.about.blueprint_id if self.lease else ""

    @property
    def cluster(self) -> str:
        """The name of its cluster."""
        return self.lease.about.cluster if self.lease else ""

    @property
    def region(self) -> str:
        """Of its cluster."""
        return self.lease.about.region if self.lease else ""

    @property
    def account(self) -> str:
        """See `RunAbout`."""
        return self.lease.about.account if self.lease else ""

    @property
    def created_at(self) -> float:
        """Seconds since the epoch; 0 if it is not known."""
        return self.lease.about.created_at if self.lease else 0.0

    @property
    def owner(self) -> Operator | None:
        """The operator who carries it out; before there is one, the one who launched it."""
        return self.lease.owner if self.lease else None

    @property
    def state(self) -> str:
        """The newest state in words, a value of `RunState`; empty if no runner has written one."""
        return self.lease.status.state if self.lease else ""


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


async def list_store(store: RunStore) -> list[StoredRun]:
    """Return the runs of a store, newest first. One that is damaged is listed with the reason.

    Raises:
        ConsoleError: As `RunStore`.
    """
    leases, unread = await store.leases()
    runs = [
        *(StoredRun(lease.run_id, lease) for lease in leases),
        *(StoredRun(run_id, error=sentence) for run_id, sentence in unread.items()),
    ]
    return sorted(runs, key=lambda run: (run.created_at, run.id), reverse=True)


async def read_stored_run(store: RunStore, run_id: str) -> StoredRun:
    """Return one run of a store; a damaged one with the reason.

    Raises:
        ConsoleError: As `RunStore`.
    """
    try:
        return StoredRun(run_id, await store.lease(run_id))
    except (FormatError, ConfigError) as error:
        return StoredRun(one_line(run_id), error=one_line(error.message))

"""The runs of a store, and what is written of a run at its launch."""

from __future__ import annotations

import msgspec

from actions.base.clock import Clock, SystemClock
from actions.base.errors import ConfigError, ConflictError, ConsoleError, FormatError
from actions.base.untrusted import one_line
from actions.cloud.s3 import PreconditionError
from actions.run.context.store_address import run_key
from actions.run.state.records import Created, Operator
from actions.run.store.lease import StoreLease, clean_owner, read_lease
from actions.run.store.objects import RunStore, decoded
from actions.run.store.rows import LATEST, at_once

_NAME = "about.json"
_MOST_BYTES = 64 << 10


class StoredAbout(msgspec.Struct, frozen=True):
    """The content of `about.json`: the run as it was launched."""

    run_id: str
    title: str
    blueprint_id: str
    cluster: str
    region: str
    created_at: float
    """Seconds since the epoch, by the clock of the launch."""
    owner: Operator | None = None
    account: str = ""


class StoredRun(msgspec.Struct, frozen=True):
    """One run of a store."""

    id: str
    title: str = ""
    blueprint_id: str = ""
    cluster: str = ""
    region: str = ""
    account: str = ""
    created_at: float = 0.0
    """Seconds since the epoch."""
    owner: Operator | None = None
    """The operator who carries it out; before there is one, the one who launched it."""
    lease: StoreLease | None = None
    error: str = ""
    """The reason why it cannot be read; empty otherwise."""

    @property
    def state(self) -> str:
        """The newest state in words, a value of `RunState`; empty if no runner has written one."""
        return self.lease.status.state if self.lease else ""


async def announce_run(store: RunStore, created: Created, *, clock: Clock | None = None) -> None:
    """Write `about.json`, and make sure that the store is fit: it takes an object, and refuses to replace it.

    Raises:
        ConfigError: The store ignores the condition of a write: two machines could write the same run.
        ConflictError: The store has a run of this id.
        ConsoleError: As `S3Bucket`: no bucket, no access, no answer.
    """
    name = run_key(created.run_id, _NAME)
    about = StoredAbout(
        created.run_id,
        created.title,
        created.blueprint_id,
        created.cluster.name,
        created.cluster.region,
        (clock or SystemClock()).now().timestamp(),
        created.owner,
        created.account.id if created.account else "",
    )
    data = msgspec.json.encode(about)
    try:
        await store.put_if_absent(name, data)
    except PreconditionError as error:
        raise ConflictError(f"{store.address} has a run {created.run_id} already.") from error
    try:
        await store.put_if_absent(name, data + b"\n")
    except PreconditionError:
        return
    except BaseException as error:
        await withdraw_announced(store, created.run_id, error)
        raise
    await store.delete(name)
    raise ConfigError(
        f"{store.address} cannot be a store: its store replaces an object that a write must not replace.",
        hint="Use a store with conditional writes, such as Amazon S3.",
    )


async def withdraw_announced(store: RunStore, run_id: str, error: BaseException) -> None:
    """Remove `about.json` of a run that was not created after all; if that fails, too, name it in the error's hint."""
    name = run_key(run_id, _NAME)
    try:
        await store.delete(name)
    except ConsoleError:
        if isinstance(error, ConsoleError):
            place = f"{store.address}/{name}"
            error.hint = (
                f"{error.hint} Nothing was launched, but the store lists {run_id} until `aws s3 rm {place}`.".strip()
            )


async def list_store(store: RunStore) -> list[StoredRun]:
    """Return the runs of a store, newest first. One that is damaged is listed with the reason.

    Raises:
        ConsoleError: As `S3Bucket`.
    """
    names = await store.folders("runs/")
    runs = await at_once(names, lambda name: read_stored_run(store, name))
    return sorted(runs, key=lambda run: (run.created_at, run.id), reverse=True)


async def read_stored_run(store: RunStore, name: str) -> StoredRun:
    """Return one run of a store; a damaged one with the reason.

    Raises:
        ConsoleError: As `S3Bucket`.
    """
    try:
        found = await store.get(run_key(name, _NAME), limit_bytes=_MOST_BYTES)
        lease = await read_lease(store, name)
        about = decoded(found.body, StoredAbout, f"{name}/{_NAME}") if found else None
    except (FormatError, ConfigError) as error:
        return StoredRun(one_line(name), error=one_line(error.message))
    if about is None:
        return StoredRun(name, owner=lease.owner if lease else None, lease=lease)
    return StoredRun(
        name,
        one_line(about.title),
        one_line(about.blueprint_id),
        one_line(about.cluster),
        one_line(about.region),
        one_line(about.account),
        about.created_at if 0 <= about.created_at < LATEST else 0.0,
        lease.owner if lease else about.owner and clean_owner(about.owner),
        lease,
    )

"""A Terraform state file, without its values, which may be secrets; and the holder of the lock on it.

Source: state format version 4, Terraform 0.12 to 1.14.
"""

from __future__ import annotations

import math
import os
import pwd
import re
import socket
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec

from actions.base.decoding import decode_json
from actions.base.errors import FormatError
from actions.base.untrusted import one_line

_VERSION = 4


class _Instance(msgspec.Struct):
    index_key: Any = None
    deposed: str = ""


class _StateResource(msgspec.Struct):
    mode: str
    type: str
    name: str
    module: str = ""
    instances: list[_Instance] = []


class _StateDocument(msgspec.Struct):
    version: int
    serial: int
    lineage: str
    resources: list[_StateResource] = []


class StateFile(msgspec.Struct, frozen=True):
    """The header of a state, and the addresses in it."""

    lineage: str
    serial: int
    addresses: tuple[str, ...]
    """Addresses of the objects that it tracks, without deposed ones."""
    read_only: frozenset[str] = frozenset()
    """Those of them that are data sources."""
    deposed: tuple[str, ...] = ()
    """Addresses of objects that were to be replaced and are not destroyed yet."""

    @property
    def managed(self) -> tuple[str, ...]:
        """Addresses of the resources that Terraform has made or imported."""
        return tuple(address for address in self.addresses if address not in self.read_only)

    @property
    def everything(self) -> tuple[str, ...]:
        """Each address once, as `terraform state list` prints them: deposed objects, too."""
        return tuple(dict.fromkeys((*self.addresses, *self.deposed)))

    @property
    def exists(self) -> bool:
        """True if there is a state at all: Terraform has saved one, be it empty."""
        return bool(self.lineage or self.addresses or self.deposed)


EMPTY_STATE = StateFile("", -1, ())


def read_state(data: bytes) -> StateFile:
    """Read a state; empty data is the state of a root that was never applied.

    Raises:
        FormatError: It is not a state.
    """
    if not data.strip():
        return EMPTY_STATE
    try:
        state = decode_json(data, _StateDocument)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise FormatError("The Terraform state cannot be read.", hint="Use Terraform 1.5 to 1.14.") from error
    if state.version != _VERSION:
        raise FormatError(f"The Terraform state has version {state.version}, which is not supported.")
    found = {
        _address(resource, instance): resource.mode
        for resource in state.resources
        for instance in resource.instances
        if not instance.deposed
    }
    read_only = frozenset(address for address, mode in found.items() if mode == "data")
    deposed = dict.fromkeys(
        _address(resource, instance)
        for resource in state.resources
        for instance in resource.instances
        if instance.deposed
    )
    return StateFile(one_line(state.lineage), state.serial, tuple(found), read_only, tuple(deposed))


def _address(resource: _StateResource, instance: _Instance) -> str:
    """Return an address as Terraform writes it: `module.eks.aws_subnet.this["a"]`."""
    mode = "data." if resource.mode == "data" else ""
    module = f"{resource.module}." if resource.module else ""
    key = "" if instance.index_key is None else f"[{_key(instance.index_key)}]"
    return one_line(f"{module}{mode}{resource.type}.{resource.name}{key}")


def _key(value: Any) -> str:
    if isinstance(value, int | float):
        return f"{value:g}"
    return msgspec.json.encode(str(value)).decode().replace("${", "$${").replace("%{", "%%{")


_FIELD = re.compile(r"^[│\s]*(ID|Who|Created|Operation):\s*(\S.*?)\s*$", re.M)
_HOLDER = re.compile(r"already locked: ID=([\w-]+)")
_CREATED = re.compile(r"(\d{4}-\d\d-\d\d)[ T](\d\d:\d\d:\d\d(?:\.\d{1,6})?)\d*(?: ?\+0000| ?Z| UTC|$)")
_OPERATIONS = {"OperationTypePlan": "plan", "OperationTypeApply": "apply"}
"""Our names of Terraform's operations; a destroy is an apply, too."""


class StateLock(msgspec.Struct, frozen=True):
    """A lock as Terraform describes it. Unknown fields are empty."""

    id: str = ""
    who: str = ""
    """`user@host`."""
    created: str = ""
    operation: str = ""

    @property
    def created_at(self) -> float | None:
        """Seconds since the epoch; `None` if the text is not a time."""
        match = _CREATED.match(self.created)
        if match is None:
            return None
        try:
            return datetime.fromisoformat(f"{match[1]}T{match[2]}").replace(tzinfo=UTC).timestamp()
        except ValueError:
            return None


class DeadHolder(msgspec.Struct, frozen=True):
    """A Terraform process of this machine that has ended, and may have left its state's lock."""

    operation: str
    began_at: float
    worked_at: float
    """Time of its first event about a change, at which it held the lock; before `began_at` if there was none."""
    lock_ids: tuple[str, ...] = ()
    """Ids of the locks that it has asked for, as far as it has logged them."""


def ended_holder(operation: str, lock_ids: tuple[str, ...]) -> DeadHolder:
    """Return a process that has ended, and of which nothing but the locks that it has asked for is known."""
    return DeadHolder(operation, 0.0, -1.0, lock_ids)


def read_lock(text: str) -> StateLock:
    """Read the lock in an error's text: the same lines for local, S3 and DynamoDB backends.

    The http backend names the holder's id before them; its lines describe the lock that was refused.

    Source: Terraform 1.11.4, recorded.
    """
    found = dict(_FIELD.findall(text))
    holder = _HOLDER.search(text)
    if holder is not None and holder[1] != found.get("ID"):
        return StateLock(holder[1])
    return StateLock(found.get("ID", ""), found.get("Who", ""), found.get("Created", ""), found.get("Operation", ""))


def is_of_the_dead(lock: StateLock, dead: Sequence[DeadHolder], *, user: str = "", host: str = "") -> bool:
    """Return whether the lock was taken by one of our own processes, which has died with it.

    One with an id that a process of ours has made is that process' own. Without its log: a state has one lock at a
    time; one in our name, created between the start of a process of ours and that process' first event about a change,
    is that process' own, as it could not have worked without it.

    Args:
        lock: As described by the backend.
        dead: Our processes that have died without releasing their lock.
        user: Of this process by default.
        host: This machine's name by default.
    """
    created = lock.created_at
    if lock.id and any(lock.id in holder.lock_ids for holder in dead):
        return True
    if not lock.id or created is None or lock.who != f"{user or _user()}@{host or socket.gethostname()}":
        return False
    return any(
        holder.began_at <= created <= holder.worked_at
        and _OPERATIONS.get(lock.operation) == ("plan" if holder.operation == "plan" else "apply")
        for holder in dead
    )


class GoneHolder(msgspec.Struct, frozen=True):
    """A machine that no longer exists, as an operator stated."""

    who: str
    """`user@host`."""
    gone_at: float
    """Seconds since the epoch: what it has locked is older."""
    since: float = 0.0
    """Seconds since the epoch: what it has locked is not older than this."""


def is_of_the_gone(lock: StateLock, gone: Iterable[GoneHolder]) -> bool:
    """Return whether the lock was taken by a machine that is gone, before that was stated.

    Of the name the host alone is compared: Terraform names the user by the uid, and an operator's name may come from
    `LOGNAME`. Two machines may have one host name. So the time counts, too: a lock from before the machine had the run
    is that of another one, which may be alive.
    """
    created = lock.created_at
    return bool(lock.id) and any(
        created is not None
        and _host(lock.who) == _host(machine.who) != ""
        and math.floor(machine.since) <= created < machine.gone_at
        for machine in gone
    )


def reason_to_unlock(lock: StateLock, dead: Sequence[DeadHolder], gone: Iterable[GoneHolder]) -> str:
    """Return why the holder of a lock is certainly dead, as a clause; empty if that is not known.

    Args:
        lock: As described by the backend.
        dead: Our processes that have died without releasing their lock.
        gone: Machines that do not exist any more.
    """
    if is_of_the_dead(lock, dead):
        return "that process is dead"
    return f"{lock.who} does not exist any more" if is_of_the_gone(lock, gone) else ""


def _host(who: str) -> str:
    return who.rpartition("@")[2]


def _user() -> str:
    """Return the name of this process' user as Terraform does: by its uid, not by `LOGNAME`, which su may leave."""
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return os.environ.get("USER", "")

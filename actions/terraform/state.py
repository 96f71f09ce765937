"""A Terraform state file, without its values, which may be secrets; and the holder of the lock on it.

Source: state format version 4, Terraform 0.12 to 1.14.
"""

from __future__ import annotations

import getpass
import re
import socket
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

import msgspec

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

    @property
    def managed(self) -> tuple[str, ...]:
        """Addresses of the resources that Terraform has made or imported."""
        return tuple(address for address in self.addresses if address not in self.read_only)


EMPTY_STATE = StateFile("", -1, ())


def read_state(data: bytes) -> StateFile:
    """Read a state; empty data is the state of a root that was never applied.

    Raises:
        FormatError: It is not a state.
    """
    if not data.strip():
        return EMPTY_STATE
    try:
        state = msgspec.json.decode(data, type=_StateDocument)
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
    return StateFile(one_line(state.lineage), state.serial, tuple(found), read_only)


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


_FIELD = re.compile(r"^\s*(ID|Who|Created|Operation):\s*(\S.*?)\s*$", re.M)
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
    """A Terraform process of this machine that died while it held its state's lock."""

    operation: str
    began_at: float
    worked_at: float
    """Time of its first event about a change, at which it held the lock."""


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


def is_of_the_dead(lock: StateLock, dead: Iterable[DeadHolder], *, user: str = "", host: str = "") -> bool:
    """Return whether the lock was taken by one of our own processes, which has died with it.

    A state has one lock at a time. One in our name, created between the start of a process of ours and that process'
    first event about a change, is that process' own: it could not have worked without it.

    Args:
        lock: As described by the backend.
        dead: Our processes that have died without releasing their lock.
        user: Of this process by default.
        host: This machine's name by default.
    """
    created = lock.created_at
    if not lock.id or created is None or lock.who != f"{user or _user()}@{host or socket.gethostname()}":
        return False
    return any(
        holder.began_at <= created <= holder.worked_at
        and _OPERATIONS.get(lock.operation) == ("plan" if holder.operation == "plan" else "apply")
        for holder in dead
    )


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return ""

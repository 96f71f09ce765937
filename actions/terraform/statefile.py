"""A Terraform state as a file: whose it is, how old, and what it tracks. Values are not kept: they may be secrets.

Source: state format version 4, Terraform 0.12 to 1.14.
"""

from __future__ import annotations

from typing import Any

import msgspec

from actions.base.errors import FormatError
from actions.base.untrusted import one_line

_VERSION = 4


class _Instance(msgspec.Struct):
    index_key: Any = None
    deposed: str = ""


class _Resource(msgspec.Struct):
    mode: str
    type: str
    name: str
    module: str = ""
    instances: list[_Instance] = []


class _State(msgspec.Struct):
    version: int
    serial: int
    lineage: str
    resources: list[_Resource] = []


class StateFile(msgspec.Struct, frozen=True):
    """The head of a state, and the addresses in it."""

    lineage: str
    serial: int
    addresses: tuple[str, ...]
    """Of the objects that it tracks. One that is to be replaced and only waits for its end is not among them."""


EMPTY_STATE = StateFile("", -1, ())


def read_state(data: bytes) -> StateFile:
    """Read a state; no bytes at all are the state of a root that was never applied.

    Raises:
        FormatError: It is something else.
    """
    if not data.strip():
        return EMPTY_STATE
    try:
        state = msgspec.json.decode(data, type=_State)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise FormatError("The Terraform state cannot be read.", hint="Use Terraform 1.5 to 1.14.") from error
    if state.version != _VERSION:
        raise FormatError(f"The Terraform state has version {state.version}, which is not known.")
    found = [
        _address(resource, instance)
        for resource in state.resources
        for instance in resource.instances
        if not instance.deposed
    ]
    return StateFile(one_line(state.lineage), state.serial, tuple(found))


def _address(resource: _Resource, instance: _Instance) -> str:
    """As Terraform writes it: `module.eks.aws_subnet.this["a"]`."""
    mode = "data." if resource.mode == "data" else ""
    module = f"{resource.module}." if resource.module else ""
    key = "" if instance.index_key is None else f"[{_key(instance.index_key)}]"
    return one_line(f"{module}{mode}{resource.type}.{resource.name}{key}")


def _key(value: Any) -> str:
    if isinstance(value, int | float):
        return f"{value:g}"
    return msgspec.json.encode(str(value)).decode().replace("${", "$${").replace("%{", "%%{")

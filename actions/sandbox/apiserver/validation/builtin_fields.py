"""The fields that built-in types have, and of which types they are.

Source: `fields.json`, drawn from the models of the Kubernetes Python client 37.0.1, which are
generated from the server's OpenAPI document. Quantities and int-or-string fields are `any` there.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from actions.base.decoding import decode_json
from actions.base.files import read_file
from actions.sandbox.apiserver.storage.codec import Object
from actions.sandbox.apiserver.storage.resources import ServedResource

_LIST, _MAP = "[]", "{}"
_SCALARS: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int, float),
    "number": (int, float),
    "boolean": (bool,),
}


class _FieldTable(msgspec.Struct, frozen=True):
    """`roots` leads from a kind to its type, `types` from a type to its fields: name and type code."""

    roots: dict[str, str]
    types: dict[str, dict[str, str]]


class WrongType(NamedTuple):
    """A value that is of another type than its field."""

    path: str
    found: str
    expected: str


@cache
def _table() -> _FieldTable:
    return decode_json(read_file(Path(__file__).with_name("fields.json")), _FieldTable)


def root_of(kind: str) -> str:
    """The name of a kind's type, empty if its fields are not known."""
    return _table().roots.get(kind, "")


def fields_of(type_name: str) -> dict[str, str]:
    """Return the fields of a type with their type codes; none for a name that is not a type with fields."""
    return _table().types.get(type_name, {})


def prune_builtin(resource: ServedResource, body: Object) -> list[str]:
    """Remove what the type does not have, in place, and return the paths of what was removed."""
    root = _table().roots.get(resource.kind)
    return list(_prune(body, root, "")) if root else []


def _prune(value: Any, code: str, path: str) -> Iterator[str]:
    if code.startswith(_LIST) and isinstance(value, list):
        for place, item in enumerate(value):
            yield from _prune(item, code[2:], f"{path}[{place}]")
    elif code.startswith(_MAP) and isinstance(value, dict):
        for name, inner in value.items():
            yield from _prune(inner, code[2:], f"{path}[{name}]")
    elif isinstance(value, dict) and (known := _table().types.get(code)):
        for name in list(value):
            here = f"{path}.{name}" if path else name
            if name in known:
                yield from _prune(value[name], known[name], here)
            else:
                del value[name]
                yield here


def wrong_type(resource: ServedResource, body: Object) -> WrongType | None:
    """The first value that cannot be read as its field's type, or `None`."""
    root = _table().roots.get(resource.kind)
    return next(_wrong(body, root, ""), None) if root else None


def _wrong(value: Any, code: str, path: str) -> Iterator[WrongType]:
    if value is None or code == "any":
        return
    if code in _SCALARS:
        if not _is_scalar(value, code):
            yield WrongType(path, _name_of(value), code)
    elif code.startswith(_LIST):
        if not isinstance(value, list):
            yield WrongType(path, _name_of(value), "array")
            return
        for place, item in enumerate(value):
            yield from _wrong(item, code[2:], f"{path}[{place}]")
    elif not isinstance(value, dict):
        yield WrongType(path, _name_of(value), "object")
    else:
        known = _table().types.get(code, {})
        for name, inner in value.items():
            inner_code = code[2:] if code.startswith(_MAP) else known.get(name, "any")
            yield from _wrong(inner, inner_code, f"{path}.{name}" if path else name)


def _is_scalar(value: object, code: str) -> bool:
    if isinstance(value, bool):
        return code == "boolean"
    if isinstance(value, float) and code == "integer":
        return value.is_integer()
    return isinstance(value, _SCALARS[code])


def _name_of(value: object) -> str:
    match value:
        case bool():
            return "bool"
        case int() | float():
            return "number"
        case str():
            return "string"
        case list():
            return "array"
    return "object"

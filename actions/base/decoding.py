"""Read JSON, MessagePack and plain values into types, from any thread, and write JSON documents.

msgspec 0.22 marks a structure as known before it knows its fields: where two threads use one for the first time at
once, the second reads a field that has no type yet, and the process ends by SIGSEGV. So the meaning of a type is found
here alone, by one thread at a time and before the type is used. It is kept, which spares finding it at every call.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from threading import RLock
from typing import TYPE_CHECKING, Any, TypeVar, overload

import msgspec

if TYPE_CHECKING:
    from typing_extensions import Buffer

T = TypeVar("T")

_resolving = RLock()


@overload
def json_decoder(kind: type[T]) -> msgspec.json.Decoder[T]: ...
@overload
def json_decoder(kind: Any) -> msgspec.json.Decoder[Any]: ...
def json_decoder(kind: Any) -> msgspec.json.Decoder[Any]:
    """Return the reader of JSON for a type; one for the whole process, which threads may share."""
    return _json_decoder(kind)


@cache
def _json_decoder(kind: Any) -> msgspec.json.Decoder[Any]:
    with _resolving:
        return msgspec.json.Decoder(kind, dec_hook=_known)


def _known(kind: type[Any], value: Any) -> Any:
    """Return a value of a type that JSON does not have: a path."""
    if kind is Path and isinstance(value, str):
        return Path(value)
    if isinstance(value, kind):
        return value
    raise TypeError(f"Expected `{kind.__name__}`, got `{type(value).__name__}`")


@overload
def msgpack_decoder(kind: type[T]) -> msgspec.msgpack.Decoder[T]: ...
@overload
def msgpack_decoder(kind: Any) -> msgspec.msgpack.Decoder[Any]: ...
def msgpack_decoder(kind: Any) -> msgspec.msgpack.Decoder[Any]:
    """Return the reader of MessagePack for a type; one for the whole process, which threads may share."""
    return _msgpack_decoder(kind)


@cache
def _msgpack_decoder(kind: Any) -> msgspec.msgpack.Decoder[Any]:
    with _resolving:
        return msgspec.msgpack.Decoder(kind)


@overload
def decode_json(data: Buffer | str, kind: type[T]) -> T: ...
@overload
def decode_json(data: Buffer | str, kind: Any) -> Any: ...
def decode_json(data: Buffer | str, kind: Any) -> Any:
    """Return what a JSON text says, as a value of this type.

    Raises:
        msgspec.DecodeError: It is not JSON; as msgspec.ValidationError, where it is not of the type.
    """
    return json_decoder(kind).decode(data)


@overload
def decode_msgpack(data: Buffer, kind: type[T]) -> T: ...
@overload
def decode_msgpack(data: Buffer, kind: Any) -> Any: ...
def decode_msgpack(data: Buffer, kind: Any) -> Any:
    """Return what a MessagePack value says, as a value of this type.

    Raises:
        msgspec.DecodeError: It is not MessagePack; as msgspec.ValidationError, where it is not of the type.
    """
    return msgpack_decoder(kind).decode(data)


@overload
def convert(
    value: object, kind: type[T], *, strict: bool = True, dec_hook: Callable[[Any, Any], Any] | None = None
) -> T: ...
@overload
def convert(
    value: object, kind: Any, *, strict: bool = True, dec_hook: Callable[[Any, Any], Any] | None = None
) -> Any: ...
def convert(value: object, kind: Any, *, strict: bool = True, dec_hook: Callable[[Any, Any], Any] | None = None) -> Any:
    """Return a value of plain dictionaries and lists as a value of this type.

    Args:
        value: The plain value.
        kind: The type.
        strict: Whether texts are not taken for numbers.
        dec_hook: Called as `dec_hook(type, value)` for types that msgspec does not know.

    Raises:
        msgspec.ValidationError: It is not of the type.
    """
    json_decoder(kind)
    return msgspec.convert(value, kind, strict=strict, dec_hook=dec_hook)


def json_document(value: object) -> str:
    """Return a value as the JSON document that a command prints: indented, with a line end."""
    return msgspec.json.format(msgspec.json.encode(value), indent=2).decode() + "\n"

"""Bodies of requests and responses: JSON, YAML, and the protobuf that `kubectl create KIND NAME` sends.

Source: k8s.io/apimachinery 0.34 `runtime.Unknown` (the envelope); `protobuf.json`, drawn from the
`generated.proto` and Go types of k8s.io/api 0.34.4. There, each field of a message has its JSON name and a code: `s`
text, `i` whole number, `d` number, `b` flag, `y` bytes, a special form, or a message; before it `[]` for a list, `{}`
for a map, `^` for a message whose fields JSON has in its parent; after it `?` for a field that is a pointer in Go, and
so is there also when it is zero.
"""

from __future__ import annotations

import base64
import struct
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
from aiohttp import web

from actions.base.clock import format_rfc3339
from actions.base.decoding import decode_json
from actions.base.errors import InputError
from actions.base.files import read_file
from actions.base.yamldoc import load_document
from actions.sandbox.apiserver.storage.codec import Object, decode, encode
from actions.sandbox.apiserver.storage.errors import StatusError, bad_request, unsupported_media_type

_MAGIC = b"k8s\x00"
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_WIDTHS = {_FIXED64: 8, _FIXED32: 4}
_BROKEN = (IndexError, UnicodeDecodeError, msgspec.DecodeError, struct.error, OverflowError)


class _MessageTable(msgspec.Struct, frozen=True):
    """`roots` leads from `VERSION KIND` to a message, `messages` from there to its fields by number."""

    roots: dict[str, str]
    messages: dict[str, dict[int, tuple[str, str]]]


@cache
def _table() -> _MessageTable:
    return decode_json(read_file(Path(__file__).with_name("protobuf.json")), _MessageTable)


def decode_object(data: bytes) -> Object:
    """Read an enveloped object.

    Raises:
        StatusError: 400, it is broken; 415, it is of a kind that is not read here.
    """
    if not data.startswith(_MAGIC):
        raise bad_request("the request's body does not begin as a Kubernetes protobuf message does")
    try:
        envelope = dict(_fields(data[len(_MAGIC) :]))
        described = dict(_fields(_as_bytes(envelope.get(1))))
        version, kind = (_as_bytes(described.get(number)).decode() for number in (1, 2))
        message = _table().roots.get(f"{version} {kind}")
        if message is None:
            raise unsupported_media_type(
                f"application/vnd.kubernetes.protobuf of {version} {kind}", ["application/json"]
            )
        return {"apiVersion": version, "kind": kind, **_message(_as_bytes(envelope.get(2)), message)}
    except _BROKEN as error:
        raise bad_request("the request's body is a broken protobuf message") from error


def _varint(data: bytes, place: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[place]
        value |= (byte & 0x7F) << shift
        place, shift = place + 1, shift + 7
        if not byte & 0x80:
            return value, place


def _fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Number and value of every field of a message, in order."""
    place = 0
    while place < len(data):
        tag, place = _varint(data, place)
        wire = tag & 7
        if wire == _VARINT:
            number, place = _varint(data, place)
            yield tag >> 3, number
            continue
        size = _WIDTHS.get(wire, 0)
        if wire == _BYTES:
            size, place = _varint(data, place)
        if place + size > len(data) or wire not in (_BYTES, *_WIDTHS):
            raise IndexError(wire)
        yield tag >> 3, data[place : place + size]
        place += size


def _as_bytes(value: int | bytes | None) -> bytes:
    return value if isinstance(value, bytes) else b""


def _message(data: bytes, name: str) -> Object:
    """A message as JSON has it: what Go would omit as empty is absent."""
    known = _table().messages[name]
    found: Object = {}
    for number, value in _fields(data):
        field, code = known.get(number, ("", ""))
        if code.startswith("[]"):
            found.setdefault(field, []).append(_value(value, code[2:]))
        elif code.startswith("{}"):
            entry = dict(_fields(_as_bytes(value)))
            found.setdefault(field, {})[_as_bytes(entry.get(1)).decode()] = _value(entry.get(2, b""), code[2:])
        elif code.startswith("^"):
            found |= _message(_as_bytes(value), code[1:])
        elif code:
            read = _value(value, code.removesuffix("?"))
            if code.endswith("?") or read not in ("", 0, {}, None):
                found[field] = read
    return found


def _value(value: int | bytes, code: str) -> Any:
    read = _FORMS.get(code)
    return _message(_as_bytes(value), code) if read is None else read(value)


def _integer(value: int | bytes) -> int:
    number = value if isinstance(value, int) else 0
    return number - (1 << 64) if number >= 1 << 63 else number


def _number(value: int | bytes) -> float:
    return float(struct.unpack("<d", _as_bytes(value))[0])


def _time(value: int | bytes) -> str | None:
    parts = dict(_fields(_as_bytes(value)))
    seconds = _integer(parts.get(1, 0))
    return format_rfc3339(datetime.fromtimestamp(seconds, UTC)) if seconds > 0 else None


def _quantity(value: int | bytes) -> str:
    return _as_bytes(dict(_fields(_as_bytes(value))).get(1)).decode()


def _int_or_text(value: int | bytes) -> int | str:
    parts = dict(_fields(_as_bytes(value)))
    return _as_bytes(parts.get(3)).decode() if parts.get(1) else _integer(parts.get(2, 0))


def _raw(value: int | bytes) -> Any:
    content = _as_bytes(dict(_fields(_as_bytes(value))).get(1))
    return decode(content) if content else None


_FORMS: dict[str, Callable[[int | bytes], Any]] = {
    "s": lambda value: _as_bytes(value).decode(),
    "i": _integer,
    "d": _number,
    "b": bool,
    "y": lambda value: base64.b64encode(_as_bytes(value)).decode(),
    "time": _time,
    "quantity": _quantity,
    "intstr": _int_or_text,
    "raw": _raw,
}


JSON = "application/json"
YAML = "application/yaml"


def raw_json(body: bytes, *, code: int = 200, warnings: Sequence[str] = ()) -> web.Response:
    """A response whose body is JSON already."""
    response = web.Response(body=body, status=code, content_type=JSON)
    for text in warnings:
        response.headers.add("Warning", f'299 - "{text.replace(chr(34), chr(92) + chr(34))}"')
    return response


def json_response(body: Object, *, code: int = 200) -> web.Response:
    """A response with a small JSON body."""
    return raw_json(encode(body), code=code)


def error_response(error: StatusError) -> web.Response:
    """Return the response for a refusal."""
    response = json_response(error.body(), code=error.code)
    if error.retry_after_seconds:
        response.headers["Retry-After"] = str(error.retry_after_seconds)
    return response


def parse_body(data: bytes, content_type: str) -> Any:
    """Decode a body: JSON, or YAML or protobuf by the content type.

    Raises:
        StatusError: 400, it is neither; 415, its type is none that is read here.
    """
    if "protobuf" in content_type:
        return decode_object(data)
    if "cbor" in content_type:
        raise unsupported_media_type(content_type, [JSON, YAML])
    try:
        return decode(data)
    except msgspec.DecodeError as error:
        if "yaml" not in content_type:
            raise bad_request(f"the request's body is not JSON: {error}") from error
    try:
        return load_document(data, file="body").value
    except InputError as error:
        raise bad_request(f"the request's body is not YAML: {error.message}") from error


async def read_object(request: web.Request) -> Object:
    """Return the body of a request, which has to be a map.

    Raises:
        StatusError: 400 or 415.
    """
    body = parse_body(await request.read(), request.content_type)
    if not isinstance(body, dict):
        raise bad_request("the request's body is not an object")
    return body


async def read_optional_object(request: web.Request) -> Object:
    """Return the body of a request that may come without one."""
    return await read_object(request) if await request.read() else {}

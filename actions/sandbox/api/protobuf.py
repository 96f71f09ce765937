"""Kubernetes protobuf bodies of the few small kinds that `kubectl create KIND NAME` sends that way.

Everything else that `kubectl` writes is JSON.

Source: k8s.io/apimachinery `runtime.Unknown` (the envelope), k8s.io/api `core/v1/generated.proto` (field numbers).
"""

from __future__ import annotations

import base64
from collections.abc import Iterator

from actions.sandbox.api.codec import Object
from actions.sandbox.api.status import bad_request, unsupported_media

_MAGIC = b"k8s\x00"
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_WIDTHS = {_FIXED64: 8, _FIXED32: 4}
_METADATA = {1: ("name", "text"), 2: ("generateName", "text"), 3: ("namespace", "text"), 11: ("labels", "texts"),
             12: ("annotations", "texts")}  # fmt: skip
_KINDS: dict[str, dict[int, tuple[str, str]]] = {
    "Namespace": {},
    "ServiceAccount": {},
    "ConfigMap": {2: ("data", "texts"), 3: ("binaryData", "blobs"), 4: ("immutable", "flag")},
    "Secret": {2: ("data", "blobs"), 3: ("type", "text"), 4: ("stringData", "texts"), 5: ("immutable", "flag")},
}


def decode_object(data: bytes) -> Object:
    """Read an enveloped object.

    Raises:
        ApiFault: 400, it is broken; 415, it is of a kind that is not read here.
    """
    if not data.startswith(_MAGIC):
        raise bad_request("the request's body does not begin as a Kubernetes protobuf message does")
    try:
        envelope = dict(_fields(data[len(_MAGIC) :]))
        described = dict(_fields(_as_bytes(envelope.get(1))))
        version, kind = (_as_bytes(described.get(number)).decode() for number in (1, 2))
        if version != "v1" or kind not in _KINDS:
            raise unsupported_media(f"application/vnd.kubernetes.protobuf of {version} {kind}", ["application/json"])
        body = list(_fields(_as_bytes(envelope.get(2))))
        metadata = _read(_fields(_as_bytes(dict(body).get(1))), _METADATA)
        return {"apiVersion": version, "kind": kind, "metadata": metadata, **_read(iter(body), _KINDS[kind])}
    except (IndexError, UnicodeDecodeError) as error:
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


def _read(fields: Iterator[tuple[int, int | bytes]], names: dict[int, tuple[str, str]]) -> Object:
    """A message as JSON has it; empty texts are absent ones."""
    found: Object = {}
    for number, value in fields:
        name, form = names.get(number, ("", ""))
        if form == "flag":
            found[name] = bool(value)
        elif form == "text" and value:
            found[name] = _as_bytes(value).decode()
        elif form in ("texts", "blobs"):
            entry = dict(_fields(_as_bytes(value)))
            content = _as_bytes(entry.get(2))
            shown = content.decode() if form == "texts" else base64.b64encode(content).decode()
            found.setdefault(name, {})[_as_bytes(entry.get(1)).decode()] = shown
    return found

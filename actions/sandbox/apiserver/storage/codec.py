"""JSON as the API server reads, writes and copies it."""

from __future__ import annotations

from typing import Any, TypeAlias

import msgspec

Object: TypeAlias = dict[str, Any]
"""A Kubernetes object, as decoded JSON. Stored ones are never changed in place."""

encode = msgspec.json.encode
"""Compact UTF-8 JSON."""

_DECODER = msgspec.json.Decoder()


def decode(data: bytes) -> Any:
    """Read JSON.

    Raises:
        msgspec.DecodeError: It is none.
    """
    return _DECODER.decode(data)


def clone(value: Object) -> Object:
    """An independent copy, deep (a JSON round trip, which is the fastest one there is here)."""
    copied: Object = _DECODER.decode(encode(value))
    return copied


def metadata_of(value: Object) -> Object:
    """The object's metadata, made if it has none."""
    metadata: Object = value.setdefault("metadata", {})
    return metadata


def dig(value: object, *path: str) -> Any:
    """The value at `path` through nested maps, or `None` as soon as something is missing."""
    for step in path:
        if not isinstance(value, dict):
            return None
        value = value.get(step)
    return value

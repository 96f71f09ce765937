"""List pages and watch events as protobuf: bytes cut into objects that are not decoded here.

An object comes in an envelope: four bytes, then an `Unknown` with the object in it. A watch sends frames: four bytes
of length, then a `WatchEvent` whose object is such an envelope.

Source: k8s.io/apimachinery `pkg/runtime/serializer/protobuf`, v0.34.
"""

from __future__ import annotations

from collections.abc import AsyncIterator

from google.protobuf.message import DecodeError

from actions.base.errors import FormatError
from actions.cluster.bounds import EVENT_BYTES, OversizeError, drop_chunks
from actions.cluster.http.errors import ENVELOPE, ApiStatus, status_of
from actions.cluster.protobuf_schema import reader
from actions.cluster.watch.json_format import Meta, Page, Raw
from actions.fleet.quantity import size_text

ACCEPT = "application/vnd.kubernetes.protobuf,application/json"
"""The media types to ask for: protobuf, or JSON if the server has no protobuf of this kind."""
CONTENT_TYPE = "application/vnd.kubernetes.protobuf"
_LENGTH = 4
_HEADS = ((b"\n\x05ADDED\x12", "ADDED"), (b"\n\x08MODIFIED\x12", "MODIFIED"), (b"\n\x07DELETED\x12", "DELETED"))
_TYPE_META, _RAW_OBJECT = 0x0A, 0x12
"""Tags of the fields of an `Unknown`."""
_LARGEST_DIGIT = 0x7F
"""The largest last byte of a varint: a larger byte is followed by another."""
_FARTHEST_ENVELOPE = 40
_SHORTEST_FRAME = 256
"""Longer than the part before the object can be, so that no index is outside of the frame."""

_event = reader("WatchEvent")
_unknown = reader("Unknown")
_list = reader("List")
_head = reader("Head")


def is_enveloped(body: bytes) -> bool:
    """Return whether a body is protobuf."""
    return body.startswith(ENVELOPE)


def unwrapped(body: bytes) -> bytes:
    """Return the object in an envelope.

    Raises:
        FormatError: It is not an envelope.
    """
    if not is_enveloped(body):
        raise FormatError("The API server sent something that is not a protobuf object.")
    try:
        inner: bytes = _unknown(body[len(ENVELOPE) :]).raw
    except DecodeError as error:
        raise FormatError("The API server sent a damaged protobuf object.") from error
    return inner


def read_page(body: bytes) -> Page:
    """Cut a list into its items.

    Raises:
        FormatError: It is not a list.
    """
    try:
        page = _list(unwrapped(body))
    except DecodeError as error:
        raise FormatError("The API server sent something that is not a protobuf list.") from error
    return Page(list(page.items), page.metadata.resource_version, page.metadata.following)


def read_event(frame: bytes) -> tuple[str, Raw]:
    """Read the type of a watch event and its object, still as bytes.

    API servers write events in one form; from that form the object is cut without parsing the rest.

    Raises:
        FormatError: It is not an event.
    """
    for head, kind in _HEADS:
        if frame.startswith(head) and (cut := _cut(frame)) is not None:
            return kind, cut
    try:
        event = _event(frame)
    except DecodeError as error:
        raise FormatError("The API server sent something that is not a protobuf event.") from error
    raw: bytes = event.object.raw
    return event.type, raw if event.type == "ERROR" else unwrapped(raw)


def _cut(frame: bytes) -> bytes | None:
    """Cut the object from an event in the usual form: an envelope with a short `TypeMeta`, an object of up to 16 KB."""
    at = frame.find(ENVELOPE, 0, _FARTHEST_ENVELOPE)
    if at < 0 or len(frame) < _SHORTEST_FRAME:
        return None
    at += len(ENVELOPE)
    if frame[at] != _TYPE_META:
        return None
    at += 2 + frame[at + 1]
    if frame[at] != _RAW_OBJECT:
        return None
    low, high = frame[at + 1], frame[at + 2]
    if low <= _LARGEST_DIGIT or high > _LARGEST_DIGIT:
        return None
    begin = at + 3
    end = begin + (low & _LARGEST_DIGIT | high << 7)
    return frame[begin:end] if end <= len(frame) else None


def meta_of(raw: Raw) -> Meta:
    """Read the metadata of an object.

    Raises:
        FormatError: It is not an object.
    """
    try:
        found = _head(bytes(raw)).metadata
    except DecodeError as error:
        raise FormatError("The API server sent something that is not a protobuf object.") from error
    return Meta(found.resource_version, {entry.key: entry.value for entry in found.annotations})


def error_status(raw: Raw) -> ApiStatus:
    """Read the `Status` of an ERROR event."""
    return status_of(bytes(raw), code=0)


async def frames_of(chunks: AsyncIterator[bytes]) -> AsyncIterator[list[bytes]]:
    """Yield whole frames from chunks that are cut anywhere; an unfinished last one is dropped.

    Raises:
        OversizeError: A frame is longer than any event, or the stream is not a watch.
    """
    parts: list[bytes] = []
    have, needed = 0, _LENGTH
    try:
        async for chunk in chunks:
            parts.append(chunk)
            have += len(chunk)
            if have < needed:
                continue
            data = b"".join(parts) if len(parts) > 1 else chunk
            frames: list[bytes] = []
            at, needed = 0, _LENGTH
            while have - at >= _LENGTH:
                end = at + _LENGTH + int.from_bytes(data[at : at + _LENGTH], "big")
                if end - at > EVENT_BYTES:
                    raise OversizeError(f"The stream holds an event of more than {size_text(EVENT_BYTES)}.")
                if end > have:
                    needed = end - at
                    break
                frames.append(data[at + _LENGTH : end])
                at = end
            parts[:] = [data[at:]]
            have -= at
            if frames:
                yield frames
    finally:
        drop_chunks(parts)

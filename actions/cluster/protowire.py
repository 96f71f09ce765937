"""List pages and watch events as protobuf: bytes cut into objects that are not decoded here.

An object comes in an envelope: four bytes, then an `Unknown` with the object in it. A watch sends frames: four bytes
of length, then a `WatchEvent` whose object is such an envelope.

Source: k8s.io/apimachinery `pkg/runtime/serializer/protobuf`, v0.34.
"""

from __future__ import annotations

from collections.abc import AsyncIterator

from google.protobuf.message import DecodeError

from actions.base.errors import FormatError, UnreachableError
from actions.cluster.errors import ENVELOPE, ApiStatus, status_of
from actions.cluster.protoschema import reader
from actions.cluster.wire import Meta, Page, Raw

ACCEPT = "application/vnd.kubernetes.protobuf,application/json"
"""What to ask for: protobuf, or JSON of a server that has no protobuf of this kind."""
CONTENT_TYPE = "application/vnd.kubernetes.protobuf"
_LENGTH = 4
_LONGEST_FRAME = 64 << 20

_event = reader("WatchEvent")
_unknown = reader("Unknown")
_list = reader("List")
_head = reader("Head")


def is_enveloped(body: bytes) -> bool:
    """Whether a body is protobuf."""
    return body.startswith(ENVELOPE)


def unwrapped(body: bytes) -> bytes:
    """The object in an envelope.

    Raises:
        FormatError: It is no envelope.
    """
    if not is_enveloped(body):
        raise FormatError("The API server sent something that is no protobuf object.")
    try:
        inner: bytes = _unknown(body[len(ENVELOPE) :]).raw
    except DecodeError as error:
        raise FormatError("The API server sent a damaged protobuf object.") from error
    return inner


def read_page(body: bytes) -> Page:
    """Cut a list into its items.

    Raises:
        FormatError: It is no list.
    """
    try:
        page = _list(unwrapped(body))
    except DecodeError as error:
        raise FormatError("The API server sent something that is no protobuf list.") from error
    return Page(list(page.items), page.metadata.resource_version, page.metadata.following)


def read_event(frame: bytes) -> tuple[str, Raw]:
    """The type of a watch event and its object, still bytes.

    Raises:
        FormatError: It is no event.
    """
    try:
        event = _event(frame)
    except DecodeError as error:
        raise FormatError("The API server sent something that is no protobuf event.") from error
    raw: bytes = event.object.raw
    return event.type, raw if event.type == "ERROR" else unwrapped(raw)


def meta_of(raw: Raw) -> Meta:
    """The metadata of an object.

    Raises:
        FormatError: It is no object.
    """
    try:
        found = _head(bytes(raw)).metadata
    except DecodeError as error:
        raise FormatError("The API server sent something that is no protobuf object.") from error
    return Meta(found.resource_version, {entry.key: entry.value for entry in found.annotations})


def trouble_of(raw: Raw) -> ApiStatus:
    """What the object of an ERROR event says."""
    return status_of(bytes(raw), code=0)


async def frames_of(chunks: AsyncIterator[bytes]) -> AsyncIterator[list[bytes]]:
    """Whole frames out of chunks that are cut anywhere; an unfinished last one is dropped.

    Raises:
        UnreachableError: A length that no event has: what comes is not a watch.
    """
    pending = bytearray()
    async for chunk in chunks:
        pending += chunk
        frames: list[bytes] = []
        at = 0
        while len(pending) - at >= _LENGTH:
            length = int.from_bytes(pending[at : at + _LENGTH], "big")
            if length > _LONGEST_FRAME:
                raise UnreachableError(f"The stream holds an event of {length} bytes, which cannot be.")
            end = at + _LENGTH + length
            if end > len(pending):
                break
            frames.append(bytes(pending[at + _LENGTH : end]))
            at = end
        del pending[:at]
        if frames:
            yield frames

"""List pages and watch events as JSON: bytes cut into objects that are not decoded here."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Protocol

import msgspec

from actions.base.decoding import json_decoder
from actions.base.errors import FormatError
from actions.cluster.bounds import EVENT_BYTES, OversizeError, drop_chunks
from actions.cluster.http.errors import ApiStatus, status_of
from actions.fleet.quantity import size_text

_INITIAL_END = "k8s.io/initial-events-end"
_HEADS = tuple((f'{{"type":"{kind}","object":'.encode(), kind) for kind in ("MODIFIED", "ADDED", "DELETED"))

Raw = bytes | memoryview | msgspec.Raw
"""One object, not decoded yet."""

WatchEvent = tuple[str, Raw]
"""The type of a watch event and its object."""

UNREADABLE = (msgspec.MsgspecError, FormatError)
"""The exceptions of reading bytes that are not of the expected form."""


class Meta(msgspec.Struct, rename="camel"):
    """The metadata that watching needs."""

    resource_version: str = ""
    annotations: dict[str, str] | None = None


class Page(msgspec.Struct, frozen=True):
    """One page of a list; `following` is the token of the next one, empty on the last."""

    items: Sequence[Raw]
    resource_version: str
    following: str


class WireFormat(Protocol):
    """The form of lists and events: this module for JSON, `actions.cluster.watch.protobuf_format` for protobuf."""

    def frames_of(self, chunks: AsyncIterator[bytes]) -> AsyncIterator[list[bytes]]:
        """Yield whole events from chunks that are cut anywhere; an unfinished last one is dropped."""
        ...

    def read_event(self, frame: bytes) -> tuple[str, Raw]:
        """Read the type of a watch event and its object. Raise one of `UNREADABLE` for anything else."""
        ...

    def read_page(self, body: bytes) -> Page:
        """Cut a list into its items. Raise one of `UNREADABLE` for anything else."""
        ...

    def meta_of(self, raw: Raw) -> Meta:
        """Read the metadata of an object. Raise one of `UNREADABLE` for anything else."""
        ...

    def error_status(self, raw: Raw) -> ApiStatus:
        """Read the `Status` of an ERROR event."""
        ...


class _Object(msgspec.Struct):
    metadata: Meta | None = None


class _Event(msgspec.Struct):
    type: str
    object: msgspec.Raw


class _PageMeta(msgspec.Struct, rename="camel"):
    resource_version: str = ""
    following: str = msgspec.field(default="", name="continue")


class _Page(msgspec.Struct):
    metadata: _PageMeta
    items: list[msgspec.Raw] | None = None


_events = json_decoder(_Event)
_objects = json_decoder(_Object)
_pages = json_decoder(_Page)


def read_page(body: bytes) -> Page:
    """Cut a list into its items.

    Raises:
        msgspec.DecodeError: It is not a list.
    """
    page = _pages.decode(body)
    return Page(page.items or (), page.metadata.resource_version, page.metadata.following)


def read_event(frame: bytes) -> tuple[str, Raw]:
    """Read the type of a watch event and its object, still as bytes.

    API servers write `{"type":…,"object":…}` in one form; from that form the object is cut without parsing it.

    Raises:
        msgspec.DecodeError: It is not an event.
    """
    for head, kind in _HEADS:
        if frame.startswith(head) and frame.endswith(b"}"):
            return kind, memoryview(frame)[len(head) : -1]
    event = _events.decode(frame)
    return event.type, event.object


def meta_of(raw: Raw) -> Meta:
    """Read the metadata of an object.

    Raises:
        msgspec.DecodeError: It is not an object.
    """
    return _objects.decode(raw).metadata or Meta()


def error_status(raw: Raw) -> ApiStatus:
    """Read the `Status` of an ERROR event."""
    return status_of(bytes(raw), code=0)


def ends_initial_events(meta: Meta) -> bool:
    """Return whether a bookmark marks the end of a WatchList's first, complete part."""
    return (meta.annotations or {}).get(_INITIAL_END) == "true"


async def frames_of(chunks: AsyncIterator[bytes]) -> AsyncIterator[list[bytes]]:
    """Yield complete lines from chunks that are cut anywhere; an unfinished last line is dropped.

    Dropping is safe for a watch: the version has not moved past that event, so the next watch delivers it again.

    Raises:
        OversizeError: A line is longer than any event.
    """
    parts: list[bytes] = []
    have = 0
    try:
        async for chunk in chunks:
            end = chunk.rfind(b"\n")
            have += len(chunk)
            if end < 0:
                if have > EVENT_BYTES:
                    raise OversizeError(f"The stream holds an event of more than {size_text(EVENT_BYTES)}.")
                parts.append(chunk)
                continue
            have = len(chunk) - end - 1
            parts.append(chunk[:end])
            lines = b"".join(parts).split(b"\n")
            parts[:] = [chunk[end + 1 :]]
            yield [line for line in lines if line.strip()]
    finally:
        drop_chunks(parts)

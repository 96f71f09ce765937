"""The JSON forms of list pages and watch events: bytes cut into objects that are not decoded here."""

from __future__ import annotations

from collections.abc import AsyncIterator

import msgspec

_INITIAL_END = "k8s.io/initial-events-end"
_HEADS = tuple((f'{{"type":"{kind}","object":'.encode(), kind) for kind in ("MODIFIED", "ADDED", "DELETED"))


class Meta(msgspec.Struct, rename="camel"):
    """The metadata that watching needs."""

    resource_version: str = ""
    annotations: dict[str, str] | None = None


class _Object(msgspec.Struct):
    metadata: Meta | None = None


class _Event(msgspec.Struct):
    type: str
    object: msgspec.Raw


class _PageMeta(msgspec.Struct, rename="camel"):
    resource_version: str = ""
    following: str = msgspec.field(default="", name="continue")


class Page(msgspec.Struct):
    """One page of a list, its items still bytes."""

    metadata: _PageMeta
    items: list[msgspec.Raw] | None = None


_events = msgspec.json.Decoder(_Event)
_objects = msgspec.json.Decoder(_Object)
_pages = msgspec.json.Decoder(Page)


def read_page(body: bytes) -> Page:
    """Cut a list into its items.

    Raises:
        msgspec.DecodeError: It is no list.
    """
    return _pages.decode(body)


def read_event(line: bytes) -> tuple[str, memoryview | msgspec.Raw]:
    """The type of a watch event and its object, still bytes.

    API servers write `{"type":…,"object":…}` in one form; for that form the object is cut out without a pass over it.

    Raises:
        msgspec.DecodeError: It is no event.
    """
    for head, kind in _HEADS:
        if line.startswith(head) and line.endswith(b"}"):
            return kind, memoryview(line)[len(head) : -1]
    event = _events.decode(line)
    return event.type, event.object


def meta_of(raw: memoryview | msgspec.Raw) -> Meta:
    """The metadata of an object.

    Raises:
        msgspec.DecodeError: It is no object.
    """
    return _objects.decode(raw).metadata or Meta()


def ends_initial_events(meta: Meta) -> bool:
    """Whether a bookmark marks the end of a WatchList's first, complete part."""
    return (meta.annotations or {}).get(_INITIAL_END) == "true"


async def lines_of(chunks: AsyncIterator[bytes]) -> AsyncIterator[list[bytes]]:
    """Complete lines out of chunks that are cut anywhere; an unfinished last line is dropped.

    Dropping is safe for a watch: the version has not moved past that event, so the next watch delivers it again.
    """
    parts: list[bytes] = []
    async for chunk in chunks:
        end = chunk.rfind(b"\n")
        if end < 0:
            parts.append(chunk)
            continue
        parts.append(chunk[:end])
        lines = b"".join(parts).split(b"\n")
        parts = [chunk[end + 1 :]]
        yield lines

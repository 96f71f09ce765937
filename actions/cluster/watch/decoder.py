"""Lists and watch events of one resource, decoded in the format that the server chose: protobuf, or else JSON.

Long lists are decoded in slices, between which the event loop runs.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import suppress
from typing import Generic, Protocol, TypeVar

import msgspec

from actions.base.clock import Clock
from actions.base.errors import FormatError, UnreachableError
from actions.cluster.bounds import FACTS, OversizeError
from actions.cluster.http.errors import error_of
from actions.cluster.watch import json_format as wire
from actions.cluster.watch import protobuf_format as protowire
from actions.cluster.watch.json_format import UNREADABLE, Page, Raw, WatchEvent, WireFormat, ends_initial_events

RawT = TypeVar("RawT", bound=Raw)

SLICE_SECONDS = 0.008
_PORTION_BYTES = 1 << 17
_HANDLING_BYTES = 2048
"""The least cost of an object, as bytes to be read."""


async def cooperative_chunks(things: Sequence[RawT], clock: Clock) -> AsyncIterator[Sequence[RawT]]:
    """Yield a few at a time; the event loop gets a turn whenever a slice of time is used up."""
    until = clock.monotonic() + SLICE_SECONDS
    for few in _portions(things):
        yield few
        if clock.monotonic() >= until:
            await asyncio.sleep(0)
            until = clock.monotonic() + SLICE_SECONDS


def _portions(things: Sequence[RawT]) -> Iterator[Sequence[RawT]]:
    """Yield as many at a time as can be decoded in a fraction of a slice, whatever their size."""
    if not things:
        return
    usual = sum(map(len, things)) // len(things) + _HANDLING_BYTES
    step = max(1, _PORTION_BYTES // usual)
    for begin in range(0, len(things), step):
        yield things[begin : begin + step]


T = TypeVar("T")

_JSON = "application/json"
_NOT_IN_THIS_FORM = frozenset({406, 415})
_DECODE_ERRORS = (msgspec.MsgspecError, FormatError, ValueError, TypeError, KeyError)


class RequestedForm(WireFormat, Protocol):
    """A form that a server has to be asked for."""

    accept: str
    """The media types to ask for."""


class ResponseDecoder(Generic[T]):
    """The decoder of lists, events and objects of one resource.

    Args:
        path: The resource's list path, for errors.
        context: The cluster's, for errors.
        decode: Decodes one object from its JSON.
        decode_protobuf: Decodes one object from its protobuf. With it protobuf is requested.
        clock: For slices.
        form: Another form than whole objects, such as a table; it is requested.
    """

    def __init__(
        self,
        path: str,
        *,
        context: str,
        decode: Callable[[Raw], T],
        decode_protobuf: Callable[[Raw], T] | None,
        clock: Clock,
        form: RequestedForm | None = None,
    ) -> None:
        self.accept = form.accept if form else protowire.ACCEPT if decode_protobuf else _JSON
        """The media types to ask for."""
        self._path = path
        self._context = context
        self._clock = clock
        self._decode = self._decode_json = decode
        self._decode_protobuf = decode_protobuf
        self._plain: WireFormat = form or wire
        self._wire: WireFormat = self._plain

    def select_format(self, content_type: str) -> None:
        """Read the server's media type from here on."""
        self._choose(is_protobuf=content_type == protowire.CONTENT_TYPE)

    def falls_back(self, code: int) -> bool:
        """Return whether the server has refused protobuf; if so, JSON is requested from here on."""
        was_refused = code in _NOT_IN_THIS_FORM and self.accept != _JSON
        if was_refused:
            self.accept = _JSON
        return was_refused

    def page(self, body: bytes) -> Page:
        """Read a page of a list, in either format.

        Raises:
            UnreachableError: It is not a list.
        """
        self._choose(is_protobuf=protowire.is_enveloped(body))
        try:
            return self._wire.read_page(body)
        except UNREADABLE as error:
            raise UnreachableError(f"{self._path} did not answer with a list: {error}.") from error

    def frames_of(self, chunks: AsyncIterator[bytes]) -> AsyncIterator[list[bytes]]:
        """Yield whole events, still as bytes."""
        return self._wire.frames_of(chunks)

    async def events_in(self, frames: Sequence[bytes]) -> AsyncIterator[list[WatchEvent]]:
        """Yield events, a slice at a time; the event loop gets a turn between slices.

        Raises:
            ApiError: The server sent an error event.
            UnreachableError: Something is not an event.
        """
        async for few in cooperative_chunks(frames, self._clock):
            events: list[WatchEvent] = []
            try:
                for frame in few:
                    events.append(self._wire.read_event(frame))
                    if events[-1][0] == "ERROR":
                        break
            except UNREADABLE as error:
                raise UnreachableError(f"{self._path} sent something that is not an event.") from error
            if events[-1][0] == "ERROR":
                _, raw = events.pop()
                if events:
                    yield events
                status = self._wire.error_status(raw)
                raise error_of(status, asked=f"watch {self._path}", context=self._context)
            yield events

    def decoded(self, raw: Raw) -> T | None:
        """Decode an object; `None` if it cannot be read."""
        try:
            return self._decode(raw)
        except _DECODE_ERRORS:
            return None

    def end_of_list(self, bookmark: Raw) -> str:
        """Return the version of a streamed list if this bookmark is its end; else an empty text."""
        meta = self._wire.meta_of(bookmark)
        return meta.resource_version if ends_initial_events(meta) else ""

    def version_of(self, raw: Raw) -> str:
        """Return the version of an object; empty if it cannot be read."""
        with suppress(*UNREADABLE):
            return self._wire.meta_of(raw).resource_version
        return ""

    def _choose(self, *, is_protobuf: bool) -> None:
        if is_protobuf and self._decode_protobuf is not None:
            self._wire, self._decode = protowire, self._decode_protobuf
        else:
            self._wire, self._decode = self._plain, self._decode_json


class InitialList(Generic[T]):
    """The first list: objects by uid, the number of unreadable ones, and the list's version once it is complete.

    Args:
        path: The resource's list path, for the sentence.
        decoder: Decodes objects.
        identify: Returns the uid of a decoded object.
        trim: Drops objects that would not be kept anyway, so that the list need not fit into memory.
    """

    def __init__(
        self, path: str, decoder: ResponseDecoder[T], identify: Callable[[T], str], trim: Callable[[dict[str, T]], None]
    ) -> None:
        self.found: dict[str, T] = {}
        self.known = 0
        """The number of objects that were new when they came."""
        self.skipped = 0
        self.version = ""
        self._path = path
        self._decoder = decoder
        self._identify = identify
        self._trim = trim

    def take(self, events: list[WatchEvent]) -> list[WatchEvent]:
        """Add events to the list. Return those after its end.

        Raises:
            OversizeError: There are more objects than can be kept.
        """
        for place, (kind, raw) in enumerate(events):
            if kind == "BOOKMARK":
                self.version = self._decoder.end_of_list(raw)
                if self.version:
                    return events[place + 1 :]
                continue
            item = self._decoder.decoded(raw)
            if item is None:
                self.skipped += 1
            elif kind == "DELETED":
                self.found.pop(self._identify(item), None)
            else:
                uid = self._identify(item)
                self.known += uid not in self.found
                self.found[uid] = item
        self._trim(self.found)
        if len(self.found) > FACTS:
            raise OversizeError(f"There are more than {FACTS:,} objects at {self._path}, which is the limit.")
        return []

"""Lists of a collection, whole or page by page, and watches, the stream of its changes.

A continued list is served from the present: it keeps the resource version of its first page, from which a watch then
delivers whatever changed meanwhile.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
from collections.abc import AsyncIterator, Iterator, Mapping
from itertools import islice

import msgspec
from aiohttp import web

from actions.base.decoding import decode_json
from actions.sandbox.apiserver.printing.view import View
from actions.sandbox.apiserver.requests.bodies import JSON
from actions.sandbox.apiserver.requests.context import ServerContext
from actions.sandbox.apiserver.requests.request_info import RequestTarget
from actions.sandbox.apiserver.requests.selectors import Predicate, check_selectable_fields, predicate_of
from actions.sandbox.apiserver.storage.codec import Object, encode
from actions.sandbox.apiserver.storage.errors import StatusError, bad_request, expired, too_large_version
from actions.sandbox.apiserver.storage.store import FIRST_VERSION, Collection, EventType, Store, Stored, StoreEvent


class _Continue(msgspec.Struct, frozen=True):
    """The place at which a list is continued, in its token. `version` is that of its first page."""

    version: int
    namespace: str
    name: str


def list_objects(store: Store, target: RequestTarget, query: Mapping[str, str]) -> tuple[list[Stored], Object]:
    """Return the objects of a (page of a) list, with its `ListMeta`.

    Raises:
        StatusError: 400, 410 (the page token or exact version is too old), 504 (the version lies in the future).
    """
    collection = store.collection(target.resource.key)
    check_selectable_fields(target.resource, query.get("fieldSelector", ""))
    predicate = predicate_of(query.get("labelSelector", ""), query.get("fieldSelector", ""))
    token = _token_of(query.get("continue", ""), collection)
    check_version(query, store.version)
    version = token.version if token else store.version
    after = (token.namespace, token.name) if token else ("", "")
    found = collection.ordered(target.namespace, after=after)
    metadata: Object = {"resourceVersion": str(version)}
    limit = int(query.get("limit") or 0) or len(found)
    if predicate is None:
        page, rest = found[:limit], len(found) - limit
    else:
        matching = (stored for stored in found if predicate(stored.outline))
        page = list(islice(matching, limit))
        rest = sum(1 for _ in islice(matching, 1))
    if rest > 0:
        metadata["continue"] = _write_token(_Continue(version, page[-1].namespace, page[-1].name))
        if predicate is None:
            metadata["remainingItemCount"] = rest
    return page, metadata


def check_version(query: Mapping[str, str], current: int) -> None:
    """Refuse a `resourceVersion` that cannot be served.

    Raises:
        StatusError: 400, 410 or 504.
    """
    text = query.get("resourceVersion", "")
    if text in ("", "0"):
        return
    if not text.isdigit():
        raise bad_request(f"Invalid value: {text!r}: resourceVersion is not a number")
    if int(text) > current:
        raise too_large_version(int(text), current)
    if query.get("resourceVersionMatch") == "Exact" and int(text) != current:
        raise expired("The resourceVersion for the provided list is too old.")


def _token_of(text: str, collection: Collection) -> _Continue | None:
    if not text:
        return None
    try:
        token = decode_json(base64.urlsafe_b64decode(text), _Continue)
    except (binascii.Error, ValueError, msgspec.DecodeError) as error:
        raise bad_request("continue key is not valid: it cannot be read") from error
    if token.version < collection.floor:
        raise expired("The provided continue parameter is too old to display a consistent list result.")
    return token


def _write_token(token: _Continue) -> str:
    return base64.urlsafe_b64encode(encode(token)).decode()


_LONGEST_SECONDS = 3600.0
_SLICE_OBJECTS = 100
_END_OF_INITIAL_EVENTS = {"k8s.io/initial-events-end": "true"}


class WatchStream:
    """A watch: its selection, and the version up to which it has sent events.

    Args:
        context: The server.
        target: What is watched.
        query: The request's parameters.
        view: The form in which objects are sent.

    Raises:
        StatusError: 400, 422, 504: the parameters cannot be served.
    """

    def __init__(self, context: ServerContext, target: RequestTarget, query: Mapping[str, str], view: View) -> None:
        _check_initial_events(query)
        check_version({"resourceVersion": query.get("resourceVersion", "")}, context.store.version)
        self._context = context
        self._target = target
        self._view = view
        self._collection = context.store.collection(target.resource.key)
        check_selectable_fields(target.resource, query.get("fieldSelector", ""))
        self._predicate: Predicate | None = predicate_of(query.get("labelSelector", ""), query.get("fieldSelector", ""))
        self._query = query
        self._has_bookmarks = query.get("allowWatchBookmarks") in ("true", "1")
        self._position = context.store.version

    async def chunks(self) -> AsyncIterator[bytes]:
        """Yield newline-ended events until the time is up or the past is lost."""
        deadline = self._context.clock.monotonic() + float(self._query.get("timeoutSeconds") or _LONGEST_SECONDS)
        try:
            for slice_ in self._first():
                yield slice_
            while (left := deadline - self._context.clock.monotonic()) > 0 and self._is_served():
                batch = self._next()
                if not batch and not await self._changed_within(min(left, self._context.bookmark_seconds)):
                    batch = self._next() or self._pass_quiet_time()
                yield batch
        except StatusError as fault:
            yield _line("ERROR", encode(fault.body()))

    def _is_served(self) -> bool:
        """Return whether the type still exists: the watches of a deleted CRD end."""
        resource = self._target.resource
        return self._context.registry.find(resource.group, resource.version, resource.plural) is not None

    def _first(self) -> Iterator[bytes]:
        """Yield the state that the watch starts with, if its parameters demand one: as it is now, in slices."""
        asked = self._query.get("resourceVersion", "")
        wants_state = self._query.get("sendInitialEvents")
        if wants_state != "true" and (asked not in ("", "0") or wants_state == "false"):
            self._position = int(asked) if asked not in ("", "0") else self._position
            return
        selectors = {name: self._query.get(name, "") for name in ("labelSelector", "fieldSelector")}
        objects, _ = list_objects(self._context.store, self._target, selectors)
        for start in range(0, len(objects), _SLICE_OBJECTS):
            some = objects[start : start + _SLICE_OBJECTS]
            yield b"".join(_line(EventType.ADDED, self._view.one(stored)) for stored in some)
        if wants_state == "true":
            yield self._bookmark(_END_OF_INITIAL_EVENTS)

    def _next(self) -> bytes:
        if self._position < max(self._collection.floor, FIRST_VERSION):
            raise expired(f"too old resource version: {self._position} ({self._collection.floor})")
        events = self._collection.since(self._position)
        if not events:
            return b""
        self._position = events[-1].version
        return b"".join(self._line_of(event) for event in events)

    def _line_of(self, event: StoreEvent) -> bytes:
        """Return the line for one change: an object that stops matching is deleted for this watch."""
        is_match = event.change is not EventType.DELETED and self._is_selected(event.after)
        was_match = event.before is not None and self._is_selected(event.before)
        if is_match:
            return _line(EventType.MODIFIED if was_match else EventType.ADDED, self._view.one(event.after))
        return _line(EventType.DELETED, self._view.one(event.after)) if was_match else b""

    def _is_selected(self, stored: Stored) -> bool:
        if self._target.namespace and stored.namespace != self._target.namespace:
            return False
        return self._predicate is None or self._predicate(stored.outline)

    def _pass_quiet_time(self) -> bytes:
        """Advance to the present version, up to which this collection has no events."""
        self._position = self._context.store.version
        return self._bookmark({}) if self._has_bookmarks else b""

    async def _changed_within(self, seconds: float) -> bool:
        try:
            async with asyncio.timeout(seconds):
                await self._collection.changed()
        except TimeoutError:
            return False
        return True

    def _bookmark(self, annotations: Mapping[str, str]) -> bytes:
        resource = self._target.resource
        metadata: Object = {"resourceVersion": str(self._position), "creationTimestamp": None}
        if annotations:
            metadata["annotations"] = dict(annotations)
        body: Object = {"kind": resource.kind, "apiVersion": resource.api_version, "metadata": metadata}
        shown = Stored(resource.key, "", "", self._position, body, encode(body))
        return _line("BOOKMARK", self._view.bookmark(shown))


def _line(kind: str, body: bytes) -> bytes:
    return b'{"type":"%b","object":%b}\n' % (kind.encode(), body)


def _check_initial_events(query: Mapping[str, str]) -> None:
    wants_state, match = query.get("sendInitialEvents"), query.get("resourceVersionMatch")
    if wants_state and match != "NotOlderThan":
        why = "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"
        raise StatusError(422, "Invalid", f"ListOptions.meta.k8s.io is invalid: resourceVersionMatch: Forbidden: {why}")
    if match and not wants_state:
        why = "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided"
        raise StatusError(422, "Invalid", f"ListOptions.meta.k8s.io is invalid: resourceVersionMatch: Forbidden: {why}")


async def serve_watch(
    context: ServerContext, request: web.Request, target: RequestTarget, view: View
) -> web.StreamResponse:
    """Answer a watch request; ends with the client, or with the watch."""
    watch = WatchStream(context, target, request.query, view)
    response = web.StreamResponse(headers={"Content-Type": JSON})
    await response.prepare(request)
    async for chunk in context.faults.wrap_stream(request, watch.chunks()):
        if chunk:
            await response.write(chunk)
    await response.write_eof()
    return response

"""Watches: the stream of changes of a collection."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Mapping

from aiohttp import web

from actions.sandbox.api.codec import Object, encode
from actions.sandbox.api.lists import check_version, list_objects
from actions.sandbox.api.messages import JSON
from actions.sandbox.api.selectable import check_fields
from actions.sandbox.api.selectors import Predicate, predicate_of
from actions.sandbox.api.services import Services
from actions.sandbox.api.status import ApiFault, expired
from actions.sandbox.api.store import FIRST_VERSION, Change, Stored, StoreEvent
from actions.sandbox.api.target import Target
from actions.sandbox.api.view import View

_LONGEST_SECONDS = 3600.0
_SLICE_OBJECTS = 100
_END_OF_INITIAL_EVENTS = {"k8s.io/initial-events-end": "true"}


class Watch:
    """One watch: what it selects, and how far it has told.

    Args:
        services: The server.
        target: What is watched.
        query: The request's parameters.
        view: In which form objects go out.

    Raises:
        ApiFault: 400, 422, 504: the parameters cannot be served.
    """

    def __init__(self, services: Services, target: Target, query: Mapping[str, str], view: View) -> None:
        _check_initial_events(query)
        check_version({"resourceVersion": query.get("resourceVersion", "")}, services.store.version)
        self._services = services
        self._target = target
        self._view = view
        self._collection = services.store.collection(target.resource.key)
        check_fields(target.resource, query.get("fieldSelector", ""))
        self._predicate: Predicate | None = predicate_of(query.get("labelSelector", ""), query.get("fieldSelector", ""))
        self._query = query
        self._has_bookmarks = query.get("allowWatchBookmarks") in ("true", "1")
        self._position = services.store.version

    async def chunks(self) -> AsyncIterator[bytes]:
        """Newline-ended events until the time is up or the past is lost."""
        deadline = self._services.clock.monotonic() + float(self._query.get("timeoutSeconds") or _LONGEST_SECONDS)
        try:
            for slice_ in self._first():
                yield slice_
            while (left := deadline - self._services.clock.monotonic()) > 0 and self._is_served():
                batch = self._next()
                if not batch and not await self._changed_within(min(left, self._services.bookmark_seconds)):
                    batch = self._next() or self._pass_quiet_time()
                yield batch
        except ApiFault as fault:
            yield _line("ERROR", encode(fault.body()))

    def _is_served(self) -> bool:
        """Whether the type is still there: the watches of a deleted CRD end."""
        resource = self._target.resource
        return self._services.registry.find(resource.group, resource.version, resource.plural) is not None

    def _first(self) -> Iterator[bytes]:
        """The state that the watch starts with, if it asks for one: as it is now, in slices."""
        asked = self._query.get("resourceVersion", "")
        wants_state = self._query.get("sendInitialEvents")
        if wants_state != "true" and (asked not in ("", "0") or wants_state == "false"):
            self._position = int(asked) if asked not in ("", "0") else self._position
            return
        selectors = {name: self._query.get(name, "") for name in ("labelSelector", "fieldSelector")}
        objects, _ = list_objects(self._services.store, self._target, selectors)
        for start in range(0, len(objects), _SLICE_OBJECTS):
            some = objects[start : start + _SLICE_OBJECTS]
            yield b"".join(_line(Change.ADDED, self._view.one(stored)) for stored in some)
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
        """What this watch sees of a change: an object that stops matching is deleted for it."""
        is_match = event.change is not Change.DELETED and self._is_selected(event.after)
        was_match = event.before is not None and self._is_selected(event.before)
        if is_match:
            return _line(Change.MODIFIED if was_match else Change.ADDED, self._view.one(event.after))
        return _line(Change.DELETED, self._view.one(event.after)) if was_match else b""

    def _is_selected(self, stored: Stored) -> bool:
        if self._target.namespace and stored.namespace != self._target.namespace:
            return False
        return self._predicate is None or self._predicate(stored.outline)

    def _pass_quiet_time(self) -> bytes:
        """Move on to the present, of which this collection has nothing to tell."""
        self._position = self._services.store.version
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
        raise ApiFault(422, "Invalid", f"ListOptions.meta.k8s.io is invalid: resourceVersionMatch: Forbidden: {why}")
    if match and not wants_state:
        why = "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided"
        raise ApiFault(422, "Invalid", f"ListOptions.meta.k8s.io is invalid: resourceVersionMatch: Forbidden: {why}")


async def serve_watch(services: Services, request: web.Request, target: Target, view: View) -> web.StreamResponse:
    """Answer a watch request; ends with the client, or with the watch."""
    watch = Watch(services, target, request.query, view)
    response = web.StreamResponse(headers={"Content-Type": JSON})
    await response.prepare(request)
    async for chunk in services.faults.distort(request, watch.chunks()):
        if chunk:
            await response.write(chunk)
    await response.write_eof()
    return response

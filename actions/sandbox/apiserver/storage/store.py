"""The objects of the cluster with one resource version for all, and the recent past of every type."""

from __future__ import annotations

import asyncio
from bisect import bisect_right
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from enum import StrEnum

from actions.sandbox.apiserver.storage.codec import Object, encode
from actions.sandbox.apiserver.storage.resources import GroupResource

EVENTS_KEPT = 2_048
FIRST_VERSION = 1_000


class EventType(StrEnum):
    """The type of a change, in the words of the watch protocol."""

    ADDED = "ADDED"
    MODIFIED = "MODIFIED"
    DELETED = "DELETED"


@dataclass(frozen=True, slots=True, eq=False)
class Stored:
    """A version of an object: a write makes a new one. `raw` is `body` as JSON."""

    key: GroupResource
    namespace: str
    name: str
    version: int
    body: Object
    raw: bytes

    @property
    def uid(self) -> str:
        return str(self.body["metadata"]["uid"])

    @property
    def outline(self) -> Object:
        """Return at least the part of the body that selectors read."""
        return self.body

    @property
    def api_version(self) -> str:
        return str(self.body["apiVersion"])

    @property
    def owner_uids(self) -> list[str]:
        return [owner["uid"] for owner in self.body["metadata"].get("ownerReferences", ()) if owner.get("uid")]


@dataclass(slots=True, eq=False)
class StoreEvent:
    """A change. `before` is the version it replaced, `None` for an addition."""

    version: int
    change: EventType
    after: Stored
    before: Stored | None


@dataclass(slots=True, eq=False)
class Collection:
    """All objects of a type, and its last changes.

    `floor` is the highest version whose change has been forgotten: a watch from before it cannot be served.
    """

    objects: dict[tuple[str, str], Stored] = field(default_factory=dict)
    events: list[StoreEvent] = field(default_factory=list)
    floor: int = 0
    _order: list[tuple[str, str]] | None = None
    _changed: asyncio.Event | None = None

    def ordered(self, namespace: str = "", *, after: tuple[str, str] = ("", "")) -> list[Stored]:
        """Return objects by namespace and name: of one namespace if one is given, and only those behind `after`."""
        if self._order is None:
            self._order = sorted(self.objects)
        order = self._order
        start = bisect_right(order, max(after, (namespace, "")))
        end = bisect_right(order, (namespace, "\U0010ffff")) if namespace else len(order)
        return [self.objects[key] for key in order[start:end]]

    def since(self, version: int) -> list[StoreEvent]:
        """Return the changes after `version`, oldest first. Only meaningful for `version >= floor`."""
        position = bisect_right(self.events, version, key=lambda event: event.version)
        return self.events[position:]

    async def changed(self) -> None:
        """Wait for the next change."""
        if self._changed is None:
            self._changed = asyncio.Event()
        await self._changed.wait()

    def forget_past(self, version: int) -> None:
        """Keep no changes up to `version`."""
        self.events.clear()
        self.floor, self._order = version, None

    def record(self, event: StoreEvent, *, kept: int) -> None:
        """Add a change and wake all that wait."""
        if event.change is not EventType.MODIFIED:
            self._order = None
        self.events.append(event)
        if len(self.events) > 2 * kept:  # trimmed in halves, so that appending stays cheap
            self.floor = self.events[-kept - 1].version
            del self.events[:-kept]
        if self._changed is not None:
            self._changed.set()
            self._changed = None


class Store:
    """Every object. All calls are on the loop, and none of them waits: a read-modify-write is atomic.

    Args:
        kept: How many changes of each type are remembered at least.
    """

    def __init__(self, *, kept: int = EVENTS_KEPT) -> None:
        self.version = FIRST_VERSION
        self._kept = kept
        self._collections: dict[GroupResource, Collection] = {}
        self._by_uid: dict[str, Stored] = {}
        self._dependents: dict[str, dict[str, None]] = {}
        self._listeners: list[Callable[[StoreEvent], None]] = []

    def listen(self, listener: Callable[[StoreEvent], None]) -> None:
        """Call `listener` with every change, at once; it must not write to the store itself."""
        self._listeners.append(listener)

    def collection(self, key: GroupResource) -> Collection:
        """The objects of a type, made on first use."""
        return self._collections.setdefault(key, Collection())

    def known_keys(self) -> list[GroupResource]:
        """Every type that has, or had, an object or a watcher."""
        return list(self._collections)

    def get(self, key: GroupResource, namespace: str, name: str) -> Stored | None:
        """The current version of an object, or `None`."""
        return self.collection(key).objects.get((namespace, name))

    def by_uid(self, uid: str) -> Stored | None:
        """The object with a uid, or `None`."""
        return self._by_uid.get(uid)

    def dependents(self, uid: str) -> list[Stored]:
        """Return the objects that name `uid` as an owner, oldest first."""
        return [self._by_uid[child] for child in self._dependents.get(uid, ())]

    def put(self, key: GroupResource, namespace: str, name: str, body: Object) -> Stored:
        """Write an object: `body` becomes the store's, with its resource version set."""
        before = self.get(key, namespace, name)
        stored = self._next(key, namespace, name, body)
        if before is not None:
            self._forget(before)
        self._remember(stored)
        self.collection(key).objects[namespace, name] = stored
        change = EventType.ADDED if before is None else EventType.MODIFIED
        self._record(StoreEvent(stored.version, change, stored, before))
        return stored

    def load(self, objects: Iterable[Stored]) -> None:
        """Take in many new objects at once. No listener is called: watches from before are too old."""
        for stored in objects:
            self._remember(stored)
            collection = self.collection(stored.key)
            collection.objects[stored.namespace, stored.name] = stored
            self.version = max(self.version, stored.version)
        for collection in self._collections.values():
            collection.forget_past(self.version)

    def remove(self, stored: Stored) -> Stored:
        """Remove an object and return its last state, which has a resource version of its own."""
        last = self._next(stored.key, stored.namespace, stored.name, {**stored.body})
        del self.collection(stored.key).objects[stored.namespace, stored.name]
        self._forget(stored)
        self._record(StoreEvent(last.version, EventType.DELETED, last, stored))
        return last

    def _next(self, key: GroupResource, namespace: str, name: str, body: Object) -> Stored:
        self.version += 1
        body["metadata"] = {**body["metadata"], "resourceVersion": str(self.version)}
        return Stored(key, namespace, name, self.version, body, encode(body))

    def _record(self, event: StoreEvent) -> None:
        self.collection(event.after.key).record(event, kept=self._kept)
        for listener in self._listeners:
            listener(event)

    def _remember(self, stored: Stored) -> None:
        self._by_uid[stored.uid] = stored
        for owner in stored.owner_uids:
            self._dependents.setdefault(owner, {})[stored.uid] = None

    def _forget(self, stored: Stored) -> None:
        del self._by_uid[stored.uid]
        for owner in stored.owner_uids:
            children = self._dependents.get(owner, {})
            children.pop(stored.uid, None)
            if not children:
                self._dependents.pop(owner, None)

"""The caches of the objects that controllers and the kubelet watch, kept current by reflectors."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager

from actions.base.backoff import Backoff
from actions.base.clock import Clock
from actions.base.decoding import decode_json
from actions.cluster.auth.session import KubeSession
from actions.cluster.watch.health import Health, SourceHealth
from actions.cluster.watch.reflector import Raw, Reflector
from actions.sandbox.clientkit.conditions import is_true
from actions.sandbox.clientkit.kinds import (
    DEFINITIONS,
    NODES,
    NOT_HOLLOW,
    PODS,
    Document,
    Kind,
    key_of,
    labels_of,
    owner_of,
    uid_of,
)

Listener = Callable[[Document], None]
_REMEMBERED_DELETIONS = 4096


class Cache:
    """The objects of one kind. Never goes backwards: an older version of an object is dropped.

    Listeners are called with the object after each change, also (with its last state) when it is gone.
    """

    def __init__(self, kind: Kind) -> None:
        self.kind = kind
        self.objects: dict[str, Document] = {}
        self.is_synced = asyncio.Event()
        self._gone: deque[str] = deque(maxlen=_REMEMBERED_DELETIONS)
        self._listeners: list[Listener] = []

    def listen(self, listener: Listener) -> None:
        """Call `listener` from now on, and at once for what is there."""
        self._listeners.append(listener)
        for document in list(self.objects.values()):
            listener(document)

    def get(self, key: str) -> Document | None:
        """The object of that key."""
        return self.objects.get(key)

    def of_owner(self, owner: Document) -> list[Document]:
        """The objects that `owner` controls, oldest first."""
        uid = uid_of(owner)
        return [found for found in self.objects.values() if (owner_of(found) or {}).get("uid") == uid]

    def labelled(self, **labels: str) -> list[Document]:
        """The objects with all of these labels."""
        return [found for found in self.objects.values() if labels.items() <= labels_of(found).items()]

    def upsert(self, document: Document) -> None:
        """Take in a version of an object, unless a newer one is known or it is known to be gone."""
        key = key_of(document)
        known = self.objects.get(key)
        if uid_of(document) in self._gone:
            return
        if known is not None and uid_of(known) == uid_of(document) and _version(known) >= _version(document):
            return
        self.objects[key] = document
        self._notify(document)

    def remove(self, document: Document) -> None:
        """Forget an object that has been deleted."""
        self._gone.append(uid_of(document))
        key = key_of(document)
        known = self.objects.get(key)
        if known is not None and uid_of(known) == uid_of(document):
            del self.objects[key]
        self._notify(document)

    async def replace(self, documents: Sequence[Document]) -> None:
        """Take in a whole list: what is not in it is gone."""
        listed = {key_of(document): document for document in documents}
        for key, known in list(self.objects.items()):
            if key not in listed or uid_of(listed[key]) != uid_of(known):
                self.remove(known)
        for document in listed.values():
            self.upsert(document)

    def health(self, health: SourceHealth) -> None:
        """Note that a first complete list is here, or that the kind is not served yet."""
        if health.state in (Health.LIVE, Health.MISSING):
            self.is_synced.set()

    def _notify(self, document: Document) -> None:
        for listener in self._listeners:
            listener(document)


def _version(document: Document) -> int:
    text = str(document["metadata"].get("resourceVersion", "0"))
    return int(text) if text.isdigit() else 0


_LONGEST_WAIT_SECONDS = 1.0


class Caches:
    """The caches of one process, by kind."""

    def __init__(self, kinds: Sequence[Kind]) -> None:
        self._caches = {kind: Cache(kind) for kind in kinds}

    def __getitem__(self, kind: Kind) -> Cache:
        return self._caches[kind]

    def all(self) -> list[Cache]:
        """Every cache."""
        return list(self._caches.values())


@asynccontextmanager
async def watching(session: KubeSession, kinds: Sequence[Kind], clock: Clock) -> AsyncIterator[Caches]:
    """Keep caches of `kinds`, complete when the context is entered.

    A custom kind is watched from the moment at which its CRD is established and serves its version; until then it
    counts as complete and empty.
    """
    is_custom = any(kind.is_custom for kind in kinds)
    caches = Caches([*kinds, *([DEFINITIONS] if is_custom and DEFINITIONS not in kinds else [])])
    tasks = [
        asyncio.create_task(_follow(session, cache, caches, clock), name=f"watch {cache.kind.plural}")
        for cache in caches.all()
    ]
    try:
        for cache in caches.all():
            await cache.is_synced.wait()
        yield caches
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _follow(session: KubeSession, cache: Cache, caches: Caches, clock: Clock) -> None:
    if cache.kind.is_custom:
        await _established(cache, caches[DEFINITIONS])
    await _reflector(session, cache, clock).run()


async def _established(cache: Cache, definitions: Cache) -> None:
    """Wait for the CRD of a kind. Of another version it is another controller's: a reflector would take that one."""
    group, _, version = cache.kind.api_version.partition("/")
    name = f"{cache.kind.plural}.{group}"
    found = asyncio.Event()

    def look(definition: Document) -> None:
        is_it = definition["metadata"]["name"] == name and is_true(definition, "Established")
        if is_it and any(one["name"] == version and one["served"] for one in definition["spec"]["versions"]):
            found.set()

    await definitions.is_synced.wait()
    definitions.listen(look)
    if not found.is_set():
        cache.is_synced.set()
    await found.wait()


def _reflector(session: KubeSession, cache: Cache, clock: Clock) -> Reflector[Document]:
    kind = cache.kind
    stamp: Document = {"apiVersion": kind.api_version, "kind": kind.kind}

    def decode(raw: Raw) -> Document:
        return stamp | decode_json(raw, dict)

    return Reflector(
        session,
        kind.path(),
        decode=decode,
        identify=uid_of,
        sink=cache,
        clock=clock,
        label_selector=NOT_HOLLOW if kind in (PODS, NODES) else "",
        backoff=Backoff(clock, first_seconds=0.2, longest_seconds=_LONGEST_WAIT_SECONDS, jitter=1.0),
    )

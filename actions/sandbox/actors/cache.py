"""An actor's picture of the cluster: every object of the kinds it watches, by key."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence

from actions.cluster.watch.health import Health, SourceHealth
from actions.sandbox.actors.kinds import Document, Kind, key_of, labels_of, owner_of, uid_of

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
        self._tell(document)

    def remove(self, document: Document) -> None:
        """Forget an object that has been deleted."""
        self._gone.append(uid_of(document))
        key = key_of(document)
        known = self.objects.get(key)
        if known is not None and uid_of(known) == uid_of(document):
            del self.objects[key]
        self._tell(document)

    async def replace(self, documents: Sequence[Document]) -> None:
        """Take in a whole list: what is not in it is gone."""
        listed = {key_of(document): document for document in documents}
        for key, known in list(self.objects.items()):
            if key not in listed or uid_of(listed[key]) != uid_of(known):
                self.remove(known)
        for document in listed.values():
            self.upsert(document)

    def health(self, health: SourceHealth) -> None:
        """Note that a first complete list is here, or that there is no such kind yet."""
        if health.state in (Health.LIVE, Health.MISSING):
            self.is_synced.set()

    def _tell(self, document: Document) -> None:
        for listener in self._listeners:
            listener(document)


def _version(document: Document) -> int:
    text = str(document["metadata"].get("resourceVersion", "0"))
    return int(text) if text.isdigit() else 0

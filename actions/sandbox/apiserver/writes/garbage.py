"""Garbage collection: dependents of deleted owners, contents of terminating namespaces, instances of deleted CRDs.

Source: k8s.io/kubernetes `pkg/controller/garbagecollector`, `pkg/controller/namespace` and, for the conditions of a
namespace, its `deletion/status_condition_utils.go`.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from typing import Never

from actions.sandbox.apiserver.storage.codec import Object, clone
from actions.sandbox.apiserver.storage.errors import StatusError
from actions.sandbox.apiserver.storage.resources import CRD_KEY, GroupResource, Registry, key_of_definition
from actions.sandbox.apiserver.storage.store import EventType, Store, Stored, StoreEvent
from actions.sandbox.apiserver.writes.deletion import CLEANUP, FOREGROUND, ORPHAN, Deleter
from actions.sandbox.apiserver.writes.options import DeleteOptions


def remaining_conditions(remaining: Sequence[Stored], home: Object) -> list[Object]:
    """Return the conditions of a terminating namespace, from its remaining objects.

    Args:
        remaining: The namespace's contents, one at least.
        home: The namespace; its `deletionTimestamp` is the time of every transition.
    """
    kinds = Counter(f"{stored.key.plural}.{stored.key.group}" for stored in remaining)
    holding = Counter(name for stored in remaining for name in stored.body["metadata"].get("finalizers") or ())
    finalizers = "All content-preserving finalizers finished"
    if holding:
        finalizers = f"Some content in the namespace has finalizers remaining: {_counted(holding, 'in')}"
    found = [
        ("NamespaceDeletionDiscoveryFailure", False, "ResourcesDiscovered", "All resources successfully discovered"),
        (
            "NamespaceDeletionGroupVersionParsingFailure",
            False,
            "ParsedGroupVersions",
            "All legacy kube types successfully parsed",
        ),
        (
            "NamespaceDeletionContentFailure",
            False,
            "ContentDeleted",
            "All content successfully deleted, may be waiting on finalization",
        ),
        (
            "NamespaceContentRemaining",
            True,
            "SomeResourcesRemain",
            f"Some resources are remaining: {_counted(kinds, 'has')}",
        ),
        (
            "NamespaceFinalizersRemaining",
            bool(holding),
            "SomeFinalizersRemain" if holding else "ContentHasNoFinalizers",
            finalizers,
        ),
    ]
    at = home["metadata"]["deletionTimestamp"]
    return [
        {
            "type": kind,
            "status": "True" if holds else "False",
            "lastTransitionTime": at,
            "reason": reason,
            "message": message,
        }
        for kind, holds, reason, message in found
    ]


def _counted(counts: Counter[str], word: str) -> str:
    return ", ".join(f"{name} {word} {count} resource instances" for name, count in sorted(counts.items()))


_NAMESPACES = GroupResource("", "namespaces")


class GarbageCollector:
    """Follows the store and removes dependents, contents and instances whose owner, namespace or type is gone."""

    def __init__(self, store: Store, registry: Registry, deleter: Deleter) -> None:
        self._store = store
        self._registry = registry
        self._deleter = deleter
        self._events: asyncio.Queue[StoreEvent] = asyncio.Queue()
        store.listen(self._events.put_nowait)

    async def run(self) -> Never:
        """Work until cancelled."""
        while True:
            self._handle_event(await self._events.get())

    def _handle_event(self, event: StoreEvent) -> None:
        if event.change is EventType.DELETED:
            self._after_removal(event.after)
            return
        current = self._store.by_uid(event.after.uid)
        if current is None or current.version != event.after.version:
            return  # a later event of the same object will be handled
        if current.body["metadata"].get("deletionTimestamp"):
            self._advance(current)
        elif event.change is EventType.ADDED and current.owner_uids:
            self._check_owners(current)

    def _after_removal(self, gone: Stored) -> None:
        for child in self._store.dependents(gone.uid):
            self._check_owners(child)
        for owner in gone.owner_uids:
            parent = self._store.by_uid(owner)
            if parent is not None and FOREGROUND in _finalizers(parent):
                self._advance(parent)
        home = self._store.get(_NAMESPACES, "", gone.namespace)
        if home is not None and home.body["metadata"].get("deletionTimestamp"):
            self._empty_namespace(home)
        self._finish_definition(gone.key)

    def _advance(self, stored: Stored) -> None:
        """Take a terminating object one step further."""
        held_by = _finalizers(stored)
        if ORPHAN in held_by:
            for child in self._store.dependents(stored.uid):
                self._remove_owners(child, {stored.uid})
            self._release(stored, ORPHAN)
        elif FOREGROUND in held_by:
            self._delete_dependents(stored)
        elif stored.key == _NAMESPACES:
            self._empty_namespace(stored)
        elif CLEANUP in held_by:
            self._delete_all(list(self._store.collection(key_of_definition(stored.body)).ordered()))
            self._finish_definition(key_of_definition(stored.body))

    def _delete_dependents(self, owner: Stored) -> None:
        children = self._store.dependents(owner.uid)
        if not any(_is_blocking(child, owner.uid) for child in children):
            self._release(owner, FOREGROUND)
            return
        for child in children:
            if not child.body["metadata"].get("deletionTimestamp"):
                self._delete(child, "Foreground" if self._store.dependents(child.uid) else "Background")

    def _check_owners(self, child: Stored) -> None:
        """Delete an object whose last owner is gone; forget the owners that are."""
        owners = [self._store.by_uid(uid) for uid in child.owner_uids]
        if any(owner is not None and FOREGROUND not in _finalizers(owner) for owner in owners):
            absent = {uid for uid in child.owner_uids if self._store.by_uid(uid) is None}
            if absent:
                self._remove_owners(child, absent)
        elif not child.body["metadata"].get("deletionTimestamp"):
            self._delete(child, "Background")

    def _remove_owners(self, child: Stored, owners: set[str]) -> None:
        body = clone(child.body)
        kept = [owner for owner in body["metadata"]["ownerReferences"] if owner.get("uid") not in owners]
        if kept:
            body["metadata"]["ownerReferences"] = kept
        else:
            del body["metadata"]["ownerReferences"]
        self._store.put(child.key, child.namespace, child.name, body)

    def _release(self, stored: Stored, finalizer: str) -> None:
        body = clone(stored.body)
        kept = [name for name in _finalizers(stored) if name != finalizer]
        body["metadata"]["finalizers"] = kept
        if not kept:
            del body["metadata"]["finalizers"]
        after = self._store.put(stored.key, stored.namespace, stored.name, body)
        if not kept and not body["metadata"].get("deletionGracePeriodSeconds"):
            self._deleter.remove(after)

    def _empty_namespace(self, home: Stored) -> None:
        contents = [
            stored for key in self._store.known_keys() for stored in self._store.collection(key).ordered(home.name)
        ]
        if not contents:
            if not _finalizers(home):
                self._deleter.remove(home)
            return
        self._delete_all([stored for stored in contents if "deletionTimestamp" not in stored.body["metadata"]])
        self._update_conditions(home.name)

    def _update_conditions(self, name: str) -> None:
        """Set the conditions of a namespace that is not empty yet."""
        home = self._store.get(_NAMESPACES, "", name)
        remaining = [stored for key in self._store.known_keys() for stored in self._store.collection(key).ordered(name)]
        if home is None or not remaining:
            return
        body = clone(home.body)
        body["status"] = {**(body.get("status") or {}), "conditions": remaining_conditions(remaining, home.body)}
        if body != home.body:
            self._store.put(home.key, home.namespace, home.name, body)

    def _finish_definition(self, key: GroupResource) -> None:
        crd = self._store.get(CRD_KEY, "", f"{key.plural}.{key.group}")
        if crd is None or CLEANUP not in _finalizers(crd) or "deletionTimestamp" not in crd.body["metadata"]:
            return
        if not self._store.collection(key).objects:
            self._release(crd, CLEANUP)

    def _delete_all(self, objects: list[Stored]) -> None:
        for stored in objects:
            self._delete(stored, "Background")

    def _delete(self, stored: Stored, propagation: str) -> None:
        resource = self._registry.any_version(stored.key)
        if resource is None:
            self._deleter.remove(stored)
            return
        options = DeleteOptions(propagation=propagation, uid=stored.uid)
        try:
            self._deleter.delete(resource, stored.namespace, stored.name, options)
        except StatusError:  # gone or replaced since: nothing is left to do
            return


def _finalizers(stored: Stored) -> list[str]:
    found: list[str] = stored.body["metadata"].get("finalizers") or []
    return found


def _is_blocking(child: Stored, owner: str) -> bool:
    references = child.body["metadata"].get("ownerReferences") or ()
    return any(one.get("uid") == owner and one.get("blockOwnerDeletion") for one in references)

"""Admission: who may change or refuse an object on its way into the store, and what the server itself does there.

Source: k8s.io/kubernetes `plugin/pkg/admission/storage/storageclass/setdefault`.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Protocol

import msgspec

from actions.sandbox.api.codec import Object
from actions.sandbox.api.resources import GroupResource
from actions.sandbox.api.store import Store

_CLAIMS = GroupResource("", "persistentvolumeclaims")
_CLASSES = GroupResource("storage.k8s.io", "storageclasses")
_DEFAULT = "storageclass.kubernetes.io/is-default-class"


class Operation(StrEnum):
    """What is done to an object."""

    CREATE = "CREATE"
    UPDATE = "UPDATE"
    DELETE = "DELETE"


class Review(msgspec.Struct, frozen=True):
    """One request on its way."""

    operation: Operation
    key: GroupResource
    namespace: str
    name: str
    body: Object
    """As it would be stored, defaults filled in; may be changed in place, except when it is deleted."""


class Admission(Protocol):
    """An admission plugin, or webhooks."""

    def admit(self, review: Review, store: Store) -> None:
        """Change the object, or let it pass.

        Raises:
            ApiFault: It is refused.
        """
        ...


class DefaultStorageClass:
    """Gives a claim that names no class the default one; an empty name is a name."""

    def admit(self, review: Review, store: Store) -> None:
        """See `Admission`."""
        if review.key != _CLAIMS or review.operation is not Operation.CREATE:
            return
        if "storageClassName" in review.body["spec"]:
            return
        for stored in store.collection(_CLASSES).objects.values():
            annotations = stored.body["metadata"].get("annotations") or {}
            if annotations.get(_DEFAULT) == "true":
                review.body["spec"]["storageClassName"] = stored.name
                return


BUILT_IN: tuple[Admission, ...] = (DefaultStorageClass(),)
"""The server's own."""

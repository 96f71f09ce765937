"""Objects in the form that a request accepts: whole, as a server-side table, or metadata alone.

Whole objects cost nothing: they are stored as JSON already.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from enum import Enum

import msgspec

from actions.base.clock import Clock
from actions.sandbox.apiserver.printing.table import partial_of, table_of
from actions.sandbox.apiserver.storage.codec import Object, encode
from actions.sandbox.apiserver.storage.resources import ServedResource
from actions.sandbox.apiserver.storage.store import Stored


class ResponseForm(Enum):
    """The form that an `Accept` header demands."""

    OBJECT = "Object"
    TABLE = "Table"
    METADATA = "PartialObjectMetadata"


_AS = re.compile(r"\bas=(\w+)")


def form_of(accept: str) -> ResponseForm:
    """The first form in an `Accept` header that is served here."""
    for choice in accept.split(","):
        match = _AS.search(choice)
        if match is None:
            return ResponseForm.OBJECT
        if "apidiscovery" in choice:
            continue
        for form in (ResponseForm.TABLE, ResponseForm.METADATA):
            if match[1].removesuffix("List") == form.value:
                return form
    return ResponseForm.OBJECT


class View(msgspec.Struct, frozen=True):
    """The form in which one request gets objects of one type. `include` is the table's `includeObject`."""

    resource: ServedResource
    form: ResponseForm
    clock: Clock
    include: str = "Metadata"

    def one(self, stored: Stored) -> bytes:
        """One object."""
        match self.form:
            case ResponseForm.TABLE:
                return encode(self._table([self._shown(stored)], {"resourceVersion": str(stored.version)}))
            case ResponseForm.METADATA:
                return encode(partial_of(stored.body))
            case ResponseForm.OBJECT:
                return self._raw(stored)

    def bookmark(self, stored: Stored) -> bytes:
        """Return a bookmark, which has only a type and a resource version."""
        if self.form is ResponseForm.TABLE:
            return encode(self._table([], {"resourceVersion": str(stored.version)}) | {"rows": [_bookmark_row(stored)]})
        return encode(partial_of(stored.body)) if self.form is ResponseForm.METADATA else stored.raw

    def many(self, objects: Iterable[Stored], metadata: Object) -> bytes:
        """A list; `metadata` is its `ListMeta`."""
        match self.form:
            case ResponseForm.TABLE:
                return encode(self._table((self._shown(one) for one in objects), metadata))
            case ResponseForm.METADATA:
                items = [partial_of(one.body) for one in objects]
                head = {"kind": "PartialObjectMetadataList", "apiVersion": "meta.k8s.io/v1", "metadata": metadata}
                return encode({**head, "items": items})
            case ResponseForm.OBJECT:
                kind, version = encode(self.resource.kind + "List"), encode(self.resource.api_version)
                head_bytes = b'{"kind":%b,"apiVersion":%b,"metadata":%b,"items":[' % (kind, version, encode(metadata))
                return head_bytes + b",".join(self._raw(one) for one in objects) + b"]}"

    def _table(self, bodies: Iterable[Object], metadata: Object) -> Object:
        return table_of(self.resource, bodies, now=self.clock.now(), include=self.include, metadata=metadata)

    def _raw(self, stored: Stored) -> bytes:
        return stored.raw if stored.api_version == self.resource.api_version else encode(self._body(stored))

    def _shown(self, stored: Stored) -> Object:
        """Return the form that a table reads: columns are defined for the stored one."""
        return self._body(stored) if self.include == "Object" else stored.body

    def _body(self, stored: Stored) -> Object:
        """Return the object in the requested version: most versions differ only in their name."""
        if stored.api_version == self.resource.api_version:
            return stored.body
        return {**stored.body, "apiVersion": self.resource.api_version}


def _bookmark_row(stored: Stored) -> Object:
    return {"cells": [], "object": partial_of(stored.body)}

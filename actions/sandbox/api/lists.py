"""Lists: all matching objects, or page after page of them.

A continued list goes on in the present: it keeps the resource version of its first page, from which a watch then
delivers whatever changed meanwhile.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from itertools import islice

import msgspec

from actions.sandbox.api.codec import Object, encode
from actions.sandbox.api.selectable import check_fields
from actions.sandbox.api.selectors import predicate_of
from actions.sandbox.api.status import bad_request, expired, too_large_version
from actions.sandbox.api.store import Collection, Store, Stored
from actions.sandbox.api.target import Target


class _Continue(msgspec.Struct, frozen=True):
    """Where a list goes on. `version` is that of its first page."""

    version: int
    namespace: str
    name: str


def list_objects(store: Store, target: Target, query: Mapping[str, str]) -> tuple[list[Stored], Object]:
    """The objects of a (page of a) list, with its `ListMeta`.

    Raises:
        ApiFault: 400, 410 (the page token or exact version is too old), 504 (the version lies in the future).
    """
    collection = store.collection(target.resource.key)
    check_fields(target.resource, query.get("fieldSelector", ""))
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
        ApiFault: 400, 410 or 504.
    """
    text = query.get("resourceVersion", "")
    if text in ("", "0"):
        return
    if not text.isdigit():
        raise bad_request(f"Invalid value: {text!r}: resourceVersion is no number")
    if int(text) > current:
        raise too_large_version(int(text), current)
    if query.get("resourceVersionMatch") == "Exact" and int(text) != current:
        raise expired("The resourceVersion for the provided list is too old.")


def _token_of(text: str, collection: Collection) -> _Continue | None:
    if not text:
        return None
    try:
        token = msgspec.json.decode(base64.urlsafe_b64decode(text), type=_Continue)
    except (binascii.Error, ValueError, msgspec.DecodeError) as error:
        raise bad_request("continue key is not valid: it cannot be read") from error
    if token.version < collection.floor:
        raise expired("The provided continue parameter is too old to display a consistent list result.")
    return token


def _write_token(token: _Continue) -> str:
    return base64.urlsafe_b64encode(encode(token)).decode()

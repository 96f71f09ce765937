"""Whole lists in pages, of whole objects or of their metadata alone.

Source: Kubernetes API concepts, "Retrieving large results sets in chunks" and "Metadata-only fetches".
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from actions.base.errors import FormatError
from actions.cluster.errors import ApiRefusedError
from actions.cluster.limits import DOCUMENTS, FACTS
from actions.cluster.paging import PageCount
from actions.cluster.session import KubeSession, decode_document

Document = dict[str, Any]

WHOLE = "application/json"
METADATA = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json"
METADATA_LIST = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json"
"""Asks for metadata, so that the contents of a Secret stay where they are; an aggregated API that knows no such thing
answers with whole objects."""

_PAGE = 500
_BEGINNINGS = 3


async def get_metadata(session: KubeSession, path: str) -> Document:
    """One object, without anything but its metadata.

    Raises:
        ApiError: As the server said.
        FormatError: The answer is no object.
    """
    return decode_document(await session.request("GET", path, accept=METADATA), source=f"{session.server}{path}")


async def list_pages(
    session: KubeSession, path: str, query: Mapping[str, str] | None = None, *, accept: str = WHOLE
) -> list[Document]:
    """Every item of a list.

    A page token that has grown too old (410) begins the list anew: what came before is of another moment.

    Args:
        session: The session.
        path: Of the collection.
        query: Selectors.
        accept: `METADATA_LIST` for metadata alone.

    Raises:
        ApiError: As the server said; 410 if the list could not be read to its end three times.
        FormatError: The answer is no list.
        OversizeError: The list has no end.
    """
    for _ in range(_BEGINNINGS - 1):
        try:
            return await _read_through(session, path, query or {}, accept)
        except ApiRefusedError as error:
            if not error.status.is_expired:
                raise
    return await _read_through(session, path, query or {}, accept)


async def _read_through(session: KubeSession, path: str, query: Mapping[str, str], accept: str) -> list[Document]:
    found: list[Document] = []
    uids = set[str]()
    pages = PageCount(path, size=_PAGE, most=DOCUMENTS if accept == WHOLE else FACTS)
    asked = {**query, "limit": str(_PAGE)}
    while True:
        body = await session.request("GET", path, query=asked, accept=accept)
        page = decode_document(body, source=f"{session.server}{path}")
        few = _items_of(page, source=f"{session.server}{path}")
        found += few
        metadata = page.get("metadata")
        following = metadata.get("continue") if isinstance(metadata, dict) else None
        if not following:
            return found
        uids.update(str((item.get("metadata") or {}).get("uid")) for item in few)
        await pages.turn(str(following), held=len(few), known=len(uids))
        asked["continue"] = str(following)


def _items_of(page: Document, *, source: str) -> list[Document]:
    """The items of a page. An empty list may be `null`, as Go writes it; a page without the word is no list."""
    items = page.get("items", _NONE)
    if items is None:
        return []
    if not isinstance(items, list) or not all(isinstance(item, dict) for item in items):
        raise FormatError(f"{source} did not answer with a list of objects.")
    return items


_NONE = object()

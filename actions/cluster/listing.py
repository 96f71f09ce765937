"""Whole lists in pages, of whole objects or of their metadata alone.

Source: Kubernetes API concepts, "Retrieving large results sets in chunks" and "Metadata-only fetches".
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import msgspec

from actions.base.errors import FormatError
from actions.cluster.errors import ApiRefusedError
from actions.cluster.limits import DOCUMENTS, FACTS
from actions.cluster.paging import PageCount
from actions.cluster.session import KubeSession, decode_document

Document = dict[str, Any]
"""A Kubernetes object as JSON gives it."""
Take = Callable[[list[msgspec.Raw]], Awaitable[list[Document]]]
"""Reads a page's objects, or what is to be kept of them, before the next page is asked for. Their uids stay."""

WHOLE = "application/json"
METADATA = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json"
METADATA_LIST = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json"
"""Asks for metadata, so that the contents of a Secret stay where they are; an aggregated API that knows no such thing
answers with whole objects."""

_PAGE = 500
_BEGINNINGS = 3


class _Page(msgspec.Struct):
    """A page whose objects are not read yet. An empty list may be `null`, as Go writes it."""

    items: list[msgspec.Raw] | None
    metadata: Any = None


_pages = msgspec.json.Decoder(_Page)
_documents = msgspec.json.Decoder(Document)


async def get_metadata(session: KubeSession, path: str) -> Document:
    """One object, without anything but its metadata.

    Raises:
        ApiError: As the server said.
        FormatError: The answer is no object.
    """
    return decode_document(await session.request("GET", path, accept=METADATA), source=f"{session.server}{path}")


def read_item(raw: msgspec.Raw) -> Document:
    """One object of a list.

    Raises:
        msgspec.DecodeError: It is none.
    """
    return _documents.decode(raw)


async def _all_of_it(few: list[msgspec.Raw]) -> list[Document]:
    return [read_item(raw) for raw in few]


async def list_pages(
    session: KubeSession,
    path: str,
    query: Mapping[str, str] | None = None,
    *,
    accept: str = WHOLE,
    take: Take = _all_of_it,
) -> list[Document]:
    """Every item of a list.

    A page token that has grown too old (410) begins the list anew: what came before is of another moment.

    Args:
        session: The session.
        path: Of the collection.
        query: Selectors.
        accept: `METADATA_LIST` for metadata alone.
        take: For lists of which not everything need be kept.

    Raises:
        ApiError: As the server said; 410 if the list could not be read to its end three times.
        FormatError: The answer is no list.
        OversizeError: The list has no end.
    """
    for _ in range(_BEGINNINGS - 1):
        try:
            return await _read_through(session, path, query or {}, accept, take)
        except ApiRefusedError as error:
            if not error.status.is_expired:
                raise
    return await _read_through(session, path, query or {}, accept, take)


async def _read_through(
    session: KubeSession, path: str, query: Mapping[str, str], accept: str, take: Take
) -> list[Document]:
    found: list[Document] = []
    uids = set[str]()
    pages = PageCount(path, size=_PAGE, most=DOCUMENTS if accept == WHOLE else FACTS)
    asked = {**query, "limit": str(_PAGE)}
    while True:
        body = await session.request("GET", path, query=asked, accept=accept)
        try:
            page = _pages.decode(body)
            del body  # it is as large as what is read of it
            few = await take([] if page.items is None else page.items)
        except msgspec.DecodeError as error:
            raise FormatError(f"{session.server}{path} did not answer with a list of objects: {error}.") from error
        found += few
        following = page.metadata.get("continue") if isinstance(page.metadata, dict) else None
        if not following:
            return found
        uids.update(str((item.get("metadata") or {}).get("uid")) for item in few)
        await pages.turn(str(following), held=len(few), known=len(uids))
        asked["continue"] = str(following)

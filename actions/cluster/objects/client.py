"""Objects of any kind over plain HTTP: discovered, fetched, listed, created, changed, deleted.

Lists come in pages, of whole objects or of their metadata alone.

Source: Kubernetes API concepts, "Retrieving large results sets in chunks" and "Metadata-only fetches".
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import Any

import msgspec
from msgspec.structs import replace

from actions.base.clock import Clock, SystemClock
from actions.base.decoding import decode_json, json_decoder
from actions.base.errors import FormatError, InputError, MissingError
from actions.base.names import segment
from actions.cluster.auth.session import KubeSession, decode_document
from actions.cluster.bounds import DOCUMENTS, FACTS, PageCount
from actions.cluster.http.errors import ApiMissingError, ApiRefusedError
from actions.cluster.kinds import other_versions

Document = dict[str, Any]
"""A Kubernetes object, decoded from JSON."""
Take = Callable[[list[msgspec.Raw]], Awaitable[list[Document]]]
"""Reads a page's objects, or the parts to keep, before the next page is requested. Their uids are kept."""

WHOLE = "application/json"
METADATA = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json"
METADATA_LIST = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json"
"""Media types that request metadata alone, so that the contents of a Secret are not sent; an aggregated API that lacks
them answers with whole objects."""

_PAGE = 500
_BEGINNINGS = 3


class _Page(msgspec.Struct):
    """A page whose objects are not read yet. An empty list may be `null`, as Go writes it."""

    items: list[msgspec.Raw] | None
    metadata: Any = None


_pages = json_decoder(_Page)
_documents = json_decoder(Document)


async def get_metadata(session: KubeSession, path: str) -> Document:
    """Get the metadata of one object.

    Raises:
        ApiError: The server refused.
        FormatError: The answer is not an object.
    """
    return decode_document(await session.request("GET", path, accept=METADATA), source=f"{session.server}{path}")


def read_item(raw: msgspec.Raw) -> Document:
    """Decode one object of a list.

    Raises:
        msgspec.DecodeError: It is not one.
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
    size: int = _PAGE,
) -> list[Document]:
    """Read every item of a list.

    A page token that has expired (410) restarts the list: earlier pages are of another snapshot.

    Args:
        session: The session.
        path: The path of the collection.
        query: Selectors.
        accept: `METADATA_LIST` for metadata alone.
        take: Reads the items of a page, for lists of which not everything need be kept.
        size: Objects of a page, for objects that may be large.

    Raises:
        ApiError: The server refused; 410 if the list expired three times.
        FormatError: The answer is not a list.
        OversizeError: The list does not end.
    """
    for _ in range(_BEGINNINGS - 1):
        try:
            return await _read_through(session, path, query or {}, accept, take, size=size)
        except ApiRefusedError as error:
            if not error.status.is_expired:
                raise
    return await _read_through(session, path, query or {}, accept, take, size=size)


async def _read_through(
    session: KubeSession, path: str, query: Mapping[str, str], accept: str, take: Take, *, size: int
) -> list[Document]:
    found: list[Document] = []
    uids = set[str]()
    pages = PageCount(path, size=size, most=DOCUMENTS if accept == WHOLE else FACTS)
    asked = {**query, "limit": str(size)}
    while True:
        body = await session.request("GET", path, query=asked, accept=accept)
        try:
            page = _pages.decode(body)
            del body  # it is as large as the objects
            few = await take([] if page.items is None else page.items)
        except msgspec.DecodeError as error:
            raise FormatError(f"{session.server}{path} did not answer with a list of objects: {error}.") from error
        found += few
        following = page.metadata.get("continue") if isinstance(page.metadata, dict) else None
        if not following:
            return found
        uids.update(str((item.get("metadata") or {}).get("uid")) for item in few)
        await pages.next_page(str(following), held=len(few), known=len(uids))
        asked["continue"] = str(following)


_CATALOGUE_SECONDS = 600.0
_ASK_AGAIN_SECONDS = 2.0


class ObjectRef(msgspec.Struct, frozen=True):
    """A reference to one object. `namespace` is empty for cluster-scoped kinds."""

    api_version: str
    kind: str
    namespace: str
    name: str

    def describe(self) -> str:
        """Return it for messages: `PyTorchJob default/esm1nv-pretraining`."""
        return f"{self.kind} {self.namespace}/{self.name}" if self.namespace else f"{self.kind} {self.name}"


class ApiResource(msgspec.Struct, frozen=True):
    """The path of the objects of one kind, from discovery."""

    api_version: str
    kind: str
    plural: str
    is_namespaced: bool

    def path(self, namespace: str = "", name: str = "") -> str:
        """Return the path of one object, or of the list if `name` is empty; of all namespaces if `namespace` is.

        Raises:
            RefusedError: A name cannot be a segment of a path.
        """
        root = f"/apis/{self.api_version}" if "/" in self.api_version else f"/api/{self.api_version}"
        scope = f"/namespaces/{segment(namespace)}" if self.is_namespaced and namespace else ""
        return f"{root}{scope}/{self.plural}" + (f"/{segment(name)}" if name else "")


class _Resource(msgspec.Struct):
    name: str
    kind: str
    namespaced: bool = False
    verbs: list[str] | None = None


class _ResourceList(msgspec.Struct):
    resources: list[_Resource] | None = None


async def listed_kinds(session: KubeSession, api_version: str) -> list[tuple[ApiResource, list[str]]]:
    """Return the kinds of one version of a group with the requests that each takes; none if it is not served.

    Raises:
        ApiError: The server refused.
        FormatError: The answer is not discovery's.
    """
    root = f"/apis/{api_version}" if "/" in api_version else f"/api/{api_version}"
    try:
        found = decode_json(await session.request("GET", root), _ResourceList).resources or []
    except ApiMissingError:
        return []
    except msgspec.DecodeError as error:
        raise FormatError(f"{session.server}{root} did not answer with a list of kinds: {error}.") from error
    return [
        (ApiResource(api_version, one.kind, one.name, one.namespaced), one.verbs or [])
        for one in found
        if "/" not in one.name
    ]


class Discovery:
    """The kinds that the cluster serves, kept in memory for ten minutes, requested again when one is missing.

    One instance a session; used from the session's loop.
    """

    def __init__(self, session: KubeSession, *, clock: Clock | None = None) -> None:
        self._session = session
        self._clock = clock or SystemClock()
        self._known: dict[str, tuple[float, dict[str, ApiResource]]] = {}
        self._lock = asyncio.Lock()

    async def resolve(self, api_version: str, kind: str) -> ApiResource:
        """Return the path of the objects of `kind`.

        Raises:
            MissingError: The cluster does not know the kind in that version.
        """
        async with self._lock:
            found = await self._lookup(api_version, kind)
        if found is None:
            raise MissingError(
                f"The cluster {self._session.context} does not know the kind {kind} of {api_version}.",
                hint="Install the operator or CRD that brings it.",
            )
        return found

    async def find(self, api_version: str, kind: str) -> ApiResource:
        """Like `resolve`, for reading: if the cluster does not serve that version, use another that is read alike."""
        for version in (api_version, *other_versions(api_version, kind)):
            with suppress(MissingError):
                return await self.resolve(version, kind)
        return await self.resolve(api_version, kind)

    def forget(self) -> None:
        """Request the kinds again at the next call, as some were added or removed."""
        self._known.clear()

    async def _lookup(self, api_version: str, kind: str) -> ApiResource | None:
        age = _CATALOGUE_SECONDS
        kinds: dict[str, ApiResource] = {}
        if api_version in self._known:
            at, kinds = self._known[api_version]
            age = self._clock.monotonic() - at
        if age >= _CATALOGUE_SECONDS or (kind not in kinds and age >= _ASK_AGAIN_SECONDS):
            kinds = {one.kind: one for one, _ in await listed_kinds(self._session, api_version)}
            self._known[api_version] = (self._clock.monotonic(), kinds)
        return kinds.get(kind)


async def fetch_object(session: KubeSession, discovery: Discovery, ref: ObjectRef) -> Document:
    """Get an object as it is now.

    Raises:
        MissingError: There is no such object, or the cluster does not know its kind.
    """
    kind = await discovery.find(ref.api_version, ref.kind)
    return await session.get(kind.path(_namespace(session, kind, ref), ref.name))


async def list_objects(
    session: KubeSession,
    discovery: Discovery,
    api_version: str,
    kind: str,
    *,
    namespace: str = "",
    label_selector: str = "",
    field_selector: str = "",
    take: Take | None = None,
) -> list[Document]:
    """List every object of a kind, in pages of one snapshot; start again if the snapshot expires meanwhile.

    Args:
        session: The session.
        discovery: Its discovery.
        api_version: For instance `v1` or `batch/v1`.
        kind: For instance `Pod`.
        namespace: Empty for all namespaces.
        label_selector: As kubectl's `-l`.
        field_selector: As kubectl's `--field-selector`.
        take: See `list_pages`.

    Returns:
        Documents with `apiVersion` and `kind` filled in, which the API leaves out inside lists.

    Raises:
        MissingError: The cluster does not know the kind.
        OversizeError: The list does not end, or is longer than `limits.DOCUMENTS`.
    """
    found_as = await discovery.find(api_version, kind)
    path = found_as.path(namespace)
    selectors = {"labelSelector": label_selector, "fieldSelector": field_selector}
    query = {name: value for name, value in selectors.items() if value}
    items = await (list_pages(session, path, query, take=take) if take else list_pages(session, path, query))
    return [{"apiVersion": found_as.api_version, "kind": kind} | item for item in items]


async def merge_patch(session: KubeSession, discovery: Discovery, ref: ObjectRef, patch: Mapping[str, Any]) -> Document:
    """Change some fields (RFC 7386: `None` removes one, lists are replaced whole).

    Args:
        session: The session.
        discovery: Its discovery.
        ref: The object.
        patch: The fields.

    Raises:
        MissingError: There is no such object.
    """
    _, path = await placed(session, discovery, ref)
    body = await session.request(
        "PATCH", path, body=msgspec.json.encode(patch), content_type="application/merge-patch+json"
    )
    return decode_document(body, source=path)


async def delete(
    session: KubeSession,
    discovery: Discovery,
    ref: ObjectRef,
    *,
    propagation: str = "Background",
    uid: str = "",
    version: str = "",
) -> bool:
    """Request the deletion of an object. It may stay for a while, with a deletion timestamp.

    Args:
        session: The session.
        discovery: Its discovery.
        ref: The object.
        propagation: Background, Foreground or Orphan.
        uid: If given, only the object with this uid is deleted; another of the same name is a conflict.
        version: If given, only the object in this resource version is deleted; a later one is a conflict.

    Returns:
        Whether there was such an object.

    Raises:
        ConflictError: The object of that name has another uid, or has been changed.
    """
    options: Document = {"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": propagation}
    conditions = {name: value for name, value in (("uid", uid), ("resourceVersion", version)) if value}
    if conditions:
        options["preconditions"] = conditions
    try:
        _, path = await placed(session, discovery, ref)
        await session.request("DELETE", path, body=msgspec.json.encode(options))
    except MissingError:
        return False
    return True


def ref_of(manifest: Mapping[str, Any]) -> ObjectRef:
    """Return the reference to a manifest's object.

    Raises:
        InputError: It has no `apiVersion`, `kind` or `metadata.name`.
    """
    written = manifest.get("metadata")
    metadata = written if isinstance(written, Mapping) else {}
    ref = ObjectRef(
        api_version=str(manifest.get("apiVersion") or ""),
        kind=str(manifest.get("kind") or ""),
        namespace=str(metadata.get("namespace") or ""),
        name=str(metadata.get("name") or metadata.get("generateName") or ""),
    )
    missing = [
        field
        for field, value in (("apiVersion", ref.api_version), ("kind", ref.kind), ("metadata.name", ref.name))
        if not value
    ]
    if missing:
        raise InputError(f"A manifest ({ref.kind or 'no kind'} {ref.name}) has no {', '.join(missing)}.")
    return ref


async def placed(
    session: KubeSession, discovery: Discovery, ref: ObjectRef, *, is_new: bool = False
) -> tuple[ObjectRef, str]:
    """Return the reference with the namespace of the object, the session's if it names none, and its path.

    Args:
        session: The session.
        discovery: Its discovery.
        ref: The object.
        is_new: Return the path of all objects of the kind, under which one is created.

    Raises:
        MissingError: The cluster does not know the kind.
    """
    kind = await discovery.resolve(ref.api_version, ref.kind)
    ref = replace(ref, namespace=_namespace(session, kind, ref))
    return ref, kind.path(ref.namespace, "" if is_new else ref.name)


def _namespace(session: KubeSession, kind: ApiResource, ref: ObjectRef) -> str:
    """Return the reference's namespace, or the session's if it has none and the kind needs one."""
    return (ref.namespace or session.namespace) if kind.is_namespaced else ""

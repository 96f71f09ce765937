"""The survey of a cluster's objects: a list that was refused never counts as empty."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import TypeVar

import msgspec

from actions.base.decoding import convert
from actions.base.errors import FormatError, MissingError, UnreachableError
from actions.base.untrusted import one_line
from actions.base.wording import counted, listed
from actions.cluster.bounds import OversizeError
from actions.cluster.http.errors import ApiAccessError, ApiError, ApiMissingError
from actions.cluster.objects.client import (
    METADATA_LIST,
    WHOLE,
    ApiResource,
    ObjectRef,
    get_metadata,
    list_pages,
    listed_kinds,
)
from actions.run.context.access import ClusterConnection
from actions.run.objects.ownership import Entry, Inventory, ObjectOwner, entry_of, group_of

T = TypeVar("T")

_EVENTS = frozenset({("", "Event"), ("events.k8s.io", "Event")})
"""Events are about other objects, and expire by themselves."""
_MEASUREMENTS = frozenset({"metrics.k8s.io", "custom.metrics.k8s.io", "external.metrics.k8s.io"})
"""Groups that serve measurements of objects, not objects."""
_LEASE = ("coordination.k8s.io", "Lease")
_GENERATIONS = 16
"""Depth to which owners of owners are followed."""
_UNAUTHORIZED = 401
_NAMED = 3


class Unanswered(msgspec.Struct, frozen=True):
    """A request that was refused or failed."""

    verb: str
    resource: str
    """`secrets`, `pytorchjobs.kubeflow.org`; a group and version where its kinds are not known."""
    namespace: str = ""
    why: str = ""
    """Reason of the failure; empty where a right is missing."""

    @property
    def may_pass(self) -> bool:
        """True if it is a temporary failure rather than a missing right."""
        return bool(self.why)

    def clause(self) -> str:
        """Return a clause for sentences: `may not list secrets in red-ns`."""
        where = f"{self.resource} in {self.namespace}" if self.namespace else self.resource
        return f"could not {self.verb} {where}: {self.why.rstrip('.')}" if self.why else f"may not {self.verb} {where}"


class ObjectListing(msgspec.Struct, frozen=True):
    """The objects that were found, and the requests that failed."""

    entries: tuple[Entry, ...] = ()
    unasked: tuple[Unanswered, ...] = ()


class ApiResources(msgspec.Struct, frozen=True):
    """The kinds of a cluster whose objects can be listed or deleted."""

    kinds: tuple[ApiResource, ...] = ()
    unasked: tuple[Unanswered, ...] = ()


async def fetch_kinds(connection: ClusterConnection) -> ApiResources:
    """Return every kind of the cluster, each in one version that serves it, preferably that of its group.

    Raises:
        ConsoleError: The cluster cannot be reached, or accepts no credentials.
    """
    groups = [group for group in await _groups(connection) if group[0] not in _MEASUREMENTS]
    versions = [version for _, served in groups for version in served]
    answers = await asyncio.gather(*(_kinds_of(connection, version) for version in versions))
    kinds: dict[tuple[str, str], ApiResource] = {}
    for answer in answers:
        for kind in answer.kinds:
            kinds.setdefault((group_of(kind.api_version), kind.plural), kind)
    return ApiResources(tuple(kinds.values()), tuple(one for answer in answers for one in answer.unasked))


async def survey(
    connection: ClusterConnection, kinds: Iterable[ApiResource], *, namespace: str = "", selector: str = ""
) -> ObjectListing:
    """Return the metadata of all objects of some kinds.

    Args:
        connection: The cluster.
        kinds: The kinds.
        namespace: Empty for all.
        selector: Label selector.

    Raises:
        ConsoleError: The cluster cannot be reached, or accepts no credentials.
    """
    answers = await asyncio.gather(*(_list(connection, kind, namespace, selector) for kind in kinds))
    return _merged(answers)


async def survey_as_far(
    connection: ClusterConnection, kinds: Sequence[ApiResource], namespaces: Sequence[str], *, selector: str
) -> ObjectListing:
    """Return what `survey` does, with the objects in some namespaces of kinds that may not be listed in the cluster.

    Raises:
        ConsoleError: The cluster cannot be reached, or accepts no credentials.
    """
    found = await survey(connection, kinds, selector=selector)
    refused = {one.resource for one in found.unasked if not one.may_pass}
    if not refused:
        return found
    asked = [kind for kind in kinds if kind.is_namespaced and resource_name(kind) in refused]
    answers = [await survey(connection, asked, namespace=name, selector=selector) for name in namespaces]
    outside = f"{counted(len(refused), 'kind')} outside of {listed(namespaces, _NAMED)}"
    unasked = Unanswered("list", f"{outside}: {listed(sorted(refused), _NAMED)}")
    passing = ObjectListing(found.entries, (*(one for one in found.unasked if one.may_pass), unasked))
    return _merged([passing, *answers])


def sentences_of(unasked: Iterable[Unanswered]) -> list[str]:
    """Return a sentence for each reason for which something could not be looked at, with its kinds."""
    kinds: dict[Unanswered, dict[str, None]] = {}
    for one in unasked:
        kinds.setdefault(msgspec.structs.replace(one, resource=""), {})[one.resource] = None
    grouped = [msgspec.structs.replace(one, resource=listed(list(names), _NAMED)) for one, names in kinds.items()]
    return [f"{'The audit' if one.may_pass else 'This user'} {one.clause()}." for one in grouped]


async def survey_path(connection: ClusterConnection, kind: ApiResource) -> ObjectListing:
    """Return the metadata of all objects of one kind whose API resource is known without discovery."""
    return await _list(connection, kind, "", "")


async def look(connection: ClusterConnection, ref: ObjectRef) -> Entry | Unanswered | None:
    """Return the metadata of one object; `None` if there is none, or no such kind.

    Raises:
        UnreachableError: The cluster, or the API of this kind, cannot be reached.
        ConsoleError: The cluster accepts no credentials.
    """
    what = Unanswered("get", ref.kind, ref.namespace)
    try:
        kind = await connection.discovery.find(ref.api_version, ref.kind)
        what = msgspec.structs.replace(what, resource=resource_name(kind))
        path = kind.path(ref.namespace or connection.session.namespace, ref.name)
        return entry_of(await get_metadata(connection.session, path), group_of(ref.api_version), ref.kind)
    except MissingError:
        return None
    except UnreachableError:
        raise
    except (ApiError, FormatError) as error:
        return _unanswered(error, what)


async def with_owners(connection: ClusterConnection, entries: Sequence[Entry], inventory: Inventory) -> ObjectListing:
    """Return owners of entries that are neither among them nor in the inventory, with their owners, if they exist.

    Raises:
        ConsoleError: The cluster cannot be reached, or accepts no credentials.
    """
    known = {entry.uid for entry in entries} | inventory.uids
    found: list[Entry] = []
    unasked: list[Unanswered] = []
    generation = list(entries)
    for _ in range(_GENERATIONS):
        wanted = {
            owner.uid: (owner, entry.namespace)
            for entry in generation
            for owner in entry.owners
            if owner.uid not in known
        }
        if not wanted:
            break
        known |= wanted.keys()
        answers = await asyncio.gather(*(_owner(connection, owner, space) for owner, space in wanted.values()))
        generation = [answer for answer in answers if isinstance(answer, Entry)]
        found += generation
        unasked += [answer for answer in answers if isinstance(answer, Unanswered)]
    return ObjectListing(tuple(found), tuple(unasked))


def resource_name(kind: ApiResource) -> str:
    """Return a resource's name as in RBAC's messages: `pods`, `jobs.batch`."""
    group = group_of(kind.api_version)
    return f"{kind.plural}.{group}" if group else kind.plural


def is_contents(kind: ApiResource) -> bool:
    """Return whether such objects count as contents of a namespace: they are namespaced, and not events.

    Source: k8s.io/kubernetes `pkg/controller/namespace/deletion/namespaced_resources_deleter.go`.
    """
    return kind.is_namespaced and (group_of(kind.api_version), kind.kind) not in _EVENTS


async def _groups(connection: ClusterConnection) -> list[tuple[str, list[str]]]:
    """Return each group with its versions, the preferred one first."""
    listed = await connection.session.get("/apis")
    try:
        groups = convert(listed, _GroupList).groups or []
    except msgspec.ValidationError as error:
        raise FormatError(f"{connection.session.server}/apis did not answer with a list of groups: {error}.") from error
    found = [("", ["v1"])]
    for group in groups:
        versions = [one.group_version for one in group.versions]
        preferred = group.preferred_version.group_version if group.preferred_version else ""
        found.append((group.name, sorted(versions, key=lambda version: version != preferred)))
    return found


async def _kinds_of(connection: ClusterConnection, version: str) -> ApiResources:
    async def fetch() -> tuple[ApiResource, ...]:
        listed = await listed_kinds(connection.session, version)
        return tuple(kind for kind, verbs in listed if "delete" in verbs)

    found = await _asked(fetch, Unanswered("find out the kinds of", version))
    return ApiResources(unasked=(found,)) if isinstance(found, Unanswered) else ApiResources(found)


async def _list(connection: ClusterConnection, kind: ApiResource, namespace: str, selector: str) -> ObjectListing:
    group = group_of(kind.api_version)
    accept = WHOLE if (group, kind.kind) == _LEASE else METADATA_LIST  # a lease's holder is none of its metadata

    async def fetch() -> tuple[Entry, ...]:
        query = {"labelSelector": selector} if selector else {}
        try:
            items = await list_pages(connection.session, kind.path(namespace), query, accept=accept)
        except ApiMissingError as error:
            if await _is_served(connection, kind):
                raise FormatError(error.message) from error
            return ()  # the kind went meanwhile, with all its objects
        return tuple(entry_of(item, group, kind.kind) for item in items)

    found = await _asked(fetch, Unanswered("list", resource_name(kind), namespace))
    return ObjectListing(unasked=(found,)) if isinstance(found, Unanswered) else ObjectListing(found)


async def _is_served(connection: ClusterConnection, kind: ApiResource) -> bool:
    served = await _kinds_of(connection, kind.api_version)
    return bool(served.unasked) or kind in served.kinds


async def _owner(connection: ClusterConnection, owner: ObjectOwner, namespace: str) -> Entry | Unanswered | None:
    """Return an owner if it exists with the uid that is meant.

    Found by a list request, so that the survey needs no right but to list.
    """
    what = Unanswered("list", f"{owner.kind} {one_line(owner.name)}", namespace)

    async def fetch() -> Entry | None:
        nonlocal what
        try:
            kind = await connection.discovery.find(owner.api_version, owner.kind)
        except MissingError:
            return None
        what = msgspec.structs.replace(what, resource=resource_name(kind))
        query = {"fieldSelector": f"metadata.name={owner.name}"}
        path = kind.path(namespace)
        items = await list_pages(connection.session, path, query, accept=METADATA_LIST)
        found = [entry_of(item, group_of(kind.api_version), kind.kind) for item in items]
        return next((entry for entry in found if entry.uid == owner.uid), None)

    try:
        return await fetch()
    except ApiMissingError:
        return None
    except (ApiError, FormatError, OversizeError) as error:
        return _unanswered(error, what)


async def _asked(request: Callable[[], Awaitable[T]], what: Unanswered) -> T | Unanswered:
    """Return the answer to a request, or `what` with the reason of its failure.

    Raises:
        ConsoleError: The cluster cannot be reached, or accepts no credentials.
    """
    try:
        return await request()
    except (ApiError, FormatError, OversizeError) as error:
        return _unanswered(error, what)


def _unanswered(error: ApiError | FormatError | OversizeError, what: Unanswered) -> Unanswered:
    """Return `what` with the reason of the failure. Refused credentials are raised again."""
    if not isinstance(error, ApiAccessError):
        return msgspec.structs.replace(what, why=error.message)
    if error.status.code == _UNAUTHORIZED:
        raise error
    return what


def _merged(answers: Iterable[ObjectListing]) -> ObjectListing:
    """Merge listings; an object that several groups serve is kept once."""
    entries: dict[str, Entry] = {}
    unasked: list[Unanswered] = []
    for answer in answers:
        for entry in answer.entries:
            entries.setdefault(entry.uid, entry)
        unasked += answer.unasked
    return ObjectListing(tuple(entries.values()), tuple(unasked))


class _GroupVersion(msgspec.Struct, rename="camel"):
    group_version: str


class _Group(msgspec.Struct, rename="camel"):
    name: str
    versions: list[_GroupVersion]
    preferred_version: _GroupVersion | None = None


class _GroupList(msgspec.Struct):
    groups: list[_Group] | None = None

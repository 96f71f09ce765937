"""The rights of a session's user, as the cluster's access reviews report them."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import msgspec

from actions.base.clock import Clock
from actions.base.decoding import decode_json
from actions.base.errors import FormatError, MissingError
from actions.cluster.auth.session import REVIEWS, KubeSession
from actions.cluster.http.errors import ApiAccessError

_MOST_NAMESPACES = 200
_MOST_WATCHED = 30
"""Each costs a connection for every resource, about 200 in all, which the session's limit of watches allows."""
_FRESH_SECONDS = 30.0


async def can_watch(session: KubeSession, group: str, resource: str, namespace: str = "") -> bool | None:
    """Return whether a resource may be watched in one namespace or (empty) in all; `None` as in `is_allowed`.

    By a plain request: a console sends it for each namespace at its start, which the package would make later by 0.3 s.
    """
    attributes = {"verb": "watch", "group": group, "resource": resource, "namespace": namespace}
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": attributes},
    }
    try:
        answer = await session.request("POST", REVIEWS, body=msgspec.json.encode(review))
        return decode_json(answer, _Review).status.allowed
    except (ApiAccessError, MissingError, msgspec.MsgspecError):
        return None


async def is_allowed(
    session: KubeSession, verb: str, group: str, resource: str, namespace: str = "", *, name: str = ""
) -> bool | None:
    """Return whether the session's user has a right, in one namespace or (empty) in all, on one object or (empty) all.

    Args:
        session: Of that user.
        verb: As in a role: `get`, `create`…
        group: API group; empty for the core's.
        resource: Plural, with its subresource if there is one: `pods`, `pods/log`.
        namespace: Empty for all.
        name: Empty for all.

    Returns:
        `None` if the cluster does not answer access reviews: only an attempt shows it then.

    Raises:
        UnreachableError: It does not answer.
    """
    client = await session.typed_client("AuthorizationV1Api")
    from kubernetes.aio.client import (
        AuthorizationV1Api,
        V1ResourceAttributes,
        V1SelfSubjectAccessReview,
        V1SelfSubjectAccessReviewSpec,
    )

    plural, _, subresource = resource.partition("/")
    attributes = V1ResourceAttributes(
        verb=verb, group=group, resource=plural, subresource=subresource or None, namespace=namespace, name=name
    )
    spec = V1SelfSubjectAccessReviewSpec(resource_attributes=attributes)
    review = V1SelfSubjectAccessReview(spec=spec)
    try:
        answer = await AuthorizationV1Api(client).create_self_subject_access_review(review)
    except (ApiAccessError, MissingError, FormatError):
        return None
    return answer.status.allowed if answer.status is not None else None


async def known_namespaces(session: KubeSession) -> tuple[str, ...]:
    """List the cluster's namespaces, the context's own first; that one alone if they may not be listed.

    Raises:
        UnreachableError: It does not answer.
    """
    own = session.namespace
    try:
        answer = await session.request("GET", "/api/v1/namespaces", query={"limit": str(_MOST_NAMESPACES)})
        found = decode_json(answer, _Namespaces).items
    except (ApiAccessError, MissingError, msgspec.MsgspecError):
        return (own,)
    return (own, *(item.metadata.name for item in found if item.metadata.name != own))


class NamespaceAccess:
    """The namespaces that a user may look into who may not watch the whole cluster.

    A namespace counts if its pods may be watched. The answer is shared by all callers of about the same time, as it
    takes a review for each namespace and resource. Used from one loop.

    Args:
        session: The session of that user.
        clock: For the answers' age.
    """

    def __init__(self, session: KubeSession, *, clock: Clock) -> None:
        self._session = session
        self._clock = clock
        self._lock = asyncio.Lock()
        self._found: tuple[str, ...] = ()
        self._found_at = float("-inf")

    async def namespaces(self, group: str, resource: str) -> tuple[str, ...]:
        """Return those in which watching a resource is not forbidden, at most 30, the context's own first.

        Raises:
            UnreachableError: The cluster does not answer.
        """
        async with self._lock:
            if self._clock.monotonic() - self._found_at > _FRESH_SECONDS:
                self._found = await self._watchable(await known_namespaces(self._session), "", "pods")
                self._found_at = self._clock.monotonic()
        if (group, resource) == ("", "pods"):
            return self._found
        return await self._watchable(self._found, group, resource)

    async def _watchable(self, names: Sequence[str], group: str, resource: str) -> tuple[str, ...]:
        found = [name for name in names if await can_watch(self._session, group, resource, name) is not False]
        return tuple(found[:_MOST_WATCHED])


class _Allowed(msgspec.Struct):
    allowed: bool = False


class _Review(msgspec.Struct):
    status: _Allowed


class _Name(msgspec.Struct):
    name: str


class _Item(msgspec.Struct):
    metadata: _Name


class _Namespaces(msgspec.Struct):
    items: list[_Item]

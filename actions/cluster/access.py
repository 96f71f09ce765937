"""What the user of a session may watch, asked of the cluster."""

from __future__ import annotations

import msgspec

from actions.base.errors import MissingError
from actions.cluster.errors import ApiAccessError
from actions.cluster.session import REVIEWS, KubeSession

_MOST_NAMESPACES = 100


async def may_watch(session: KubeSession, group: str, resource: str, namespace: str = "") -> bool | None:
    """Whether a resource may be watched, in one namespace or (empty) in all.

    Returns:
        `None` where the cluster does not answer such questions: only the attempt can tell.

    Raises:
        UnreachableError: It does not answer.
    """
    attributes = {"verb": "watch", "group": group, "resource": resource, "namespace": namespace}
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": attributes},
    }
    try:
        answer = await session.request("POST", REVIEWS, body=msgspec.json.encode(review))
        return msgspec.json.decode(answer, type=_Review).status.allowed
    except (ApiAccessError, MissingError, msgspec.MsgspecError):
        return None


async def known_namespaces(session: KubeSession) -> tuple[str, ...]:
    """Names of the cluster's namespaces, the context's own first; it alone where they may not be listed.

    Raises:
        UnreachableError: It does not answer.
    """
    own = session.namespace
    try:
        answer = await session.request("GET", "/api/v1/namespaces", query={"limit": str(_MOST_NAMESPACES)})
        found = msgspec.json.decode(answer, type=_Namespaces).items
    except (ApiAccessError, msgspec.MsgspecError):
        return (own,)
    return (own, *(item.metadata.name for item in found if item.metadata.name != own))


async def watchable_namespaces(session: KubeSession, group: str, resource: str) -> tuple[str, ...]:
    """Of the namespaces that are known, those in which a resource may be watched, as far as can be told.

    Raises:
        UnreachableError: It does not answer.
    """
    names = await known_namespaces(session)
    return tuple([name for name in names if await may_watch(session, group, resource, name) is not False])


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

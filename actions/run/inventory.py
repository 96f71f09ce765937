"""Everything in a cluster, kind by kind, for questions that no single list answers."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from actions.base.errors import AccessError, MissingError, RefusedError
from actions.cluster.objects import ResourceType
from actions.run.access import Connection

_NOT_OURS = frozenset({"Event"})
_OLD_GROUPS = frozenset({"extensions", "events.k8s.io", "metrics.k8s.io"})


async def listable_kinds(connection: Connection) -> AsyncIterator[ResourceType]:
    """Every kind of the cluster that can be listed, each group in its preferred version."""
    versions = ["v1"]
    groups = (await connection.session.get("/apis")).get("groups") or ()
    versions += [group["preferredVersion"]["groupVersion"] for group in groups if group.get("name") not in _OLD_GROUPS]
    for version in versions:
        root = f"/apis/{version}" if "/" in version else f"/api/{version}"
        try:
            listed = await connection.session.get(root)
        except (MissingError, AccessError):
            continue
        for resource in listed.get("resources") or ():
            is_plain = "/" not in resource["name"] and "list" in (resource.get("verbs") or ())
            if is_plain and resource["kind"] not in _NOT_OURS:
                yield ResourceType(version, resource["kind"], resource["name"], bool(resource.get("namespaced")))


async def list_kind(
    connection: Connection, kind: ResourceType, *, selector: str = "", namespace: str = ""
) -> list[dict[str, Any]]:
    """All objects of a kind; none of a kind that may not be listed.

    Args:
        connection: The cluster.
        kind: As `listable_kinds` gives it.
        selector: Label selector.
        namespace: Empty for all.
    """
    query = {"labelSelector": selector} if selector else None
    try:
        return (await connection.session.get(kind.path(namespace), query)).get("items") or []
    except (MissingError, AccessError, RefusedError):
        return []  # a kind that went meanwhile, or one that this user may not list: nothing of ours was made with it

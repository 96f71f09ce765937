"""The audit after a teardown: everything that carries the run's label, and every Terraform state."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from actions.base.errors import AccessError, ConsoleError, MissingError, RefusedError, UnreachableError
from actions.base.untrusted import one_line
from actions.blueprint.render import RUN_LABEL
from actions.cluster.objects import ResourceType
from actions.run.access import Connection
from actions.run.patience import patiently
from actions.run.view import RunView
from actions.run.work import StageWork
from actions.run.workshop import AuditReport

SETTLE_SECONDS = 60.0
"""Garbage collection gets so long to follow."""
_LOOK_SECONDS = 1.0
_REACH_SECONDS = 20.0
_NOT_OURS = frozenset({"Event"})
_OLD_GROUPS = frozenset({"extensions", "events.k8s.io", "metrics.k8s.io"})


async def audit_cluster(work: StageWork, *, may_be_gone: bool) -> AuditReport:
    """Everything in the run's cluster with its label, asked until nothing goes away any more.

    Args:
        work: Of any stage.
        may_be_gone: The run has made the cluster and destroyed it: no answer is no leftover.
    """
    if not work.access.is_possible:
        return AuditReport()
    deadline = work.clock.monotonic() + SETTLE_SECONDS
    while True:
        try:
            found = await patiently(
                lambda: _labelled(work), clock=work.clock, note=work.journal.note, give_up_seconds=_REACH_SECONDS
            )
        except UnreachableError as error:
            return AuditReport() if may_be_gone else AuditReport((f"The cluster could not be asked: {error.message}",))
        except ConsoleError as error:
            return AuditReport((f"The cluster could not be asked: {error.message}",))
        if not found or work.clock.monotonic() >= deadline:
            return AuditReport(tuple(found))
        work.journal.note(f"{len(found)} objects are still going: {found[0]}")
        await work.clock.sleep(_LOOK_SECONDS)


def kept_on_purpose(view: RunView) -> tuple[str, ...]:
    """What was there before the run and is left as it was, one line each."""
    return tuple(
        f"{item.kind} {item.namespace + '/' if item.namespace else ''}{item.name}: was there before the run"
        for item in view.owned
        if item.existed and not item.is_deleted
    )


async def _labelled(work: StageWork) -> list[str]:
    connection = await work.connect()
    found = []
    async for kind in listable_kinds(connection):
        for item in await _list(connection, kind, f"{RUN_LABEL}={work.view.id}"):
            metadata = item.get("metadata") or {}
            scope = f"{metadata.get('namespace')}/" if metadata.get("namespace") else ""
            found.append(one_line(f"{kind.kind} {scope}{metadata.get('name')}"))
    return found


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


async def _list(connection: Connection, kind: ResourceType, selector: str) -> list[dict[str, Any]]:
    try:
        return (await connection.session.get(kind.path(), {"labelSelector": selector})).get("items") or []
    except (MissingError, AccessError, RefusedError):
        return []  # a kind that went meanwhile, or one that this user may not list: nothing of ours was made with it

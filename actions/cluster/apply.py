"""Server-side apply of manifests, with the server's objections put in words."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import msgspec

from actions.base.clock import Clock, SystemClock
from actions.base.errors import ConflictError, RefusedError, UnreachableError
from actions.cluster.conditions import WorkState, verdict_of
from actions.cluster.errors import ApiConflictError, ApiRefusedError, ApiStatus
from actions.cluster.objects import Discovery, Document, ObjectRef, fetch, ref_of
from actions.cluster.session import KubeSession, decode_document

FIELD_MANAGER = "eksml-tui"
_FIRST_KINDS = frozenset({"CustomResourceDefinition", "Namespace"})
_OWNER = re.compile(r'conflict with "(?P<owner>[^"]*)"')
_ESTABLISHED_SECONDS = 60.0
_POLL_SECONDS = 0.25


@dataclass(frozen=True, slots=True)
class FieldConflict:
    """A field that somebody else has set."""

    owner: str
    field: str


class ApplyConflictError(ConflictError):
    """Other field managers own fields that the manifest sets. Forcing takes them over."""

    retryable = False

    def __init__(self, message: str, *, conflicts: tuple[FieldConflict, ...], hint: str) -> None:
        super().__init__(message, hint=hint)
        self.conflicts = conflicts


async def apply(
    session: KubeSession,
    discovery: Discovery,
    manifest: Document,
    *,
    force: bool = False,
    dry_run: bool = False,
    manager: str = FIELD_MANAGER,
) -> Document:
    """Make the object as the manifest says, or change it to be so. Safe to call twice.

    Args:
        session: The session.
        discovery: Its discovery.
        manifest: One object of any kind; a namespaced one without a namespace goes to the session's.
        force: Take over fields that others own.
        dry_run: Check everything on the server, change nothing.
        manager: The field manager's name.

    Returns:
        The object as the server has it after that.

    Raises:
        ApplyConflictError: Others own some of the fields.
        RefusedError: An unknown field, an immutable one, or an admission rule.
        MissingError: The cluster does not know the kind, or the namespace does not exist.
        InputError: The manifest names no object.
    """
    ref = await _placed(session, discovery, ref_of(manifest))
    kind = await discovery.resolve(ref.api_version, ref.kind)
    query = {"fieldManager": manager, "fieldValidation": "Strict", "force": "true" if force else "false"}
    if dry_run:
        query["dryRun"] = "All"
    path = kind.path(ref.namespace, ref.name)
    try:
        answer = await session.request(
            "PATCH",
            path,
            query=query,
            body=msgspec.json.encode(manifest),
            content_type="application/apply-patch+yaml",
        )
    except ApiConflictError as error:
        raise _conflict(ref, error.status) from error
    except ApiRefusedError as error:
        raise _refusal(ref, error.status) from error
    return decode_document(answer, source=path)


async def apply_all(
    session: KubeSession,
    discovery: Discovery,
    manifests: Iterable[Document],
    *,
    force: bool = False,
    dry_run: bool = False,
    manager: str = FIELD_MANAGER,
    clock: Clock | None = None,
) -> list[ObjectRef]:
    """Apply many objects: definitions and namespaces first, then the rest in the order given.

    Returns:
        What was applied, in the order of application, namespaces filled in.

    Raises:
        UnreachableError: A new definition was not established within a minute.
        ConsoleError: As `apply`; what came before it stays applied.
    """
    first, rest = _in_order(manifests)
    applied: list[ObjectRef] = []

    async def each(part: Sequence[Document]) -> None:
        for manifest in part:
            await apply(session, discovery, manifest, force=force, dry_run=dry_run, manager=manager)
            applied.append(await _placed(session, discovery, ref_of(manifest)))

    await each(first)
    definitions = [ref for ref in applied if ref.kind == "CustomResourceDefinition"]
    if definitions and not dry_run:
        await _established(session, discovery, definitions, clock or SystemClock())
        discovery.forget()
    await each(rest)
    return applied


def _in_order(manifests: Iterable[Document]) -> tuple[list[Document], list[Document]]:
    flat: list[Document] = []
    for manifest in manifests:
        is_list = str(manifest.get("kind", "")).endswith("List") and "items" in manifest
        flat += manifest["items"] if is_list else [manifest]
    first = [manifest for manifest in flat if manifest.get("kind") in _FIRST_KINDS]
    return first, [manifest for manifest in flat if manifest.get("kind") not in _FIRST_KINDS]


async def _placed(session: KubeSession, discovery: Discovery, ref: ObjectRef) -> ObjectRef:
    kind = await discovery.resolve(ref.api_version, ref.kind)
    namespace = (ref.namespace or session.namespace) if kind.is_namespaced else ""
    return ObjectRef(ref.api_version, ref.kind, namespace, ref.name)


async def _established(
    session: KubeSession, discovery: Discovery, definitions: Sequence[ObjectRef], clock: Clock
) -> None:
    waiting = list(definitions)
    try:
        async with asyncio.timeout(_ESTABLISHED_SECONDS):
            while waiting:
                verdict = verdict_of(await fetch(session, discovery, waiting[0]))
                if verdict.state is WorkState.FAILED:
                    raise RefusedError(f"{waiting[0].describe()} is not accepted: {verdict.message}.")
                if verdict.state is WorkState.RUNNING:
                    waiting.pop(0)
                else:
                    await clock.sleep(_POLL_SECONDS)
    except TimeoutError as error:
        raise UnreachableError(
            f"{waiting[0].describe()} was not established within {_ESTABLISHED_SECONDS:.0f} s."
        ) from error


def _conflict(ref: ObjectRef, status: ApiStatus) -> ConflictError:
    conflicts = tuple(
        FieldConflict(owner=found["owner"] if (found := _OWNER.search(cause.message)) else "another", field=cause.field)
        for cause in status.causes
        if cause.reason == "FieldManagerConflict"
    )
    if not conflicts:
        return ConflictError(f"{ref.describe()}: {status.message}.", hint="Try again.")
    listed = ", ".join(f"{conflict.field} belongs to {conflict.owner}" for conflict in conflicts[:4])
    more = f" and {len(conflicts) - 4} more" if len(conflicts) > 4 else ""
    return ApplyConflictError(
        f"{ref.describe()}: {listed}{more}.",
        conflicts=conflicts,
        hint="Leave these fields out, or take them over with force.",
    )


def _refusal(ref: ObjectRef, status: ApiStatus) -> RefusedError:
    frozen = [cause.field for cause in status.causes if "immutable" in cause.message]
    if frozen or "field is immutable" in status.message:
        fields = ", ".join(frozen) or "its template"
        return RefusedError(
            f"{ref.describe()} exists, and {fields} cannot be changed any more.",
            hint=f"Delete the {ref.kind} first, or give the new one another name.",
        )
    return RefusedError(f"{ref.describe()} is refused: {status.message.rstrip('.')}.", hint="Correct the manifest.")

"""Creation and server-side apply of manifests, with the server's objections as errors of ours."""

from __future__ import annotations

import re

import msgspec
from msgspec.structs import replace

from actions.base.errors import ConflictError, RefusedError
from actions.base.wording import listed
from actions.cluster.auth.session import KubeSession, decode_document
from actions.cluster.http.errors import ApiConflictError, ApiRefusedError, ApiStatus, ApiUnavailableError
from actions.cluster.objects.client import Discovery, Document, ObjectRef, placed, ref_of

FIELD_MANAGER = "eksml-tui"
_NOT_ITS_TYPE = re.compile(r"failed to create typed patch object \([^)]*\): (?:errors: )?(?P<said>.+)", re.DOTALL)
"""The message of API servers (1.34) for a field that is unknown or of another type: code 500, not worth a retry."""
_NAMED = 4
_OWNER = re.compile(r'conflict with "(?P<owner>[^"]*)"')


class FieldConflict(msgspec.Struct, frozen=True):
    """A field that another manager has set."""

    owner: str
    field: str


class ApplyConflictError(ConflictError):
    """Other field managers own fields that the manifest sets. Forcing takes them over."""

    def __init__(self, message: str, *, conflicts: tuple[FieldConflict, ...], hint: str) -> None:
        super().__init__(message, hint=hint)
        self.conflicts = conflicts


async def create(session: KubeSession, discovery: Discovery, manifest: Document, *, dry_run: bool = False) -> Document:
    """Create the object of the manifest, which must not exist yet.

    Args:
        session: The session.
        discovery: Its discovery.
        manifest: As for `apply`.
        dry_run: Check everything on the server, store nothing.

    Returns:
        The object as the server has stored it.

    Raises:
        ApiConflictError: It exists (see `exists_already`), or its namespace is being deleted.
        RefusedError: An unknown field, or an admission rule.
        MissingError: The cluster does not know the kind, or the namespace does not exist.
        InputError: The manifest names no object.
    """
    ref, path = await placed(session, discovery, ref_of(manifest), is_new=True)
    query = {"fieldManager": FIELD_MANAGER, "fieldValidation": "Strict"} | ({"dryRun": "All"} if dry_run else {})
    try:
        answer = await session.request("POST", path, query=query, body=msgspec.json.encode(manifest))
    except ApiRefusedError as error:
        raise _refusal(ref, error.status) from error
    return decode_document(answer, source=path)


def exists_already(error: ApiConflictError) -> bool:
    """Return whether an object was not created because there is one of this name."""
    return error.status.reason == "AlreadyExists"


async def apply(
    session: KubeSession,
    discovery: Discovery,
    manifest: Document,
    *,
    force: bool = False,
    dry_run: bool = False,
    manager: str = FIELD_MANAGER,
) -> Document:
    """Create the object of the manifest, or change it accordingly. Safe to call twice.

    Args:
        session: The session.
        discovery: Its discovery.
        manifest: One object of any kind; a namespaced one without a namespace goes to the session's.
        force: Take over fields that others own.
        dry_run: Check everything on the server, change nothing.
        manager: The field manager's name.

    Returns:
        The object as the server has stored it.

    Raises:
        ApplyConflictError: Others own some of the fields.
        RefusedError: An unknown field, an immutable one, or an admission rule.
        MissingError: The cluster does not know the kind, or the namespace does not exist.
        InputError: The manifest names no object.
    """
    ref, path = await placed(session, discovery, ref_of(manifest))
    query = {"fieldManager": manager, "fieldValidation": "Strict", "force": "true" if force else "false"}
    if dry_run:
        query["dryRun"] = "All"
    try:
        answer = await session.request(
            "PATCH",
            path,
            query=query,
            body=msgspec.json.encode(manifest),
            content_type="application/apply-patch+yaml",
        )
    except ApiConflictError as error:
        raise _conflict(ref, error) from error
    except ApiRefusedError as error:
        raise _refusal(ref, error.status) from error
    except ApiUnavailableError as error:
        mistake = _NOT_ITS_TYPE.match(error.status.message)
        if mistake is None:
            raise
        raise _refusal(ref, replace(error.status, message=mistake["said"])) from error
    return decode_document(answer, source=path)


def _conflict(ref: ObjectRef, error: ApiConflictError) -> ConflictError:
    conflicts = tuple(
        FieldConflict(owner=found["owner"] if (found := _OWNER.search(cause.message)) else "another", field=cause.field)
        for cause in error.status.causes
        if cause.reason == "FieldManagerConflict"
    )
    if not conflicts:
        return ConflictError(f"{ref.describe()}: {error.status.message.rstrip('.')}.", hint=error.hint)
    owned = listed([f"{conflict.field} belongs to {conflict.owner}" for conflict in conflicts], _NAMED)
    return ApplyConflictError(
        f"{ref.describe()}: {owned}.",
        conflicts=conflicts,
        hint="Leave these fields out, or take them over with force.",
    )


def _refusal(ref: ObjectRef, status: ApiStatus) -> RefusedError:
    frozen = [cause.field for cause in status.causes if "immutable" in cause.message]
    if frozen or "field is immutable" in status.message:
        fields = ", ".join(frozen) or "its template"
        return RefusedError(
            f"{ref.describe()} exists, and {fields} cannot be changed.",
            hint=f"Delete the {ref.kind} first, or give the manifest another name.",
        )
    return RefusedError(f"{ref.describe()} is refused: {status.message.rstrip('.')}.", hint="Correct the manifest.")

"""Deleting one object and no other: looked at, judged, and deleted as it was seen."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from actions.base.clock import Clock
from actions.base.errors import AccessError, ConflictError, ConsoleError
from actions.base.untrusted import one_line
from actions.cluster.objects.client import ObjectRef
from actions.run.access import Connection
from actions.run.handler import StageFailedError
from actions.run.judgement import Entry
from actions.run.patience import wait_until
from actions.run.survey import Unasked, look

GONE_SECONDS = 600.0
_LOOK_SECONDS = 0.3
_ATTEMPTS = 20
_RIGHTS = "Ask for the rights of assets/rbac.yaml."
_HOLDING = (
    "NamespaceDeletionDiscoveryFailure",
    "NamespaceDeletionGroupVersionParsingFailure",
    "NamespaceDeletionContentFailure",
    "NamespaceContentRemaining",
    "NamespaceFinalizersRemaining",
)
"""Conditions of a namespace that say what keeps it from being gone.

Source: k8s.io/kubernetes `pkg/controller/namespace/deletion/status_condition_utils.go`.
"""


async def remove(
    connection: Connection,
    ref: ObjectRef,
    uid: str,
    *,
    clock: Clock,
    note: Callable[[str], None],
    before: Callable[[], Awaitable[None]] | None = None,
) -> None:
    """Delete the object that has this uid, and wait until it is gone. Another one under its name is left alone.

    Args:
        connection: The run's cluster.
        ref: Its name.
        uid: As the journal holds it.
        clock: For waiting.
        note: Told what is waited for.
        before: Judges once more, just before a request to delete; raises what speaks against it.

    Raises:
        StageFailedError: It does not go, or may not be looked at.
        ConsoleError: It may not be deleted, or what `before` raised.
    """

    async def go() -> str:
        found = await seen(connection, ref)
        if found is None or found.uid != uid:
            return ""
        if not found.is_going:
            if before is not None:
                await before()
            await _delete(connection, ref, found)
        return await going(connection, ref, found)

    await wait_until(
        go, clock=clock, note=note, timeout=stuck, deadline_seconds=GONE_SECONDS, interval_seconds=_LOOK_SECONDS
    )


async def request_removal(connection: Connection, ref: ObjectRef, uid: str, *, clock: Clock) -> None:
    """Ask for the object that has this uid to be deleted, and do not wait for its end.

    Raises:
        ConsoleError: It may not be looked at or deleted, or changes faster than it can be looked at.
    """
    for _ in range(_ATTEMPTS):
        found = await seen(connection, ref)
        if found is None or found.uid != uid or found.is_going or await _delete(connection, ref, found):
            return
        await clock.sleep(_LOOK_SECONDS)
    raise ConflictError(f"{ref.describe()} changes all the time and was not deleted.", hint="Try again.")


async def seen(connection: Connection, ref: ObjectRef) -> Entry | None:
    """The metadata of an object, `None` if there is none.

    Raises:
        AccessError: It may not be looked at.
        ConsoleError: Its kind cannot be asked at present.
    """
    found = await look(connection, ref)
    if not isinstance(found, Unasked):
        return found
    said = f"{ref.describe()}: {'' if found.may_pass else 'this user '}{found.clause()}."
    raise StageFailedError(said) if found.may_pass else AccessError(said, hint=_RIGHTS)


async def going(connection: Connection, ref: ObjectRef, entry: Entry) -> str:
    """That an object is going, and what holds it as far as it says so."""
    if ref.kind == "Namespace":
        held = _held_namespace(await connection.find(ref) or {})
        return f"{ref.describe()} is going" + (f": {held}." if held else ".")
    finalizers = one_line(", ".join(entry.finalizers))
    return f"{ref.describe()} is going" + (f", held by {finalizers}." if finalizers else ".")


def stuck(words: str) -> ConsoleError:
    """The error for what has not gone in time."""
    return StageFailedError(f"After {GONE_SECONDS:.0f} s {words}", hint="Look at what holds it, then retry.")


async def _delete(connection: Connection, ref: ObjectRef, found: Entry) -> bool:
    """Ask for a deletion. Returns whether it was accepted; it is not if the object was changed since it was seen."""
    try:
        await connection.delete(ref, uid=found.uid, version=found.version)
    except ConflictError:
        return False
    return True


def _held_namespace(document: Mapping[str, Any]) -> str:
    conditions = (document.get("status") or {}).get("conditions") or ()
    told = {str(one.get("type")): str(one.get("message") or "") for one in conditions if one.get("status") == "True"}
    return one_line(" ".join(f"{told[name].rstrip('.')}." for name in _HOLDING if told.get(name)), limit=600).rstrip(
        "."
    )

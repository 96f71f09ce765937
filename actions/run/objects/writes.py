"""Objects applied with a record before and after, and deleted one by one by uid and resource version."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from msgspec.structs import replace

from actions.base.clock import Clock
from actions.base.errors import AccessError, ConflictError, ConsoleError
from actions.base.untrusted import one_line
from actions.base.wording import listed
from actions.cluster.http.errors import ApiAccessError, ApiConflictError, ApiStatus
from actions.cluster.objects.apply import exists_already
from actions.cluster.objects.client import ObjectRef, ref_of
from actions.cluster.objects.status_rules import WorkState, object_status
from actions.run.context.access import ClusterConnection
from actions.run.context.protocols import StageFailedError
from actions.run.context.retry import retry_unreachable, wait_until
from actions.run.context.stage_context import StageContext
from actions.run.objects.inventory import is_of_run, known_as, owned_of
from actions.run.objects.ownership import Entry, entry_of, group_of
from actions.run.objects.survey import Unanswered, look

GONE_SECONDS = 600.0
_LOOK_SECONDS = 0.3
_ATTEMPTS = 20
_FORBIDDEN = 403
_RIGHTS = "Ask for the rights of `eksml-tui print rbac`."
_NAMED = 3
CLAIM_GUARD = "kubernetes.io/pvc-protection"
"""The finalizer of a claim that goes when no pod mounts it any more.

Source: k8s.io/kubernetes `pkg/volume/util/finalizer.go`.
"""
_HOLDING = (
    "NamespaceDeletionDiscoveryFailure",
    "NamespaceDeletionGroupVersionParsingFailure",
    "NamespaceDeletionContentFailure",
    "NamespaceContentRemaining",
    "NamespaceFinalizersRemaining",
)
"""Conditions of a namespace that explain why it is not gone yet.

Source: k8s.io/kubernetes `pkg/controller/namespace/deletion/status_condition_utils.go`.
"""


async def remove(
    connection: ClusterConnection,
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
        note: Gets what is waited for.
        before: A last check just before the request to delete; raises a refusal.

    Raises:
        StageFailedError: It does not go, or may not be read.
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


async def request_removal(connection: ClusterConnection, ref: ObjectRef, uid: str, *, clock: Clock) -> None:
    """Request the deletion of the object that has this uid, and do not wait for its end.

    Raises:
        ConsoleError: It may not be read or deleted, or changes faster than it can be read.
    """
    for _ in range(_ATTEMPTS):
        found = await seen(connection, ref)
        if found is None or found.uid != uid or found.is_going or await _delete(connection, ref, found):
            return
        await clock.sleep(_LOOK_SECONDS)
    raise ConflictError(f"{ref.describe()} keeps changing and was not deleted.", hint="Try again.")


async def seen(connection: ClusterConnection, ref: ObjectRef) -> Entry | None:
    """Return the metadata of an object, `None` if there is none.

    Raises:
        AccessError: It may not be read.
        ConsoleError: Its API does not answer at present.
    """
    found = await look(connection, ref)
    if not isinstance(found, Unanswered):
        return found
    refusal = f"{ref.describe()}: {'' if found.may_pass else 'this user '}{found.clause()}."
    if found.may_pass:
        raise StageFailedError(refusal)
    raise ApiAccessError(refusal, status=ApiStatus(_FORBIDDEN), hint=_RIGHTS)  # an answer, and not a login to wait for


async def going(connection: ClusterConnection, ref: ObjectRef, entry: Entry) -> str:
    """Return a sentence on an object that is being deleted, with what holds it if that is known."""
    if ref.kind == "Namespace":
        held = _held_namespace(await connection.find(ref) or {})
        return f"{ref.describe()} is being deleted" + (f": {held}." if held else ".")
    held = one_line(", ".join(entry.finalizers))
    if CLAIM_GUARD in entry.finalizers and (pods := await mounting_pods(connection, ref)):
        held = f"{listed([f'pod {one_line(pod)}' for pod in pods], _NAMED)}, which mounts it"
    return f"{ref.describe()} is being deleted" + (f", held by {held}." if held else ".")


async def mounting_pods(connection: ClusterConnection, claim: ObjectRef) -> list[str]:
    """Return the pods that mount a claim and have not ended, as `namespace/name`; none if pods may not be listed."""
    try:
        pods = await connection.list_objects("v1", "Pod", namespace=claim.namespace)
    except ConsoleError:
        return []
    return [
        f"{claim.namespace}/{pod['metadata']['name']}"
        for pod in pods
        if claim.name in claims_of(pod) and object_status(pod).state is not WorkState.FINISHED
    ]


def claims_of(pod: Mapping[str, Any]) -> Iterator[str]:
    """Yield the names of the claims that a pod mounts."""
    for volume in (pod.get("spec") or {}).get("volumes") or ():
        claim = volume.get("persistentVolumeClaim")
        if isinstance(claim, dict):
            yield str(claim.get("claimName", ""))


def stuck(sentence: str) -> ConsoleError:
    """Return the error for an object that is not gone in time."""
    return StageFailedError(f"After {GONE_SECONDS:.0f} s {sentence}", hint="Check what holds it, then retry.")


async def _delete(connection: ClusterConnection, ref: ObjectRef, found: Entry) -> bool:
    """Request a deletion. Returns whether it was accepted; it is not if the object has changed since it was read."""
    try:
        await connection.delete(ref, uid=found.uid, version=found.version)
    except ConflictError:
        return False
    return True


def _held_namespace(document: Mapping[str, Any]) -> str:
    conditions = (document.get("status") or {}).get("conditions") or ()
    messages = {
        str(item.get("type")): str(item.get("message") or "") for item in conditions if item.get("status") == "True"
    }
    held = " ".join(f"{messages[name].rstrip('.')}." for name in _HOLDING if messages.get(name))
    return one_line(held, limit=600).rstrip(".")


Manifest = dict[str, Any]

ESTABLISHED_SECONDS = 120.0

_FIRST = ("CustomResourceDefinition", "Namespace", "PriorityClass", "StorageClass", "ServiceAccount", "Secret")


async def apply_objects(
    context: StageContext, connection: ClusterConnection, manifests: Iterable[Manifest]
) -> list[ObjectRef]:
    """Apply objects one by one, definitions and namespaces first. Objects older than the run are left as they are.

    Returns:
        The references of all objects, applied or found, but for those that are out of reach.

    Raises:
        MissingError: The cluster lacks the kind of an object; nothing was applied.
        ConflictError: Another manager owns a field, or an object was replaced.
        RefusedError: The server does not accept an object.
    """
    refs = []
    ordered = sorted(manifests, key=_rank)
    await _require_kinds(context, connection, ordered)
    for manifest in ordered:
        ref = await _apply_one(context, connection, manifest)
        if ref is None:
            continue
        refs.append(ref)
        if manifest["kind"] == "CustomResourceDefinition":
            await wait_ready(context, connection, refs[-1:], deadline_seconds=ESTABLISHED_SECONDS)
            connection.discovery.forget()
    return refs


async def wait_ready(
    context: StageContext, connection: ClusterConnection, refs: Sequence[ObjectRef], *, deadline_seconds: float
) -> None:
    """Wait until every object exists and is ready.

    Raises:
        StageFailedError: One has failed, or the deadline passed.
    """

    async def look() -> str:
        for ref in refs:
            missing = await unready(connection, ref)
            if missing:
                return missing
        return ""

    await wait_until(
        look,
        clock=context.clock,
        note=context.journal.note,
        timeout=lambda missing: StageFailedError(f"Not ready after {deadline_seconds:.0f} s. {missing}"),
        deadline_seconds=deadline_seconds,
        interval_seconds=0.5,
    )


def uid_of(document: Mapping[str, Any]) -> str:
    """Return the uid of a document; empty if it has none."""
    return str((document.get("metadata") or {}).get("uid") or "")


def rank_of(kind: str) -> int:
    """Return the position of a kind in the order of applying; deletion uses the reverse."""
    return _FIRST.index(kind) if kind in _FIRST else len(_FIRST)


async def settled(
    connection: ClusterConnection, ref: ObjectRef, *, clock: Clock, note: Callable[[str], None]
) -> Entry | None:
    """Return the object, after waiting for the end of one that is being deleted.

    What is applied to an object that is being deleted would be deleted with it.

    Raises:
        StageFailedError: It does not go.
        AccessError: It may not be read.
    """
    found: Entry | None = None

    async def look() -> str:
        nonlocal found
        found = await seen(connection, ref)
        return await going(connection, ref, found) if found is not None and found.is_going else ""

    await wait_until(look, clock=clock, note=note, timeout=stuck, deadline_seconds=GONE_SECONDS, interval_seconds=0.3)
    return found


async def _require_kinds(context: StageContext, connection: ClusterConnection, manifests: Sequence[Manifest]) -> None:
    """Require that the cluster serves every kind that is not defined among the objects, before any is applied."""
    brought = {
        (f"{manifest['spec']['group']}/{version['name']}", manifest["spec"]["names"]["kind"])
        for manifest in manifests
        if manifest["kind"] == "CustomResourceDefinition"
        for version in manifest["spec"]["versions"]
    }
    for api_version, kind in dict.fromkeys((str(each["apiVersion"]), str(each["kind"])) for each in manifests):
        if (api_version, kind) not in brought:
            ask = partial(connection.discovery.resolve, api_version, kind)
            await retry_unreachable(ask, clock=context.clock, note=context.journal.note)


async def _apply_one(context: StageContext, connection: ClusterConnection, manifest: Manifest) -> ObjectRef | None:
    """Create an object, or apply it if it is the run's; any other is left as it is, and recorded as existing.

    Returns `None` for one that is out of reach: it is taken for there.

    Applying what is absent would also change an object that another machine makes in that moment: of two that launch at
    once, both would count it as theirs. The server refuses the second creation.

    Raises:
        ConflictError: It keeps being made and deleted by others, or was replaced.
    """
    ref = ref_of(manifest)
    context.journal.note(f"Applying {ref.describe()}.")
    for _ in range(_ATTEMPTS):
        try:
            found = await settled(connection, ref, clock=context.clock, note=context.journal.note)
        except AccessError:
            if not await connection.is_out_of_reach(ref):
                raise
            return None
        if found is not None and not is_of_run(context, found, ref):
            await context.journal.own(owned_of(context, ref, uid=found.uid, existed=True))
            return ref
        if found is not None:
            await _change(context, connection, manifest, found)
            return ref
        await context.journal.own(replace(owned_of(context, ref), was_absent=True))
        if await _create(context, connection, manifest):
            return ref
    raise ConflictError(
        f"{ref.describe()} keeps being made and deleted by others.", hint="Check its owner, then retry."
    )


async def _create(context: StageContext, connection: ClusterConnection, manifest: Manifest) -> bool:
    """Create an object and record its uid. Returns `False` if there is one by now.

    That is of others, or of an earlier attempt whose answer was lost.
    """
    ref, create = ref_of(manifest), partial(connection.create, manifest)
    try:
        made = await retry_unreachable(create, clock=context.clock, note=context.journal.note)
    except ApiConflictError as error:
        if not exists_already(error):
            raise
        return False
    await context.journal.own(owned_of(context, ref, uid=entry_of(made, group_of(ref.api_version), ref.kind).uid))
    return True


async def _change(context: StageContext, connection: ClusterConnection, manifest: Manifest, found: Entry) -> None:
    """Apply an object of the run, recorded first as its own if its announcement alone is in the journal.

    Raises:
        ConflictError: Others own some of its fields, or it was replaced by another one.
    """
    ref, apply = ref_of(manifest), partial(connection.apply, manifest)
    if (known := known_as(context, ref)) is None or known.uid != found.uid:
        await context.journal.own(replace(owned_of(context, ref, uid=found.uid), is_adopted=True))
    applied = await retry_unreachable(apply, clock=context.clock, note=context.journal.note)
    if entry_of(applied, group_of(ref.api_version), ref.kind).uid != found.uid:
        raise ConflictError(
            f"{ref.describe()} was replaced by another one while it was applied, which is not the run's.",
            hint="Check its owner, then retry.",
        )


async def unready(connection: ClusterConnection, ref: ObjectRef) -> str:
    """Return why an object is not ready; empty if it is.

    Raises:
        StageFailedError: It has failed.
    """
    try:
        found = await connection.find(ref)
    except AccessError:
        if await connection.is_out_of_reach(ref):
            return ""
        raise
    if found is None:
        return f"{ref.describe()} does not exist."
    verdict = object_status(found)
    if verdict.state is WorkState.FAILED:
        raise StageFailedError(f"{ref.describe()} failed: {verdict.words()}")
    if verdict.state in (WorkState.RUNNING, WorkState.FINISHED) or verdict.reason == "NoRule":
        return ""
    crashing = await _crashing(connection, ref, found)
    return f"{ref.describe()}: {verdict.message or verdict.reason}{crashing}"


async def _crashing(connection: ClusterConnection, ref: ObjectRef, document: Mapping[str, Any]) -> str:
    """Return what keeps a pod of a workload from being ready, after its own words; empty if none has failed."""
    labels = ((document.get("spec") or {}).get("selector") or {}).get("matchLabels") or {}
    selector = ",".join(f"{name}={value}" for name, value in labels.items())
    try:
        pods = await connection.pods(namespace=ref.namespace, label_selector=selector) if selector else []
    except AccessError:
        return ""
    named = ((str(pod["metadata"]["name"]), object_status(pod)) for pod in pods)
    return next((f" Pod {name}: {one.words()}" for name, one in named if one.state is WorkState.FAILED), "")


def _rank(manifest: Manifest) -> int:
    return rank_of(str(manifest["kind"]))

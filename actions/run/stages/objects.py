"""Objects of a stage: applied with a record before and after, deleted only if the run made them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from msgspec.structs import replace

from actions.base.clock import Clock
from actions.base.errors import ConflictError, ConsoleError, MissingError
from actions.blueprint.render import RUN_LABEL
from actions.blueprint.stages import ManifestsStage
from actions.cluster.conditions import WorkState, verdict_of
from actions.cluster.objects import ObjectRef, ref_of
from actions.run.access import Connection
from actions.run.handler import StageFailedError
from actions.run.inventory import list_kind, listable_kinds
from actions.run.patience import patiently, wait_until
from actions.run.view import OwnedObject
from actions.run.work import StageWork

Manifest = dict[str, Any]

GONE_SECONDS = 600.0
ESTABLISHED_SECONDS = 120.0
NODE_CLAIM = "NodeClaim"
"""Kind of the objects that a stage owns without having applied them: they go with the nodes."""

_IN_EVERY_NAMESPACE = frozenset({"ServiceAccount default", "ConfigMap kube-root-ca.crt"})
_FIRST = ("CustomResourceDefinition", "Namespace", "PriorityClass", "StorageClass", "ServiceAccount", "Secret")


async def apply_objects(work: StageWork, connection: Connection, manifests: Iterable[Manifest]) -> list[ObjectRef]:
    """Apply objects one by one, definitions and namespaces first. What was there before the run is left as it is.

    Returns:
        What is there now, applied or found.

    Raises:
        MissingError: The cluster lacks the kind of an object; nothing was applied.
        ConflictError: Somebody else owns a field.
        RefusedError: The server does not accept an object.
    """
    refs = []
    ordered = sorted(manifests, key=_rank)
    await _require_kinds(work, connection, ordered)
    for manifest in ordered:
        refs.append(await _apply_one(work, connection, manifest))
        if manifest["kind"] == "CustomResourceDefinition":
            await wait_ready(work, connection, refs[-1:], deadline_seconds=ESTABLISHED_SECONDS)
            connection.discovery.forget()
    return refs


async def delete_objects(work: StageWork, connection: Connection) -> str:
    """Delete what the stage owns, last applied first, and wait until it is gone.

    Returns:
        What was done, in one line.
    """
    owned = [item for item in reversed(work.journal.owned()) if item.kind != NODE_CLAIM]
    mine = [item for item in owned if not item.existed]
    kept: list[str] = []
    removed = 0
    for item in sorted(mine, key=lambda item: -_rank_of(item.kind)):
        reason = await _reason_to_keep(work, connection, item)
        if reason:
            kept.append(f"{ref_of_owned(item).describe()}: {reason}")
            continue
        await _delete_one(work, connection, item)
        removed += 1
    said = f"{removed} objects removed."
    if kept:
        raise StageFailedError(f"{said} Not removed: {'; '.join(kept)}.", hint="Remove what uses it, then retry.")
    return said


async def wait_ready(
    work: StageWork, connection: Connection, refs: Sequence[ObjectRef], *, deadline_seconds: float
) -> None:
    """Wait until every object is there and ready.

    Raises:
        StageFailedError: One has failed, or the deadline passed.
    """

    async def look() -> str:
        for ref in refs:
            words = await _unready(connection, ref)
            if words:
                return words
        return ""

    await wait_until(
        look,
        clock=work.clock,
        note=work.journal.note,
        timeout=lambda words: StageFailedError(f"Not ready after {deadline_seconds:.0f} s. {words}"),
        deadline_seconds=deadline_seconds,
        interval_seconds=0.5,
    )


def is_of_run(document: Mapping[str, Any], run_id: str) -> bool:
    """Whether an object carries the run's label."""
    labels = (document.get("metadata") or {}).get("labels") or {}
    return bool(labels.get(RUN_LABEL) == run_id)


def uid_of(document: Mapping[str, Any]) -> str:
    """Empty if the server did not say."""
    return str((document.get("metadata") or {}).get("uid") or "")


def owned_of(work: StageWork, ref: ObjectRef, *, uid: str = "", existed: bool = False) -> OwnedObject:
    """A record's content for an object of the stage."""
    return OwnedObject(
        work.stage.id, ref.api_version, ref.kind, ref.namespace, ref.name, uid, existed=existed, is_deleted=False
    )


def ref_of_owned(item: OwnedObject) -> ObjectRef:
    """What a record names."""
    return ObjectRef(item.api_version, item.kind, item.namespace, item.name)


async def _require_kinds(work: StageWork, connection: Connection, manifests: Sequence[Manifest]) -> None:
    """Make sure that the cluster knows every kind that the objects do not bring themselves, before any is applied."""
    brought = {
        (f"{manifest['spec']['group']}/{version['name']}", manifest["spec"]["names"]["kind"])
        for manifest in manifests
        if manifest["kind"] == "CustomResourceDefinition"
        for version in manifest["spec"]["versions"]
    }
    for api_version, kind in dict.fromkeys((str(each["apiVersion"]), str(each["kind"])) for each in manifests):
        if (api_version, kind) not in brought:
            ask = partial(connection.discovery.resolve, api_version, kind)
            await patiently(ask, clock=work.clock, note=work.journal.note)


async def _apply_one(work: StageWork, connection: Connection, manifest: Manifest) -> ObjectRef:
    ref = ref_of(manifest)
    work.journal.note(f"Applying {ref.describe()}.")

    async def put() -> Manifest:
        return await connection.apply(manifest)

    found = await settled(connection, ref, clock=work.clock, note=work.journal.note)
    if found is not None and not is_of_run(found, work.view.id):
        await work.journal.own(owned_of(work, ref, uid=uid_of(found), existed=True))
        return ref
    known = _known(work, ref)
    if known is None:
        await work.journal.own(owned_of(work, ref))
    applied = await patiently(put, clock=work.clock, note=work.journal.note)
    if known is None or known.uid != uid_of(applied):
        await work.journal.own(owned_of(work, ref, uid=uid_of(applied)))
    return ref


async def settled(
    connection: Connection, ref: ObjectRef, *, clock: Clock, note: Callable[[str], None]
) -> Manifest | None:
    """The object as it stays: one that is being deleted is waited for, because what is applied to it goes with it.

    Raises:
        StageFailedError: It does not go.
    """
    found: Manifest | None = None

    async def look() -> str:
        nonlocal found
        found = await connection.find(ref)
        return _going(ref, found) if found is not None and found["metadata"].get("deletionTimestamp") else ""

    await wait_until(look, clock=clock, note=note, timeout=_stuck, deadline_seconds=GONE_SECONDS, interval_seconds=0.3)
    return found


def _going(ref: ObjectRef, found: Manifest) -> str:
    finalizers = ", ".join(found["metadata"].get("finalizers") or ())
    return f"{ref.describe()} is going" + (f", held by {finalizers}." if finalizers else ".")


def _stuck(words: str) -> ConsoleError:
    return StageFailedError(f"After {GONE_SECONDS:.0f} s {words}", hint="Look at what holds it, then retry.")


def _known(work: StageWork, ref: ObjectRef) -> OwnedObject | None:
    return next((item for item in work.journal.owned() if ref_of_owned(item) == ref), None)


async def _delete_one(work: StageWork, connection: Connection, item: OwnedObject) -> None:
    ref = ref_of_owned(item)
    work.journal.note(f"Removing {ref.describe()}.")

    async def remove() -> str:
        """Words while it is still there."""
        found = await connection.find(ref)
        if found is None or (item.uid and uid_of(found) != item.uid) or not is_of_run(found, work.view.id):
            return ""
        if not (found["metadata"].get("deletionTimestamp")):
            await _delete_exactly(connection, ref, uid_of(found))
        return _going(ref, found)

    await wait_until(
        remove,
        clock=work.clock,
        note=work.journal.note,
        timeout=_stuck,
        deadline_seconds=GONE_SECONDS,
        interval_seconds=0.3,
    )
    await work.journal.deleted(replace(item, is_deleted=True))


async def _delete_exactly(connection: Connection, ref: ObjectRef, uid: str) -> None:
    try:
        await connection.delete(ref, uid=uid)
    except ConflictError:
        return  # it was replaced meanwhile: the next look sees another uid


async def _reason_to_keep(work: StageWork, connection: Connection, item: OwnedObject) -> str:
    """Why an object of ours must stay: somebody else has put something into it."""
    if item.kind == "CustomResourceDefinition":
        return await _foreign_instances(work, connection, item)
    if item.kind == "Namespace":
        return await _foreign_contents(work, connection, item.name)
    return ""


async def _foreign_contents(work: StageWork, connection: Connection, namespace: str) -> str:
    """What others have put into a namespace of ours; what controllers put into every namespace does not count."""

    async def look() -> list[str]:
        found = []
        async for kind in listable_kinds(connection):
            if kind.is_namespaced:
                objects = await list_kind(connection, kind, namespace=namespace)
                found += [f"{kind.kind} {entry['metadata']['name']}" for entry in objects if _is_foreign(entry, work)]
        return [name for name in found if name not in _IN_EVERY_NAMESPACE]

    foreign = await patiently(look, clock=work.clock, note=work.journal.note)
    return f"it holds {', '.join(foreign[:3])}, not the run's" if foreign else ""


def _is_foreign(document: Mapping[str, Any], work: StageWork) -> bool:
    metadata = document.get("metadata") or {}
    is_ending = bool(metadata.get("ownerReferences") or metadata.get("deletionTimestamp"))
    return not is_ending and not is_of_run(document, work.view.id)


async def _foreign_instances(work: StageWork, connection: Connection, item: OwnedObject) -> str:
    definition = await connection.find(ref_of_owned(item))
    if definition is None:
        return ""
    spec = definition["spec"]
    version = next(entry["name"] for entry in spec["versions"] if entry.get("storage"))
    path = f"/apis/{spec['group']}/{version}/{spec['names']['plural']}"
    made = _made_by_operator(work, spec["names"]["kind"])

    async def count() -> int:
        try:
            items = (await connection.session.get(path)).get("items") or []
        except MissingError:
            return 0
        names = [entry["metadata"] for entry in items if not is_of_run(entry, work.view.id)]
        return sum((str(name.get("namespace") or ""), name["name"]) not in made for name in names)

    foreign = await patiently(count, clock=work.clock, note=work.journal.note)
    return f"{foreign} objects of its kind are not the run's" if foreign else ""


def _made_by_operator(work: StageWork, kind: str) -> set[tuple[str, str]]:
    """Namespace and name of what the stage's operator makes of a kind by itself."""
    stage = work.blueprint.stage(work.stage.id)
    makes = stage.makes if isinstance(stage, ManifestsStage) else ()
    return {(name.namespace, name.name) for name in makes if name.kind == kind}


async def _unready(connection: Connection, ref: ObjectRef) -> str:
    found = await connection.find(ref)
    if found is None:
        return f"{ref.describe()} is not there."
    verdict = verdict_of(found)
    if verdict.state is WorkState.FAILED:
        raise StageFailedError(f"{ref.describe()} failed: {verdict.reason} {verdict.message}")
    if verdict.state in (WorkState.RUNNING, WorkState.FINISHED) or verdict.reason == "NoRule":
        return ""
    return f"{ref.describe()}: {verdict.message or verdict.reason}"


def _rank(manifest: Manifest) -> int:
    return _rank_of(str(manifest["kind"]))


def _rank_of(kind: str) -> int:
    """Position in the order of applying; deletion goes the other way."""
    return _FIRST.index(kind) if kind in _FIRST else len(_FIRST)

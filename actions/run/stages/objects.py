"""Objects of a stage: applied with a record before and after, deleted only if the run made them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from msgspec.structs import replace

from actions.base.clock import Clock
from actions.base.errors import ConflictError
from actions.cluster.objects.client import ObjectRef, ref_of
from actions.cluster.objects.status_rules import WorkState, verdict_of
from actions.run.access import Connection
from actions.run.handler import StageFailedError
from actions.run.inventory import is_runs, known_as, owned_of
from actions.run.judgement import Entry, entry_of, group_of, is_shared
from actions.run.patience import patiently, wait_until
from actions.run.removal import GONE_SECONDS, going, seen, stuck
from actions.run.work import StageWork

Manifest = dict[str, Any]

ESTABLISHED_SECONDS = 120.0

_FIRST = ("CustomResourceDefinition", "Namespace", "PriorityClass", "StorageClass", "ServiceAccount", "Secret")


async def apply_objects(work: StageWork, connection: Connection, manifests: Iterable[Manifest]) -> list[ObjectRef]:
    """Apply objects one by one, definitions and namespaces first. What was there before the run is left as it is.

    Returns:
        What is there now, applied or found.

    Raises:
        MissingError: The cluster lacks the kind of an object; nothing was applied.
        ConflictError: Somebody else owns a field, or has replaced an object.
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


def uid_of(document: Mapping[str, Any]) -> str:
    """Empty if the server did not say."""
    return str((document.get("metadata") or {}).get("uid") or "")


def rank_of(kind: str) -> int:
    """Position in the order of applying; deletion goes the other way."""
    return _FIRST.index(kind) if kind in _FIRST else len(_FIRST)


async def settled(connection: Connection, ref: ObjectRef, *, clock: Clock, note: Callable[[str], None]) -> Entry | None:
    """The object as it stays: one that is being deleted is waited for, because what is applied to it goes with it.

    Raises:
        StageFailedError: It does not go.
        AccessError: It may not be looked at.
    """
    found: Entry | None = None

    async def look() -> str:
        nonlocal found
        found = await seen(connection, ref)
        return await going(connection, ref, found) if found is not None and found.is_going else ""

    await wait_until(look, clock=clock, note=note, timeout=stuck, deadline_seconds=GONE_SECONDS, interval_seconds=0.3)
    return found


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
    """Apply an object that is the run's or not there; one of others is left as it is, and recorded as theirs."""
    ref = ref_of(manifest)
    work.journal.note(f"Applying {ref.describe()}.")
    found = await settled(connection, ref, clock=work.clock, note=work.journal.note)
    if found is not None and not is_runs(work, found, ref):
        await work.journal.own(owned_of(work, ref, uid=found.uid, existed=True))
        return ref
    if found is None:
        await work.journal.own(replace(owned_of(work, ref), was_absent=True))
    elif (known := known_as(work, ref)) is None or known.uid != found.uid:
        await work.journal.own(replace(owned_of(work, ref, uid=found.uid), is_adopted=True))
    await _put(work, connection, manifest, ref, found)
    return ref


async def _put(
    work: StageWork, connection: Connection, manifest: Manifest, ref: ObjectRef, found: Entry | None
) -> None:
    """Apply, and record what it became.

    Where the first answer shows other writers of an object that was not there a moment ago, somebody else was quicker
    and has made it. A later answer shows controllers, too.
    """
    attempts = 0

    async def put() -> Manifest:
        nonlocal attempts
        attempts += 1
        return await connection.apply(manifest)

    answer = await patiently(put, clock=work.clock, note=work.journal.note)
    applied = entry_of(answer, group_of(ref.api_version), ref.kind)
    if found is None:
        await work.journal.own(owned_of(work, ref, uid=applied.uid, existed=attempts == 1 and is_shared(applied)))
    elif applied.uid != found.uid:
        raise ConflictError(
            f"{ref.describe()} was replaced by another one while it was applied, which is not the run's.",
            hint="Look whose it is, then retry.",
        )


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
    return rank_of(str(manifest["kind"]))

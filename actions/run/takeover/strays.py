"""Objects of a run that its journal does not hold: what a lost runner made after its last record.

Labels prove nothing, so an object counts as the run's only if it also was written by this program, is younger than
that record, and names a stage that the run has: the rules of `actions.run.objects.ownership` for an announced object
whose runner died. Everything else is named and left alone.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import msgspec

from actions.base.clock import Clock
from actions.base.errors import ConsoleError
from actions.base.wording import listed
from actions.blueprint.model import Blueprint
from actions.blueprint.operators import operator_manifests
from actions.blueprint.render import RUN_LABEL
from actions.blueprint.source_files import read_manifests
from actions.blueprint.stages import ManifestsStage
from actions.cluster.objects.client import ApiResource
from actions.run.context.access import ClusterConnection
from actions.run.context.stage_context import CLUSTER_UID, known_cluster_uid
from actions.run.engine.live_backend import LiveBackend
from actions.run.objects.ownership import RUNS, Entry, Inventory, Ownership, classify, doubt_about, group_of
from actions.run.objects.survey import fetch_kinds, survey, with_owners
from actions.run.objects.writes import rank_of
from actions.run.state.planner import with_needed
from actions.run.state.records import Action, Intent, Output
from actions.run.state.view import Goal, OwnedObject, RunView, StageState
from actions.run.takeover.arrival import ArrivalRecords

APPLYING_KINDS = frozenset({"manifests", "storage"})
"""Kinds of stages all of whose objects stay until the stage is undone."""
_SHOWN = 3

ApiVersions = Mapping[tuple[str, str], str]
"""API version by group and kind."""
Positions = Mapping[tuple[str, str, str, str], int]
"""Position in the blueprint's manifests, by stage, group, kind and name."""


class FoundObjects(msgspec.Struct, frozen=True):
    """The objects with a run's label: its own, and a line on each that is not certain to be."""

    own: tuple[OwnedObject, ...] = ()
    """In the order in which they were made."""
    doubtful: tuple[str, ...] = ()
    uids: frozenset[str] = frozenset()
    """Of all objects with the run's label."""


def own_objects(
    entries: Sequence[Entry],
    *,
    run_id: str,
    stages: Collection[str],
    since: float,
    versions: ApiVersions,
    positions: Positions | None = None,
    known: frozenset[str] = frozenset(),
    owners: Iterable[Entry] = (),
) -> FoundObjects:
    """Judge objects that carry a run's label.

    Args:
        entries: All of them, of all kinds.
        run_id: The run.
        stages: The ids of its stages.
        since: Nothing older can be the run's: its launch, or the last record that is known, in seconds since the epoch.
        versions: The API version to record for each kind; an object of another kind is left out.
        positions: The order in which the run applies objects of one second: they are removed in the reverse order.
        known: Uids that the journal holds.
        owners: See `classify`.
    """
    own: list[tuple[float, OwnedObject]] = []
    doubts: dict[str, str] = {}
    for entry in entries:
        if entry.uid in known or entry.owners:
            continue
        version = versions.get((entry.group, entry.kind), "")
        item = OwnedObject(
            entry.stage, version, entry.kind, entry.namespace, entry.name, "", existed=False, is_deleted=False,
            intended_at=since, was_absent=True,
        )  # fmt: skip
        doubt = doubt_about(entry, item, run_id) or _doubt_about_place(entry, version, stages)
        if doubt:
            doubts[entry.uid] = doubt
        elif not entry.is_going:
            made = msgspec.structs.replace(item, uid=entry.uid, intended_at=0.0, was_absent=False, is_adopted=True)
            own.append((entry.created_at, made))
    inventory = Inventory(run_id, known | {item.uid for _, item in own}, tuple(item for _, item in own))
    judged = classify(entries, inventory, owners=owners)
    explained = {*RUNS, Ownership.STANDARD, Ownership.GOING, Ownership.ORPHAN}
    lines = [
        f"{one.entry.describe()}: {doubts[one.entry.uid]}"
        for one in judged
        if one.standing not in explained and one.entry.uid in doubts
    ]
    places = positions or {}

    def order(one: tuple[float, OwnedObject]) -> tuple[float, int, int]:
        created_at, item = one
        place = places.get((item.stage, group_of(item.api_version), item.kind, item.name), -1)
        return created_at, rank_of(item.kind), place

    uids = frozenset(entry.uid for entry in entries)
    return FoundObjects(tuple(item for _, item in sorted(own, key=order)), tuple(lines), uids)


def _doubt_about_place(entry: Entry, version: str, stages: Collection[str]) -> str:
    if entry.stage not in stages:
        return (
            f"it names the stage {entry.stage!r}, which the run does not have" if entry.stage else "it names no stage"
        )
    return "" if version else "the cluster does not serve its kind"


async def objects_of(
    connection: ClusterConnection, blueprint: Blueprint, view: RunView, *, since: float
) -> tuple[FoundObjects, tuple[str, ...]]:
    """Search the cluster for objects of a run that its journal does not hold.

    Args:
        connection: The run's cluster.
        blueprint: With the run's preset applied; its manifests name the API versions.
        view: The run.
        since: Nothing older is new to the journal; seconds since the epoch.

    Returns:
        The objects, and a sentence on what could not be searched.
    """
    named = list(_named(blueprint))
    known = await fetch_kinds(connection)
    found = await survey(connection, known.kinds, selector=f"{RUN_LABEL}={view.id}")
    owners = await with_owners(connection, found.entries, Inventory(view.id, view.made_uids))
    recorded = {item.uid for item in view.owned if item.uid} | view.made_uids
    objects = own_objects(
        found.entries,
        run_id=view.id,
        stages={stage.id for stage in view.stages},
        since=since,
        versions=api_versions(known.kinds, named),
        positions={(one.stage, group_of(one.version), one.kind, one.name): place for place, one in enumerate(named)},
        known=frozenset(recorded),
        owners=owners.entries,
    )
    unasked = [item.clause() for item in (*known.unasked, *found.unasked)]
    unread = (f"Objects may be missing: this user {listed(unasked, _SHOWN)}.",) if unasked else ()
    return objects, unread


class NamedObject(msgspec.Struct, frozen=True):
    """An object that a stage of a blueprint applies, as its manifests name it."""

    stage: str
    version: str
    kind: str
    name: str


def api_versions(kinds: Sequence[ApiResource], named: Sequence[NamedObject]) -> ApiVersions:
    """Return the API version of each kind that a cluster serves: that of the blueprint's manifests, if it names one."""
    found = {(group_of(kind.api_version), kind.kind): kind.api_version for kind in kinds}
    for one in named:
        if (group_of(one.version), one.kind) in found:
            found[group_of(one.version), one.kind] = one.version
    return found


def _named(blueprint: Blueprint) -> Iterator[NamedObject]:
    """Yield the objects of a blueprint in the order of its manifests."""
    for stage in blueprint.stages:
        documents = [item.value for file in stage.files for item in read_manifests(blueprint.folder, file)]
        if isinstance(stage, ManifestsStage) and stage.source is not None:
            with suppress(ConsoleError):  # it is in no mirror: the cluster's preferred versions will do
                documents += operator_manifests(stage.source, ())
        for each in documents:
            name = str((each.get("metadata") or {}).get("name", ""))
            yield NamedObject(stage.id, str(each.get("apiVersion", "")), str(each.get("kind", "")), name)


class Searched(msgspec.Struct, frozen=True):
    """The result of a search for what the lost machine did after its last record."""

    left_out: tuple[str, ...] = ()
    """A line on each object that is left alone, with the reason."""
    sentences: tuple[str, ...] = ()
    """On what could not be searched, and what is gone."""


async def record_strays(folder: Path, records: ArrivalRecords, clock: Clock, *, since: float) -> Searched:
    """Record objects that the lost runner made after its last record.

    They carry the run's label and a stage of it, were written by this program, and are younger than that record. If the
    run's journal does not know the run's cluster yet, they tell that this is it, which is recorded, too. And they tell
    that their stages were begun, and what these need: without that neither a cancel nor a teardown would undo them.

    Args:
        folder: The run's.
        records: Its journal.
        clock: The machine's.
        since: The time of the last record, in seconds since the epoch.

    Raises:
        ConsoleError: The cluster cannot be reached, or accepts no credentials.
    """
    view = records.view()
    backend = LiveBackend(folder, clock)
    try:
        connection = await backend.cluster_of(view)
        if connection is None:
            return Searched()
        context = backend.read_only_context(view)
        found, unread = await objects_of(connection, context.blueprint, view, since=since)
        is_found = bool(found.own) and not known_cluster_uid(view)
        uid = await connection.session.cluster_uid() if is_found else ""
    finally:
        await backend.aclose()
    access = next((stage for stage in view.stages if stage.kind == "kubeconfig"), None)
    if uid and access is not None:
        records.write(Output({CLUSTER_UID: uid}), stage=access.id, attempt=max(access.attempt, 1))
    needs = {stage.id: stage.needs for stage in view.stages}
    begun = with_needed(needs, (item.stage for item in found.own))
    for stage in view.stages:
        if stage.id in begun and stage.state is StageState.PENDING:
            records.write(Intent(Action.PERFORM), stage=stage.id, attempt=stage.attempt + 1)
    view = records.view()
    for item in found.own:
        stage = view.stage(item.stage)
        records.write(item.announcement(), stage=stage.id, attempt=max(stage.attempt, 1))
    return Searched(found.doubtful, unread or gone_sentences(view, found.uids))


def gone_sentences(view: RunView, present: frozenset[str]) -> tuple[str, ...]:
    """Return a sentence on objects of finished stages that are gone though no record says so; none if none is.

    Jobs end, and nodes go with their pods: they do not count.

    Args:
        view: The run.
        present: Uids of all objects with the run's label.
    """
    done = {stage.id for stage in view.stages if stage.kind in APPLYING_KINDS and stage.state is StageState.SUCCEEDED}
    gone = [
        f"{item.kind} {item.name}"
        for item in view.owned
        if item.stage in done and item.uid and not item.existed and not item.is_deleted and item.uid not in present
    ]
    if view.goal is Goal.TEARDOWN or not gone:
        return ()
    return (
        f"Of what its finished stages have made is gone: {listed(gone, _SHOWN)}. If the earlier machine was tearing "
        "the run down, ask for that again.",
    )

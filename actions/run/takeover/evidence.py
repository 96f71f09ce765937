"""The remains of a run, judged: the objects that are its own, and how far its stages have got. Pure.

Labels prove nothing, so an object counts as the run's only if it also was written by this program, is younger than
the run, and names a stage that the run has: the rules of `actions.run.objects.ownership` for an announced object whose
runner died. Everything else is named and left alone.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

import msgspec

from actions.run.objects.ownership import RUNS, Entry, Inventory, Ownership, classify, doubt_about, group_of
from actions.run.objects.writes import rank_of
from actions.run.presence.record import StagePresence
from actions.run.state.planner import with_needed
from actions.run.state.records import (
    Action,
    Body,
    Intent,
    Outcome,
    Result,
    StageOutline,
)
from actions.run.state.view import OwnedObject, StageState

JOB = "job"
_INFERRED = "Inferred: a later stage has made objects."
_LOST = "Its runner was lost."
_DONE = frozenset({StageState.SUCCEEDED, StageState.SKIPPED})
_NOT_BEGUN = frozenset({StageState.PENDING, StageState.SKIPPED})
_ENDED = {
    StageState.FAILED: Result.FAILED,
    StageState.CANCELLED: Result.CANCELLED,
    StageState.UNDONE: Result.CANCELLED,
}

ApiVersions = Mapping[tuple[str, str], str]
"""API version by group and kind."""
Positions = Mapping[tuple[str, str, str, str], int]
"""Position in the blueprint's manifests, by stage, group, kind and name."""


class FoundObject(msgspec.Struct, frozen=True):
    """An object that the run has made."""

    item: OwnedObject
    created_at: float
    """Seconds since the epoch, by the cluster's clock."""


class FoundObjects(msgspec.Struct, frozen=True):
    """The objects with a run's label: its own, and a line on each that is not certain to be."""

    own: tuple[FoundObject, ...] = ()
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
    own: list[FoundObject] = []
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
            own.append(FoundObject(made, entry.created_at))
    inventory = Inventory(run_id, known | {one.item.uid for one in own}, tuple(one.item for one in own))
    judged = classify(entries, inventory, owners=owners)
    explained = {*RUNS, Ownership.STANDARD, Ownership.GOING, Ownership.ORPHAN}
    lines = [
        f"{one.entry.describe()}: {doubts[one.entry.uid]}"
        for one in judged
        if one.standing not in explained and one.entry.uid in doubts
    ]
    places = positions or {}

    def order(one: FoundObject) -> tuple[float, int, int]:
        item = one.item
        place = places.get((item.stage, group_of(item.api_version), item.kind, item.name), -1)
        return one.created_at, rank_of(item.kind), place

    uids = frozenset(entry.uid for entry in entries)
    return FoundObjects(tuple(sorted(own, key=order)), tuple(lines), uids)


def _doubt_about_place(entry: Entry, version: str, stages: Collection[str]) -> str:
    if entry.stage not in stages:
        return (
            f"it names the stage {entry.stage!r}, which the run does not have" if entry.stage else "it names no stage"
        )
    return "" if version else "the cluster does not serve its kind"


class RebuiltStage(msgspec.Struct, frozen=True):
    """The progress of a stage, as far as there is evidence."""

    id: str
    state: StageState
    """`SUCCEEDED`, `FAILED`, `CANCELLED`; `UNKNOWN` if it was under way; `PENDING` if it was not begun."""
    began_at: float = 0.0
    ended_at: float = 0.0
    attempt: int = 1
    message: str = ""


def rebuilt_stages(
    outlines: Sequence[StageOutline],
    *,
    made: Mapping[str, Sequence[float]],
    published: Sequence[StagePresence],
    launched_at: float,
    may_perform: bool,
) -> tuple[RebuiltStage, ...]:
    """Return how far each stage has got, in the order of the outlines; skipped ones are left out.

    The parameters that skip a stage may not be those of the run: one that was begun, or has made objects, counts.
    Without anything published, stages count from the first object that the run has made, so that no cost is invented.
    A stage whose runner has published its state has that state. One that has not has succeeded if a stage that needs it
    was begun, and was under way if it has made objects itself.

    Args:
        outlines: The stages, each after all it needs.
        made: By stage: the creation of each of its objects, in seconds since the epoch.
        published: The states that the lost runner has published.
        launched_at: Seconds since the epoch.
        may_perform: Blueprint and parameters are those of the lost run, so that a stage that was under way may be
            performed again. Without that only a job is followed; any other stage counts as failed, until it is retried.
    """
    told = {stage.id: stage for stage in published}
    begun = {name for name, times in made.items() if times}
    begun |= {stage.id for stage in published if stage.attempt and stage.state not in _NOT_BEGUN}
    needs = {outline.id: outline.needs for outline in outlines}
    needed = with_needed(needs, (need for name in begun & needs.keys() for need in needs[name]))
    found: list[RebuiltStage] = []
    last = launched_at if told else min((at for times in made.values() for at in times), default=launched_at)
    for outline in outlines:
        stage = told.get(outline.id)
        times = sorted(made.get(outline.id, ()))
        if outline.is_skipped and outline.id not in begun:
            continue
        began = (stage.started_at if stage else None) or (times[0] if times else last)
        ended = (stage.ended_at if stage else None) or (times[-1] if times else began)
        state, message = _state_of(outline, stage, is_needed=outline.id in needed, has_objects=bool(times))
        if state is StageState.UNKNOWN and not (may_perform or outline.kind == JOB):
            state = StageState.FAILED
            message = "It was under way when its runner was lost, and its parameters are not known for certain."
        attempt = max(stage.attempt if stage else 1, 1)
        found.append(RebuiltStage(outline.id, state, max(began, launched_at), max(ended, began), attempt, message))
        if state is not StageState.PENDING:
            last = max(last, ended)
    return tuple(found)


def _state_of(
    outline: StageOutline, stage: StagePresence | None, *, is_needed: bool, has_objects: bool
) -> tuple[StageState, str]:
    """Return the state of a stage, and the message of its outcome."""
    if stage is not None and stage.attempt:
        if stage.state in _DONE:
            return StageState.SUCCEEDED, "Succeeded, as its runner had published."
        if stage.state in _ENDED:
            return StageState(
                _ENDED[stage.state].value
            ), f"{stage.state.value.capitalize()}, as its runner had published."
        if stage.state is StageState.AWAITING_APPROVAL and not has_objects:
            return StageState.PENDING, ""
    if is_needed:
        return StageState.SUCCEEDED, _INFERRED
    if has_objects or (stage is not None and stage.state in (StageState.RUNNING, StageState.UNKNOWN)):
        return StageState.UNKNOWN, _LOST
    return StageState.PENDING, ""


class DatedBody(msgspec.Struct, frozen=True):
    """A record to write, with the time that it is of."""

    at: float
    """Seconds since the epoch."""
    body: Body
    stage: str = ""
    attempt: int = 0


def records_of(stages: Sequence[RebuiltStage], objects: Sequence[FoundObject]) -> list[DatedBody]:
    """Return the records of stages that were begun, in their order: announcement, objects, end.

    A stage of which only objects are known is written as begun; what it has made is then removed by a teardown.
    """
    written: list[DatedBody] = []
    for stage in stages:
        if stage.state is StageState.PENDING:
            continue
        written.append(DatedBody(stage.began_at, Intent(Action.PERFORM), stage.id, stage.attempt))
        for one in objects:
            if one.item.stage == stage.id:
                written.append(DatedBody(one.created_at, one.item.announcement(), stage.id, stage.attempt))
        if stage.state is not StageState.UNKNOWN:
            written.append(DatedBody(stage.ended_at, _outcome(stage), stage.id, stage.attempt))
    return written


def _outcome(stage: RebuiltStage) -> Outcome:
    if stage.state is StageState.SUCCEEDED:
        return Outcome(Action.PERFORM, Result.DONE, stage.message)
    return Outcome(Action.PERFORM, Result(stage.state.value), stage.message)

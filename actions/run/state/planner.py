"""The order of stages, forwards and backwards, and the next step of a run. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import assert_never

import msgspec

from actions.base.errors import BlueprintError
from actions.run.state.records import Action, LimitAction, RequestKind
from actions.run.state.view import Goal, RunState, RunView, StageState, StageView

JOB_KINDS = frozenset({"job", "pod"})
"""Kinds of stages whose objects hold accelerators while they work."""

_HALF_DONE = frozenset({StageState.CANCELLED, StageState.FAILED})


def order_of(needs: Mapping[str, Sequence[str]]) -> tuple[str, ...]:
    """Return the stage ids ordered so that each comes after all it needs, otherwise as given.

    Raises:
        BlueprintError: A need is unknown, or stages need each other in a circle.
    """
    placed: dict[str, None] = {}
    while len(placed) < len(needs):
        ready = next((stage for stage, need in needs.items() if stage not in placed and placed.keys() >= set(need)), "")
        if not ready:
            raise _impossible(needs, placed)
        placed[ready] = None
    return tuple(placed)


def _impossible(needs: Mapping[str, Sequence[str]], placed: Mapping[str, None]) -> BlueprintError:
    for stage, need in needs.items():
        for name in need:
            if name not in needs:
                return BlueprintError(f"stage {stage!r} needs {name!r}, which is not a stage.")
    circle = ", ".join(stage for stage in needs if stage not in placed)
    return BlueprintError(f"these stages need each other in a circle: {circle}.")


def teardown_order(stages: Sequence[StageView], *, deletes_data: bool) -> list[tuple[Action, str]]:
    """Return the steps of a teardown: started stages, last first; the drain of nodes in between; the audit at the end.

    Nodes are drained after everything that runs on them is removed, and before anything that they need for a clean
    shutdown.
    """
    kept = frozenset() if deletes_data else kept_stages(stages)
    begun = [stage for stage in reversed(stages) if _was_begun(stage) and stage.id not in kept]
    working = [stage for stage in begun if _works_on_nodes(stage)]
    others = [stage for stage in begun if not _works_on_nodes(stage)]
    steps = [(Action.UNDO, stage.id) for stage in working]
    if working:
        steps.append((Action.DRAIN, ""))
    steps.extend((Action.UNDO, stage.id) for stage in others)
    steps.append((Action.AUDIT, ""))
    return steps


def parking_order(stages: Sequence[StageView]) -> list[tuple[Action, str]]:
    """Return the steps of parking: unfinished jobs, the nodes provisioned for pods, then stages that hold accelerators.

    Stages whose pods hold accelerators are undone before the drain: their controllers would only request new nodes.
    """
    half_done = half_done_jobs(stages)
    held = [stage for stage in reversed(stages) if stage.holds_accelerators and _was_begun(stage)]
    working = [stage for stage in held if _works_on_nodes(stage) and stage not in half_done]
    rest = [stage for stage in held if not _works_on_nodes(stage)]
    first = [(Action.UNDO, stage.id) for stage in (*half_done, *working)]
    return [*first, (Action.DRAIN, ""), *((Action.UNDO, stage.id) for stage in rest)]


def _works_on_nodes(stage: StageView) -> bool:
    """Return whether the stage's pods keep nodes: it is a job, or the blueprint marks it as holding accelerators."""
    return stage.kind in JOB_KINDS or (stage.holds_accelerators and stage.kind != "terraform")


def half_done_jobs(stages: Sequence[StageView]) -> list[StageView]:
    """Return jobs that were started and did not succeed, last first. A finished job holds nothing and stays."""
    return [stage for stage in reversed(stages) if stage.kind in JOB_KINDS and stage.state in _HALF_DONE]


def kept_stages(stages: Sequence[StageView]) -> frozenset[str]:
    """Return the ids of started stages that hold data, and of the started stages they need."""
    by_id = {stage.id: stage for stage in stages}
    found = with_needed(_needs(stages), (stage.id for stage in stages if stage.keeps_data and _was_begun(stage)))
    return frozenset(name for name in found if _was_begun(by_id[name]))


def _was_begun(stage: StageView) -> bool:
    return stage.attempt > 0 and stage.state is not StageState.SKIPPED


_MET = frozenset({StageState.SUCCEEDED, StageState.SKIPPED})


class Begin(msgspec.Struct, frozen=True):
    """Announce and carry out an action; `stage` is empty for one that belongs to no stage."""

    action: Action
    stage: str = ""


class Reconcile(msgspec.Struct, frozen=True):
    """Find out how far a stage got during which an earlier runner died."""

    stage: str


class ApprovePlan(msgspec.Struct, frozen=True):
    """Record that the stage's plan may be carried out."""

    stage: str
    plan_hash: str
    is_automatic: bool


class Wait(msgspec.Struct, frozen=True):
    """Wait for the next request, or for a limit; nothing can be done before."""


class Finish(msgspec.Struct, frozen=True):
    """End: the goal is reached, or cannot be reached without a new request."""


NextStep = Begin | Reconcile | ApprovePlan | Wait | Finish


def next_step(view: RunView) -> NextStep:
    """Return the next step, decided from the journal alone. A run with limits is not left while it costs."""
    step = _next_step(view)
    return Wait() if isinstance(step, Finish) and is_watched(view) else step


def is_watched(view: RunView) -> bool:
    """Return whether a run that has nothing to do is kept for its limits: it holds what costs, and they can end that.

    A parked run is kept only if its limits tear it down; one whose park or teardown failed, as the limit repeats it.
    """
    if not view.limits.is_set or not holds_what_costs(view):
        return False
    is_failed = view.state is RunState.FAILED
    if view.goal is Goal.TEARDOWN:
        return is_failed and is_repeated(view)
    return view.goal is not Goal.PARK or is_failed or view.limits.action is LimitAction.TEARDOWN


def is_repeated(view: RunView) -> bool:
    """Return whether the newest park or teardown was requested at a limit, which repeats it if it fails."""
    ends = (RequestKind.PARK, RequestKind.TEARDOWN, RequestKind.RETRY)
    last = next((request for request in reversed(view.requests) if request.kind in ends), None)
    return last is not None and last.is_of_limit


def holds_what_costs(view: RunView) -> bool:
    """Return whether the run holds accelerators, or anything that is paid for by the hour."""
    held = {stage.id for stage in view.stages if stage.held and stage.held[-1].end is None}
    at_work = {stage.id for stage in view.stages if stage.worked and stage.worked[-1].end is None}
    paid = (price.stage in (at_work if price.is_of_work else held) for price in view.prices if not price.is_by_use)
    return any(paid) or any(stage.holds_accelerators and stage.id in held for stage in view.stages)


def _next_step(view: RunView) -> NextStep:
    for stage in view.stages:
        if stage.state is StageState.UNKNOWN:
            return Reconcile(stage.id)
    match view.goal:
        case Goal.FORWARD:
            return _forward(view)
        case Goal.CANCEL:
            return _steps(view, [(Action.UNDO, stage.id) for stage in half_done_jobs(view.stages)])
        case Goal.PARK:
            return _steps(view, parking_order(view.stages))
        case Goal.TEARDOWN:
            step = next_teardown_step(view.stages, view.ending, deletes_data=view.deletes_data)
            return Begin(*step) if step else Finish()
        case _ as never:
            assert_never(never)


def _forward(view: RunView) -> NextStep:
    for stage in view.stages:
        if stage.state is StageState.AWAITING_APPROVAL:
            return _approval(view, stage)
    if any(stage.state is StageState.FAILED for stage in view.stages):
        return Finish()
    met = {stage.id for stage in view.stages if stage.state in _MET}
    for stage in view.stages:
        if stage.state is StageState.PENDING and met.issuperset(stage.needs):
            return Wait() if view.is_paused else Begin(Action.PERFORM, stage.id)
    return Finish()


def _approval(view: RunView, stage: StageView) -> NextStep:
    if view.is_paused or stage.plan is None:
        return Wait()
    if stage.is_approved:
        return Begin(Action.PERFORM, stage.id)
    if stage.is_approval_wished or view.auto_approve:
        return ApprovePlan(stage.id, stage.plan.plan_hash, is_automatic=not stage.is_approval_wished)
    return Wait()


def next_teardown_step(
    stages: Sequence[StageView], ending: Mapping[tuple[Action, str], StageView], *, deletes_data: bool
) -> tuple[Action, str] | None:
    """Return the next step of a teardown; `None` if it is complete, or all that is left has to wait for what failed."""
    blocked: set[tuple[Action, str]] = set()
    for key in teardown_order(stages, deletes_data=deletes_data):
        step = ending.get(key)
        state = step.state if step else StageState.PENDING
        if state is StageState.FAILED or key in blocked:
            blocked |= _blocked_by(stages, key)
        elif state is not StageState.SUCCEEDED:
            return key
    return None


def _blocked_by(stages: Sequence[StageView], failed: tuple[Action, str]) -> set[tuple[Action, str]]:
    """Return the steps of a teardown that have to wait for one that failed, or waits itself.

    A stage that is still there keeps all that it needs; one whose pods keep nodes keeps the drain, too, and nodes that
    were not drained keep all that pods of the run need. The audit waits for every step.
    """
    action, name = failed
    by_id = {stage.id: stage for stage in stages}
    standing = {name} if action is Action.UNDO else {stage.id for stage in stages if _works_on_nodes(stage)}
    blocked = {(Action.UNDO, need) for need in with_needed(_needs(stages), standing) - standing} | {(Action.AUDIT, "")}
    if action is Action.UNDO and _works_on_nodes(by_id[name]):
        blocked.add((Action.DRAIN, ""))
    return blocked


def _needs(stages: Sequence[StageView]) -> dict[str, tuple[str, ...]]:
    return {stage.id: stage.needs for stage in stages}


def with_needed(needs: Mapping[str, Sequence[str]], names: Iterable[str]) -> set[str]:
    """Return the ids of stages with all that they need, in any number of steps.

    Args:
        needs: Of each stage, by its id.
        names: The ids.
    """
    found: set[str] = set()
    waiting = list(names)
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            waiting.extend(needs[name])
    return found


def _steps(view: RunView, wanted: list[tuple[Action, str]]) -> NextStep:
    for action, stage in wanted:
        step = view.ending.get((action, stage))
        match step.state if step else StageState.PENDING:
            case StageState.SUCCEEDED:
                continue
            case StageState.FAILED:
                return Finish()
            case _:
                return Begin(action, stage)
    return Finish()

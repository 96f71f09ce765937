"""What a runner does next: a pure decision over the view."""

from __future__ import annotations

from typing import assert_never

import msgspec

from actions.run.graph import half_done_jobs, parking_order, teardown_order
from actions.run.records import Action
from actions.run.view import Goal, RunView, StageState, StageView

_MET = frozenset({StageState.SUCCEEDED, StageState.SKIPPED})


class Begin(msgspec.Struct, frozen=True):
    """Announce and do something; `stage` is empty for what belongs to no stage."""

    action: Action
    stage: str = ""


class Settle(msgspec.Struct, frozen=True):
    """An earlier runner died in this stage: find out how far it came."""

    stage: str


class Approve(msgspec.Struct, frozen=True):
    """Take note that the stage's plan may be carried out."""

    stage: str
    plan_hash: str
    is_automatic: bool


class Wait(msgspec.Struct, frozen=True):
    """Nothing to do until somebody wishes something."""


class Finish(msgspec.Struct, frozen=True):
    """The goal is reached, or cannot be reached without a new wish."""


Move = Begin | Settle | Approve | Wait | Finish


def next_move(view: RunView) -> Move:
    """Decide from the journal alone."""
    for stage in view.stages:
        if stage.state is StageState.UNKNOWN:
            return Settle(stage.id)
    match view.goal:
        case Goal.FORWARD:
            return _forward(view)
        case Goal.CANCEL:
            return _steps(view, [(Action.UNDO, stage.id) for stage in half_done_jobs(view.stages)])
        case Goal.PARK:
            return _steps(view, parking_order(view.stages))
        case Goal.TEARDOWN:
            return _steps(view, teardown_order(view.stages, deletes_data=view.deletes_data))
        case _ as never:
            assert_never(never)


def _forward(view: RunView) -> Move:
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


def _approval(view: RunView, stage: StageView) -> Move:
    if view.is_paused or stage.plan is None:
        return Wait()
    if stage.is_approved:
        return Begin(Action.PERFORM, stage.id)
    if stage.is_approval_wished or view.auto_approve:
        return Approve(stage.id, stage.plan.plan_hash, is_automatic=not stage.is_approval_wished)
    return Wait()


def _steps(view: RunView, wanted: list[tuple[Action, str]]) -> Move:
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

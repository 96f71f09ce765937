"""A run's state in a word, from the states of its stages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from typing import assert_never

from actions.run.graph import half_done_jobs
from actions.run.records import Action
from actions.run.view import Goal, RunState, StageState, StageView

_DONE = frozenset({StageState.SUCCEEDED, StageState.SKIPPED})
_OPEN = frozenset({StageState.RUNNING, StageState.UNKNOWN})


def run_state_of(
    goal: Goal,
    stages: Sequence[StageView],
    ending: Mapping[tuple[Action, str], StageView],
    *,
    is_attended: bool,
    is_audited: bool,
) -> RunState:
    """The word for a run.

    Args:
        goal: Where it is heading.
        stages: Its stages.
        ending: What was begun to reach a goal that is not forward.
        is_attended: A runner is alive and may begin something.
        is_audited: A teardown has come to its end.
    """
    states = {stage.state for stage in stages}
    match goal:
        case Goal.FORWARD:
            return _forward(states, is_attended=is_attended)
        case Goal.CANCEL:
            is_reached = all(_is_done(ending, Action.UNDO, stage.id) for stage in half_done_jobs(stages))
            reached, under_way = RunState.CANCELLED, RunState.RUNNING
        case Goal.PARK:
            is_reached = _is_parked(stages, ending)
            reached, under_way = RunState.PARKED, RunState.RUNNING
        case Goal.TEARDOWN:
            is_reached = is_audited
            reached, under_way = RunState.TORN_DOWN, RunState.TEARING_DOWN
        case _ as never:
            assert_never(never)
    if is_reached and not states & _OPEN:
        return reached
    steps = {step.state for step in ending.values()}
    if StageState.FAILED in steps:
        return RunState.FAILED
    return RunState.UNKNOWN if not is_attended and StageState.UNKNOWN in steps | states else under_way


def _is_parked(stages: Sequence[StageView], ending: Mapping[tuple[Action, str], StageView]) -> bool:
    """Whether the nodes are gone: those of pods, and those of stages that hold accelerators."""
    held = [stage for stage in stages if stage.holds_accelerators and stage.attempt]
    are_undone = all(_is_done(ending, Action.UNDO, stage.id) for stage in held)
    return _is_done(ending, Action.DRAIN, "") and are_undone


def _is_done(ending: Mapping[tuple[Action, str], StageView], action: Action, stage: str) -> bool:
    step = ending.get((action, stage))
    return step is not None and step.state is StageState.SUCCEEDED


def _forward(states: Set[StageState], *, is_attended: bool) -> RunState:
    if states <= _DONE:
        return RunState.SUCCEEDED
    for state, word in (
        (StageState.RUNNING, RunState.RUNNING),
        (StageState.UNKNOWN, RunState.RUNNING if is_attended else RunState.UNKNOWN),
        (StageState.AWAITING_APPROVAL, RunState.AWAITING_APPROVAL),
        (StageState.FAILED, RunState.FAILED),
    ):
        if state in states:
            return word
    return RunState.RUNNING if is_attended else RunState.WAITING

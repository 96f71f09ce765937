"""A run's state in a word, from the states of its stages."""

from __future__ import annotations

from collections.abc import Sequence, Set
from typing import assert_never

from actions.run.view import Goal, RunState, StageState, StageView

_DONE = frozenset({StageState.SUCCEEDED, StageState.SKIPPED})


def run_state_of(
    goal: Goal, stages: Sequence[StageView], ending: Sequence[StageView], *, is_attended: bool, is_audited: bool
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
        case Goal.CANCEL | Goal.PARK:
            ended = RunState.CANCELLED if goal is Goal.CANCEL else RunState.PARKED
            return _ending(states, ending, ended, is_attended=is_attended)
        case Goal.TEARDOWN:
            if is_audited:
                return RunState.TORN_DOWN
            return _ending(states, ending, RunState.TEARING_DOWN, is_attended=is_attended)
        case _ as never:
            assert_never(never)


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


def _ending(states: Set[StageState], ending: Sequence[StageView], ended: RunState, *, is_attended: bool) -> RunState:
    steps = {step.state for step in ending}
    if StageState.FAILED in steps:
        return RunState.FAILED
    if not is_attended and (StageState.UNKNOWN in steps or StageState.UNKNOWN in states):
        return RunState.UNKNOWN
    return ended

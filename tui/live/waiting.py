"""The stage that waits for the operator."""

from __future__ import annotations

from actions.base.errors import RefusedError
from actions.run.state.view import RunView, StageState, StageView


def waiting_stage(view: RunView, stage_id: str = "") -> StageView:
    """The stage that waits for an approval.

    Raises:
        RefusedError: None does, or not that one.
    """
    for stage in view.stages:
        if stage.state is StageState.AWAITING_APPROVAL and stage_id in ("", stage.id):
            return stage
    what = f"Stage {stage_id}" if stage_id else "No stage"
    raise RefusedError(f"{what} of run {view.id} {'does not wait' if stage_id else 'waits'} for an approval.")

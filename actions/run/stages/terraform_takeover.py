"""Operations and states of a Terraform stage that another machine has seen, and this one has not.

A run that is taken over has its journal, and in its store the state. Lost are saved plans, the event streams of
operations, and a state that was kept on the other disk. So an apply whose end is in no record may have made whatever
its plan names, and a stage that has made something and has no state is not one that has made nothing.
"""

from __future__ import annotations

from actions.base.errors import MissingError
from actions.run.context.protocols import StageJournal
from actions.run.state.records import Action, OperationEnded, PendingResource, Resolution
from actions.run.state.view import RunView, StageState, StageView
from actions.terraform.events import UNOBSERVED
from actions.terraform.state import StateFile
from actions.terraform.working_directory import STATE_FILE

_MADE = ("+ ", "-/+ ")
"""Signs of planned changes that make something, as `PlanOffer.lines` has them."""


def may_hold(view: RunView, stage: StageView, *, is_prepared: bool, backend: str) -> bool:
    """Return whether a stage may have made something, as far as is known without reading its state.

    Args:
        view: The run.
        stage: The stage.
        is_prepared: Its working directory is on this machine.
        backend: The kind of backend that its root configures itself; empty for none.
    """
    if is_prepared:
        return True
    if not stage.attempt:
        return False
    return bool(view.store or backend) or stage.was_approved


def has_lost_state(view: RunView, stage: StageView, state: StateFile, *, is_kept_here: bool, has_history: bool) -> bool:
    """Return whether a stage has made something, and its state no longer exists.

    Args:
        view: The run.
        stage: The stage.
        state: Its state, as Terraform finds it.
        is_kept_here: Its state is on this machine's disk.
        has_history: Operations of the stage were started on this machine.
    """
    if state.exists or not stage.was_approved:
        return False
    is_undone = stage.state is StageState.UNDONE
    is_waived = any(item.address == STATE_FILE and item.how is Resolution.WAIVED for item in stage.terraform.pending)
    has_made = stage.reached is StageState.SUCCEEDED or (is_kept_here and not has_history)
    return has_made and not is_undone and not is_waived


def lost_state_error(run_id: str, stage: str) -> MissingError:
    """Return the refusal to take a lost state for an empty one.

    Args:
        run_id: The run.
        stage: The stage.
    """
    return MissingError(
        f"The Terraform state of {stage} is lost: a plan of it was carried out, and there is no state any more.",
        hint="Bring it back. Or look for what it made, delete that, and: "
        f"eksml-tui runs waive {run_id} {STATE_FILE} --stage {stage} --confirm {STATE_FILE}. Then retry.",
    )


async def remember_unobserved(stage: StageView, journal: StageJournal, *, has_history: bool) -> bool:
    """Record what an apply may have made of which neither a record nor a process of this machine has the end.

    What of it is in the state is settled with the next question for that.

    Args:
        stage: The stage.
        journal: Its journal.
        has_history: Operations of the stage were started on this machine.

    Returns:
        Whether something was recorded.
    """
    process = f"unobserved:{stage.attempt}"
    if has_history or stage.state is not StageState.UNKNOWN or not stage.is_approved or stage.plan is None:
        return False
    if process in (await journal.terraform()).ended:
        return False
    planned = [line.removeprefix(sign) for line in stage.plan.lines for sign in _MADE if line.startswith(sign)]
    pending = tuple(PendingResource(address, UNOBSERVED) for address in planned)
    await journal.remember(OperationEnded("apply", process, pending))
    return bool(pending)


def may_be_half_destroyed(view: RunView, stage: StageView, *, has_history: bool) -> bool:
    """Return whether a destroy has begun that only another machine has seen.

    Args:
        view: The run.
        stage: The stage.
        has_history: Operations of the stage were started on this machine.
    """
    step = view.ending.get((Action.UNDO, stage.id))
    return step is not None and step.state in (StageState.UNKNOWN, StageState.FAILED) and not has_history

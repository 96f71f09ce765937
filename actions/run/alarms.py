"""The alarms of runs: what an operator who looks elsewhere has to see. Pure.

An alarm has a key that stays the same as long as its cause does. When the cause is gone, so is the alarm; if it comes
again, that is a new one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from enum import StrEnum

import msgspec

from actions.base.wording import listed
from actions.fleet.cost import FleetCost
from actions.run.journal.reader import RunSummary
from actions.run.limits.rules import LimitName
from actions.run.state.view import ENDED, Goal, NoticeKind, RunState, RunView, StageState


class AlarmKind(StrEnum):
    """The cause of an alarm; the value is that of `EKSML_ALARM_KIND`."""

    FAILED = "failed"
    IDLE = "idle"
    """The run is over, and accelerators that it holds have been idle for minutes."""
    APPROVAL = "approval"
    BUDGET = "budget"
    """Most of the run's budget is spent, or all of it."""
    CREDENTIALS = "credentials"
    DONE = "done"
    LIMIT = "limit"
    """Another limit of the run is near, or was reached."""
    PODS = "pods"
    """Pods crash, restart or were killed."""
    RUNNER = "runner"
    """The runner is stalled or gone."""
    TRAINING = "training"
    """A curve or a log: NaN, a spike, no line for long."""


class Alarm(msgspec.Struct, frozen=True):
    """One alarm.

    Args:
        kind: Its cause.
        run: Id of the run.
        text: One sentence, without secrets.
        place: The key that distinguishes two alarms of one kind and run, such as a stage; empty for none.
    """

    kind: AlarmKind
    run: str
    text: str
    place: str = ""

    @property
    def key(self) -> str:
        """Its stable key: `RUN/failed/train`."""
        return "/".join(part for part in (self.run, self.kind.value, self.place) if part)


IDLE_SECONDS = 300.0
"""Time after the end of a run in which its nodes may go by themselves, as those of Karpenter do."""
_SHOWN = 5
"""The most names in a sentence."""
_DONE = {RunState.SUCCEEDED: "has succeeded", RunState.TORN_DOWN: "is torn down", RunState.PARKED: "is parked"}


def alarms_of(runs: Iterable[RunSummary]) -> Iterator[Alarm]:
    """Return the alarms that the list of runs shows."""
    for run in runs:
        if run.error or run.is_copy:
            continue
        at_stage = f" at {run.stage}" if run.stage else ""
        if run.state is RunState.FAILED:
            yield Alarm(AlarmKind.FAILED, run.id, f"Run {run.id} has failed{at_stage}.{_still(run)}", run.stage)
        elif run.state is RunState.AWAITING_APPROVAL:
            yield Alarm(
                AlarmKind.APPROVAL, run.id, f"Run {run.id} waits: approve or refuse the plan of {run.stage}.", run.stage
            )
        elif run.state in _DONE:
            text = f"Run {run.id} {_DONE[run.state]}.{_still(run)}"
            yield Alarm(AlarmKind.DONE, run.id, text, run.state.name.lower())
        for notice in run.notices:
            if notice.kind is NoticeKind.PODS:
                yield Alarm(AlarmKind.PODS, run.id, f"Run {run.id}: {notice.text}", run.stage)
            elif notice.kind is NoticeKind.LIMIT:
                kind = AlarmKind.BUDGET if notice.place.startswith(LimitName.BUDGET.value) else AlarmKind.LIMIT
                yield Alarm(kind, run.id, f"Run {run.id}: {notice.text}", notice.place)
            elif notice.kind in (NoticeKind.STALLED, NoticeKind.NO_RUNNER):
                yield Alarm(AlarmKind.RUNNER, run.id, f"Run {run.id}: {notice.text}", notice.kind.name.lower())


def _still(run: RunSummary) -> str:
    """Return what a run that is over still holds, and its price, as a sentence after another one."""
    if run.paid is None or not run.paid.things:
        return ""
    holders = f" It still holds accelerators: {listed(run.paid.holders, _SHOWN)}." if run.paid.holders else ""
    verb = "The data that it keeps costs" if run.paid.is_kept else "It costs"
    return f"{holders} {verb} {run.paid.hourly.text}."


def idle_alarm(run: RunSummary, nodes: FleetCost | None, *, now: float) -> Alarm | None:
    """Return the alarm that accelerators of a run that is over have been idle for minutes; `None` if they have not.

    Args:
        run: The run.
        nodes: The nodes that it has made, as they are seen; `None` if none are.
        now: Seconds since the epoch.
    """
    is_over = run.state in ENDED and run.ended_at is not None and now - run.ended_at >= IDLE_SECONDS
    if nodes is None or not nodes.idle_accelerators or not is_over:
        return None
    return Alarm(AlarmKind.IDLE, run.id, f"Run {run.id} is over, and holds accelerators: {nodes.idle_text}.")


def credentials_alarm(view: RunView, *, now: float, expires_at: float | None) -> Alarm | None:
    """Return the alarm that credentials end before the run may be done; `None` if they do not, or it is over.

    Args:
        view: The run.
        now: Seconds since the epoch.
        expires_at: The end of credentials that nothing renews, in seconds since the epoch; `None` if they do not end.
    """
    left = [stage for stage in view.stages if stage.state not in (StageState.SUCCEEDED, StageState.SKIPPED)]
    needed = sum(stage.expect_high_seconds for stage in left)
    is_over = view.goal is not Goal.FORWARD or view.state is RunState.FAILED
    if expires_at is None or is_over or not needed or now + needed <= expires_at:
        return None
    text = (
        f"The AWS credentials of run {view.id} end in {max(0, int(expires_at - now) // 60)} min, before it may be done."
    )
    return Alarm(AlarmKind.CREDENTIALS, view.id, text, str(int(expires_at)))

"""The alarms of a run: what an operator who looks elsewhere has to see. Pure.

An alarm has a name that stays the same as long as its cause does. When the cause is gone, so is the alarm; if it comes
again, that is a new one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import msgspec

from actions.base.wording import listed
from actions.run.limits.rules import LimitName, idle_bill, limit_notices
from actions.run.paid import paid_by
from actions.run.state.alarms import DONE, AlarmName, state_alarm
from actions.run.state.records import AlarmKind
from actions.run.state.view import Goal, Notice, RunState, RunView, StageState
from actions.telemetry.curve_alarms import CurveAlarm, CurveAlarmKind

CALLING = (
    CurveAlarmKind.NOT_A_NUMBER,
    CurveAlarmKind.HANG,
    CurveAlarmKind.THROUGHPUT_DROP,
    CurveAlarmKind.SPIKE,
)
"""Curve alarms that call an operator. A plateau is not urgent, and only marked in the charts."""
_SHOWN = 5
"""The most names in a sentence."""
_OF_LIMITS = {LimitName.BUDGET: AlarmKind.BUDGET, LimitName.IDLE: AlarmKind.IDLE}


class Alarm(msgspec.Struct, frozen=True):
    """One alarm.

    Args:
        name: Its name within the run.
        text: One sentence, without secrets.
    """

    name: AlarmName
    text: str


def alarms_of(view: RunView, *, now: float) -> Iterator[Alarm]:
    """Yield the alarms of a run that its records show.

    Args:
        view: The run.
        now: Seconds since the epoch.
    """
    of_state = state_alarm(view)
    if of_state is not None:
        yield Alarm(of_state, _state_text(view, of_state))
    for notice in limit_notices(view, now):
        kind = next((kind for name, kind in _OF_LIMITS.items() if notice.place.startswith(name)), AlarmKind.LIMIT)
        yield Alarm(AlarmName(kind, notice.place), f"Run {view.id}: {_limit_text(view, notice, kind, now)}")
    if (of_credentials := credentials_alarm(view, now=now)) is not None:
        yield of_credentials


def _state_text(view: RunView, name: AlarmName) -> str:
    if name.kind is AlarmKind.APPROVAL:
        return f"Run {view.id} waits: approve or refuse the plan of {name.place}."
    if name.kind is AlarmKind.DONE:
        return f"Run {view.id} {DONE[view.state]}.{_still(view)}"
    at_stage = f" at {name.place}" if name.place else ""
    reason = next((one.message for one in (*view.stages, *view.teardown) if one.id == name.place), "")
    return f"Run {view.id} has failed{at_stage}{f': {reason}' if reason else '.'}{_still(view)}"


def _still(view: RunView) -> str:
    """Return what a run that is over still holds, and its price, as a sentence after another one."""
    paid = paid_by(view)
    if not paid.things:
        return ""
    holders = f" It still holds accelerators: {listed(paid.holders, _SHOWN)}." if paid.holders else ""
    verb = "The data that it keeps costs" if paid.is_kept else "It costs"
    return f"{holders} {verb} {paid.hourly.text}."


def _limit_text(view: RunView, notice: Notice, kind: AlarmKind, now: float) -> str:
    if kind is not AlarmKind.IDLE or view.idle.since is None or view.limits_reached:
        return notice.text  # one that is reached has its bill in its record
    return f"{notice.text} {idle_bill(view, now)}"


class Samples(msgspec.Struct, frozen=True):
    """The samples of a run or a job at one moment, by its stages at work; the stage of a job is empty.

    Args:
        title: It, at the begin of sentences: `Run bionemo-1a2b`, `Job pytorchjob/llama`.
        curves: What is wrong with the curves of its logs.
        pods: What its pods suffer from.
    """

    title: str
    curves: Mapping[str, Sequence[CurveAlarm]] = {}
    pods: Mapping[str, str] = {}


def alarms_in(samples: Samples) -> Iterator[Alarm]:
    """Yield the alarms on samples: curves that call an operator, and pods that crash or are lost."""
    for stage, found in samples.curves.items():
        for one in found:
            if one.kind in CALLING and not one.is_past:
                place = "/".join(filter(None, (stage, one.key)))
                yield Alarm(AlarmName(AlarmKind.TRAINING, place), f"{samples.title}: {one.detail}.")
    for stage, trouble in samples.pods.items():
        at_stage = f" at {stage}" if stage else ""
        yield Alarm(AlarmName(AlarmKind.PODS, stage), f"{samples.title}{at_stage}: {trouble}.")


def credentials_alarm(view: RunView, *, now: float) -> Alarm | None:
    """Return the alarm that credentials end before the run may be done; `None` if they do not, or it is over.

    Args:
        view: The run.
        now: Seconds since the epoch.
    """
    expires_at = view.ends.credentials_end
    left = [stage for stage in view.stages if stage.state not in (StageState.SUCCEEDED, StageState.SKIPPED)]
    needed = sum(stage.expect_high_seconds for stage in left)
    is_over = view.goal is not Goal.FORWARD or view.state is RunState.FAILED
    if expires_at is None or is_over or not needed or now + needed <= expires_at:
        return None
    text = (
        f"The AWS credentials of run {view.id} end in {max(0, int(expires_at - now) // 60)} min, before it may be done."
    )
    return Alarm(AlarmName(AlarmKind.CREDENTIALS, str(int(expires_at))), text)

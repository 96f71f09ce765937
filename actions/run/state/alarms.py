"""The alarms of a run, by its records: what was raised, sent, acknowledged, and what is due. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import assert_never

import msgspec
from msgspec.structs import replace

from actions.run.state.records import (
    AlarmBody,
    AlarmEnded,
    AlarmKind,
    AlarmRaised,
    AlarmsAcknowledged,
    AlarmSent,
    JournalRecord,
)
from actions.run.state.view import AlarmView, Notice, NoticeKind, RunState, RunView, StageState

DONE = {RunState.SUCCEEDED: "has succeeded", RunState.TORN_DOWN: "is torn down", RunState.PARKED: "is parked"}
"""The states of a run that has done what it was to do, as the end of a sentence."""
_UNDER_WAY = frozenset({StageState.RUNNING, StageState.AWAITING_APPROVAL, StageState.UNKNOWN})
_FAILED = frozenset({StageState.FAILED})


class AlarmName(msgspec.Struct, frozen=True):
    """The name of a cause within its run: as long as that is there, the alarm is the same."""

    kind: AlarmKind
    place: str = ""

    def key(self, run: str) -> str:
        """Return the key for people and programs: `RUN/failed/train`."""
        return "/".join(part for part in (run, self.kind.value, self.place) if part)


RECENT_SECONDS = 7 * 86400.0
"""An alarm that is older is not listed, and does not ring: it is history."""


def name_of(alarm: AlarmView) -> AlarmName:
    """Return the name of an alarm."""
    return AlarmName(alarm.kind, alarm.place)


def sent_words(alarm: AlarmView) -> str:
    """Return what became of an alarm: `hook, not by webhook`; empty if it was not to be sent."""
    words = [f"not by {one.way}" if one.error else one.way for one in alarm.sent]
    return ", ".join([*words, *(f"{way} pending" for way in alarm.left)])


def alarms_after(known: dict[int, AlarmView], record: JournalRecord, body: AlarmBody) -> None:
    """Take one more record into account.

    Args:
        known: Alarms by the number of their record; changed.
        record: The record.
        body: Its body.
    """
    match body:
        case AlarmRaised(alarm=kind, place=place, text=text, ways=ways):
            known[record.seq] = AlarmView(record.seq, record.at, kind, place, text, ways)
        case AlarmSent(seq=seq):
            if seq in known:
                known[seq] = replace(known[seq], sent=(*known[seq].sent, body))
        case AlarmEnded(seq=seq):
            if seq in known:
                known[seq] = replace(known[seq], is_over=True)
        case AlarmsAcknowledged(seqs=seqs):
            for seq in known.keys() & set(seqs):
                known[seq] = replace(known[seq], is_acknowledged=True)
        case _ as never:
            assert_never(never)


def end_state_alarms(known: dict[int, AlarmView]) -> None:
    """End the alarms of a state that a request has changed: if it fails again at once, that is a new alarm."""
    for seq, alarm in known.items():
        if alarm.kind in (AlarmKind.FAILED, AlarmKind.DONE, AlarmKind.APPROVAL):
            known[seq] = replace(alarm, is_over=True)


def present_stage(view: RunView) -> str:
    """Return the stage that is under way, waits for approval or, in a run that failed, has failed; else empty."""
    states = [_UNDER_WAY, *([_FAILED] if view.state is RunState.FAILED else [])]
    stages = (*view.stages, *view.teardown)
    return next((stage.id for wanted in states for stage in stages if stage.state in wanted), "")


def state_alarm(view: RunView) -> AlarmName | None:
    """Return the alarm that the state of a run is; `None` while it is at work, and after a cancel."""
    stage = present_stage(view)
    if view.state is RunState.FAILED:
        return AlarmName(AlarmKind.FAILED, stage)
    if view.state is RunState.AWAITING_APPROVAL:
        waits = view.stage(stage)
        is_answered = view.auto_approve or waits.is_approved or waits.is_approval_wished
        return None if is_answered else AlarmName(AlarmKind.APPROVAL, stage)
    return AlarmName(AlarmKind.DONE, view.state.name.lower()) if view.state in DONE else None


def open_alarms(view: RunView) -> dict[AlarmName, AlarmView]:
    """Return the alarms whose cause is there, by name."""
    return {name_of(alarm): alarm for alarm in view.alarms if not alarm.is_over}


def has_alarms_to_send(view: RunView) -> bool:
    """Return whether the runner still has to raise the alarm of the run's state, or to send one."""
    due = state_alarm(view)
    is_raised = due is None or due in open_alarms(view)
    return not is_raised or any(alarm.left for alarm in view.alarms)


def waiting_alarms(view: RunView) -> tuple[AlarmView, ...]:
    """Return the alarms whose cause is there and which are not acknowledged, oldest first."""
    return tuple(alarm for alarm in view.alarms if not (alarm.is_over or alarm.is_acknowledged))


_SHOWN_OTHERWISE = frozenset({AlarmKind.FAILED, AlarmKind.APPROVAL, AlarmKind.DONE, AlarmKind.PODS})
_OF_LIMITS = frozenset({AlarmKind.LIMIT, AlarmKind.BUDGET, AlarmKind.IDLE})


def alarm_notices(view: RunView) -> Iterator[Notice]:
    """Yield the waiting alarms that nothing else on screen shows, and the last one that could not be sent."""
    waiting = waiting_alarms(view)
    for alarm in waiting:
        if alarm.kind not in _SHOWN_OTHERWISE | _OF_LIMITS:
            yield Notice(NoticeKind.ALARM, alarm.text, alarm.at, place=name_of(alarm).key(view.id))
    unsent = [(alarm, sent) for alarm in waiting for sent in alarm.sent if sent.error]
    if unsent:
        alarm, sent = unsent[-1]
        text = f"Its alarm {name_of(alarm).key(view.id)} was not sent by {sent.way}: {sent.error}"
        yield Notice(NoticeKind.ALARM, text, place=sent.way)

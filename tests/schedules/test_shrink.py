"""A schedule that breaks something is made smaller as long as the same breaks."""

from __future__ import annotations

import pytest

from tests.schedules import playing
from tests.schedules.invariants import Broken
from tests.schedules.playing import Played, shrink
from tests.schedules.schedule import Fault, FaultKind, Moment, Schedule

KINDS = (FaultKind.KILL_RUNNER, FaultKind.FULL_DISK, FaultKind.CANCEL, FaultKind.RESET)
SCHEDULE = Schedule(0, tuple(Fault(kind, Moment(record=9)) for kind in KINDS))


def breaking(patch: pytest.MonkeyPatch, *needed: FaultKind, broken: Broken = Broken.LOG) -> list[Schedule]:
    """Let lives break with these faults, and something else without; what is played is collected."""
    played: list[Schedule] = []

    def play(schedule: Schedule) -> Played:
        played.append(schedule)
        there = {fault.kind for fault in schedule.faults}
        found = [broken] if there.issuperset(needed) else [Broken.AUDIT]
        return Played(0, 0.0, schedule.lines(), [], [], [f"{found[0].value}: so"], found, [], 0)

    patch.setattr(playing, "play", play)
    return played


@pytest.mark.parametrize(
    "needed", [(FaultKind.FULL_DISK,), (FaultKind.KILL_RUNNER, FaultKind.RESET), KINDS], ids=["one", "two", "all"]
)
def test_only_what_is_needed_stays(monkeypatch: pytest.MonkeyPatch, needed: tuple[FaultKind, ...]) -> None:
    breaking(monkeypatch, *needed)
    smallest, went = shrink(SCHEDULE, [Broken.LOG])
    assert [fault.kind for fault in smallest.faults] == list(needed)
    assert (went is None) == (needed == KINDS)
    if went is not None:
        assert went.schedule == smallest.lines()


def test_what_breaks_something_else_is_no_smaller_schedule(monkeypatch: pytest.MonkeyPatch) -> None:
    played = breaking(monkeypatch, *KINDS, broken=Broken.TWICE)
    assert shrink(SCHEDULE, [Broken.TWICE]) == (SCHEDULE, None)
    assert len(played) == len(KINDS)

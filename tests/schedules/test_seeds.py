"""Some seeds of `make schedules` in every run of the tests; all of them hold when they are played."""

from __future__ import annotations

import pytest

from tests.schedules.playing import impossible_here, play
from tests.schedules.schedule import (
    FOREIGN,
    HOME,
    MOVES,
    PARTITIONS,
    WISHES,
    Fault,
    FaultKind,
    Moment,
    Schedule,
    schedule_of,
)

pytestmark = pytest.mark.kill

SEEDS = [34, 85, 144, 153, 1008]
"""Together 18 kinds: kills of runners and Terraform, partitions, full disks, a second operator, a foreign object, and a
home that is away while the run is taken over from a runner that was stopped, and goes on later."""


@pytest.mark.parametrize("seed", SEEDS)
def test_a_life_under_faults_breaks_no_invariant(seed: int) -> None:
    went = play(schedule_of(seed, without=frozenset(impossible_here())))
    assert not went.violations, went.report()


def test_a_machine_that_is_cut_off_and_taken_over_changes_nothing_when_it_is_there_again() -> None:
    cut_off = Fault(FaultKind.TAKE_OVER_CUT_OFF, Moment(stage="train", lines=10), seconds=1.0)
    went = play(Schedule(-1, (cut_off,), has_store=True, has_own_ways=True))
    assert not went.violations, went.report()
    assert went.injected == [cut_off.kind.value]
    told = [line.split(maxsplit=1)[1] for line in went.steps]
    taken = next(place for place, line in enumerate(told) if line.startswith("ben: takeover: 0"))
    assert told.index(f"{cut_off}: anna reaches nobody") < taken < told.index(f"{cut_off}: ended")


def test_the_seeds_have_something_of_everything() -> None:
    kinds = {fault.kind for seed in SEEDS for fault in schedule_of(seed).faults}
    for group in (PARTITIONS, WISHES, FOREIGN, HOME, MOVES, (FaultKind.FULL_DISK,), (FaultKind.KILL_RUNNER,)):
        assert kinds & set(group), group

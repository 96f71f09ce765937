"""Some seeds of `make schedules` in every run of the tests; all of them hold when they are played."""

from __future__ import annotations

import pytest

from tests.schedules.playing import impossible_here, play
from tests.schedules.schedule import FOREIGN, HOME, MOVES, PARTITIONS, WISHES, FaultKind, schedule_of

pytestmark = pytest.mark.kill

SEEDS = [34, 85, 144, 153, 1008]
"""Together 18 kinds: kills of runners and Terraform, partitions, full disks, a second operator, a foreign object, and a
home that is away while the run is taken over from a runner that was stopped, and goes on later."""


@pytest.mark.parametrize("seed", SEEDS)
def test_a_life_under_faults_breaks_no_invariant(seed: int) -> None:
    went = play(schedule_of(seed, without=frozenset(impossible_here())))
    assert not went.violations, went.report()


def test_the_seeds_have_something_of_everything() -> None:
    kinds = {fault.kind for seed in SEEDS for fault in schedule_of(seed).faults}
    for group in (PARTITIONS, WISHES, FOREIGN, HOME, MOVES, (FaultKind.FULL_DISK,), (FaultKind.KILL_RUNNER,)):
        assert kinds & set(group), group

"""Seeds that are played as tests."""

from __future__ import annotations

from tests.schedules.playing import impossible_here, play
from tests.schedules.schedule import schedule_of


def assert_holds(seed: int) -> None:
    """Play a seed; what breaks is told with its schedule."""
    went = play(schedule_of(seed, without=frozenset(impossible_here())))
    assert not went.violations, went.report()

"""Back-off: doubled to a limit, short again after progress or peace, never shorter than what a server asks for."""

from __future__ import annotations

import pytest

from actions.base.backoff import Backoff, backoff_seconds
from tests.support.virtual import VirtualClock, virtually


@pytest.mark.parametrize(("failures", "wait"), [(1, 2.0), (2, 4.0), (4, 16.0), (5, 30.0), (100_000, 30.0)])
def test_a_wait_doubles_with_each_failure_to_its_limit(failures: int, wait: float) -> None:
    assert backoff_seconds(failures, first_seconds=2.0, longest_seconds=30.0) == wait


def test_many_failures_without_a_limit_are_a_number() -> None:
    assert backoff_seconds(100_000, first_seconds=1.0) == 2.0**64


@virtually
async def test_progress_makes_the_next_wait_a_first_one() -> None:
    backoff = Backoff(VirtualClock(), first_seconds=1.0, longest_seconds=4.0)
    assert [backoff.next_seconds() for _ in range(4)] == [1.0, 2.0, 4.0, 4.0]
    backoff.reset()
    assert backoff.next_seconds() == 1.0


@virtually
async def test_peace_is_counted_from_the_end_of_a_wait() -> None:
    clock = VirtualClock()
    backoff = Backoff(clock, first_seconds=8.0, longest_seconds=64.0, peace_seconds=10.0)
    await backoff.wait()
    await clock.sleep(9.0)
    assert backoff.next_seconds() == 16.0
    await clock.sleep(16.0 + 11.0)
    assert backoff.next_seconds() == 8.0


@virtually
async def test_a_server_may_ask_for_more() -> None:
    clock = VirtualClock()
    backoff, begun = Backoff(clock, first_seconds=1.0, longest_seconds=4.0), clock.monotonic()
    await backoff.wait(30.0)
    assert clock.monotonic() - begun == pytest.approx(30.0)


@virtually
async def test_jitter_only_lengthens_and_is_within_its_part() -> None:
    backoff = Backoff(VirtualClock(), first_seconds=1.0, longest_seconds=1.0, jitter=0.5)
    waits = {backoff.next_seconds() for _ in range(50)}
    assert len(waits) > 1
    assert min(waits) >= 1.0
    assert max(waits) <= 1.5

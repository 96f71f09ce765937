"""A busy log is read some times a second; nothing that comes by itself is kept waiting."""

from __future__ import annotations

from datetime import UTC, datetime

from actions.cluster.logs.follow import PLENTY_BYTES, REST_SECONDS, ReadCoalescer


class _Clock:
    """Time that passes by sleeping, and when told."""

    def __init__(self) -> None:
        self.seconds = 100.0

    def now(self) -> datetime:
        return datetime(2026, 11, 21, 10, tzinfo=UTC)

    def monotonic(self) -> float:
        return self.seconds

    async def sleep(self, seconds: float) -> None:
        self.seconds += seconds


async def _rested(pieces: list[tuple[float, int]]) -> list[float]:
    """Return the wait after each piece, given the silence before it and its size."""
    clock, waits = _Clock(), list[float]()
    coalescer = ReadCoalescer(clock)
    for silence, size in pieces:
        clock.seconds += silence
        before = clock.seconds
        await coalescer.wait(size)
        waits.append(round(clock.seconds - before, 6))
    return waits


async def test_small_pieces_right_behind_each_other_are_let_come_together() -> None:
    assert await _rested([(0, 80), (0.001, 80), (0, 4000), (0.02, 80)]) == [0, REST_SECONDS, REST_SECONDS, REST_SECONDS]


async def test_a_line_after_a_silence_is_not_kept_waiting() -> None:
    assert await _rested([(5, 80), (1, 80), (REST_SECONDS * 2, 80)]) == [0, 0, 0]


async def test_a_log_that_sends_plenty_is_read_without_a_rest() -> None:
    assert await _rested([(0, PLENTY_BYTES)] * 5) == [0] * 5

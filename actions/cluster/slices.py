"""Long sequences of raw objects in slices, between which the loop is handed back."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from typing import TypeVar

from actions.base.clock import Clock
from actions.cluster.wire import Raw

RawT = TypeVar("RawT", bound=Raw)

SLICE_SECONDS = 0.008
_PORTION_BYTES = 1 << 17
_HANDLING_BYTES = 2048
"""What an object costs at least, as bytes to be read."""


async def sliced(things: Sequence[RawT], clock: Clock) -> AsyncIterator[Sequence[RawT]]:
    """A few at a time; between, the loop is handed back once a slice of time is used up."""
    until = clock.monotonic() + SLICE_SECONDS
    for few in _portions(things):
        yield few
        if clock.monotonic() >= until:
            await asyncio.sleep(0)
            until = clock.monotonic() + SLICE_SECONDS


def _portions(things: Sequence[RawT]) -> Iterator[Sequence[RawT]]:
    """Few enough to be decoded in a fraction of a slice, whatever their size."""
    if not things:
        return
    usual = sum(map(len, things)) // len(things) + _HANDLING_BYTES
    step = max(1, _PORTION_BYTES // usual)
    for begin in range(0, len(things), step):
        yield things[begin : begin + step]

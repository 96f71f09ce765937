"""The money that a run has spent so far, by stage, at the prices of its launch. Pure.

What a stage makes is paid from the begin of its first attempt to the end of its undo, whether anything works or not. A
moment in which several stages work is shared by them; one in which none does belongs to none.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from decimal import Decimal
from itertools import pairwise

import msgspec

from actions.fleet.quantity import format_usd
from actions.run.state.records import HeldPrice
from actions.run.state.view import Period, RunView

_NOTHING = Decimal(0)


class Spending(msgspec.Struct, frozen=True):
    """The cost of a run so far, as far as prices were known when it was launched."""

    usd: Decimal
    by_stage: Mapping[str, Decimal]
    """Cost of the hours in which each stage worked."""
    idle_usd: Decimal
    """Cost of the hours in which none did."""
    usd_per_hour: Decimal
    """The present rate."""
    unpriced: tuple[str, ...]
    """Things that cost money and have no known price: with any, all sums are lower bounds."""
    is_simulated: bool

    @property
    def text(self) -> str:
        """`at least $12.34 so far, now $1.10/h`; after a teardown only the sum."""
        least = "at least " if self.unpriced else ""
        now = f", now {least}{format_usd(self.usd_per_hour)}/h" if self.usd_per_hour else ""
        return f"{least}{format_usd(self.usd)} so far{now}{' (simulated)' if self.is_simulated else ''}"

    @property
    def short_text(self) -> str:
        """`$12.34 spent`, with `≥` before it where a price is not known."""
        return (
            f"{'≥ ' if self.unpriced else ''}{format_usd(self.usd)} spent{' (simulated)' if self.is_simulated else ''}"
        )


def spending_of(view: RunView, now: float) -> Spending | None:
    """Return the cost of a run up to `now`, in seconds since the epoch; `None` if it has no prices.

    Traffic and everything else that is paid by use is not in it.
    """
    if not view.prices:
        return None
    paid = [(price, period) for price in view.prices for period in _periods(view, price)]
    known = [(Decimal(price.usd_per_hour), period) for price, period in paid if price.usd_per_hour]
    worked = {stage.id: stage.worked for stage in view.stages}
    by_stage: dict[str, Decimal] = {}
    idle = total = _NOTHING
    for begin, end in _moments(view, [period for _, period in paid], now):
        rate = sum((usd for usd, period in known if _covers(period, begin)), _NOTHING)
        usd = rate * Decimal(str(end - begin)) / 3600
        total += usd
        working = [stage for stage, periods in worked.items() if any(_covers(period, begin) for period in periods)]
        for stage in working:
            by_stage[stage] = by_stage.get(stage, _NOTHING) + usd / len(working)
        if not working:
            idle += usd
    return Spending(
        usd=total,
        by_stage=by_stage,
        idle_usd=idle,
        usd_per_hour=sum((usd for usd, period in known if period.end is None), _NOTHING),
        unpriced=tuple(dict.fromkeys(price.title for price, _ in paid if not price.usd_per_hour)),
        is_simulated=view.is_cost_simulated,
    )


def _periods(view: RunView, price: HeldPrice) -> tuple[Period, ...]:
    stage = next((stage for stage in view.stages if stage.id == price.stage), None)
    if stage is None:
        return ()
    return stage.worked if price.is_of_work else stage.held


def _moments(view: RunView, paid: list[Period], now: float) -> Iterator[tuple[float, float]]:
    """Yield the spans between which nothing changes, in order."""
    periods = [*paid, *(period for stage in view.stages for period in stage.worked)]
    ends = {now if period.end is None else min(period.end, now) for period in periods}
    marks = sorted({period.begin for period in periods if period.begin <= now} | ends)
    yield from pairwise(marks)


def _covers(period: Period, moment: float) -> bool:
    return period.begin <= moment and (period.end is None or moment < period.end)

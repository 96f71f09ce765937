"""The money that a run has spent so far, by stage, at the prices of its launch. Pure.

What a stage makes is paid from the begin of its first attempt to the end of its undo, whether anything works or not. A
moment in which several stages work is shared by them; one in which none does belongs to none.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from decimal import Decimal
from itertools import pairwise

import msgspec

from actions.base.wording import listed
from actions.fleet.quantity import decimal_text, format_hourly, format_usd
from actions.run.state.records import Action, HeldPrice
from actions.run.state.view import OVER, Goal, NoticeKind, Period, RunState, RunView, StageState, StageView

_NOTHING = Decimal(0)
_SHOWN = 20
"""The most names in a sentence."""


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
    by_use: tuple[str, ...] = ()
    """Things paid by use, with their prices: they are in no sum, and make all of them lower bounds too."""

    @property
    def is_lower_bound(self) -> bool:
        """True if something that was paid is in no sum."""
        return bool(self.unpriced or self.by_use)

    @property
    def text(self) -> str:
        """`at least $12.34 so far, now $1.10/h`; after a teardown only the sum."""
        least = "at least " if self.is_lower_bound else ""
        now = f", now {self.rate_text}" if self.usd_per_hour else ""
        return f"{least}{format_usd(self.usd)} so far{now}{' (simulated)' if self.is_simulated else ''}"

    @property
    def rate_text(self) -> str:
        """The present rate: `at least $1.10/h`."""
        return f"{'at least ' if self.is_lower_bound else ''}{format_usd(self.usd_per_hour)}/h"

    @property
    def short_text(self) -> str:
        """`at least $12.34 spent`; `at least` where something is in no sum."""
        return self.stage_text(self.usd)

    def stage_text(self, usd: Decimal) -> str:
        """Return a part of the sum, or all of it, in three words: `$12.34 spent`."""
        least = "at least " if self.is_lower_bound else ""
        return f"{least}{format_usd(usd)} spent{' (simulated)' if self.is_simulated else ''}"


def rate_at_rest(view: RunView, now: float) -> str:
    """Return what a run that does not work any more still costs: `costs $1.10/h`; empty for nothing, or at work."""
    spending = spending_of(view, now) if view.state in OVER else None
    if spending is None or not spending.usd_per_hour:
        return ""
    return f"costs {spending.rate_text}"


def spending_of(view: RunView, now: float) -> Spending | None:
    """Return the cost of a run up to `now`, in seconds since the epoch; `None` if it has no prices.

    Traffic and everything else that is paid by use is in no sum, but named. Of a run that was taken over, or restored
    from an archive, it is the cost up to then, without a present rate.
    """
    if not view.prices:
        return None
    end_known = _known_until(view)
    now = now if end_known is None else min(now, end_known)
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
        usd_per_hour=_NOTHING
        if end_known is not None
        else sum((usd for usd, period in known if period.end is None), _NOTHING),
        unpriced=tuple(
            dict.fromkeys(price.title for price, _ in paid if not price.usd_per_hour and not price.is_by_use)
        ),
        is_simulated=view.is_cost_simulated,
        by_use=tuple(dict.fromkeys(price.title for price, _ in paid if price.is_by_use)),
    )


def _known_until(view: RunView) -> float | None:
    """Return when the records of a copy end, of which others may have more: seconds since the epoch; else `None`."""
    for notice in view.notices:
        if notice.kind is NoticeKind.ELSEWHERE and notice.since is not None:
            return notice.since
        if notice.kind is NoticeKind.RESTORED:
            return last_moment(view)
    return None


def held_titles(view: RunView) -> tuple[str, ...]:
    """Return the titles of what the run pays for by the hour now."""
    held = (price.title for price in view.prices if any(period.end is None for period in _periods(view, price)))
    return tuple(dict.fromkeys(held))


def last_moment(view: RunView) -> float:
    """Return the last moment that the journal has, in seconds since the epoch, where no clock is given."""
    ends = [end for stage in (*view.stages, *view.teardown) for end in (stage.started_at, stage.ended_at) if end]
    return max([view.created_at, *ends])


def spending_fields(spending: Spending | None) -> dict[str, object] | None:
    """Return it as JSON has it: amounts as decimal texts; `None` for a run without prices."""
    if spending is None:
        return None
    return {
        "usd": decimal_text(spending.usd),
        "usd_per_hour": decimal_text(spending.usd_per_hour),
        "by_stage": {stage: decimal_text(usd) for stage, usd in spending.by_stage.items()},
        "idle_usd": decimal_text(spending.idle_usd),
        "unpriced": list(spending.unpriced),
        "by_use": list(spending.by_use),
        "simulated": spending.is_simulated,
    }


def unfinished_teardown(view: RunView) -> tuple[str, ...]:
    """Return the end of a teardown that stopped: what failed, what is left with its price, the next command.

    Empty for every other run, and for a teardown that still goes on with what does not need the failed step.
    """
    if view.goal is not Goal.TEARDOWN or view.state is not RunState.FAILED:
        return ()
    failed = [step for step in view.teardown if step.state is StageState.FAILED]
    waiting = [step for step in view.teardown if step.state is StageState.PENDING]
    if not failed:
        return ()
    waits = f" {listed([step.title for step in waiting], _SHOWN)} waited for it." if waiting else ""
    left = [priced_title(view, step) for step in (*failed, *waiting) if step.kind not in (Action.DRAIN, Action.AUDIT)]
    return (
        f"The teardown stopped: {listed([step.title for step in failed], _SHOWN)} failed.{waits}",
        *([f"Still there: {listed(left, _SHOWN)}."] if left else []),
        f"Fix the cause, then: eksml-tui runs resume {view.id}",
    )


_HOLD_NOTHING = ("capacity", "check")
"""Kinds of stages that make nothing."""


def kept_text(view: RunView) -> str:
    """Return the stages that a teardown has left on purpose, with the price of what each holds; empty without any."""
    skipped = [step for step in view.teardown if step.state is StageState.SKIPPED]
    kept = {step.id for step in skipped if step.kind not in _HOLD_NOTHING}
    return listed([priced_title(view, stage) for stage in view.stages if stage.id in kept], _SHOWN)


def priced_title(view: RunView, stage: StageView) -> str:
    """Return a stage that was not undone, with the price of what it holds, as far as that is known."""
    held = [
        price
        for price in view.prices
        if price.stage == stage.id and any(period.end is None for period in _periods(view, price))
    ]
    if not held:
        return stage.title
    usd = sum((Decimal(price.usd_per_hour) for price in held if price.usd_per_hour), _NOTHING)
    unpriced = sum(not (price.usd_per_hour or price.is_by_use) for price in held)
    return f"{stage.title} ({format_hourly(usd or None, unpriced=unpriced)})"


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

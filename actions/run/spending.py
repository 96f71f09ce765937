"""The money that a run has spent so far, by stage, at the prices of its launch. Pure.

What a stage makes is paid for while it is known to exist: from the end of the attempt that made it to the end of its
undo; the nodes that are started for the pods of a job, from the records of their NodeClaims to the end of its work.
What may exist beside it, such as that of an apply that is under way or has failed, is summed apart; so is the part of
nodes that were there which the run's pods take: others pay for these, whether it runs or not. A moment in which
several stages work is shared by them; one in which none does belongs to none.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from decimal import Decimal, localcontext
from itertools import pairwise, zip_longest

import msgspec
from msgspec.structs import replace

from actions.fleet.cost import HourlyCost
from actions.fleet.quantity import UNKNOWN, decimal_text, format_hourly, format_usd
from actions.run.state.records import NODE_CLAIM, HeldPrice, NodesUsed
from actions.run.state.view import NoticeKind, OwnedObject, Period, RunView, StageView

_NOTHING = Decimal(0)
_CENT = Decimal("0.01")
_WHOLE = Decimal(1)

Share = tuple[Period, Decimal]
"""A time, and the part of a price that is paid in it."""


class Spending(msgspec.Struct, frozen=True):
    """The cost of a run so far, as far as prices were known when it was launched."""

    usd: Decimal
    by_stage: Mapping[str, Decimal]
    """Cost of the hours in which each stage worked."""
    usd_per_hour: Decimal
    """The present rate."""
    unpriced: tuple[str, ...]
    """Things that cost money and have no known price: with any, all sums are lower bounds."""
    is_simulated: bool
    by_use: tuple[str, ...] = ()
    """Things paid by use, with their prices: they are in no sum, and make all of them lower bounds too."""
    may_usd: Decimal = _NOTHING
    """Cost so far of what may have existed: in no sum."""
    may_usd_per_hour: Decimal = _NOTHING
    """The rate of what may exist now: in no sum."""
    at: float = 0.0
    """Seconds since the epoch up to which it counts; 0.0 if it does not grow."""
    used_usd: Decimal = _NOTHING
    """Cost so far of the parts of nodes that were there and that its pods have taken: in no sum."""
    uses: HourlyCost | None = None
    """The rate of those that they take now; `None` for none."""
    is_rate_known: bool = True
    """False if all that is paid by the hour now has no price, or only may exist."""

    @property
    def is_lower_bound(self) -> bool:
        """True if something that was paid, or may have been, is not in the sum."""
        return bool(self.unpriced or self.by_use or self.may_usd)

    @property
    def text(self) -> str:
        """`at least $12.34 so far, now ≥ $1.10/h`, `? so far`; after a teardown only the sum."""
        now = f", now {self.rate_text}" if self.usd_per_hour else ""
        simulated = " (simulated)" if self.is_simulated else ""
        return f"{self.sum_text(self.usd)} so far{now}{simulated}{self._used_text}"

    @property
    def _used_text(self) -> str:
        """`; uses $110.08/h of what is there, $12.34 so far`; empty where it has used nothing."""
        if self.uses is not None:
            so_far = f", {format_usd(self.used_usd)} so far" if self.used_usd >= _CENT else ""
            return f"; uses {self.uses.text} of what is there{so_far}"
        return f"; used {format_usd(self.used_usd)} of what is there" if self.used_usd >= _CENT else ""

    @property
    def rate_text(self) -> str:
        """The present rate: `≥ $1.10/h`."""
        is_lower_bound = bool(self.unpriced or self.by_use or self.may_usd_per_hour)
        return format_hourly(self.usd_per_hour, is_lower_bound=is_lower_bound)

    @property
    def short_text(self) -> str:
        """`at least $12.34 spent`; `at least` where something is in no sum. `$0.00 spent, uses $110.08/h`."""
        uses = f", uses {self.uses.text}" if self.uses is not None else ""
        return f"{self.stage_text(self.usd)}{uses}"

    def stage_text(self, usd: Decimal) -> str:
        """Return a part of the sum, or all of it, in three words: `$12.34 spent`."""
        return f"{self.sum_text(usd)} spent{' (simulated)' if self.is_simulated else ''}"

    def sum_text(self, usd: Decimal) -> str:
        """Return `at least $12.34`; `?` for less than a cent and more that is not in it."""
        if not self.is_lower_bound:
            return format_usd(usd)
        return f"at least {format_usd(usd)}" if usd >= _CENT else UNKNOWN

    def later(self, since: float, now: float) -> Spending:
        """Return it at a later moment, of a run of which nothing was recorded meanwhile and no stage works.

        Args:
            since: The moment that it was computed for, in seconds since the epoch.
            now: The later one.
        """
        hours = Decimal(str(max(0.0, now - since))) / 3600
        return replace(
            self,
            usd=self.usd + self.usd_per_hour * hours,
            may_usd=self.may_usd + self.may_usd_per_hour * hours,
            at=now if self.usd_per_hour else self.at,
        )

    def usd_at(self, now: float) -> Decimal:
        """Return the sum at a later moment, at the same rate."""
        return self.usd + self.usd_per_hour * Decimal(str(max(0.0, now - (self.at or now)))) / 3600


def spending_of(view: RunView, now: float) -> Spending | None:
    """Return the cost of a run up to `now`, in seconds since the epoch; `None` if it has no prices.

    Traffic and everything else that is paid by use is in no sum, but named. Of a run that was taken over, it is
    the cost up to then, without a present rate.
    """
    if not view.prices and not any(stage.used for stage in view.stages):
        return None
    end_known = known_until(view)
    now = now if end_known is None else min(now, end_known)
    known, may = _times(view)
    total, rate = _sum(known, now)
    most, at_most = _sum(may, now)
    paid = [price for price in view.prices if times_possible(view, price)]
    used_usd, uses = used_by(view, now)
    return Spending(
        usd=total,
        by_stage=_by_stage(view, known, now),
        usd_per_hour=_NOTHING if end_known is not None else rate,
        unpriced=tuple(dict.fromkeys(price.title for price in paid if not price.usd_per_hour and not price.is_by_use)),
        is_simulated=view.is_cost_simulated,
        by_use=tuple(dict.fromkeys(price.title for price in paid if price.is_by_use)),
        may_usd=max(most - total, _NOTHING),
        may_usd_per_hour=_NOTHING if end_known is not None else max(at_most - rate, _NOTHING),
        at=now if rate else 0.0,
        used_usd=used_usd,
        uses=None if end_known is not None else uses,
        is_rate_known=bool(rate) or not any(_goes_on(view, price) for price in view.prices if not price.is_by_use),
    )


def used_by(view: RunView, now: float) -> tuple[Decimal, HourlyCost | None]:
    """Return the cost up to `now` of the parts of nodes that were there and its pods took, and the present rate."""
    usd, present = _NOTHING, list[NodesUsed]()
    for stage in view.stages:
        ends = [since for since, _ in stage.used[1:]]
        for (since, used), following in zip_longest(stage.used, ends):
            work = next((one for one in reversed(stage.worked) if one.begin <= since), Period(since, since))
            end = min((one for one in (following, work.end) if one is not None), default=None)
            usd += Decimal(used.usd_per_hour) * _hours(Period(since, end), now)
            present += [used] if end is None and used.nodes else []
    if not present:
        return usd, None
    unpriced, rate = sum(one.unpriced for one in present), sum((Decimal(one.usd_per_hour) for one in present), _NOTHING)
    return usd, HourlyCost(rate, bool(unpriced), is_known=bool(rate) or not unpriced)


def is_steady(view: RunView, now: float) -> bool:
    """Return whether `Spending.later` holds for what was spent at `now`: no stage works, nothing is out of order."""
    known, may = _times(view)
    (total, rate), (most, at_most) = _sum(known, now), _sum(may, now)
    is_at_work = any(period.end is None or period.end > now for stage in view.stages for period in stage.worked)
    return not is_at_work and most >= total and at_most >= rate


def known_until(view: RunView) -> float | None:
    """Return when the records of a copy end, of which others may have more: seconds since the epoch; else `None`."""
    for notice in view.notices:
        if notice.kind is NoticeKind.ELSEWHERE and notice.since is not None:
            return notice.since
        if notice.kind is NoticeKind.COPY:
            return last_moment(view)
    return None


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
        "usd_per_hour": decimal_text(spending.usd_per_hour) if spending.is_rate_known else None,
        "by_stage": {stage: decimal_text(usd) for stage, usd in spending.by_stage.items()},
        "unpriced": list(spending.unpriced),
        "by_use": list(spending.by_use),
        "used_usd": decimal_text(spending.used_usd),
        "used_usd_per_hour": decimal_text(spending.uses.usd) if spending.uses and spending.uses.is_known else None,
        "simulated": spending.is_simulated,
    }


def times_known(view: RunView, price: HeldPrice) -> tuple[Share, ...]:
    """Return when what has a price is known to exist, with the part of it that does."""
    stage = _stage(view, price.stage)
    if stage is None:
        return ()
    if price.is_of_work and price.nodes:
        return tuple(_claimed(view, price, stage))
    if price.is_of_work:  # of a journal without numbers of nodes
        return tuple((period, _WHOLE) for period in stage.worked)
    return tuple((period, _WHOLE) for period in stage.made.get(price.resource, stage.made.get("", ())))


def times_possible(view: RunView, price: HeldPrice) -> tuple[Period, ...]:
    """Return when what has a price may exist, whether that is known or not.

    In a cluster that was there, pods that wait cost nothing: only nodes of claims were started for them.
    """
    stage = _stage(view, price.stage)
    if stage is None:
        return ()
    if view.existing_cluster and price.is_of_work and price.nodes:
        return tuple(period for period, _ in _claimed(view, price, stage))
    return stage.worked if price.is_of_work else stage.held


def _goes_on(view: RunView, price: HeldPrice) -> bool:
    return any(period.end is None for period in times_possible(view, price))


def node_claims_of(view: RunView, stage: str) -> list[OwnedObject]:
    """Return the NodeClaims that were made for the pods of a stage, those that are gone included; oldest first."""
    found = [one for one in view.owned if one.kind == NODE_CLAIM and one.stage == stage and not one.existed]
    return sorted((one for one in found if one.made_at), key=lambda one: one.made_at)


def _claimed(view: RunView, price: HeldPrice, stage: StageView) -> Iterator[Share]:
    """Yield the times of the nodes that were started for the pods of a stage, by the records of their claims.

    Where they are of several types, no claim is known to be of one, so all of them have to be there.
    """
    wanted = sum(one.nodes for one in view.prices if one.stage == stage.id and one.is_of_work and one.instance_type)
    is_alone = wanted <= price.nodes
    claims = node_claims_of(view, stage.id)
    moments = [one.made_at for one in claims]
    for work in stage.worked:
        begun = claims[bisect_left(moments, work.begin) : None if work.end is None else bisect_left(moments, work.end)]
        if not is_alone and len(begun) < wanted:
            continue
        for one in begun[:wanted]:
            begin = one.made_at if is_alone else begun[wanted - 1].made_at
            ends = [end for end in (one.gone_at, work.end) if end is not None]
            yield Period(begin, min(ends, default=None)), _WHOLE / wanted


def _stage(view: RunView, stage_id: str) -> StageView | None:
    return next((stage for stage in view.stages if stage.id == stage_id), None)


def _usd(price: HeldPrice) -> Decimal:
    return Decimal(price.usd_per_hour) if price.usd_per_hour else _NOTHING


_Paid = tuple[Decimal, Period, Decimal]
"""US dollars an hour, when they are paid, and the part of them that is."""


def _times(view: RunView) -> tuple[list[_Paid], list[_Paid]]:
    """Return what is known to have been paid, and what may have been."""
    known = [(_usd(price), *share) for price in view.prices for share in times_known(view, price)]
    may = [(_usd(price), period, _WHOLE) for price in view.prices for period in times_possible(view, price)]
    return known, may


def _sum(paid: Iterable[_Paid], now: float) -> tuple[Decimal, Decimal]:
    """Return the sum up to `now`, and the rate at which it goes on."""
    usd, rate = _NOTHING, _NOTHING
    for usd_per_hour, period, share in paid:
        usd += usd_per_hour * share * _hours(period, now)
        rate += usd_per_hour * share if period.end is None else _NOTHING
    return usd, rate


def _hours(period: Period, now: float) -> Decimal:
    end = now if period.end is None else min(period.end, now)
    return Decimal(str(max(0.0, end - period.begin))) / 3600


_EXACT_DIGITS = 80
"""Digits of a sum: a rate that is added and taken away again leaves nothing."""


def _by_stage(view: RunView, known: Iterable[_Paid], now: float) -> dict[str, Decimal]:
    """Return the cost of the hours in which each stage worked: one pass over the moments at which anything changes."""
    rates: dict[float, Decimal] = defaultdict(Decimal)
    workers: dict[float, list[tuple[str, int]]] = defaultdict(list)
    with localcontext() as context:
        context.prec = _EXACT_DIGITS
        for usd, period, share in known:
            for moment, sign in _edges(period, now):
                rates[moment] += sign * usd * share
        for stage in view.stages:
            for moment, sign in (edge for period in stage.worked for edge in _edges(period, now)):
                workers[moment].append((stage.id, sign))
        rate, working, found = _NOTHING, Counter[str](), defaultdict[str, Decimal](Decimal)
        for begin, end in pairwise(sorted(rates.keys() | workers.keys())):
            rate += rates.get(begin, _NOTHING)
            for stage_id, sign in workers.get(begin, ()):
                working[stage_id] += sign
                if not working[stage_id]:
                    del working[stage_id]
            for stage_id in working:
                found[stage_id] += rate * Decimal(str(end - begin)) / 3600 / len(working)
    return {stage_id: +usd for stage_id, usd in found.items()}


def _edges(period: Period, now: float) -> tuple[tuple[float, int], ...]:
    """Return begin and end of the part of a period that is past; nothing if there is none: clocks are set back."""
    end = now if period.end is None else min(period.end, now)
    return ((period.begin, 1), (end, -1)) if period.begin < end else ()

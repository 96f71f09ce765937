"""The judgement of a run's limits: which is reached, which comes next and when the runner acts for it. Pure.

A park or a teardown takes time. It is begun at the time of `until`; so early that a budget still pays for it; and
before credentials or a capacity block end by a margin that follows from how long it may take.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from decimal import Decimal
from enum import StrEnum

import msgspec

from actions.base.backoff import backoff_seconds
from actions.base.wording import brief_duration, listed
from actions.fleet.quantity import format_usd
from actions.run.limits.options import HOLDS_IDLE, HOLDS_WITHOUT, idle_words, moment_text, reach_text
from actions.run.spending import Spending, spending_of
from actions.run.state.planner import is_repeated, is_watched
from actions.run.state.records import EndsKnown, IdleKnown, LimitAction, Limits
from actions.run.state.view import Goal, Notice, NoticeKind, OwnedObject, RunState, RunView, StageView

NEAR_SECONDS = 1800.0
"""A time is near for this long before the runner acts."""
NEAR_SHARE = Decimal("0.8")
"""The part of a budget from which on it is near."""
BLOCK_ENDS_EARLY_SECONDS = 1800.0
"""EC2 begins to terminate the instances of a capacity block so long before its end.

Source: Amazon EC2 User Guide, "Capacity Blocks for ML": instances are terminated from 30 minutes before the end.
"""
AGAIN_SECONDS = 900.0
"""A park or teardown that failed is requested again after so long; each time after twice as long."""
_LONGEST_AGAIN_SECONDS = 6 * 3600.0
_QUICK_SECONDS = 60.0
"""The undo of a stage that applies objects."""
_DRAIN_SECONDS = 300.0
"""The drain of provisioned nodes: pods end within their grace period, then EC2 terminates the instances."""
_MAKES_NOTHING = frozenset({"capacity", "check", "kubeconfig"})
_LEAST_TERRAFORM_SECONDS = 300.0
_SAFETY = 1.5
"""The factor on the expected time, where what is late cannot be done at all."""
_LEAST_MARGIN_SECONDS = 600.0
_SHOWN = 3
WATCHDOG_PREFIX = "eksml-watchdog-"
"""Of the names of the objects of a watchdog."""


class LimitName(StrEnum):
    """A limit; the value is the name of the field of `Limits`."""

    UNTIL = "until"
    BUDGET = "budget_usd"
    RATE = "max_usd_per_hour"
    CREDENTIALS = "credentials_end"
    CAPACITY = "capacity_end"
    IDLE = "idle_minutes"
    WATCHDOG = "watchdog_minutes"


_DOING = {LimitAction.PARK: "parking", LimitAction.TEARDOWN: "a teardown"}
_WHAT = {LimitName.CREDENTIALS: "The AWS credentials end", LimitName.CAPACITY: "The capacity block ends"}


class LimitStatus(msgspec.Struct, frozen=True):
    """One limit of a run at a moment."""

    name: LimitName
    text: str
    """One sentence: the limit and its present value."""
    at: float | None = None
    """Time at which the runner acts, in seconds since the epoch, if all goes on as now; `None` if not foreseeable."""
    is_reached: bool = False
    is_near: bool = False
    is_kept_back: bool = False
    """The rest of a budget that is near pays for the park or teardown: less than `NEAR_SHARE` of it is spent."""
    doubt: str = ""
    """The reason that it may come late or not at all, in one sentence; empty if there is none."""


def limit_statuses(
    limits: Limits, view: RunView, spending: Spending | None, ends: EndsKnown, *, now: float
) -> tuple[LimitStatus, ...]:
    """Return the limits of a run in the order in which they act: reached ones, then by time, then the others.

    Args:
        limits: The run's.
        view: The run, for what a park or teardown has to undo.
        spending: Its cost up to `now`, with the present rate; `None` if it has no prices.
        ends: The ends of credentials and capacity block, as far as they are known.
        now: Seconds since the epoch.
    """
    found = list(_statuses(limits, view, spending, ends, now))
    return tuple(sorted(found, key=lambda one: (not one.is_reached, one.at is None, one.at or 0.0)))


def _statuses(
    limits: Limits, view: RunView, spending: Spending | None, ends: EndsKnown, now: float
) -> Iterator[LimitStatus]:
    if limits.until is not None:
        at = limits.until
        yield _timed(LimitName.UNTIL, f"The limit until {moment_text(at)}.", at, now)
    if limits.budget_usd:
        yield _budget(Decimal(limits.budget_usd), limits.action, view, spending, now)
    if limits.max_usd_per_hour:
        yield _rate(Decimal(limits.max_usd_per_hour), spending)
    if limits.idle_minutes:
        yield _idle(limits, view.idle, now)
    margin = margin_seconds(view, limits.action)
    gets = f"{_DOING[limits.action]} gets {brief_duration(margin)} before that."
    for name, is_wanted, end in (
        (LimitName.CREDENTIALS, limits.credentials_end, ends.credentials_end),
        (LimitName.CAPACITY, limits.capacity_end, ends.capacity_end),
    ):
        if is_wanted:
            yield _unknown(name, ends) if end is None else _ending(name, end, gets, margin, now)


def _timed(name: LimitName, text: str, at: float, now: float) -> LimitStatus:
    return LimitStatus(name, text, at, is_reached=now >= at, is_near=now >= at - NEAR_SECONDS)


def _ending(name: LimitName, end: float, gets: str, margin: float, now: float) -> LimitStatus:
    early = BLOCK_ENDS_EARLY_SECONDS if name is LimitName.CAPACITY else 0.0
    instances = ", its instances up to 30 min earlier" if early else ""
    return _timed(name, f"{_WHAT[name]} at {moment_text(end)}{instances}, and {gets}", end - early - margin, now)


def _unknown(name: LimitName, ends: EndsKnown) -> LimitStatus:
    why = next((one for one in ends.missing if _is_of(name, one)), f"{_WHAT[name]} at a time that is not known.")
    return LimitStatus(name, why, doubt=why)


def _is_of(name: LimitName, sentence: str) -> bool:
    return ("credentials" in sentence) == (name is LimitName.CREDENTIALS)


def _budget(budget: Decimal, action: LimitAction, view: RunView, spending: Spending | None, now: float) -> LimitStatus:
    title = f"The budget of {format_usd(budget)}"
    if spending is None:
        doubt = "The run has no prices, so its budget is never reached."
        return LimitStatus(LimitName.BUDGET, f"{title}: no cost is known.", doubt=doubt)
    seconds = action_seconds(view, action)
    spent, hourly = spending.usd + spending.may_usd, spending.usd_per_hour + spending.may_usd_per_hour
    reserve = hourly * Decimal(str(seconds)) / 3600
    left = budget - spent - reserve
    at = None
    if hourly:
        at = now + float(max(left, Decimal(0)) / hourly * 3600)
    is_open = bool(spending.unpriced or spending.by_use)
    text = f"{title}: {_bound(spending.may_usd, is_open=is_open)}{format_usd(spent)} spent, "
    text += f"{_bound(spending.may_usd_per_hour, is_open=is_open)}{format_usd(hourly)}/h now"
    ending = f", and {_DOING[action]} takes about {brief_duration(seconds)}." if reserve else "."
    return LimitStatus(
        LimitName.BUDGET,
        text + ending,
        at,
        is_reached=left <= 0,
        is_near=spent >= NEAR_SHARE * budget or left <= 0,
        is_kept_back=left <= 0 and spent < NEAR_SHARE * budget,
        doubt=unpriced_sentence(spending),
    )


def _rate(most: Decimal, spending: Spending | None) -> LimitStatus:
    title = f"The limit of {format_usd(most)} an hour"
    if spending is None:
        doubt = "The run has no prices, so its limit of dollars an hour is never reached."
        return LimitStatus(LimitName.RATE, f"{title}: no cost is known.", doubt=doubt)
    hourly = spending.usd_per_hour + spending.may_usd_per_hour
    is_reached = hourly > most
    text = f"{title}: {_bound(spending.may_usd_per_hour, is_open=bool(spending.unpriced))}{format_usd(hourly)}/h now."
    return LimitStatus(
        LimitName.RATE, text, is_reached=is_reached, is_near=is_reached, doubt=unpriced_sentence(spending)
    )


IDLE_NEAR_SHARE = 0.5
"""The part of an idle limit from which on it is near: then it is recorded, and an alarm is raised."""


def _idle(limits: Limits, known: IdleKnown, now: float) -> LimitStatus:
    title = f"The limit of accelerators {idle_words(limits)}"
    if known.unknown:
        return LimitStatus(LimitName.IDLE, f"{title}: not known.", doubt=f"Idle accelerators: {known.unknown}")
    if known.since is None:
        return LimitStatus(LimitName.IDLE, f"{title}: they are at work, or have not been idle for half of it.")
    wait = 60.0 * limits.idle_minutes
    text = f"No accelerator has reached {limits.idle_below_pct:g} % since {moment_text(known.since)}."
    return LimitStatus(
        LimitName.IDLE,
        text,
        known.since + wait,
        is_reached=now >= known.since + wait,
        is_near=now >= known.since + IDLE_NEAR_SHARE * wait,
    )


def idle_bill(view: RunView, now: float) -> str:
    """Return what the idle time has cost so far, at the present price of an hour, in one sentence."""
    spending = spending_of(view, now)
    hourly = Decimal(0) if spending is None else spending.usd_per_hour + spending.may_usd_per_hour
    if view.idle.since is None or spending is None or not hourly:
        return "What that has cost is not known: the run has no prices."
    cost = hourly * Decimal(str(max(0.0, now - view.idle.since))) / 3600
    bound = _bound(spending.may_usd_per_hour, is_open=bool(spending.unpriced or spending.by_use))
    return f"That has cost {bound}{format_usd(cost)} so far, {format_usd(hourly)}/h."


def _bound(may: Decimal, *, is_open: bool) -> str:
    """Return the word before a sum. A limit counts what may exist, too: it must not act only when that is known."""
    return ("about " if is_open else "up to ") if may else "at least " if is_open else ""


def unpriced_sentence(spending: Spending) -> str:
    """Return what a budget does not count, in one sentence; empty if everything that is paid has a price."""
    parts = [
        f"no price is known of {listed(spending.unpriced, _SHOWN)}" if spending.unpriced else "",
        f"{listed(spending.by_use, _SHOWN)} is paid by use" if spending.by_use else "",
    ]
    reasons = " and ".join(part for part in parts if part)
    return f"The cost is at least that, and may be reached late: {reasons}." if reasons else ""


def action_seconds(view: RunView, action: LimitAction) -> float:
    """Return how long a park or teardown of what the run holds now may take, in seconds."""
    return undo_seconds([stage for stage in view.stages if stage.held and stage.held[-1].end is None], action)


def undo_seconds(held: Sequence[StageView], action: LimitAction) -> float:
    """Return how long a park or teardown may take, in seconds, if these stages are held.

    Terraform deletes about as slowly as it creates; a stage of objects takes a minute, the drain of nodes five.
    """
    undone = held if action is LimitAction.TEARDOWN else [stage for stage in held if stage.holds_accelerators]
    drain = _DRAIN_SECONDS if any(stage.kind not in _MAKES_NOTHING for stage in held) else 0.0
    return drain + sum(_undo_seconds(stage) for stage in undone)


def _undo_seconds(stage: StageView) -> float:
    if stage.kind in _MAKES_NOTHING:
        return 0.0
    if stage.kind != "terraform":
        return _QUICK_SECONDS
    return max(_LEAST_TERRAFORM_SECONDS, stage.expect_high_seconds)


def margin_seconds(view: RunView, action: LimitAction) -> float:
    """Return the time before an end by which a park or teardown is begun, by what the run holds now."""
    return max(_LEAST_MARGIN_SECONDS, _SAFETY * action_seconds(view, action))


def margin_of(held: Sequence[StageView], action: LimitAction) -> float:
    """Return the time before an end by which a park or teardown is begun: half as much again as it may take."""
    return max(_LEAST_MARGIN_SECONDS, _SAFETY * undo_seconds(held, action))


def statuses_of(view: RunView, now: float) -> tuple[LimitStatus, ...]:
    """Return the limits of a run at a moment, in seconds since the epoch: see `limit_statuses`."""
    return limit_statuses(view.limits, view, spending_of(view, now), view.ends, now=now) if view.limits.is_set else ()


def reached_limit(view: RunView, now: float) -> LimitStatus | None:
    """Return the limit for which the runner has to act now; `None` if there is none, or it acts already.

    A run that is torn down, or parked as its limits ask for, is left alone; a run that a person has resumed is not.
    """
    if view.goal is Goal.TEARDOWN or (
        view.goal is Goal.PARK and (view.limits.action is LimitAction.PARK or _is_kept(view))
    ):
        return None
    first = next(iter(statuses_of(view, now)), None)
    return first if first is not None and first.is_reached else None


def _is_kept(view: RunView) -> bool:
    """Return whether a run was parked at a limit that tears down, as others use what that would remove."""
    last = view.limits_reached[-1].limit if view.limits_reached else LimitName.WATCHDOG.value
    return last != LimitName.WATCHDOG.value and is_repeated(view)


def is_due_again(view: RunView, now: float) -> bool:
    """Return whether a park or teardown at a limit has failed, and is to be requested again."""
    if view.state is not RunState.FAILED or view.goal not in (Goal.PARK, Goal.TEARDOWN) or not is_watched(view):
        return False
    own = [request for request in view.requests if request.is_of_limit]
    if not own:
        return False
    ends = [step.ended_at for step in view.ending.values() if step.ended_at is not None]
    pause = backoff_seconds(len(own), first_seconds=AGAIN_SECONDS, longest_seconds=_LONGEST_AGAIN_SECONDS)
    return now - max([own[-1].at, *ends]) >= pause


def limit_notices(view: RunView, now: float) -> tuple[Notice, ...]:
    """Return a notice of each limit that is near or reached. The texts stay the same while nothing else happens."""
    if not (view.limits.is_set or view.limits_reached) or view.state is RunState.TORN_DOWN:
        return ()
    will = "parks" if view.limits.action is LimitAction.PARK else "tears down"
    is_over = view.goal is Goal.FORWARD and view.limit_due is None and not view.limits.is_set  # a watchdog's, resumed
    if view.limits_reached and not is_over:
        return (Notice(NoticeKind.LIMIT, _reached_text(view, will), place=f"{view.limits_reached[-1].limit}-reached"),)
    if view.goal not in (Goal.FORWARD, Goal.CANCEL):
        return ()
    return tuple(
        Notice(
            NoticeKind.LIMIT,
            f"{_near_text(one, view.limits)} The runner {will} the run{_when(one)}.",
            place=one.name.value,
        )
        for one in statuses_of(view, now)
        if one.is_near
    )


def _reached_text(view: RunView, will: str) -> str:
    text = view.limits_reached[-1].text
    if view.goal is Goal.FORWARD and view.limit_due is None:
        if view.limits_reached[-1].limit == LimitName.IDLE.value:
            return f"{text} The runner {will} the run again when they are idle for as long."
        return f"{text} Without new limits the runner {will} the run again: eksml-tui runs limit {view.id}"
    return text


def _near_text(status: LimitStatus, limits: Limits) -> str:
    if status.is_kept_back:
        return f"The rest of the budget of {format_usd(Decimal(limits.budget_usd))} pays for {_DOING[limits.action]}."
    if status.name is LimitName.BUDGET:
        return f"Of the budget of {format_usd(Decimal(limits.budget_usd))} more than {NEAR_SHARE:.0%} is spent."
    return status.text


def _when(status: LimitStatus) -> str:
    return f" at {moment_text(status.at)}" if status.at is not None and status.name is not LimitName.BUDGET else ""


def reached_text(status: LimitStatus, view: RunView, now: float) -> str:
    """Return the sentence of the record: the limit, the value that reached it, and what the runner does."""
    does = "parked" if view.limits.action is LimitAction.PARK else "torn down"
    more = idle_bill(view, now) if status.name is LimitName.IDLE else status.doubt
    return f"{status.text.rstrip('.')}: the run is {does}, {moment_text(now)}. {more}".rstrip()


def is_watchdog(item: OwnedObject) -> bool:
    """Return whether an object of a run's inventory is of its watchdog, and not deleted yet."""
    return not (item.is_deleted or item.existed or item.stage) and item.name.startswith(WATCHDOG_PREFIX)


def reach_of(view: RunView) -> str:
    """Return where the limits of a run hold and where they do not; empty without any."""
    if not view.limits.watchdog_minutes:
        return reach_text(view.limits)
    is_there = any(is_watchdog(item) and item.kind == "CronJob" for item in view.owned)
    is_idle = any(notice.kind is NoticeKind.WATCHDOG_IDLE for notice in view.notices)
    return reach_text(view.limits) if is_there and not is_idle else HOLDS_IDLE if is_there else HOLDS_WITHOUT

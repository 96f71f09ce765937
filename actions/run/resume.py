"""The effect of a resume on a run: its request, the stages that follow, their price by the hour. Pure."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from decimal import Decimal

import msgspec

from actions.base.errors import MissingError, RefusedError
from actions.base.wording import duration_range, listed
from actions.fleet.quantity import format_hourly
from actions.run.paid import paid_by
from actions.run.state.records import RequestKind
from actions.run.state.view import OVER, TO_RETRY, Goal, NoticeKind, RunState, RunView, StageState, StageView

_DONE = (StageState.SUCCEEDED, StageState.SKIPPED)
_NAMED = 6
"""The most stages in a sentence."""


class Resume(msgspec.Struct, frozen=True):
    """The request of a resume, and the stages that follow it."""

    request: RequestKind | None
    """The request that it takes; `None` if the run only lacks a runner."""
    stages: tuple[StageView, ...]
    """Those that are left to do, or steps of its teardown."""
    again: tuple[StageView, ...] = ()
    """Those that were done, and are undone since: they are made again first."""
    rate: str = ""
    """The price of an hour at the peak, `$54.89/h`; empty if nothing more is paid for."""

    def lines(self) -> list[str]:
        """Return it in two or three sentences: what is made again, what is left, the price of an hour."""
        low, high = (
            sum(stage.expect_low_seconds for stage in self.stages),
            sum(stage.expect_high_seconds for stage in self.stages),
        )
        took = f" ({duration_range(low, high)})" if high else ""
        return [
            *([f"Made again: {_titles(self.again)}."] if self.again else []),
            f"Left to do: {_titles(self.stages)}{took}.",
            *([f"{self.rate} at the peak."] if self.rate else []),
        ]


def resume_of(view: RunView, stage: str = "") -> Resume:
    """Return what follows a resume of a run.

    Args:
        view: The run.
        stage: A stage that has to be among those that follow; empty for any.

    Raises:
        MissingError: It has no such stage.
        RefusedError: Nothing follows, with what helps.
    """
    if stage and all(one.id != stage for one in view.stages):
        known = ", ".join(one.id for one in view.stages)
        raise MissingError(f"Run {view.id} has no stage {stage!r}.", hint=f"It has {known}.")
    left, again = _open_steps(view)
    if not has_work_left(view):
        raise RefusedError(f"Nothing is left to do in run {view.id}: {_reason(view, again)}.", hint=way_on(view))
    if stage and all(one.id != stage for one in (*left, *again)):
        raise RefusedError(f"Stage {stage} of run {view.id} is done.", hint=f"Left to do: {_titles(left)}.")
    request = RequestKind.UNPAUSE if view.is_paused else None
    if view.state in TO_RETRY and left:
        request = RequestKind.RETRY
    buys = () if request is None or view.goal is Goal.TEARDOWN else (*again, *left)
    return Resume(request, left, again, peak_rate(view, buys))


def has_work_left(view: RunView) -> bool:
    """Return whether a run that goes on would do more than to make again what was undone."""
    left_behind = (NoticeKind.STORE_BEHIND, NoticeKind.ALARMS_UNSENT)
    has_left = any(notice.kind in left_behind for notice in view.notices)
    return view.state not in OVER or has_left or bool(_open_steps(view)[0])


def _open_steps(view: RunView) -> tuple[tuple[StageView, ...], tuple[StageView, ...]]:
    """Return the stages, or steps of a teardown, that are left to do, and those that were done and are undone since."""
    steps = view.teardown if view.goal is Goal.TEARDOWN else view.stages
    open_steps = [step for step in steps if step.state not in _DONE]
    again = tuple(step for step in open_steps if step.state is StageState.UNDONE and step.reached in _DONE)
    return tuple(step for step in open_steps if step not in again), again


def peak_rate(view: RunView, stages: Collection[StageView]) -> str:
    """Return what an hour costs while some stages follow and all is held; empty if they pay for nothing."""
    following = {stage.id for stage in stages}
    if not any(price.stage in following for price in view.prices if not price.is_by_use):
        return ""
    return _hourly(view, held=following | {one.stage for one in paid_by(view).things}, at_work=following)


def held_rate(view: RunView, *, without: Collection[str] = ()) -> str:
    """Return what an hour costs of what the run holds, without some stages by id; empty if nothing is paid for."""
    paid = paid_by(view)
    is_any = any(one.stage not in without for one in paid.things)
    return paid.without(without).text + _simulated(view) if is_any else ""


def _simulated(view: RunView) -> str:
    return " (simulated)" if view.is_cost_simulated else ""


def _hourly(view: RunView, *, held: Collection[str], at_work: Collection[str]) -> str:
    """Return the price of an hour: of what is held, and of the dearest of the stages at work."""
    of_work: dict[str, Decimal] = {}
    lasting, unpriced = Decimal(0), 0
    for price in view.prices:
        if price.is_by_use or price.stage not in (at_work if price.is_of_work else held):
            continue
        usd = Decimal(price.usd_per_hour or 0)
        unpriced += not price.usd_per_hour
        if price.is_of_work:
            of_work[price.stage] = of_work.get(price.stage, Decimal(0)) + usd
        else:
            lasting += usd
    total = lasting + max(of_work.values(), default=Decimal(0))
    if not (total or unpriced):
        return ""
    return format_hourly(total or None, is_lower_bound=bool(unpriced)) + _simulated(view)


def way_on(view: RunView) -> str:
    """Return what can be done with a run that does not accept a request, as a command."""
    match view.state:
        case RunState.TORN_DOWN:
            return f"Launch it anew: eksml-tui launch {view.blueprint_id}"
        case RunState.TEARING_DOWN:
            return "Wait until it is torn down."
        case RunState.AWAITING_APPROVAL:
            return f"Approve its plan: eksml-tui runs approve {view.id}"
        case state if state in TO_RETRY and has_work_left(view):
            return f"Resume it: eksml-tui runs resume {view.id}"
        case state if state in (*TO_RETRY, RunState.SUCCEEDED):
            return f"Tear it down: eksml-tui runs teardown {view.id} --confirm {view.cluster.name}"
        case _ if view.is_paused:
            return f"Resume it: eksml-tui runs resume {view.id}"
    return ""


def _reason(view: RunView, again: Sequence[StageView]) -> str:
    if not again:
        return f"it is {view.state.value}"
    rate = peak_rate(view, again)
    return f"a resume would only make {_titles(again)} again{f', at {rate}' if rate else ''}"


def _titles(stages: Sequence[StageView]) -> str:
    return listed([stage.title for stage in stages], _NAMED) or "nothing"

"""Limits beside the plan of a launch: what they mean for it, and which could never hold. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from decimal import Decimal

from actions.base.errors import UsageError
from actions.base.wording import brief_duration, listed
from actions.blueprint.launch_plan import LaunchPlan
from actions.blueprint.model import Blueprint
from actions.blueprint.stages import LoadTool, StageWatch
from actions.fleet.quantity import format_usd
from actions.run.limits.options import limits_text, moment_text, reach_text
from actions.run.limits.rules import margin_of, undo_seconds
from actions.run.state.records import LimitAction, Limits
from actions.run.state.view import StageState, StageView

_SHOWN = 3


def require_possible(limits: Limits, plan: LaunchPlan) -> None:
    """Refuse limits that the launch is certain to reach at once.

    Raises:
        UsageError: The dearest hour of the plan costs more than is allowed.
    """
    peak = None if plan.is_into_cluster else plan.peak_usd_per_hour
    if limits.max_usd_per_hour and peak is not None and peak > Decimal(limits.max_usd_per_hour):
        most = format_usd(Decimal(limits.max_usd_per_hour))
        raise UsageError(
            f"The dearest hour of the plan costs {format_usd(peak)}, and {most} is the limit: it would be reached.",
            hint="Allow more an hour, or choose fewer or smaller nodes.",
        )


def launch_notes(limits: Limits, plan: LaunchPlan, blueprint: Blueprint, *, now: datetime) -> tuple[str, ...]:
    """Return the limits of a launch and what they mean for it, a sentence or two each; empty without any.

    Args:
        limits: Of the launch.
        plan: Its plan.
        blueprint: With its preset applied.
        now: Aware.
    """
    if limits == Limits(action=limits.action):
        return ()
    return (f"Limits: {limits_text(limits)}.", *_meanings(limits, plan, blueprint, now), reach_text(limits))


def _meanings(limits: Limits, plan: LaunchPlan, blueprint: Blueprint, now: datetime) -> Iterator[str]:
    does = "parked" if limits.action is LimitAction.PARK else "torn down"
    end = now.timestamp() + plan.high_seconds
    if limits.until is not None and limits.until < end:
        yield f"The run may take until {moment_text(end)}: then it is {does} before it is done."
    yield from _budget(limits, plan, blueprint, does)
    if limits.budget_usd or limits.max_usd_per_hour:
        yield from _unpriced(plan)
    if limits.idle_minutes and not any(_is_sampled(stage.watch) for stage in blueprint.stages):
        yield "No stage of the run has its accelerators sampled: whether they are idle is never known."
    if limits.credentials_end or limits.capacity_end:
        margin = margin_of(_held_at_most(plan, blueprint), limits.action)
        begins = "Parking" if limits.action is LimitAction.PARK else "The teardown"
        yield f"{begins} begins up to {brief_duration(margin)} before such an end: it may take so long."


def _is_sampled(watch: StageWatch | None) -> bool:
    return watch is not None and watch.accelerator is not LoadTool.NONE


def _budget(limits: Limits, plan: LaunchPlan, blueprint: Blueprint, does: str) -> Iterator[str]:
    """Yield a sentence if the budget may end the run: it pays for the park or teardown, too."""
    if not limits.budget_usd:
        return
    if plan.is_into_cluster:
        yield "The budget counts nodes that are started for the run, and not those that are there."
        return
    budget = Decimal(limits.budget_usd)
    seconds = undo_seconds(_held_at_most(plan, blueprint), limits.action)
    reserve = (plan.peak_usd_per_hour or Decimal(0)) * Decimal(str(seconds)) / 3600
    if plan.total_high > budget:
        yield f"The run may cost {format_usd(plan.total_high)}: then it is {does} before it is done."
    elif plan.total_high + reserve > budget:
        action = "parking" if limits.action is LimitAction.PARK else "a teardown"
        yield (
            f"The run may cost {format_usd(plan.total_high)}, and the budget keeps up to {format_usd(reserve)} "
            f"for {action} ({brief_duration(seconds)}): then it is {does} before it is done."
        )


def _unpriced(plan: LaunchPlan) -> Iterator[str]:
    if not plan.is_priced and not plan.is_into_cluster:
        yield "No price of this run is known: limits in dollars are never reached."
    elif plan.is_priced and plan.unpriced:
        yield f"Limits in dollars are reached late: no price is known of {listed(plan.unpriced, _SHOWN)}."
    if plan.usage:
        used = listed([item.text for item in plan.usage], _SHOWN)
        yield f"Limits in dollars do not count what is paid by use: {used}."


def _held_at_most(plan: LaunchPlan, blueprint: Blueprint) -> list[StageView]:
    """Return the stages that the run holds when all of them are done."""
    return [
        StageView(
            stage.id,
            stage.title,
            stage.kind,
            StageState.SUCCEEDED,
            expect_high_seconds=stage.high_seconds,
            holds_accelerators=blueprint.stage(stage.id).holds_accelerators,
        )
        for stage in plan.stages
        if not stage.is_skipped
    ]

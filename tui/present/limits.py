"""Limits of a run in the launch form and above its stages."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from msgspec.structs import replace

from actions.base.wording import folded
from actions.run.limits.options import NONE, LimitTexts, limits_text, moment_text
from actions.run.limits.rules import statuses_of
from actions.run.state.records import Limits
from actions.run.state.view import Goal, RunState, RunView, is_watched_only
from tui.present.cells import Cells, Span, Tone
from tui.present.form import Field, FieldKind, Value

if TYPE_CHECKING:
    from actions.command.arguments import (
        LaunchArguments,
        LimitArguments,
    )

LIMITS = "@limits"
"""The switch that shows the fields of limits."""
_UNTIL, _BUDGET, _HOURLY, _WATCHDOG = "@until", "@budget", "@max-hourly", "@watchdog"
_CREDENTIALS, _CAPACITY, _ACTION = "@credentials-end", "@capacity-end", "@at-limit"
_ACTIONS = ("park", "teardown")


def limit_fields(*, is_open: bool, usual: LimitTexts) -> list[Field]:
    """Return the fields of limits, which follow those of a launch: a switch, and below it the limits.

    Args:
        is_open: The switch is on.
        usual: The limits of config.yaml.
    """
    switch = Field(LIMITS, "Limits", FieldKind.SWITCH, usual.names_any, help="end the run at a time or a cost")
    if not is_open:
        return [switch]
    return [
        switch,
        Field(_UNTIL, "Until", FieldKind.TEXT, usual.until, help="22:30 (UTC), +8h, 2026-11-20T22:30:00Z"),
        Field(_BUDGET, "Budget", FieldKind.TEXT, usual.budget, help="US dollars", unit="$"),
        Field(_HOURLY, "Most an hour", FieldKind.TEXT, usual.max_hourly, help="US dollars an hour", unit="$/h"),
        Field(
            _CREDENTIALS, "Before credentials end", FieldKind.SWITCH, bool(usual.before_credentials_end),
            help="in time before the AWS credentials do",
        ),
        Field(
            _CAPACITY, "Before block ends", FieldKind.SWITCH, bool(usual.before_capacity_end),
            help="in time before the capacity block does",
        ),
        Field(_ACTION, "At a limit", FieldKind.CHOICE, usual.at_limit or "park", choices=_ACTIONS),
        Field(_WATCHDOG, "Watchdog", FieldKind.TEXT, usual.watchdog, help="1h, 90m without a heartbeat: jobs stop"),
    ]  # fmt: skip


def limit_entries(texts: LimitTexts) -> dict[str, Value]:
    """Return what the fields hold for these limits."""
    return {
        LIMITS: True,
        _UNTIL: texts.until,
        _BUDGET: texts.budget,
        _HOURLY: texts.max_hourly,
        _CREDENTIALS: bool(texts.before_credentials_end),
        _CAPACITY: bool(texts.before_capacity_end),
        _ACTION: texts.at_limit or "park",
        _WATCHDOG: texts.watchdog,
    }


def texts_of_form(values: Mapping[str, Value]) -> LimitTexts:
    """Return the limits that the fields hold; none while the switch is off."""
    if not values.get(LIMITS):
        return LimitTexts()
    return LimitTexts(
        until=str(values.get(_UNTIL, "")),
        budget=str(values.get(_BUDGET, "")),
        max_hourly=str(values.get(_HOURLY, "")),
        before_credentials_end=bool(values.get(_CREDENTIALS)) or None,
        before_capacity_end=bool(values.get(_CAPACITY)) or None,
        at_limit=str(values.get(_ACTION, "")),
        watchdog=str(values.get(_WATCHDOG, "")),
    )


def texts_of_command(arguments: LaunchArguments | LimitArguments) -> LimitTexts:
    """Return the limits that a command states."""
    return LimitTexts(
        until=arguments.until,
        budget=arguments.budget,
        max_hourly=arguments.max_hourly,
        before_credentials_end=_answer(arguments.before_credentials_end),
        before_capacity_end=_answer(arguments.before_capacity_end),
        at_limit=arguments.at_limit,
        watchdog=arguments.watchdog,
    )


def _answer(word: str) -> bool | None:
    return {"yes": True, "no": False}.get(word)


def with_limits(arguments: LaunchArguments, texts: LimitTexts, usual: LimitTexts) -> LaunchArguments:
    """Return a launch with these limits and no others: those of the settings that are not among them are taken away."""
    words: dict[str, str] = {}
    for name in ("until", "budget", "max_hourly", "watchdog"):
        words[name] = getattr(texts, name) or (NONE if getattr(usual, name) else "")
    for name in ("before_credentials_end", "before_capacity_end"):
        words[name] = "yes" if getattr(texts, name) else "no" if getattr(usual, name) else ""
    return replace(arguments, **words, at_limit=_stated_action(texts, usual))


def _stated_action(texts: LimitTexts, usual: LimitTexts) -> str:
    """Return how a launch ends at a limit; empty where that is as usual, or there is none."""
    return "" if not texts.names_any or texts.at_limit == (usual.at_limit or "park") else texts.at_limit


def limit_lines(view: RunView, *, now: float, width: int) -> tuple[list[Cells], list[Cells]]:
    """Return the limits of a run, with the time at which the next one acts, and the reasons why one may come late.

    There are none for a run without any; each is wrapped.
    """
    width = max(20, width)
    if view.state is RunState.TORN_DOWN and view.limits_reached:
        return [(Span(line, Tone.MUTED),) for line in folded(view.limits_reached[-1].text, width, further="  ")], []
    if view.limits == Limits() or view.state is RunState.TORN_DOWN:
        return [], []
    statuses = () if is_watched_only(view.notices) else statuses_of(view, now)
    acts = view.goal in (Goal.FORWARD, Goal.CANCEL) or (
        view.goal is Goal.PARK and view.limits.action.value == "teardown"
    )
    first = next((one for one in statuses if one.at is not None), None) if acts else None
    is_named = first is None or first.at is None or first.is_reached or first.at == view.limits.until
    when = "" if is_named or first is None else f"; acts {moment_text(first.at or 0.0)}"
    doubts = [one.doubt for one in statuses if one.doubt]
    where = ", while this machine runs" if view.limits.is_set and not is_watched_only(view.notices) else ""
    text = f"limits{where}: {limits_text(view.limits)}{when}"
    return (
        [(Span(line, Tone.MUTED),) for line in folded(text, width, further="  ")],
        [
            (Span(line, Tone.WARN),)
            for doubt in dict.fromkeys(doubts)
            for line in folded(f"  ? {doubt}", width, further="    ")
        ],
    )

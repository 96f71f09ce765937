"""Limits of a run in the launch form and above its stages."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING

from msgspec.structs import replace

from actions.base.errors import UsageError
from actions.base.wording import folded
from actions.run.limits.options import NONE, LimitTexts, limits_of, limits_text, moment_text
from actions.run.limits.rules import statuses_of
from actions.run.state.records import Limits
from actions.run.state.view import Goal, RunState, RunView, is_watched_only
from tui.present.cells import Cells, Span, Tone

if TYPE_CHECKING:
    from actions.blueprint.model import Parameter, ParameterType
    from actions.blueprint.parts import Scalar
    from actions.command.arguments import (
        LaunchArguments,
        LimitArguments,
    )

BUDGET = "@budget"
"""The key of the field that a form does not fold."""
_UNTIL, _HOURLY, _WATCHDOG = "@until", "@max-hourly", "@watchdog"
_CREDENTIALS, _CAPACITY, _ACTION = "@credentials-end", "@capacity-end", "@at-limit"
_IDLE, _BELOW = "@idle", "@below"
_TEXTS = {
    _UNTIL: "until",
    BUDGET: "budget",
    _HOURLY: "max_hourly",
    _IDLE: "idle",
    _BELOW: "below",
    _WATCHDOG: "watchdog",
}


def limit_fields(usual: LimitTexts) -> dict[str, Parameter]:
    """Return the fields of limits, with those of config.yaml as defaults."""
    from actions.blueprint.model import Parameter, ParameterType  # for a form alone; the first frame needs this module

    of_text, of_switch = ParameterType.TEXT, ParameterType.BOOLEAN
    words: dict[str, tuple[ParameterType, str, str]] = {
        _UNTIL: (of_text, "Until", "22:30 (UTC), +8h, 2026-11-20T22:30:00Z."),
        BUDGET: (of_text, "Budget", "US dollars."),
        _HOURLY: (of_text, "Most an hour", "US dollars an hour."),
        _CREDENTIALS: (of_switch, "Before credentials end", "In time before the AWS credentials do."),
        _CAPACITY: (of_switch, "Before block ends", "In time before the capacity block does."),
        _IDLE: (of_text, "Idle", "30m, 1h without use of an accelerator."),
        _BELOW: (of_text, "Idle below", "5%: with less load it is unused."),
        _ACTION: (of_text, "At a limit", "What becomes of the run."),
        _WATCHDOG: (of_text, "Watchdog", "1h, 90m without a heartbeat: jobs stop."),
    }
    defaults = limit_entries(usual)
    return {
        key: Parameter(
            type=kind,
            title=title,
            help=explanation,
            default=defaults[key],
            choices=("park", "teardown") if key == _ACTION else (),
            group="Limits",
        )
        for key, (kind, title, explanation) in words.items()
    }


def limit_entries(texts: LimitTexts) -> dict[str, Scalar]:
    """Return what the fields hold for these limits."""
    return {
        _UNTIL: texts.until,
        BUDGET: texts.budget,
        _HOURLY: texts.max_hourly,
        _CREDENTIALS: bool(texts.before_credentials_end),
        _CAPACITY: bool(texts.before_capacity_end),
        _IDLE: texts.idle,
        _BELOW: texts.below,
        _ACTION: texts.at_limit or "park",
        _WATCHDOG: texts.watchdog,
    }


def texts_of_form(values: Mapping[str, Scalar]) -> LimitTexts:
    """Return the limits that the fields hold."""
    return LimitTexts(
        **{name: str(values.get(key, "")) for key, name in _TEXTS.items()},
        before_credentials_end=bool(values.get(_CREDENTIALS)) or None,
        before_capacity_end=bool(values.get(_CAPACITY)) or None,
        at_limit=str(values.get(_ACTION, "")),
    )


def limit_mistakes(values: Mapping[str, Scalar], *, now: datetime) -> dict[str, str]:
    """Return what is wrong with the texts of limits, by field: phrases such as `is not a time`."""
    wrong: dict[str, str] = {}
    for key, name in _TEXTS.items():
        try:
            limits_of(replace(LimitTexts(), **{name: str(values.get(key, ""))}), now=now)
        except UsageError as error:
            wrong[key] = error.message.rstrip(".")
    return wrong


def texts_of_command(arguments: LaunchArguments | LimitArguments) -> LimitTexts:
    """Return the limits that a command states."""
    return LimitTexts(
        until=arguments.until,
        budget=arguments.budget,
        max_hourly=arguments.max_hourly,
        before_credentials_end=_answer(arguments.before_credentials_end),
        before_capacity_end=_answer(arguments.before_capacity_end),
        idle=arguments.idle,
        below=arguments.below,
        at_limit=arguments.at_limit,
        watchdog=arguments.watchdog,
    )


def _answer(word: str) -> bool | None:
    return {"yes": True, "no": False}.get(word)


def with_limits(arguments: LaunchArguments, texts: LimitTexts, usual: LimitTexts) -> LaunchArguments:
    """Return a launch with these limits and no others: those of the settings that are not among them are taken away."""
    words: dict[str, str] = {}
    for name in _TEXTS.values():
        words[name] = getattr(texts, name) or (NONE if getattr(usual, name) and name != "below" else "")
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

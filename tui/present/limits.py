"""Limits of a run in the launch form and above its stages."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from actions.base.errors import UsageError
from actions.base.wording import folded
from actions.run.limits.options import FLAGS, NONE, LimitTexts, limits_of, limits_text, moment_text
from actions.run.limits.rules import statuses_of
from actions.run.state.records import Limits
from actions.run.state.view import Goal, RunState, RunView, is_watched_only
from tui.present.cells import Cells, Span, Tone

if TYPE_CHECKING:
    from actions.blueprint.model import Parameter
    from actions.blueprint.parts import Scalar
    from actions.command.arguments import (
        LaunchArguments,
        LimitArguments,
    )

BUDGET = "@budget"
"""The key of the field that a form does not fold; a key is the name of a field of `LimitTexts` behind an @."""
_FIELDS = {
    "until": ("Until", "22:30 (UTC), +8h, 2026-11-20T22:30:00Z."),
    "budget": ("Budget", "US dollars."),
    "max_hourly": ("Most an hour", "US dollars an hour."),
    "before_credentials_end": ("Before credentials end", "In time before the AWS credentials do."),
    "before_capacity_end": ("Before block ends", "In time before the capacity block does."),
    "idle": ("Idle", "30m, 1h without use of an accelerator."),
    "below": ("Idle below", "5%: with less load it is unused."),
    "at_limit": ("At a limit", "What becomes of the run."),
    "watchdog": ("Watchdog", "1h, 90m without a heartbeat: jobs stop."),
}
"""Title and explanation of each."""
_TEXTS = tuple(name for name in _FIELDS if name not in FLAGS and name != "at_limit")


def limit_fields(usual: LimitTexts) -> dict[str, Parameter]:
    """Return the fields of limits, with those of config.yaml as defaults."""
    from actions.blueprint.model import Parameter, ParameterType  # for a form alone; the first frame needs this module

    defaults = limit_entries(usual)
    return {
        f"@{name}": Parameter(
            type=ParameterType.BOOLEAN if name in FLAGS else ParameterType.TEXT,
            title=title,
            help=explanation,
            default=defaults[f"@{name}"],
            choices=("park", "teardown") if name == "at_limit" else (),
            group="Limits",
        )
        for name, (title, explanation) in _FIELDS.items()
    }


def limit_entries(texts: LimitTexts) -> dict[str, Scalar]:
    """Return what the fields hold for these limits."""
    shown = replace(texts, at_limit=texts.at_limit or "park")
    return {f"@{name}": getattr(shown, name) or (False if name in FLAGS else "") for name in _FIELDS}


def texts_of_form(values: Mapping[str, Scalar]) -> LimitTexts:
    """Return the limits that the fields hold."""
    held: dict[str, Any] = {name: values.get(f"@{name}") for name in _FIELDS}
    texts: dict[str, Any] = {name: str(value or "") for name, value in held.items()}
    return LimitTexts(**texts | {name: held[name] or None for name in FLAGS})


def limit_mistakes(values: Mapping[str, Scalar], *, now: datetime) -> dict[str, str]:
    """Return what is wrong with the texts of limits, by field: phrases such as `is not a time`."""
    wrong: dict[str, str] = {}
    for name in _TEXTS:
        try:
            limits_of(replace(LimitTexts(), **{name: str(values.get(f"@{name}", ""))}), now=now)
        except UsageError as error:
            wrong[f"@{name}"] = error.message.rstrip(".")
    return wrong


def texts_of_command(arguments: LaunchArguments | LimitArguments) -> LimitTexts:
    """Return the limits that a command states."""
    stated = {name: getattr(arguments, name) for name in _FIELDS}
    return LimitTexts(**stated | {name: {"yes": True, "no": False}.get(stated[name]) for name in FLAGS})


def with_limits(arguments: LaunchArguments, texts: LimitTexts, usual: LimitTexts) -> LaunchArguments:
    """Return a launch with these limits and no others: those of the settings that are not among them are taken away."""
    words: dict[str, str] = {}
    for name in _TEXTS:
        words[name] = getattr(texts, name) or (NONE if getattr(usual, name) and name != "below" else "")
    for name in sorted(FLAGS):
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

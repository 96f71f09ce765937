"""Limits as an operator writes them: times, amounts of dollars, durations; and in words again. Pure."""

from __future__ import annotations

import re
from datetime import UTC, datetime, time, timedelta
from decimal import Decimal

import msgspec
from msgspec.structs import replace

from actions.base.clock import parse_rfc3339
from actions.base.errors import UsageError
from actions.base.wording import brief_duration, seconds_in
from actions.fleet.quantity import format_usd
from actions.run.state.records import LimitAction, Limits

NONE = "none"
"""The word that takes a limit away."""
HOLDS_WHILE = (
    "These limits hold only while this machine runs and its runner can be started. "
    "With --watchdog, a CronJob in the cluster stops the run's jobs when it does not."
)
HOLDS_BEYOND = (
    "Limits hold only while this machine runs. Beyond that the CronJob in the cluster stops the run's jobs, "
    "{minutes} min after the last heartbeat; node groups of a fixed size, cluster and storage stay."
)
HOLDS_IDLE = "Limits hold only while this machine runs, and its watchdog does not work."
HOLDS_WITHOUT = (
    "Limits hold only while this machine runs. "
    "The watchdog is not in the cluster now: it is there while jobs of the run hold accelerators."
)
_LONGEST_HOURS = 24 * 366
_MOST_MINUTES = 7 * 24 * 60
_PERCENT = re.compile(r"(\d{1,2}(?:\.\d{1,3})?) ?%?")
_TIME_OF_DAY = re.compile(r"([01]\d|2[0-3]):([0-5]\d)")
_USD = re.compile(r"\$?(\d{1,9}(?:\.\d{1,4})?)")
_TIME_HINT = "Write 2026-11-20T22:30:00Z, 22:30 (the next one, UTC), or +8h."


class LimitTexts(msgspec.Struct, frozen=True, kw_only=True):
    """Limits as they were typed or set; empty and `None` for those that were not.

    Args:
        until: RFC 3339, `22:30`, or `+8h`.
        budget: US dollars.
        max_hourly: US dollars an hour.
        before_credentials_end: Act before the AWS credentials end.
        before_capacity_end: Act before the capacity block ends.
        idle: A duration such as `30m`.
        below: A share of load such as `5%`: an accelerator below it is idle.
        at_limit: `park` or `teardown`.
        watchdog: A duration such as `1h` or `90m`.
    """

    until: str = ""
    budget: str = ""
    max_hourly: str = ""
    before_credentials_end: bool | None = None
    before_capacity_end: bool | None = None
    idle: str = ""
    below: str = ""
    at_limit: str = ""
    watchdog: str = ""

    @property
    def is_given(self) -> bool:
        """True if anything was typed."""
        return self != LimitTexts()

    @property
    def names_any(self) -> bool:
        """True if a limit or the watchdog was typed, and not only how the run ends or what counts as idle."""
        return replace(self, at_limit="", below="") != LimitTexts()


FLAGS = frozenset({"before_credentials_end", "before_capacity_end"})
"""The fields of `LimitTexts` that are no texts."""


def with_usual(texts: LimitTexts, usual: LimitTexts | None) -> LimitTexts:
    """Return the limits of a launch: what was not typed is as in the settings."""
    typed = {name: value for name in texts.__struct_fields__ if (value := getattr(texts, name)) not in ("", None)}
    return replace(usual or texts, **typed)


def require_limit(texts: LimitTexts, limits: Limits) -> None:
    """Refuse an end of the run that nothing would bring about.

    Args:
        texts: As typed.
        limits: All limits that hold then.

    Raises:
        UsageError: How the run ends was typed, and there is no limit.
    """
    if texts.below and not limits.idle_minutes:
        raise UsageError("A share of load below which accelerators are idle needs a time.", hint="Add --idle 30m.")
    if not texts.at_limit or limits.is_set:
        return
    watchdog = " A watchdog is not a limit: it only stops jobs." if limits.watchdog_minutes else ""
    deed = "be parked" if texts.at_limit == LimitAction.PARK else "be torn down"
    raise UsageError(
        f"There is no limit at which the run would {deed}: it would go on without end.{watchdog}",
        hint="Add a time, a budget, a price of an hour, or the end of credentials or capacity block.",
    )


def limits_of(texts: LimitTexts, *, now: datetime, known: Limits | None = None) -> Limits:
    """Return the limits that these texts state.

    Args:
        texts: As typed. `none` takes one away.
        now: Aware.
        known: The present limits, which stay where nothing was typed.

    Raises:
        UsageError: One of the texts is none of its form, or a time is over.
    """
    limits = known or Limits()
    if texts.until:
        limits = replace(limits, until=None if texts.until == NONE else parse_moment(texts.until, now=now))
    if texts.budget:
        limits = replace(limits, budget_usd=_usd(texts.budget, "budget"))
    if texts.max_hourly:
        limits = replace(limits, max_usd_per_hour=_usd(texts.max_hourly, "price of an hour"))
    if texts.before_credentials_end is not None:
        limits = replace(limits, credentials_end=texts.before_credentials_end)
    if texts.before_capacity_end is not None:
        limits = replace(limits, capacity_end=texts.before_capacity_end)
    if texts.idle:
        limits = replace(limits, idle_minutes=minutes_of(texts.idle, IDLE_TIME))
    if texts.below:
        limits = replace(limits, idle_below_pct=percentage(texts.below))
    if texts.at_limit:
        limits = replace(limits, action=_action(texts.at_limit))
    if texts.watchdog:
        limits = replace(limits, watchdog_minutes=minutes_of(texts.watchdog, WATCHDOG_TIME))
    return limits


def parse_moment(text: str, *, now: datetime) -> float:
    """Return a time in seconds since the epoch: RFC 3339, the next `22:30` UTC, or `+8h` from now.

    Raises:
        UsageError: It is none of these, is over, or more than a year away.
    """
    moment = _moment(text.strip(), now)
    if moment is None:
        raise UsageError(f"{text!r} is not a time.", hint=_TIME_HINT)
    if moment <= now:
        raise UsageError(f"The time {moment_text(moment.timestamp())} has passed.", hint=_TIME_HINT)
    if moment - now > timedelta(hours=_LONGEST_HOURS):
        raise UsageError(f"The time {moment_text(moment.timestamp())} is more than a year away.", hint=_TIME_HINT)
    return moment.timestamp()


def is_moment(text: str) -> bool:
    """Return whether a text is written as `parse_moment` reads it, whenever that is."""
    return _moment(text.strip(), datetime.fromtimestamp(0, UTC)) is not None


def _moment(text: str, now: datetime) -> datetime | None:
    if text.startswith("+"):
        seconds = seconds_in(text[1:])
        return None if seconds is None else now + timedelta(seconds=min(seconds, 2 * 3600 * _LONGEST_HOURS))
    if match := _TIME_OF_DAY.fullmatch(text):
        today = datetime.combine(now.astimezone(UTC).date(), time(int(match[1]), int(match[2])), UTC)
        return today if today > now else today + timedelta(days=1)
    try:
        naive = datetime.fromisoformat(text.replace("Z", "+00:00").replace("z", "+00:00"))
        return parse_rfc3339(text.upper()) if naive.tzinfo is not None else None
    except (ValueError, OverflowError):
        return None


def _usd(text: str, what: str) -> str:
    """Return a decimal number; empty for `none`."""
    if text == NONE:
        return ""
    match = _USD.fullmatch(text.strip())
    if match is None or not Decimal(match[1]):
        raise UsageError(f"{text!r} is not a {what}.", hint="Write US dollars above 0, such as 50 or 12.50.")
    return match[1]


def _action(text: str) -> LimitAction:
    try:
        return LimitAction(text)
    except ValueError:
        raise UsageError(f"{text!r} is not an action at a limit.", hint="Write park or teardown.") from None


class TimeRule(msgspec.Struct, frozen=True):
    """The time that a limit may have.

    Args:
        noun: What it is of, in a sentence.
        least_minutes: The shortest one.
    """

    noun: str
    least_minutes: int


IDLE_TIME = TimeRule("idle accelerators", 5)
WATCHDOG_TIME = TimeRule("the watchdog", 10)


def minutes_of(text: str, rule: TimeRule) -> int:
    """Return a time in minutes; 0 for `none`.

    Raises:
        UsageError: It is none that the rule allows.
    """
    if text == NONE:
        return 0
    minutes = (seconds_in(text.strip()) or 0.0) / 60
    if not rule.least_minutes <= minutes <= _MOST_MINUTES:
        raise UsageError(
            f"{text!r} is not a time for {rule.noun}.",
            hint=f"Write 1h or 90m: {rule.least_minutes} minutes at least, seven days at most.",
        )
    return round(minutes)


def percentage(text: str) -> float:
    """Return a share of load in percent: `5%`, `5`.

    Raises:
        UsageError: It is none above 0 and below 100.
    """
    match = _PERCENT.fullmatch(text.strip())
    if match is None or not 0 < float(match[1]) < 100:
        raise UsageError(f"{text!r} is not a share of load.", hint="Write 5% or 2.5%: above 0, below 100.")
    return float(match[1])


def moment_text(at: float) -> str:
    """Return a time to the minute, with its zone: `2026-11-20 22:30 UTC`."""
    return f"{datetime.fromtimestamp(at, UTC):%Y-%m-%d %H:%M} UTC"


def limit_words(limits: Limits) -> tuple[str, ...]:
    """Return each limit in a few words: `until 2026-11-20 22:30 UTC`, `budget $50.00`, `$40.00/h at most`…"""
    words = [
        f"until {moment_text(limits.until)}" if limits.until is not None else "",
        f"budget {format_usd(Decimal(limits.budget_usd))}" if limits.budget_usd else "",
        f"{format_usd(Decimal(limits.max_usd_per_hour))}/h at most" if limits.max_usd_per_hour else "",
        "before the credentials end" if limits.credentials_end else "",
        "before the capacity block ends" if limits.capacity_end else "",
        idle_words(limits) if limits.idle_minutes else "",
    ]
    return tuple(word for word in words if word)


def idle_words(limits: Limits) -> str:
    """Return an idle limit in words: `idle for 30m (below 5 %)`."""
    return f"idle for {brief_duration(limits.idle_minutes * 60)} (below {limits.idle_below_pct:g} %)"


def limits_text(limits: Limits) -> str:
    """Return all limits in one line: `park at: budget $50.00, until …; watchdog 1h`; `none` without any."""
    does = "park" if limits.action is LimitAction.PARK else "tear down"
    parts = [f"{does} at: {', '.join(limit_words(limits))}"] if limits.is_set else []
    parts += [f"watchdog {brief_duration(limits.watchdog_minutes * 60)}"] if limits.watchdog_minutes else []
    return "; ".join(parts) or NONE


def short_limits(limits: Limits) -> str:
    """Return the limits for a narrow column: `22:30 $50 $40/h`; empty without any."""
    words = [
        f"{datetime.fromtimestamp(limits.until, UTC):%m-%d %H:%M}" if limits.until is not None else "",
        f"${limits.budget_usd}" if limits.budget_usd else "",
        f"${limits.max_usd_per_hour}/h" if limits.max_usd_per_hour else "",
        "credentials" if limits.credentials_end else "",
        "block" if limits.capacity_end else "",
        f"idle {limits.idle_minutes}m" if limits.idle_minutes else "",
    ]
    return " ".join(word for word in words if word)


def reach_text(limits: Limits) -> str:
    """Return where these limits hold and where they do not, in one or two sentences; empty without any."""
    if limits.watchdog_minutes:
        return HOLDS_BEYOND.format(minutes=limits.watchdog_minutes)
    return HOLDS_WHILE if limits.is_set else ""

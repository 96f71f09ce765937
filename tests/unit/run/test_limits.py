"""Limits as they are written, and their judgement: which is reached, which is next, and when the runner acts."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from actions.base.errors import UsageError
from actions.run.limits.options import (
    LimitTexts,
    limits_of,
    limits_text,
    moment_text,
    parse_moment,
    short_limits,
    with_usual,
)
from actions.run.limits.rules import (
    LimitName,
    LimitStatus,
    action_seconds,
    is_due_again,
    limit_notices,
    limit_statuses,
    margin_seconds,
    reached_limit,
    statuses_of,
)
from actions.run.report import run_table
from actions.run.spending import Spending
from actions.run.state.fold import fold
from actions.run.state.planner import Finish, Wait, holds_what_costs, is_watched, next_step
from actions.run.state.records import (
    OPERATOR,
    Action,
    Body,
    Created,
    EndsKnown,
    HeldPrice,
    Intent,
    JournalRecord,
    LimitAction,
    LimitReached,
    Limits,
    LimitsSet,
    Outcome,
    RequestKind,
    Result,
    RunRequest,
)
from actions.run.state.view import Notice, NoticeKind, RunState, RunView
from tests.unit.run.world import creation, outline
from tui.present.cells import text_of
from tui.present.limits import limit_lines

NOW = datetime(2026, 11, 20, 21, 15, tzinfo=UTC)
HOUR = 3600.0
NO_LIMITS, NO_ENDS = Limits(), EndsKnown()
CLUSTER = HeldPrice(title="cluster", stage="provision", usd_per_hour="2")
NODES = HeldPrice(title="nodes", stage="train", usd_per_hour="100", is_of_work=True)
DISK = HeldPrice(title="file system", stage="operators")
TRAFFIC = HeldPrice(title="traffic, $0.045 a GB", stage="provision", is_by_use=True)


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("22:30", "2026-11-20 22:30 UTC"),
        ("21:15", "2026-11-21 21:15 UTC"),
        ("06:00", "2026-11-21 06:00 UTC"),
        ("+8h", "2026-11-21 05:15 UTC"),
        ("+90m", "2026-11-20 22:45 UTC"),
        ("+1d2h", "2026-11-21 23:15 UTC"),
        ("+0.5h", "2026-11-20 21:45 UTC"),
        ("2026-11-24T12:00:00Z", "2026-11-24 12:00 UTC"),
        ("2026-11-24T12:00:00+02:00", "2026-11-24 10:00 UTC"),
        ("2026-11-24t12:00:00.123456789z", "2026-11-24 12:00 UTC"),
    ],
)
def test_a_time_is_written_in_one_of_three_forms(text: str, moment: str) -> None:
    assert moment_text(parse_moment(text, now=NOW)) == moment


@pytest.mark.parametrize(
    "text",
    ["", "tomorrow", "24:00", "9:30", "+", "+0h", "8h", "+8", "+-8h", "2026-11-24", "2026-11-24T12:00:00", "+99999d",
     "+9000h", "2026-11-20T21:15:00Z", "2025-01-01T00:00:00Z", "9999-12-31T23:59:59Z", "22:30 UTC", "²2:30"],
)  # fmt: skip
def test_what_is_no_time_is_refused_with_a_remedy(text: str) -> None:
    with pytest.raises(UsageError) as refusal:
        parse_moment(text, now=NOW)
    assert "22:30" in refusal.value.hint


@pytest.mark.parametrize(
    ("texts", "words"),
    [
        (LimitTexts(budget="0"), "'0' is not a budget."),
        (LimitTexts(budget="-5"), "'-5' is not a budget."),
        (LimitTexts(budget="nan"), "'nan' is not a budget."),
        (LimitTexts(budget="1e9"), "'1e9' is not a budget."),
        (LimitTexts(max_hourly="a lot"), "'a lot' is not a price of an hour."),
        (LimitTexts(at_limit="stop"), "'stop' is not an action at a limit."),
        (LimitTexts(watchdog="5m"), "'5m' is not a time for the watchdog."),
        (LimitTexts(watchdog="30d"), "'30d' is not a time for the watchdog."),
        (LimitTexts(watchdog="1"), "'1' is not a time for the watchdog."),
    ],
)
def test_other_words_are_refused_in_a_sentence(texts: LimitTexts, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        limits_of(texts, now=NOW)


def test_new_limits_replace_what_was_typed_and_nothing_else() -> None:
    first = limits_of(LimitTexts(until="22:30", budget="$50", max_hourly="40", watchdog="90m"), now=NOW)
    assert limits_text(first) == (
        "park at: until 2026-11-20 22:30 UTC, budget $50.00, $40.00/h at most; watchdog 1h30m"
    )
    assert short_limits(first) == "11-20 22:30 $50 $40/h"
    second = limits_of(LimitTexts(budget="80", until="none", at_limit="teardown"), now=NOW, known=first)
    assert limits_text(second) == "tear down at: budget $80.00, $40.00/h at most; watchdog 1h30m"
    third = limits_of(LimitTexts(budget="none", max_hourly="none", watchdog="none"), now=NOW, known=second)
    assert limits_text(third) == "none"
    assert not third.is_set


@given(
    minute=st.datetimes(datetime(2020, 1, 1), datetime(2060, 1, 1)),  # noqa: DTZ001 - the zone follows
    hour=st.integers(0, 23),
    past=st.integers(0, 59),
)
def test_a_time_of_day_is_the_next_one(minute: datetime, hour: int, past: int) -> None:
    now = minute.replace(tzinfo=UTC)
    found = datetime.fromtimestamp(parse_moment(f"{hour:02}:{past:02}", now=now), UTC)
    assert now < found <= now + timedelta(days=1)
    assert (found.hour, found.minute, found.second) == (hour, past, 0)


@given(days=st.integers(0, 300), hours=st.integers(0, 1000), minutes=st.integers(1, 9999))
def test_a_duration_is_added_to_the_present(days: int, hours: int, minutes: int) -> None:
    found = parse_moment(f"+{days}d{hours}h{minutes}m", now=NOW)
    assert found == (NOW + timedelta(days=days, hours=hours, minutes=minutes)).timestamp()


@given(at=st.datetimes(datetime(2026, 11, 21), datetime(2027, 11, 20)), offset=st.integers(-14, 14))  # noqa: DTZ001
def test_a_timestamp_is_read_in_its_zone(at: datetime, offset: int) -> None:
    text = f"{at:%Y-%m-%dT%H:%M:%S}{offset:+03}:00"
    moment = at.replace(microsecond=0, tzinfo=UTC) - timedelta(hours=offset)
    if NOW < moment < NOW + timedelta(days=365):
        assert parse_moment(text, now=NOW) == moment.timestamp()


def created(limits: Limits = NO_LIMITS, prices: tuple[HeldPrice, ...] = (CLUSTER, NODES), high: float = 2) -> Created:
    stages = (
        replace(outline("provision", "terraform"), expect_high_seconds=high),
        outline("operators", "manifests", ("provision",)),
        replace(outline("train", "job", ("operators",)), holds_accelerators=True),
    )
    return replace(creation(), limits=limits, prices=prices, stages=stages)


def view(first: Created, *lines: tuple[float, str, Body], writer: str = "me", holder: str = "me") -> RunView:
    """Fold lines of hours since the launch, stage and body; requests are the operator's."""
    bodies: list[tuple[float, str, Body]] = [(0.0, "", first), *lines]
    return fold(
        [
            JournalRecord(
                n, hours * HOUR, OPERATOR if isinstance(body, RunRequest) and writer else "me", stage, 1, body
            )
            for n, (hours, stage, body) in enumerate(bodies, 1)
        ],
        holder=holder,
    )


def done(stage: str, begin: float, end: float) -> list[tuple[float, str, Body]]:
    return [(begin, stage, Intent(Action.PERFORM)), (end, stage, Outcome(Action.PERFORM, Result.DONE))]


TRAINING = [*done("provision", 0, 1), *done("operators", 1, 2), (2.0, "train", Intent(Action.PERFORM))]
"""$2/h from the launch, $102/h from the third hour on."""


def status_of(name: LimitName, limits: Limits, hours: float, *, ends: EndsKnown = NO_ENDS) -> LimitStatus:
    run = replace(view(created(limits), *TRAINING), ends=ends)
    return next(one for one in statuses_of(run, hours * HOUR) if one.name is name)


def test_a_time_is_near_half_an_hour_before_and_reached_at_it() -> None:
    limits = Limits(until=5 * HOUR)
    found = [status_of(LimitName.UNTIL, limits, hours) for hours in (4.4, 4.5, 4.999, 5)]
    assert [(one.is_near, one.is_reached) for one in found] == [
        (False, False), (True, False), (True, False), (True, True),
    ]  # fmt: skip
    assert {one.at for one in found} == {5 * HOUR}
    assert found[0].text == "The limit until 1970-01-01 05:00 UTC."


def test_a_budget_is_reached_while_it_still_pays_for_the_park() -> None:
    limits = Limits(budget_usd="106")  # $4 until the training began, a park takes 6 min of $102/h
    run = view(created(limits), *TRAINING)
    assert action_seconds(run, LimitAction.PARK) == 360
    before, at = status_of(LimitName.BUDGET, limits, 2.89), status_of(LimitName.BUDGET, limits, 2.91)
    assert (before.is_reached, before.is_near, at.is_reached) == (False, True, True)
    assert before.at == pytest.approx(2.9 * HOUR)
    assert not status_of(LimitName.BUDGET, limits, 2.7).is_near
    assert at.text == "The budget of $106.00: up to $96.82 spent, $102.00/h now, and parking takes about 6m."


def test_more_an_hour_than_allowed_is_reached_and_as_much_is_not() -> None:
    assert not status_of(LimitName.RATE, Limits(max_usd_per_hour="102"), 3).is_reached
    found = status_of(LimitName.RATE, Limits(max_usd_per_hour="101.99"), 3)
    assert found.is_reached
    assert found.text == "The limit of $101.99 an hour: $102.00/h now."


@pytest.mark.parametrize("prices", [(CLUSTER, DISK), (CLUSTER, TRAFFIC)])
def test_an_unknown_price_makes_a_budget_a_lower_bound_and_is_named(prices: tuple[HeldPrice, ...]) -> None:
    run = view(created(Limits(budget_usd="10", max_usd_per_hour="1"), prices), *TRAINING)
    budget = next(one for one in statuses_of(run, 3 * HOUR) if one.name is LimitName.BUDGET)
    assert "about $6.00 spent, at least $2.00/h now" in budget.text
    assert "may be reached late" in budget.doubt
    assert prices[1].title in budget.doubt


def test_a_budget_without_any_price_says_that_it_is_never_reached() -> None:
    run = view(created(Limits(budget_usd="10", max_usd_per_hour="1"), ()), *TRAINING)
    assert [one.doubt for one in statuses_of(run, 3 * HOUR)] == [
        "The run has no prices, so its budget is never reached.",
        "The run has no prices, so its limit of dollars an hour is never reached.",
    ]
    assert reached_limit(run, 1000 * HOUR) is None


def test_the_margin_before_an_end_follows_from_what_has_to_be_undone() -> None:
    run = view(created(high=1800), *TRAINING)
    assert action_seconds(run, LimitAction.TEARDOWN) == 300 + 1800 + 60 + 60
    assert margin_seconds(run, LimitAction.TEARDOWN) == 1.5 * 2220
    assert margin_seconds(run, LimitAction.PARK) == 600
    assert margin_seconds(view(created()), LimitAction.TEARDOWN) == 600


def test_credentials_and_block_end_by_the_margin_earlier() -> None:
    ends = EndsKnown(credentials_end=10 * HOUR, capacity_end=11 * HOUR)
    limits = Limits(credentials_end=True, capacity_end=True)
    early = status_of(LimitName.CREDENTIALS, limits, 9, ends=ends)
    assert early.at == 10 * HOUR - 600
    assert early.text == "The AWS credentials end at 1970-01-01 10:00 UTC, and parking gets 10m before that."
    block = status_of(LimitName.CAPACITY, limits, 9, ends=ends)
    assert block.at == 11 * HOUR - 1800 - 600
    assert block.text.startswith("The capacity block ends at 1970-01-01 11:00 UTC, its instances up to 30 min earlier")
    assert status_of(LimitName.CREDENTIALS, limits, 9.9, ends=ends).is_reached


def test_an_unknown_end_is_said_and_reaches_nothing() -> None:
    limits = Limits(credentials_end=True, capacity_end=True)
    ends = EndsKnown(missing=("Nothing names an end of the AWS credentials.",))
    run = replace(view(created(limits), *TRAINING), ends=ends)
    assert [one.text for one in statuses_of(run, 9 * HOUR)] == [
        "Nothing names an end of the AWS credentials.",
        "The capacity block ends at a time that is not known.",
    ]
    assert reached_limit(run, 1e9) is None


def test_reached_limits_come_first_then_the_next_one() -> None:
    limits = Limits(until=9 * HOUR, budget_usd="500", max_usd_per_hour="50")
    run = view(created(limits), *TRAINING)
    assert [one.name for one in statuses_of(run, 3 * HOUR)] == [LimitName.RATE, LimitName.BUDGET, LimitName.UNTIL]


@given(
    spent=st.decimals(0, 10_000, places=2),
    rate=st.decimals(0, 1000, places=2),
    budget=st.decimals("0.01", 10_000, places=2),
)
def test_a_budget_is_reached_exactly_when_its_time_has_come(spent: Decimal, rate: Decimal, budget: Decimal) -> None:
    spending = Spending(spent, {}, rate, (), is_simulated=False)
    limits = Limits(budget_usd=str(budget))
    found = limit_statuses(limits, view(created(limits), *TRAINING), spending, EndsKnown(), now=1e6)[0]
    assert found.is_reached == (spent + rate * 360 / 3600 >= budget)
    assert (found.at is None) == (not rate)
    if found.at is not None:
        assert found.at >= 1e6
        assert found.is_reached == (found.at == 1e6) or found.at - 1e6 < 1e-3
    assert found.is_near or spent < Decimal("0.8") * budget


PARKED = RunRequest(RequestKind.PARK)


def test_a_run_is_kept_while_it_holds_what_costs_and_a_limit_can_end_that() -> None:
    succeeded = [*TRAINING, (3.0, "train", Outcome(Action.PERFORM, Result.DONE))]
    failed = [*TRAINING, (3.0, "train", Outcome(Action.PERFORM, Result.FAILED))]
    limits = Limits(until=9 * HOUR)
    for lines in (succeeded, failed):
        assert isinstance(next_step(view(created(), *lines)), Finish)
        assert isinstance(next_step(view(created(limits), *lines)), Wait)
        assert isinstance(next_step(view(created(), *lines, (4.0, "", LimitsSet(limits)))), Wait)
        assert isinstance(next_step(view(created(limits), *lines, (4.0, "", LimitsSet(Limits())))), Finish)
        assert isinstance(next_step(view(created(Limits(watchdog_minutes=60)), *lines)), Finish)
    nothing: list[tuple[float, str, Body]] = [
        (0.0, "provision", Intent(Action.PERFORM)),
        (1.0, "provision", Outcome(Action.PERFORM, Result.DONE)),
    ]
    assert not holds_what_costs(view(created(limits, prices=()), *nothing))


def undone(stage: str, at: float, result: Result = Result.DONE) -> list[tuple[float, str, Body]]:
    return [(at, stage, Intent(Action.UNDO)), (at, stage, Outcome(Action.UNDO, result))]


def test_a_parked_run_is_kept_only_if_its_limits_tear_it_down() -> None:
    drain: list[tuple[float, str, Body]] = [
        (5.0, "", Intent(Action.DRAIN)),
        (5.0, "", Outcome(Action.DRAIN, Result.DONE)),
    ]
    lines = [*done("provision", 0, 1), *done("operators", 1, 2), *done("train", 2, 3), (4.0, "", PARKED)]
    parked = [*lines, *undone("train", 5), *drain]
    assert isinstance(next_step(view(created(Limits(until=9 * HOUR)), *parked)), Finish)
    torn = Limits(until=9 * HOUR, action=LimitAction.TEARDOWN)
    run = view(created(torn), *parked)
    assert is_watched(run)
    assert reached_limit(run, 9 * HOUR) is not None
    assert reached_limit(view(created(Limits(until=9 * HOUR)), *parked), 9 * HOUR) is None


def test_a_limit_whose_request_is_missing_is_due_and_a_request_settles_it() -> None:
    reached = (4.0, "", LimitReached("until", "The limit."))
    limits = Limits(until=4 * HOUR)
    assert view(created(limits), *TRAINING, reached).limit_due is not None
    settled = view(created(limits), *TRAINING, reached, (4.0, "", PARKED))
    assert settled.limit_due is None
    assert [one.text for one in settled.limits_reached] == ["The limit."]
    changed = view(created(limits), *TRAINING, reached, (4.0, "", LimitsSet(Limits(until=9 * HOUR))))
    assert (changed.limit_due, changed.limits_reached) == (None, ())


def test_a_resumed_run_without_new_limits_reaches_them_again() -> None:
    limits = Limits(until=4 * HOUR)
    lines = [*TRAINING, (4.0, "", LimitReached("until", "The limit.")), (4.0, "", PARKED)]
    assert reached_limit(view(created(limits), *lines), 5 * HOUR) is None
    resumed = [*lines, (5.0, "", RunRequest(RequestKind.RETRY))]
    assert reached_limit(view(created(limits), *resumed), 5 * HOUR) is not None
    assert (
        "Without new limits the runner parks the run again"
        in limit_notices(view(created(limits), *resumed), 5 * HOUR)[0].text
    )
    other = [*resumed, (5.0, "", LimitsSet(Limits(until=9 * HOUR)))]
    assert reached_limit(view(created(limits), *other), 5 * HOUR) is None


def test_a_failed_park_is_requested_again_after_growing_pauses() -> None:
    limits = Limits(until=4 * HOUR)
    cancelled = (4.0, "train", Outcome(Action.PERFORM, Result.CANCELLED))
    first = [*TRAINING, (4.0, "", LimitReached("until", "The limit.")), (4.0, "", PARKED), cancelled]
    failed = [*first, *undone("train", 4.1, Result.FAILED)]
    run = view(created(limits), *failed, writer="")
    assert isinstance(next_step(run), Wait)
    assert [is_due_again(run, hours * HOUR) for hours in (4.2, 4.34, 4.36)] == [False, False, True]
    again = view(created(limits), *failed, (4.4, "", PARKED), *undone("train", 4.4, Result.FAILED), writer="")
    assert [is_due_again(again, hours * HOUR) for hours in (4.7, 4.91)] == [False, True]
    by_hand = view(created(limits), *failed)
    assert not is_due_again(by_hand, 9 * HOUR)


def test_notices_name_what_is_near_without_amounts_that_change() -> None:
    run = view(created(Limits(budget_usd="120", until=4 * HOUR)), *TRAINING)
    assert limit_notices(run, 2.5 * HOUR) == ()
    early, late = limit_notices(run, 3.0 * HOUR), limit_notices(run, 3.01 * HOUR)
    assert early == late
    assert [notice.text for notice in limit_notices(run, 3.6 * HOUR)] == [
        "Of the budget of $120.00 more than 80% is spent. The runner parks the run.",
        "The limit until 1970-01-01 04:00 UTC. The runner parks the run at 1970-01-01 04:00 UTC.",
    ]


def test_a_budget_that_is_kept_for_the_park_is_not_called_spent() -> None:
    run = view(created(Limits(budget_usd="11")), *TRAINING)  # $4 at the begin, and a park costs $10.20
    assert [notice.text for notice in limit_notices(run, 2.0 * HOUR)] == [
        "The rest of the budget of $11.00 pays for parking. The runner parks the run."
    ]


def test_what_was_not_typed_is_as_in_the_settings() -> None:
    usual = LimitTexts(until="+8h", budget="40", before_capacity_end=True, at_limit="teardown")
    assert with_usual(LimitTexts(budget="9", before_capacity_end=False), usual) == LimitTexts(
        until="+8h", budget="9", before_capacity_end=False, at_limit="teardown"
    )
    assert with_usual(LimitTexts(until="none"), usual).until == "none"
    assert with_usual(LimitTexts(budget="9"), None) == LimitTexts(budget="9")


def test_limits_of_another_machines_run_are_named_and_not_reckoned_by_what_is_known_here() -> None:
    run = view(created(Limits(until=5 * HOUR, budget_usd="500", watchdog_minutes=60), ()), *TRAINING)
    there = replace(run, notices=(Notice(NoticeKind.ELSEWHERE, "Carried out by anna@bastion-1."),))
    line = "limits: park at: until 1970-01-01 05:00 UTC, budget $500.00; watchdog 1h"
    limits, doubts = limit_lines(there, now=3 * HOUR, width=76)
    assert ([text_of(cells) for cells in limits], doubts) == ([line], [])
    limits, doubts = limit_lines(run, now=3 * HOUR, width=76)
    own = " ".join(text_of(cells).strip() for cells in limits)
    assert own == line.replace("limits:", "limits, while this machine runs:")  # it acts at the time that is named
    assert [text_of(cells) for cells in doubts] == ["  ? The run has no prices, so its budget is never reached."]
    text = run_table(there, now=3 * HOUR)
    assert "Its limits hold on the machine that carries it out." in text
    assert "never reached" not in text
    assert "this machine runs" not in text
    assert "never reached" in run_table(run, now=3 * HOUR)


def test_a_run_that_a_limit_tore_down_says_so_afterwards() -> None:
    reached = LimitReached("until", "The limit until 05:00: the run is torn down.")
    gone = replace(view(created(Limits(until=5 * HOUR), ()), *TRAINING), state=RunState.TORN_DOWN)
    assert limit_lines(gone, now=6 * HOUR, width=76) == ([], [])
    gone = replace(gone, limits_reached=(reached,))
    assert [text_of(cells) for cells in limit_lines(gone, now=6 * HOUR, width=76)[0]] == [reached.text]
    assert f"  Reached: {reached.text}\n" in run_table(gone, now=6 * HOUR)

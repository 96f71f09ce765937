"""The money that a run has spent: what a stage makes is paid until it is undone, whether anything works or not."""

from __future__ import annotations

import json
import time
from decimal import Decimal
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from actions.base.clock import SystemClock
from actions.base.files import shipped_blueprints
from actions.blueprint.catalogue import load_blueprint
from actions.blueprint.parameters import bind
from actions.cluster.auth.kubeconfig import ClusterTarget
from actions.run.client import load_run
from actions.run.launch import LaunchOrder, create_run
from actions.run.paid import paid_by, paid_of, unfinished_teardown
from actions.run.report import run_json, run_table
from actions.run.spending import Spending, is_steady, spending_of, times_known
from actions.run.state.fold import fold
from actions.run.state.records import (
    NODE_CLAIM,
    Action,
    Body,
    Deleted,
    HeldPrice,
    Intent,
    JournalRecord,
    Outcome,
    Owned,
    PlanOffer,
    RequestKind,
    Result,
    RunRequest,
)
from actions.run.state.view import Notice, NoticeKind, Period, RunView
from actions.script.report import run_report
from tests.unit.run.world import creation
from tui.present.cells import text_of
from tui.present.run import ending_lines, run_heading, spent_in, stage_detail

HOUR = 3600.0
CLUSTER = HeldPrice(title="cluster", stage="provision", usd_per_hour="2", source="list")
NODES = HeldPrice(title="nodes", stage="train", usd_per_hour="100", is_of_work=True, source="list")
UNKNOWN = HeldPrice(title="file system", stage="provision")
PLAN = PlanOffer("hash-1", 1, 0, 0, ("+ cluster",))


def view(*lines: tuple[float, str, Body], prices: tuple[HeldPrice, ...] = (CLUSTER, NODES)) -> RunView:
    """Fold lines of hours since the launch, stage and body."""
    bodies = [(0.0, "", replace(creation(), prices=prices)), *lines]
    return fold(
        [JournalRecord(n, hours * HOUR, "me", stage, 1, body) for n, (hours, stage, body) in enumerate(bodies, 1)],
        holder="me",
    )


def spent(found: RunView, hours: float) -> Spending:
    spending = spending_of(found, hours * HOUR)
    assert spending is not None
    return spending


def begun(hours: float, stage: str, action: Action = Action.PERFORM) -> tuple[float, str, Body]:
    return hours, stage, Intent(action)


def ended(
    hours: float, stage: str, result: Result = Result.DONE, action: Action = Action.PERFORM
) -> tuple[float, str, Body]:
    return hours, stage, Outcome(action, result, plan=PLAN if result is Result.AWAITING_APPROVAL else None)


LIFE = (
    begun(1, "provision"),
    ended(2, "provision"),
    begun(5, "train"),
    ended(6, "train"),
)


def test_a_cluster_is_paid_between_stages_too_and_nodes_of_pods_only_while_these_work() -> None:
    found = spent(view(*LIFE), 8)
    assert found.usd == Decimal(6 * 2 + 100), "from the end of the apply that has made it"
    assert found.by_stage == {"provision": Decimal(0), "train": Decimal(102)}
    assert found.usd_per_hour == Decimal(2)
    assert found.may_usd == Decimal(2), "some of it may have been there while the apply was under way"
    assert found.text == "at least $112.00 so far, now $2.00/h"


def test_an_undo_ends_it() -> None:
    life = (
        *LIFE,
        (8, "", RunRequest(RequestKind.TEARDOWN)),
        begun(8, "provision", Action.UNDO),
        ended(9, "provision", action=Action.UNDO),
    )
    found = spent(view(*life), 100)
    assert (found.usd, found.usd_per_hour) == (Decimal(7 * 2 + 100), Decimal(0))
    assert found.text == "at least $114.00 so far"


@pytest.mark.parametrize(
    ("notice", "usd"),
    [(Notice(NoticeKind.ELSEWHERE, "ben has it.", 7 * HOUR), 110)],
)
def test_a_copy_is_paid_as_long_as_its_records_are_known_to_be_all(notice: Notice, usd: int) -> None:
    found = spent(replace(view(*LIFE), notices=(notice,)), 100)
    assert (found.usd, found.usd_per_hour) == (Decimal(usd), Decimal(0))
    assert found.text == f"at least ${usd}.00 so far"


def test_what_could_not_be_undone_is_paid_on() -> None:
    life = (
        *LIFE,
        (8, "", RunRequest(RequestKind.TEARDOWN)),
        begun(8, "provision", Action.UNDO),
        ended(9, "provision", Result.FAILED, Action.UNDO),
    )
    assert spent(view(*life), 10).usd_per_hour == Decimal(2)


def test_a_teardown_that_stopped_names_what_failed_what_is_left_with_its_price_and_the_next_command() -> None:
    life = (
        *LIFE,
        (8, "", RunRequest(RequestKind.TEARDOWN)),
        begun(8, "train", Action.UNDO),
        ended(8, "train", action=Action.UNDO),
        begun(8, "", Action.DRAIN),
        ended(8, "", action=Action.DRAIN),
        begun(8, "provision", Action.UNDO),
    )
    assert unfinished_teardown(view(*life)) == ()
    traffic = HeldPrice(title="NAT gateway traffic, $0.045/GB", stage="provision", is_by_use=True)
    prices = (CLUSTER, NODES, UNKNOWN, traffic)
    stopped = view(*life, ended(9, "provision", Result.FAILED, Action.UNDO), prices=prices)
    lines = (
        "The teardown stopped: Provision failed. Audit waited for it.",
        "Still there: Provision ≥ $2.00/h.",
        "Fix the cause, then: eksml-tui runs resume fake-1121-0001",
    )
    assert unfinished_teardown(stopped) == lines
    assert run_table(stopped).endswith("\n".join(lines) + "\n")
    assert [text_of(line) for line in ending_lines(stopped, width=80)] == list(lines)
    assert unfinished_teardown(view(*LIFE, begun(7, "operators"), ended(8, "operators", Result.FAILED))) == ()


def test_what_a_failed_stage_may_have_made_is_in_no_sum_and_a_plan_has_made_nothing() -> None:
    planned = (begun(1, "provision"), ended(2, "provision", Result.AWAITING_APPROVAL))
    assert spent(view(*planned), 9).usd == 0
    failed = (begun(1, "provision"), ended(2, "provision", Result.FAILED))
    found = spent(view(*failed), 9)
    assert (found.usd, found.usd_per_hour) == (Decimal(0), Decimal(0))
    assert (found.may_usd, found.may_usd_per_hour) == (Decimal(16), Decimal(2)), "a limit counts it"


def test_stages_that_work_at_once_share_what_is_paid() -> None:
    made = (begun(0, "provision"), ended(1, "provision"))
    at_once = (begun(1, "operators"), begun(1, "train"), ended(2, "operators"), ended(2, "train"))
    found = spent(view(*made, *at_once, prices=(CLUSTER,)), 2)
    assert found.by_stage == {"provision": Decimal(0), "operators": Decimal(1), "train": Decimal(1)}


def test_without_a_price_the_sum_is_a_lower_bound_and_says_what_is_not_in_it() -> None:
    found = view(*LIFE, prices=(CLUSTER, NODES, UNKNOWN))
    assert spent(found, 8).text == "at least $112.00 so far, now ≥ $2.00/h"
    text = run_table(found, now=8 * HOUR)
    assert "Not in it, as no price is known: file system\n" in text
    assert "at least $102.00" in text
    assert text_of(run_heading(found, now=8 * HOUR)[1]).count("at least $112.00 spent") == 1


def test_what_is_paid_by_use_is_named_and_makes_a_lower_bound() -> None:
    traffic = HeldPrice(title="NAT gateway traffic, $0.045/GB", stage="provision", is_by_use=True)
    found = view(*LIFE, prices=(CLUSTER, NODES, traffic))
    assert spent(found, 8).text == "at least $112.00 so far, now ≥ $2.00/h"
    assert spent(found, 8).unpriced == ()
    assert "Not in it, as it is paid by use: NAT gateway traffic, $0.045/GB\n" in run_table(found, now=8 * HOUR)
    assert json.loads(run_json(found))["spent"]["by_use"] == ["NAT gateway traffic, $0.045/GB"]
    assert spent(view(prices=(CLUSTER, traffic)), 8).text == "$0.00 so far", "nothing was made yet"


def test_a_run_of_an_older_program_has_no_sum() -> None:
    found = view(*LIFE, prices=())
    assert spending_of(found, 8 * HOUR) is None
    assert "SPENT" not in run_table(found, now=8 * HOUR)
    assert json.loads(run_json(found))["spent"] is None


def test_the_report_shows_it_for_the_run_and_each_stage() -> None:
    found = view(*LIFE)
    lines = run_table(found, now=8 * HOUR).splitlines()
    assert (
        next(line for line in lines if line.startswith("Spent ")).split(None, 1)[1]
        == "at least $112.00 so far, now $2.00/h"
    )
    assert "$102.00" in next(line for line in lines if line.startswith("train "))
    fields = json.loads(run_json(found, now=8 * HOUR))["spent"]
    assert (Decimal(fields["usd"]), Decimal(fields["by_stage"]["train"])) == (Decimal(112), Decimal(102))


def test_the_runs_header_shows_it() -> None:
    heading = [text_of(line) for line in run_heading(view(*LIFE), now=8 * HOUR)]
    assert "at least $112.00 spent" in heading[1]


def test_the_header_of_a_run_at_rest_names_what_it_still_costs_an_hour() -> None:
    def heading(*lines: tuple[float, str, Body]) -> str:
        found = view(*LIFE, *lines)
        return text_of(run_heading(found, now=9 * HOUR, hourly=paid_of([paid_by(found)]).of(found.id))[1])

    assert "/h" not in heading()  # provision and train are two of its stages: it goes on
    undone = (begun(8, "train", Action.UNDO), ended(8, "train", action=Action.UNDO))
    drained = (begun(8, "", Action.DRAIN), ended(8, "", action=Action.DRAIN))
    parked = heading((8, "", RunRequest(RequestKind.PARK)), *undone, *drained)
    assert parked.startswith("parked")
    assert "at least $114.00 spent · costs $2.00/h" in parked


def test_the_detail_of_a_stage_shows_what_it_has_cost() -> None:
    found = view(*LIFE)
    assert (spent_in(found, "train", 8 * HOUR), spent_in(found, "operators", 8 * HOUR)) == (
        "at least $102.00 spent",
        "",
    )
    line = stage_detail(found.stage("train"), now=8 * HOUR, spent=spent_in(found, "train", 8 * HOUR))[0]
    assert "· at least $102.00 spent ·" in text_of(line)


def test_the_report_of_a_script_has_it_too() -> None:
    report = run_report(view(*LIFE))
    assert report.spent is not None
    assert (report.spent["usd"], report.spent["by_stage"]) == ("108", {"provision": "0", "train": "102"})
    assert run_report(view(*LIFE, prices=())).spent is None


def test_sums_in_json_have_no_more_than_six_decimals() -> None:
    thirds = replace(CLUSTER, usd_per_hour="0.333333333333333333333333")
    fields = json.loads(run_json(view(*LIFE, prices=(thirds,)), now=8 * HOUR + 1))["spent"]
    assert fields["usd"] == "2.000093"
    assert fields["usd_per_hour"] == "0.333333"
    assert fields["by_stage"]["train"] == "0.333333"


def launched(home: Path, **given: int) -> RunView:
    blueprint = load_blueprint(shipped_blueprints() / "bionemo-esm1nv")
    binding = bind(blueprint, given, preset="rehearsal")
    clock = SystemClock()
    return load_run(
        create_run(
            LaunchOrder(blueprint, binding, target=ClusterTarget(), environment={}, clock=clock, base=home / "runs")
        )
    )


def test_a_launch_keeps_its_prices_with_their_sources(tmp_path: Path) -> None:
    found = launched(tmp_path)
    by_title = {price.title: price for price in found.prices}
    nodes, core = by_title["2 × g5.12xlarge"], by_title["2 × m5.xlarge"]
    assert (nodes.stage, nodes.usd_per_hour, nodes.is_of_work) == ("train", "11.344", True)
    assert (core.stage, core.is_of_work) == ("provision", False)
    assert core.source == "kube-resource-report ec2 costs, 2020-07-02"
    assert by_title["FSx for Lustre, 2400 GiB"].stage == "filesystem"
    assert found.is_cost_simulated
    traffic = by_title["NAT gateway traffic, $0.045/GB"]
    assert (traffic.stage, traffic.is_by_use) == ("network", True)


def test_a_run_expects_what_its_plan_does(tmp_path: Path) -> None:
    assert launched(tmp_path, max_steps=60, val_check_interval=50).stage("train").expect_low_seconds == 4.0


@st.composite
def lives(draw: st.DrawFn) -> RunView:
    """A run with attempts, undos, claims of nodes and several prices, at any moments."""
    bodies: list[Body] = [
        Intent(Action.PERFORM),
        Outcome(Action.PERFORM, Result.DONE),
        Outcome(Action.PERFORM, Result.FAILED),
        Intent(Action.UNDO),
        Outcome(Action.UNDO, Result.DONE),
        Owned("karpenter.sh/v1", "n", NODE_CLAIM, uid="u"),
        Deleted("karpenter.sh/v1", "n", NODE_CLAIM),
    ]
    lines: list[tuple[float, str, Body]] = [
        (round(hours, 2), draw(st.sampled_from(["provision", "train"])), draw(st.sampled_from(bodies)))
        for hours in sorted(draw(st.lists(st.floats(0.1, 50), max_size=14)))
    ]
    work = replace(NODES, nodes=draw(st.integers(0, 3)), instance_type="p5.48xlarge")
    return view(*lines, prices=(CLUSTER, work, replace(NODES, usd_per_hour="0.7"), UNKNOWN))


def covered(found: RunView, hours: float) -> tuple[Decimal, dict[str, Decimal]]:
    """The same sums, by looking at each moment in turn at all that was paid and at work then."""
    now = hours * HOUR
    known = [(Decimal(price.usd_per_hour or 0), *one) for price in found.prices for one in times_known(found, price)]
    periods = [one[1] for one in known] + [period for stage in found.stages for period in stage.worked]
    marks = sorted({min(moment, now) for one in periods for moment in (one.begin, now if one.end is None else one.end)})

    def is_covered(period: Period, moment: float) -> bool:
        return period.begin <= moment and (period.end is None or moment < period.end)

    total, by_stage = Decimal(0), dict[str, Decimal]()
    for begin, end in pairwise(marks):
        usd = sum((usd * share for usd, period, share in known if is_covered(period, begin)), Decimal(0))
        usd *= Decimal(str(end - begin)) / 3600
        total += usd
        working = [stage.id for stage in found.stages if any(is_covered(one, begin) for one in stage.worked)]
        for stage in working:
            by_stage[stage] = by_stage.get(stage, Decimal(0)) + usd / len(working)
    return total, by_stage


@settings(max_examples=100, deadline=None)
@given(lives(), st.floats(0.5, 60))
def test_one_pass_finds_what_a_look_at_every_moment_finds(found: RunView, hours: float) -> None:
    spending = spent(found, hours)
    total, by_stage = covered(found, hours)
    assert float(spending.usd) == pytest.approx(float(total))
    wanted = {stage: pytest.approx(float(usd)) for stage, usd in by_stage.items()}
    assert {stage: float(usd) for stage, usd in spending.by_stage.items()} == wanted
    assert all(not spending.by_stage[stage] for stage, usd in by_stage.items() if not usd)


@settings(max_examples=100, deadline=None)
@given(lives(), st.floats(50, 60), st.floats(0, 500))
def test_what_goes_on_without_work_is_known_at_every_later_moment(found: RunView, hours: float, more: float) -> None:
    if not is_steady(found, hours * HOUR):
        return
    later, then = spent(found, hours).later(hours * HOUR, (hours + more) * HOUR), spent(found, hours + more)
    for name in ("usd", "may_usd", "usd_per_hour", "may_usd_per_hour"):
        assert float(getattr(later, name)) == pytest.approx(float(getattr(then, name))), name
    assert later.at == pytest.approx(then.at)
    assert later.by_stage.keys() == then.by_stage.keys()


def test_a_long_life_costs_a_pass_and_no_square() -> None:
    """Each of 8,000 attempts made something: by moments times periods that took minutes."""
    lines = [line for n in range(8_000) for line in (begun(n, "train"), ended(n + 0.5, "train"))]
    began = time.process_time()
    assert spent(view(*lines), 10_000).usd == 400_000
    assert time.process_time() - began < 10


@pytest.mark.parametrize(("is_there", "may"), [(False, Decimal(100)), (True, Decimal(0))])
def test_pods_that_wait_in_a_cluster_that_is_there_cost_nothing(is_there: bool, may: Decimal) -> None:
    """No node is started for them there; a claim that exists is paid, in both."""
    nodes = replace(NODES, nodes=2, instance_type="p5.48xlarge")
    waiting = replace(view(begun(1, "train"), prices=(nodes,)), existing_cluster=is_there)
    found = spent(waiting, 3)
    assert (found.usd, found.may_usd, found.may_usd_per_hour) == (Decimal(0), 2 * may, may)
    claim = (2.0, "train", Owned("karpenter.sh/v1", "n", NODE_CLAIM, uid="u"))
    started = replace(view(begun(1, "train"), claim, prices=(nodes,)), existing_cluster=is_there)
    assert (spent(started, 3).usd, spent(started, 3).usd_per_hour) == (Decimal(50), Decimal(50))

"""A plan says what is known, and what is not."""

from __future__ import annotations

import json
from datetime import date
from decimal import Decimal

from actions.blueprint.holding_rates import Rate
from actions.blueprint.launch_plan import LaunchPlan, StagePlan, plan_json, plan_table


def a_stage(**changes: object) -> StagePlan:
    values: dict[str, object] = {
        "id": "train",
        "title": "Training",
        "kind": "job",
        "low_seconds": 3 * 86400,
        "high_seconds": 4 * 86400,
        "nodes": (("g5.12xlarge", 2),),
        "usd_per_hour": Decimal("11.72"),
        "usd_low": Decimal("843.84"),
        "usd_high": Decimal("1125.12"),
        "unpriced": (),
        "objects": ("PyTorchJob/x",),
    }
    return StagePlan(**(values | changes))  # type: ignore[arg-type]


def a_plan(*stages: StagePlan, **changes: object) -> LaunchPlan:
    values: dict[str, object] = {
        "stages": stages,
        "total_low": Decimal("843.84"),
        "total_high": Decimal("1125.12"),
        "unpriced": (),
        "low_seconds": 3 * 86400,
        "high_seconds": 4 * 86400,
    }
    return LaunchPlan(**(values | changes))  # type: ignore[arg-type]


def test_a_stage_shows_its_time_nodes_and_cost() -> None:
    (line,) = [line for line in plan_table(a_plan(a_stage())).splitlines() if line.startswith("train")]
    assert " ".join(line.split()) == "train job 3d–4d 2 × g5.12xlarge $11.72 $843.84–1,125.12"


def test_what_has_no_price_is_a_question_mark_and_the_total_says_at_least() -> None:
    unknown = a_stage(usd_per_hour=None, usd_low=None, usd_high=None, unpriced=("FSx",))
    text = plan_table(a_plan(unknown, a_stage(), unpriced=("FSx",)))
    assert text.splitlines()[1].split()[-2:] == ["?", "?"]
    assert "$843.84–1,125.12 + ?" in text
    assert "no price is known: FSx" in text


def test_the_total_is_a_question_mark_where_no_price_is_known() -> None:
    zero = Decimal(0)
    unknown = a_stage(usd_per_hour=None, usd_low=None, usd_high=None)
    text = plan_table(a_plan(unknown, total_low=zero, total_high=zero))
    assert "total   3d–4d, ?\n" in text
    assert "$0" not in text


def test_a_skipped_stage_costs_nothing_and_says_why() -> None:
    assert "skipped: the cluster is there" in plan_table(a_plan(a_stage(skip_reason="the cluster is there")))


def test_durations_are_in_the_unit_that_people_say() -> None:
    text = plan_table(a_plan(a_stage(low_seconds=50 * 3600, high_seconds=60 * 3600)))
    assert "2d02h–2d12h" in text
    assert "45s–2m" in plan_table(a_plan(a_stage(low_seconds=45, high_seconds=120)))


def test_a_stage_that_holds_nothing_costs_nothing_and_is_not_unknown() -> None:
    zero = Decimal(0)
    free = a_stage(id="capacity", nodes=(), usd_per_hour=zero, usd_low=zero, usd_high=zero)
    lines = plan_table(a_plan(free, a_stage())).splitlines()
    assert lines[1].split() == ["capacity", "job", "3d–4d", "–", "–"]
    assert "peak    $11.72/h" in lines
    alone = plan_table(a_plan(free, total_low=zero, total_high=zero)).splitlines()
    assert "total   3d–4d, $0.00" in alone
    unknown = a_stage(usd_per_hour=None, usd_low=None, usd_high=None)
    beside = plan_table(a_plan(free, unknown, total_low=zero, total_high=zero))
    assert "total   3d–4d, ?\n" in beside
    assert "peak" not in beside


def test_a_stage_of_which_a_part_has_no_price_says_at_least() -> None:
    (_, line, *_) = plan_table(a_plan(a_stage(unpriced=("FSx",)), unpriced=("FSx",))).splitlines()
    assert "≥ $11.72  $843.84–1,125.12 + ?" in line


def test_a_simulated_cost_says_so() -> None:
    assert "(simulated)" in plan_table(a_plan(a_stage(), is_cost_simulated=True))


def test_json_keeps_money_exact_and_the_unknown_null() -> None:
    document = json.loads(plan_json(a_plan(a_stage(usd_low=None))))
    assert document["schema"] == "eksml-plan/1"
    assert document["stages"][0]["usd_per_hour"] == "11.72"
    assert document["stages"][0]["usd_low"] is None
    assert document["notes"] == []


def test_json_has_the_sentences_below_the_table_and_no_endless_decimals() -> None:
    third = Decimal(1) / 3
    rate = Rate(name="disk", usd_per_hour=third, as_of=date(2026, 9, 24))
    document = json.loads(plan_json(a_plan(a_stage(usd_low=third, rates=(rate,))), ["Zone a was chosen."]))
    assert document["notes"] == ["Zone a was chosen."]
    assert document["stages"][0]["usd_low"] == "0.333333"
    assert document["stages"][0]["rates"][0] == {
        "name": "disk",
        "holding": "",
        "usd_per_hour": "0.333333",
        "source": "",
        "as_of": "2026-09-24",
        "resource": "",
        "nodes": 0,
        "instance_type": "",
    }

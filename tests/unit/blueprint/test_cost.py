"""The launch plan: nodes from requests, prices by region, honest about what is not known."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from actions.base.files import shipped_blueprints
from actions.blueprint.catalogue import load_blueprint
from actions.blueprint.launch_plan import LaunchPlan, plan_of, plan_table
from actions.blueprint.parameters import bind
from actions.fleet.prices import Price, PriceBook
from actions.run.limits.at_launch import launch_notes
from actions.run.state.records import Limits
from tests.unit.blueprint.builders import a_blueprint

PRICES = PriceBook({("g5.12xlarge", "us-west-2", "on-demand"): Price(Decimal("5.5"), "test", None)})


def test_a_stage_costs_what_it_holds_and_what_its_pods_need(tmp_path: Path) -> None:
    blueprint = load_blueprint(a_blueprint(tmp_path / "b"))
    # three GPUs of a pod leave no room for a second pod on a node of four; the region is not a parameter here
    work = plan_of(blueprint, bind(blueprint, {}), PriceBook({})).stages[1]

    assert work.nodes == (("g5.12xlarge", 2),)
    assert work.unpriced == ("2 × g5.12xlarge", "Secretive")
    assert (work.usd_per_hour, work.usd_low, work.usd_high) == (Decimal("0.5"), Decimal("0.5"), Decimal("1.0"))


def test_bionemo_trains_on_two_nodes_of_four_gpus() -> None:
    blueprint = load_blueprint(shipped_blueprints() / "bionemo-esm1nv")
    plan = plan_of(blueprint, bind(blueprint, {}), PriceBook.load(), day=WHILE_STANDARD)
    train = next(stage for stage in plan.stages if stage.id == "train")

    assert dict(train.nodes) == {"g5.12xlarge": 2, "m5.xlarge": 2}
    assert train.usd_low is not None
    assert 900 < train.usd_low < 1000
    assert 1300 < plan.total_high < 1400
    assert plan.unpriced == ()
    assert [item.text for item in plan.usage] == ["NAT gateway traffic, $0.045/GB"]
    assert plan.peak_usd_per_hour == train.usd_per_hour


def test_a_larger_worker_takes_a_whole_node() -> None:
    blueprint = load_blueprint(shipped_blueprints() / "bionemo-esm1nv")
    binding = bind(blueprint, {"workers": 2, "gpus_per_worker": 4})
    train = plan_of(blueprint, binding, PRICES).stages[-1]

    assert dict(train.nodes)["g5.12xlarge"] == 2


def test_memory_can_be_what_fills_a_node() -> None:
    blueprint = load_blueprint(shipped_blueprints() / "bionemo-esm1nv")
    train = plan_of(blueprint, bind(blueprint, {"worker_memory_gib": 100}), PRICES).stages[-1]

    assert dict(train.nodes)["g5.12xlarge"] == 8


def test_sixteen_gpus_of_an_existing_cluster_are_not_free() -> None:
    """Their holding counts, although no pod of the job's own names an instance type; core nodes and the rest do not."""
    blueprint = load_blueprint(shipped_blueprints() / "nemo-gpt3-5b")
    plan = plan_of(blueprint, bind(blueprint, {}, existing_cluster=True), PriceBook.usual())
    assert plan.is_into_cluster
    (train,) = (stage for stage in plan.stages if stage.id == "train")
    assert [(rate.nodes, rate.instance_type, rate.holding) for rate in train.rates if rate.instance_type] == [
        (2, "p4de.24xlarge", "")
    ]
    assert plan.peak_usd_per_hour
    assert "for the nodes that its pods take" in plan_table(plan)


def test_accelerators_of_an_existing_cluster_whose_type_nobody_names_have_no_known_price(tmp_path: Path) -> None:
    folder = a_blueprint(tmp_path / "b")
    job = folder / "manifests" / "job.yaml"
    lines = job.read_text().splitlines(keepends=True)
    job.write_text("".join(line for line in lines if "instance-type" not in line and "nodeSelector" not in line))
    blueprint = load_blueprint(folder)
    plan = plan_of(blueprint, bind(blueprint, {}, existing_cluster=True), PRICES)
    assert plan.unpriced == ("the nodes of 6 × nvidia.com/gpu",)
    assert (plan.cost_text, plan.peak_usd_per_hour) == ("?", None)
    assert plan_of(blueprint, bind(blueprint, {}), PRICES).unpriced == ("Secretive",)
    notes = launch_notes(Limits(budget_usd="100"), plan, blueprint, now=datetime(2026, 3, 22, tzinfo=UTC))
    assert "The budget counts nodes that are started for the run, and not those that are there." in notes
    assert not any("never reached" in note for note in notes)


def test_an_existing_cluster_costs_what_its_own_region_asks() -> None:
    blueprint = load_blueprint(shipped_blueprints() / "bionemo-esm1nv")
    binding = bind(blueprint, {"region": "us-east-1"}, existing_cluster=True)

    assert "2 × g5.12xlarge" in plan_of(blueprint, binding, PRICES).unpriced
    assert "2 × g5.12xlarge" not in plan_of(blueprint, binding, PRICES, region="us-west-2").unpriced


def test_an_existing_cluster_costs_only_the_nodes_of_its_pods() -> None:
    blueprint = load_blueprint(shipped_blueprints() / "bionemo-esm1nv")
    plan = plan_of(blueprint, bind(blueprint, {}, existing_cluster=True), PRICES)

    skipped = [stage.id for stage in plan.stages if stage.is_skipped]
    assert skipped == [
        "capacity",
        "network",
        "provision",
        "filesystem",
        "volumes",
        "tensorboard",
        "exporters",
        "sample",
    ]
    assert plan.stages[-1].usd_per_hour == Decimal("11.0")
    assert plan.unpriced == ("disks of 2 × g5.12xlarge, 400 GiB",)


def test_a_rehearsal_says_that_its_cost_is_simulated() -> None:
    blueprint = load_blueprint(shipped_blueprints() / "bionemo-esm1nv")
    assert plan_of(blueprint, bind(blueprint, {}, preset="rehearsal"), PRICES).is_cost_simulated


WHILE_STANDARD = date(2026, 3, 22)
SINCE_EXTENDED = date(2026, 3, 23)


def plan(blueprint_id: str, day: date = WHILE_STANDARD, **given: Any) -> LaunchPlan:
    blueprint = load_blueprint(shipped_blueprints() / blueprint_id)
    return plan_of(blueprint, bind(blueprint, given), PriceBook.load(), day=day)


def rates(found: LaunchPlan) -> dict[str, Decimal | None]:
    return {rate.name: rate.usd_per_hour for rate in found.rates}


@pytest.mark.parametrize(
    ("blueprint_id", "given", "name", "hourly"),
    [
        ("nemo-gpt3-5b", {"instance_type": "p5.48xlarge"}, "2 × p5.48xlarge", "110.08"),
        (
            "nemo-gpt3-5b",
            {
                "instance_type": "p5.48xlarge",
                "capacity_type": "CAPACITY_BLOCK",
                "capacity_reservation_id": "cr-0a1b2c3d4e5f67890",
            },
            "2 × p5.48xlarge, capacity-block",
            "83.056",
        ),
        (
            "llama2-trn1-ray",
            {"capacity_type": "CAPACITY_BLOCK", "capacity_reservation_id": "cr-0a1b2c3d4e5f67890"},
            "2 × trn1.32xlarge, capacity-block",
            "19.064",
        ),
        ("bionemo-esm1nv", {"capacity_type": "spot"}, "2 × g5.12xlarge, spot", None),
    ],
)
def test_nodes_cost_what_their_market_asks(
    blueprint_id: str, given: dict[str, Any], name: str, hourly: str | None
) -> None:
    assert rates(plan(blueprint_id, **given))[name] == (None if hourly is None else Decimal(hourly))


def test_a_spot_node_without_a_price_makes_totals_and_peak_lower_bounds() -> None:
    text = plan_table(plan("bionemo-esm1nv", capacity_type="spot"))

    assert "peak    ≥ $" in text
    assert " + ?" in text
    assert "not included, as no price is known: 2 × g5.12xlarge, spot" in text


def test_a_region_without_prices_has_no_small_peak_for_large_nodes() -> None:
    text = plan_table(plan("llama2-trn1-ray", region="us-east-2", capacity_type="CAPACITY_BLOCK"))

    assert "2 × trn1.32xlarge" in text
    assert "peak    ≥ " in text
    assert next(line for line in text.splitlines() if line.startswith("train ")).count("≥ $") == 1


@pytest.mark.parametrize(
    ("day", "name", "hourly"),
    [
        (WHILE_STANDARD, "EKS control plane 1.32, standard support", "0.10"),
        (SINCE_EXTENDED, "EKS control plane 1.32, extended support", "0.60"),
    ],
)
def test_a_control_plane_costs_what_the_support_of_its_version_does(day: date, name: str, hourly: str) -> None:
    assert rates(plan("bionemo-esm1nv", eks_version="1.32", day=day))[name] == Decimal(hourly)


@pytest.mark.parametrize(("throughput", "month"), [(125, "348"), (250, "504"), (500, "816"), (1000, "1440")])
def test_a_file_system_costs_what_its_throughput_does(throughput: int, month: str) -> None:
    hourly = rates(plan("bionemo-esm1nv", fsx_throughput=throughput))["FSx for Lustre, 2400 GiB"]
    assert hourly is not None
    assert round(hourly * 730, 6) == Decimal(month)


def test_disks_gateway_and_address_are_in_the_sum() -> None:
    found = rates(plan("bionemo-esm1nv"))
    assert found["NAT gateway with its public IPv4 address"] == Decimal("0.050")
    assert found["disks of 2 × g5.12xlarge, 400 GiB"] == Decimal("0.08") * 400 / 730


def test_each_price_of_a_plan_has_its_source_and_date() -> None:
    text = plan_table(plan("bionemo-esm1nv"))
    line = next(line for line in text.splitlines() if line.startswith("2 × g5.12xlarge"))
    assert line.split() == ["2", "×", "g5.12xlarge", "11.344", "tsaol/aws-gpu", "77fcd9fe", "2026-01-21"]
    assert all(rate.source for rate in plan("bionemo-esm1nv").rates)

"""The launch plan: nodes from requests, prices by region, honest about what is not known."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

from actions.base.files import shipped_blueprints
from actions.blueprint.catalogue import load_blueprint
from actions.blueprint.launch_plan import plan_of
from actions.blueprint.parameters import bind
from actions.fleet.instance_types import Price, PriceBook
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
    plan = plan_of(blueprint, bind(blueprint, {}), PriceBook.load())
    train = next(stage for stage in plan.stages if stage.id == "train")

    assert dict(train.nodes) == {"g5.12xlarge": 2, "m5.xlarge": 2}
    assert train.usd_low is not None
    assert 800 < train.usd_low < 900
    assert 1100 < plan.total_high < 1300
    assert plan.unpriced == ("NAT gateway without traffic", "FSx for Lustre, 2400 GiB")
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


def test_an_existing_cluster_costs_only_what_the_run_adds() -> None:
    blueprint = load_blueprint(shipped_blueprints() / "bionemo-esm1nv")
    plan = plan_of(blueprint, bind(blueprint, {}, existing_cluster=True), PRICES)

    skipped = [stage.id for stage in plan.stages if stage.is_skipped]
    assert skipped == ["capacity", "network", "provision", "filesystem", "volumes", "sample"]
    assert plan.stages[-1].usd_per_hour == Decimal("11.0")
    assert plan.unpriced == ()


def test_a_rehearsal_says_that_its_cost_is_simulated() -> None:
    blueprint = load_blueprint(shipped_blueprints() / "bionemo-esm1nv")
    assert plan_of(blueprint, bind(blueprint, {}, preset="rehearsal"), PRICES).is_cost_simulated

"""Sums of prices that say what they leave out."""

from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from actions.cluster.state.pod_index import PodIndex
from actions.cluster.state.pod_requests import resources_of
from actions.fleet.cost import CostModel, CostSum, total_of
from actions.fleet.facts import NodeUsage, PodFacts
from tests.unit.fleet.builders import a_node, asking

MODEL = CostModel.load(region="us-west-2")


def test_a_total_counts_what_it_leaves_out() -> None:
    nodes = [
        a_node("a", "p5.48xlarge"),
        a_node("b", "m5.xlarge"),
        a_node("c", "zz9.plural"),
        a_node("d", capacity_type="spot"),
    ]
    assert MODEL.fleet_cost(nodes, {}).hourly.text == "≥ $55.23/h"


def test_a_fleet_without_known_prices_has_no_total() -> None:
    cost = MODEL.fleet_cost([a_node("a", "zz9.plural"), a_node("b", "zz9.plural")], {})
    assert (cost.hourly.text, cost.hourly.monthly_text) == ("?", "?")


def test_no_nodes_cost_nothing() -> None:
    cost = MODEL.fleet_cost([], {})
    assert (cost.hourly.text, cost.hourly.monthly_text, cost.idle_text) == ("$0.00/h", "$0.00/month", "")


def test_a_month_has_730_hours() -> None:
    assert MODEL.fleet_cost([a_node(instance_type="m5.xlarge")], {}).usd_per_month == Decimal("140.160")


def test_a_month_that_leaves_nodes_out_says_at_least() -> None:
    cost = MODEL.fleet_cost([a_node("a", "m5.xlarge"), a_node("b", "zz9.plural")], {})
    assert cost.hourly.monthly_text == "≥ $140.16/month"


def test_idle_is_the_share_of_the_price_that_is_not_requested() -> None:
    node = a_node(gpu=4)
    cost = MODEL.node_cost(node, asking(gpu=3))
    assert (cost.accelerators, cost.idle_accelerators) == (4, 1)
    assert cost.idle_usd_per_hour == Decimal("5.672") / 4


@pytest.mark.parametrize(
    ("instance_type", "devices", "cores", "asked", "idle"),
    [("trn2.48xlarge", 16, 64, 32, 8), ("trn2.48xlarge", 16, 128, 64, 8), ("inf2.48xlarge", 12, 24, 24, 0),
     ("inf1.24xlarge", 16, 64, 1, 15)],
)  # fmt: skip
def test_neuron_cores_are_devices_of_their_node(
    instance_type: str, devices: int, cores: int, asked: int, idle: int
) -> None:
    node = a_node(instance_type=instance_type)
    node = replace(node, allocatable=replace(node.allocatable, neuron=devices, neuron_cores=cores))
    index = PodIndex()
    for number in range(asked):
        pod = PodFacts(f"u{number}", "default", f"p{number}", node=node.name, phase="Running")
        index.change(pod.key, None, replace(pod, requests=resources_of({"aws.amazon.com/neuroncore": "1"})))
    index.update_totals()
    cost = MODEL.node_cost(node, index.usage[node.name])
    assert (cost.accelerators, cost.idle_accelerators) == (devices, idle)


def test_a_node_without_accelerators_is_never_idle() -> None:
    assert MODEL.node_cost(a_node(instance_type="m5.xlarge")).idle_usd_per_hour == 0


def test_gpus_that_the_device_plugin_does_not_offer_are_idle() -> None:
    assert MODEL.node_cost(a_node(gpu=0)).idle_accelerators == 4


def test_more_requests_than_devices_are_not_negative_idleness() -> None:
    assert MODEL.node_cost(a_node(gpu=4), asking(gpu=9)).idle_usd_per_hour == 0


def test_neuron_devices_idle_like_gpus() -> None:
    node = a_node(instance_type="trn1.32xlarge", neuron=16)
    fleet = MODEL.fleet_cost([node], {node.name: asking(neuron=8)})
    assert fleet.idle_text == "$10.75/h idle (8 of 16 accelerators)"


def test_idle_accelerators_without_a_price_are_counted() -> None:
    priced, unpriced = a_node("a", gpu=4), a_node("b", gpu=4, capacity_type="spot")
    cost = MODEL.fleet_cost([priced, unpriced], {})
    assert cost.idle_text == "≥ $5.67/h idle (8 of 8 accelerators)"
    assert MODEL.fleet_cost([unpriced], {}).idle_text == "? idle (4 of 4 accelerators)"


def test_an_unpriced_node_that_is_all_busy_has_a_known_idle_cost() -> None:
    node = a_node(gpu=4, capacity_type="spot")
    assert MODEL.fleet_cost([node], {node.name: asking(gpu=4)}).idle_text == "all 4 accelerators in use"


def test_the_region_of_the_node_goes_before_that_of_the_cluster() -> None:
    assert MODEL.node_cost(a_node(region="eu-west-1")).price is None
    assert MODEL.node_cost(a_node(region="")).price is not None


@given(
    st.lists(st.tuples(st.sampled_from(["g5.12xlarge", "m5.xlarge", "zz9.plural"]), st.integers(0, 12)), max_size=20)
)
def test_idle_is_between_nothing_and_the_whole_price(fleet: list[tuple[str, int]]) -> None:
    nodes = [a_node(f"n{index}", kind) for index, (kind, _) in enumerate(fleet)]
    usage: dict[str, NodeUsage] = {f"n{index}": asking(gpu=gpu) for index, (_, gpu) in enumerate(fleet)}
    cost = MODEL.fleet_cost(nodes, usage)
    assert 0 <= cost.idle_usd_per_hour <= cost.usd_per_hour
    assert cost.unpriced == sum(kind == "zz9.plural" for kind, _ in fleet)


@pytest.mark.parametrize("count", [1, 3, 5000])
def test_cents_do_not_drift_with_the_number_of_nodes(count: int) -> None:
    nodes = [a_node(f"n{index}", "m5.xlarge") for index in range(count)]
    assert MODEL.fleet_cost(nodes, {}).usd_per_hour == Decimal("0.192") * count


def test_a_node_that_is_taken_out_of_a_running_sum_leaves_nothing_behind() -> None:
    idle = MODEL.node_cost(a_node("a", "inf2.24xlarge"), asking(neuron=1))
    others = [MODEL.node_cost(a_node("b", "g5.12xlarge", gpu=4)), MODEL.node_cost(a_node("c", "zz9.plural"))]
    found = CostSum()
    for cost in (idle, *others, idle):
        found.add(cost)
    found.drop(idle)
    found.drop(idle)
    assert found.total() == total_of(others)

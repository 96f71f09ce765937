"""`eksml-tui nodes`: the table and the JSON."""

from __future__ import annotations

import json
from typing import Any

import pytest

from actions.fleet.cost import CostModel
from actions.fleet.facts import NodeFacts, NodeUsage
from actions.fleet.node_report import bar_of, node_lines, nodes_json, nodes_table
from actions.fleet.quantity import format_bytes, format_cpu, size_text
from tests.unit.fleet.builders import a_node, asking

MODEL = CostModel.load()
NODES = [
    a_node("core-1", "m5.xlarge"),
    a_node("gpu-1", gpu=4, efa=1, taints=("nvidia.com/gpu=true:NoSchedule",)),
    a_node("gpu-2", gpu=4, efa=1, is_ready=False, capacity_type="spot"),
]
USAGE = {"gpu-1": asking(gpu=3, cpu_milli=12000, pods=5), "core-1": asking(cpu_milli=1250, pods=11)}


def document(nodes: list[NodeFacts], usage: dict[str, NodeUsage]) -> dict[str, Any]:
    parsed: dict[str, Any] = json.loads(nodes_json(node_lines(nodes, usage, MODEL), region="us-west-2"))
    return parsed


def row_of(name: str) -> list[str]:
    return next(
        line.split() for line in nodes_table(node_lines(NODES, USAGE, MODEL)).splitlines() if line.startswith(name)
    )


def test_the_summary_counts_nodes_pods_and_money() -> None:
    first, second = nodes_table(node_lines(NODES, USAGE, MODEL)).splitlines()[:2]
    assert first == "3 nodes (1 not ready), 16 pods | ≥ $5.86/h | ≥ $4,280.72/month"
    assert second == "≥ $1.42/h idle (5 of 8 accelerators)"


def test_each_resource_has_a_bar_and_those_that_no_node_has_are_left_out() -> None:
    lines = nodes_table(node_lines(NODES, USAGE, MODEL)).splitlines()
    assert [line.split()[0] for line in lines[2:6]] == ["cpu", "memory", "gpu", "efa"]
    gpu = lines[4].split()
    assert gpu[1:3] == ["3/8", "37.5%"]
    assert gpu[3] == bar_of(3, 8)


def test_a_row_shows_requests_price_and_state() -> None:
    row = row_of("gpu-1")
    assert row[1:5] == ["g5.12xlarge", "us-west-2a", "on-demand", "pool"]
    assert row[5:] == ["5/737", "12/47.8", "0/186Gi", "3/4", "0/1", "5.6720", "Ready"]


def test_an_unknown_price_is_a_question_mark() -> None:
    assert row_of("gpu-2")[-2:] == ["?", "NotReady"]


def test_a_resource_that_a_node_lacks_is_a_dash() -> None:
    assert row_of("core-1")[8:10] == ["-", "-"]


def test_accelerated_nodes_come_first() -> None:
    table = nodes_table(node_lines(NODES, USAGE, MODEL))
    assert table.index("gpu-1") < table.index("core-1")


def test_the_table_names_the_sources_of_its_prices() -> None:
    assert "Prices: tsaol/aws-gpu 77fcd9fe, 2026-01-21" in nodes_table(node_lines(NODES, USAGE, MODEL))


def test_no_nodes_is_said_in_words() -> None:
    assert nodes_table([]) == "No nodes.\n"


@pytest.mark.parametrize(
    ("node", "state"),
    [
        (a_node(), "Ready"),
        (a_node(is_schedulable=False), "Ready,Cordoned"),
        (a_node(is_ready=False, is_schedulable=False), "NotReady,Cordoned"),
        (a_node(taints=("karpenter.sh/disrupted:NoSchedule",)), "Ready,Disrupted"),
    ],
)
def test_the_state_says_what_keeps_pods_away(node: NodeFacts, state: str) -> None:
    assert document([node], {})["nodes"][0]["state"] == state


def test_json_has_the_documented_keys() -> None:
    parsed = document(NODES, USAGE)
    assert list(parsed) == ["schema", "region", "summary", "nodes"]
    assert (parsed["schema"], parsed["region"]) == ("eksml-nodes/1", "us-west-2")
    gpu = parsed["nodes"][0]
    assert gpu["price"] == {"usd_per_hour": 5.672, "source": "tsaol/aws-gpu 77fcd9fe", "as_of": "2026-01-21"}
    assert gpu["requested"] == {
        "cpu_milli": 12000,
        "memory_bytes": 0,
        "gpu": 3,
        "neuron": 0,
        "efa": 0,
        "neuron_cores": 0,
    }
    assert (gpu["idle_accelerators"], gpu["idle_usd_per_hour"], gpu["created_at"]) == (1, 1.418, "2025-11-20T00:53:20Z")


def test_json_says_null_for_what_is_unknown() -> None:
    parsed = document([a_node("a", "zz9.plural", gpu=4)], {})
    assert parsed["nodes"][0]["price"] is None
    assert parsed["nodes"][0]["idle_usd_per_hour"] is None
    summary = parsed["summary"]
    assert [summary[key] for key in ("usd_per_hour", "usd_per_month", "idle_usd_per_hour", "unpriced")] == [
        None
    ] * 3 + [1]


def test_json_of_no_nodes_is_a_zero_that_is_known() -> None:
    summary = document([], {})["summary"]
    assert (summary["nodes"], summary["usd_per_hour"], summary["unpriced"]) == (0, 0.0, 0)


@pytest.mark.parametrize(
    ("milli", "text"), [(0, "0"), (250, "0.25"), (3920, "3.92"), (47810, "47.8"), (192000, "192"), (1, "0")]
)
def test_cores_are_short(milli: int, text: str) -> None:
    assert format_cpu(milli) == text


@pytest.mark.parametrize(
    ("size_bytes", "text"),
    [(0, "0"), (999, "999"), (1 << 20, "1Mi"), (1000 << 20, "0.98Gi"), (15_700_000_000, "14.6Gi"), (2 << 40, "2Ti")],
)
def test_bytes_are_short(size_bytes: int, text: str) -> None:
    assert format_bytes(size_bytes) == text


def test_a_size_in_a_sentence_has_the_digits_of_the_tables() -> None:
    assert [size_text(size) for size in (0, 8, 128 << 20, 15_700_000_000)] == ["0 B", "8 B", "128 MiB", "14.6 GiB"]


def test_a_bar_is_never_empty_where_something_is_requested() -> None:
    assert bar_of(1, 10**9, 4) == "█░░░"
    assert bar_of(9, 3, 4) == "████"
    assert bar_of(0, 0, 4) == "░░░░"

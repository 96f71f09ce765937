"""The doctor's sentence on room for pods: a table of cases over plain documents."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from actions.fleet.cost import CostModel
from actions.fleet.fit import PodGroup
from actions.fleet.instance_types import InstanceTable
from actions.fleet.placement import Document
from actions.fleet.prices import PriceBook
from actions.run.doctor.room import NodesAndQueues, groups_of, room_of
from actions.run.state.records import CheckResult
from tests.unit.fleet.test_fit import EIGHT, P5, TOLERANT, a_node, a_pod, a_pool, a_queue, gpus

TYPES = InstanceTable.load()
M5 = a_node("core", "m5.large")


def a_group(requests: dict[str, str] | None = None, *, count: int = 1, queue: str = "", **spec: Any) -> PodGroup:
    return PodGroup("train", a_pod(requests, **spec), count, count, queue)


def taken(count: int) -> Document:
    pod = a_pod(gpus(count)) | {"status": {"phase": "Running"}}
    pod["spec"]["nodeName"] = "one"
    return pod


MINE = {"mine": {"spec": {"clusterQueue": "all"}}}


@pytest.mark.parametrize(
    ("group", "cluster", "result", "said"),
    [
        (a_group(gpus(8)), NodesAndQueues([EIGHT]), CheckResult.PASSED, "They fit on 1 node of those that are there."),
        (a_group(), NodesAndQueues([M5]), CheckResult.PASSED, "They fit on 1 node of those that are there."),
        (
            a_group(gpus(4), nodeSelector={"node.kubernetes.io/instance-type": "g6e.12xlarge"}),
            NodesAndQueues([M5, EIGHT]),
            CheckResult.FAILED,
            "No node fits train: 2 node(s) didn't match Pod's node affinity/selector. It selects"
            " node.kubernetes.io/instance-type=g6e.12xlarge.",
        ),
        (
            a_group(gpus(8)),
            NodesAndQueues([M5]),
            CheckResult.FAILED,
            "train asks for 8 nvidia.com/gpu; none of the 1 nodes has any.",
        ),
        (
            a_group(gpus(8), count=2),
            NodesAndQueues([EIGHT]),
            CheckResult.FAILED,
            "1 of 2 pods of train have room: No node has the nvidia.com/gpu free that train asks for (1 of 1 nodes are"
            " short of it), and no nodes are being added.",
        ),
        (
            a_group(gpus(8)),
            NodesAndQueues([EIGHT], [taken(6)]),
            CheckResult.UNKNOWN,
            "No node has the nvidia.com/gpu free that train asks for (1 of 1 nodes are short of it), and no nodes are"
            " being added.",
        ),
        (
            a_group(gpus(8)),
            NodesAndQueues([M5], adds_groups=True),
            CheckResult.UNKNOWN,
            "train asks for 8 nvidia.com/gpu; none of the 1 nodes has any.",
        ),
        (
            a_group(gpus(8), **TOLERANT),
            NodesAndQueues([M5], pools=[a_pool()]),
            CheckResult.PASSED,
            f"Node pools may start 1 × {P5} for them.",
        ),
        (
            a_group(gpus(8), count=2, **TOLERANT),
            NodesAndQueues([EIGHT], pools=[a_pool()]),
            CheckResult.PASSED,
            f"They fit on 1 node of those that are there, and node pools may start 1 × {P5}.",
        ),
        (
            a_group(gpus(8), **TOLERANT),
            NodesAndQueues([M5], pools=[a_pool(limits={"nvidia.com/gpu": "4"})]),
            CheckResult.FAILED,
            'NodePool "gpu" has reached its resource limit: no node is added for train.',
        ),
        (
            a_group(gpus(8), count=2, queue="mine"),
            NodesAndQueues([EIGHT], local_queues=MINE, cluster_queues=a_queue("8")),
            CheckResult.FAILED,
            "Workload train waits in queue mine, which can never hold it: couldn't assign flavors to pod set train:"
            " insufficient quota for nvidia.com/gpu in flavor on-demand, request > maximum capacity (16 > 8).",
        ),
        (
            a_group(gpus(8), queue="other"),
            NodesAndQueues([EIGHT], local_queues=MINE),
            CheckResult.FAILED,
            "Workload train waits in queue other that is not there: LocalQueue other doesn't exist.",
        ),
        (a_group(gpus(8), queue="other"), NodesAndQueues([EIGHT]), CheckResult.PASSED, "They fit on 1 node"),
    ],
)
def test_what_the_doctor_says_of_room(group: PodGroup, cluster: NodesAndQueues, result: CheckResult, said: str) -> None:
    room = room_of([[group]], cluster, [], TYPES)
    assert (room.found.result, room.found.detail[: len(said)]) == (result, said)
    assert bool(room.found.remedy) is (result is not CheckResult.PASSED)


def test_stages_follow_each_other_so_each_may_have_the_same_nodes() -> None:
    room = room_of([[a_group(gpus(8))], [a_group(gpus(4))]], NodesAndQueues([EIGHT]), [], TYPES)
    assert (room.found.result, room.shares) == (CheckResult.PASSED, {"one": 1.0})


PRICES = PriceBook.usual()
MODEL = CostModel(PRICES, TYPES, region="us-west-2")
HOURLY = Decimal("110.08")
"""Of two p5.48xlarge."""


@pytest.mark.parametrize(
    ("group", "cluster", "uses", "adds", "reached"),
    [
        (a_group(gpus(8)), NodesAndQueues([EIGHT]), HOURLY / 2, 0, CheckResult.FAILED),
        (a_group(gpus(2)), NodesAndQueues([EIGHT]), HOURLY / 8, 0, CheckResult.FAILED),
        (a_group(gpus(8), count=2, **TOLERANT), NodesAndQueues([EIGHT], pools=[a_pool()]), HOURLY / 2, HOURLY / 2,
         CheckResult.PASSED),
        (a_group(gpus(8), count=2, **TOLERANT), NodesAndQueues([M5], pools=[a_pool()]), 0, HOURLY, CheckResult.PASSED),
    ],
)  # fmt: skip
def test_what_is_there_is_used_and_what_is_started_is_added(
    group: PodGroup, cluster: NodesAndQueues, uses: Decimal, adds: Decimal, reached: CheckResult
) -> None:
    room = room_of([[group]], cluster, [], TYPES)
    assert (room.uses(MODEL).usd, room.adds(PRICES, "us-west-2").usd) == (uses, adds)
    said = f"It uses {room.uses(MODEL).text} of what is there, and adds {room.adds(PRICES, 'us-west-2').text}."
    assert room.cost_text("us-west-2") == said
    assert room.budget_line().result is reached


def test_without_a_price_it_is_not_nothing() -> None:
    odd = a_node("odd", "p99.48xlarge")
    odd["status"]["allocatable"] |= gpus(8)
    room = room_of([[a_group(gpus(8))]], NodesAndQueues([odd]), [], TYPES)
    assert room.cost_text("us-west-2") == "It uses ? of what is there, and adds $0.00/h."


def test_pods_that_an_operator_makes_by_itself_leave_the_cost_open() -> None:
    room = room_of([], NodesAndQueues([EIGHT]), [], TYPES)
    assert (room.cost_text("us-west-2"), room.budget_line().result) == ("", CheckResult.UNKNOWN)


def test_an_elastic_job_needs_the_fewest_of_its_workers() -> None:
    template = {"spec": {"containers": [{"name": "pytorch", "resources": {"limits": gpus(8)}}]}}
    job = {
        "kind": "PyTorchJob",
        "metadata": {"name": "esm", "labels": {"kueue.x-k8s.io/queue-name": "mine"}},
        "spec": {
            "elasticPolicy": {"minReplicas": 1},
            "pytorchReplicaSpecs": {"Worker": {"replicas": 2, "template": template}},
        },
    }
    (group,) = groups_of([job], "default")
    assert (group.name, group.count, group.least, group.queue) == ("esm", 2, 1, "mine")
    room = room_of([[group]], NodesAndQueues([EIGHT]), [], TYPES)
    assert room.found.result is CheckResult.UNKNOWN
    assert room.found.detail.startswith("1 of 2 pods of esm have room")

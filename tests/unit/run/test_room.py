"""The doctor's sentence on room for pods: a table of cases over plain documents."""

from __future__ import annotations

from decimal import Decimal
from typing import Any
from unittest.mock import AsyncMock

import pytest

from actions.blueprint.checks import QuotaCheck
from actions.cluster.kinds import kind_of
from actions.fleet.cost import CostModel
from actions.fleet.fit import PodSet
from actions.fleet.instance_types import InstanceTable
from actions.fleet.node_amounts import allocatable_of
from actions.fleet.placement import Document
from actions.fleet.prices import PriceBook
from actions.run.checks import external
from actions.run.doctor.room import NodesAndQueues, groups_of, room_of
from actions.run.doctor.train_jobs import with_jobs_of
from actions.run.state.records import CheckResult
from actions.sandbox.controllers.aws.machines import Machine, node_document, node_status
from tests.unit.fleet.test_fit import EIGHT, ON_DEMAND, P5, STOPPED, TOLERANT, a_node, a_pod, a_pool, a_queue, gpus
from tests.unit.run.test_doctor import a_launch

TYPES = InstanceTable.load()
M5 = a_node("core", "m5.large")


def a_group(requests: dict[str, str] | None = None, *, count: int = 1, queue: str = "", **spec: Any) -> PodSet:
    return PodSet("train", a_pod(requests, **spec), count, count, queue, count)


def taken(count: int) -> Document:
    pod = a_pod(gpus(count)) | {"status": {"phase": "Running"}}
    pod["spec"]["nodeName"] = "one"
    return pod


NOT_READY = {"type": "Ready", "status": "False", "reason": "NodeClassNotFound"}
BROKEN = {"apiVersion": "karpenter.sh/v1", "kind": "NodePool"} | a_pool() | {"status": {"conditions": [NOT_READY]}}
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
            a_group(gpus(8) | {"memory": "3000Gi"}),
            NodesAndQueues([M5, EIGHT]),
            CheckResult.FAILED,
            "No node fits train: 2 Insufficient memory, 1 Insufficient nvidia.com/gpu.",
        ),
        (
            a_group(gpus(8) | {"hugepages-2Mi": "32Gi"}),
            NodesAndQueues([M5, EIGHT]),
            CheckResult.FAILED,
            "No node has the hugepages free that the pod asks for; EFA exchanges memory through them.",
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
            a_group(gpus(8), **TOLERANT),
            NodesAndQueues([M5], pools=[BROKEN]),
            CheckResult.FAILED,
            "NodePool gpu makes no node: NodeClassNotFound.",
        ),
        (
            a_group({"aws.amazon.com/neuron": "1"}),
            NodesAndQueues([M5], pools=[BROKEN]),
            CheckResult.FAILED,
            "train asks for 1 aws.amazon.com/neuron; none of the 1 nodes has any.",
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
        (
            a_group(gpus(8), queue="mine"),
            NodesAndQueues([EIGHT], local_queues=MINE, cluster_queues={"all": a_queue("8")["all"] | STOPPED}),
            CheckResult.UNKNOWN,
            "Workload train waits in queue mine that admits nothing now: ClusterQueue all is inactive.",
        ),
        (
            a_group({"memory": "5GB"}),
            NodesAndQueues([EIGHT]),
            CheckResult.FAILED,
            "What its pods request cannot be read: '5GB' is not an amount.",
        ),
    ],
)
def test_what_the_doctor_says_of_room(group: PodSet, cluster: NodesAndQueues, result: CheckResult, said: str) -> None:
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
    group: PodSet, cluster: NodesAndQueues, uses: Decimal, adds: Decimal, reached: CheckResult
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
        "apiVersion": "kubeflow.org/v1",
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


WORKER = {"spec": {"containers": [{"name": "node", "resources": {"limits": gpus(8)}}]}}
JOB_SET = {
    "replicatedJobs": [{"name": "node", "replicas": 2, "template": {"spec": {"parallelism": 3, "template": WORKER}}}]
}


@pytest.mark.parametrize(
    ("kind", "spec", "counts"),
    [
        ("JobSet", JOB_SET, [(6, 6)]),
        (
            "Job.batch.volcano.sh",
            {"tasks": [{"name": "worker", "replicas": 4, "minAvailable": 2, "template": WORKER}]},
            [(4, 2)],
        ),
        ("LeaderWorkerSet", {"replicas": 2, "leaderWorkerTemplate": {"size": 4, "workerTemplate": WORKER}}, [(8, 4)]),
        ("TFJob", {"tfReplicaSpecs": {"Worker": {"replicas": 2, "template": WORKER}}}, [(2, 2)]),
        ("Job", {"parallelism": 2, "template": WORKER}, [(2, 1)]),
    ],
)
def test_each_kind_has_a_number_of_pods_of_its_own(kind: str, spec: Document, counts: list[tuple[int, int]]) -> None:
    row = kind_of(kind)
    job = {"apiVersion": row.api_version, "kind": row.kind, "metadata": {"name": "train"}, "spec": spec}
    groups = groups_of([job], "default")
    assert [(group.count, group.least) for group in groups] == counts


@pytest.mark.parametrize(
    ("kind", "spec", "annotation", "admitted"),
    [
        ("Job", {"parallelism": 4, "template": WORKER}, "", 4),
        ("Job", {"parallelism": 4, "template": WORKER}, "2", 2),
        ("LeaderWorkerSet", {"replicas": 2, "leaderWorkerTemplate": {"size": 4, "workerTemplate": WORKER}}, "", 4),
        ("Deployment", {"replicas": 3, "template": WORKER}, "", 1),
    ],
)
def test_a_queue_admits_all_pods_of_a_job_at_once(kind: str, spec: Document, annotation: str, admitted: int) -> None:
    row = kind_of(kind)
    metadata = {"name": "train", "annotations": {"kueue.x-k8s.io/job-min-parallelism": annotation}}
    job = {"apiVersion": row.api_version, "kind": row.kind, "metadata": metadata, "spec": spec}
    (group,) = groups_of([job], "default")
    assert (group.admitted, group.job) == (admitted, f"{kind}/train")


RUNTIME = {
    "spec": {
        "mlPolicy": {"numNodes": 1},
        "template": {"spec": {"replicatedJobs": [{"name": "node", "template": {"spec": {"template": WORKER}}}]}},
    }
}
SELECTED = {"nodeSelector": {"gpu": "h100"}, "tolerations": [{"operator": "Exists"}]}


@pytest.mark.parametrize(
    "patches",
    [
        {"podTemplateOverrides": [{"targetJobs": [{"name": "node"}], "spec": SELECTED}]},
        {
            "runtimePatches": [
                {
                    "trainingRuntimeSpec": {
                        "template": {
                            "spec": {
                                "replicatedJobs": [
                                    {"name": "node", "template": {"spec": {"template": {"spec": SELECTED}}}}
                                ]
                            }
                        }
                    }
                }
            ]
        },
    ],
)
def test_the_pods_of_a_train_job_are_those_of_its_runtime(patches: Document) -> None:
    job = {
        "apiVersion": "trainer.kubeflow.org/v1alpha1",
        "kind": "TrainJob",
        "metadata": {"name": "tune"},
        "spec": {"trainer": {"numNodes": 3, "resourcesPerNode": {"limits": gpus(4)}}, **patches},
    }
    (group,) = groups_of([with_jobs_of(job, RUNTIME)], "default")
    assert (group.name, group.count) == ("tune", 3)
    assert group.pod["spec"]["containers"][0]["resources"] == {"limits": gpus(4)}
    assert {key: group.pod["spec"][key] for key in SELECTED} == SELECTED
    assert "nodeSelector" not in WORKER["spec"]


def a_quota(used: str = "0", **hard: str) -> Document:
    named = {"requests.nvidia.com/gpu": "8", **hard}
    status = {"used": {"requests.nvidia.com/gpu": used}}
    return {"metadata": {"name": "team", "namespace": "default"}, "spec": {"hard": named}, "status": status}


@pytest.mark.parametrize(
    ("count", "quota", "result", "said"),
    [
        (1, a_quota(), CheckResult.PASSED, "They fit on"),
        (2, a_quota(), CheckResult.FAILED, "The ResourceQuota team allows requests.nvidia.com/gpu 8: 16 is asked for."),
        (
            1,
            a_quota("4"),
            CheckResult.UNKNOWN,
            "The ResourceQuota team allows requests.nvidia.com/gpu 8 with 4 in use: 8",
        ),
        (1, a_quota(pods="0"), CheckResult.FAILED, "The ResourceQuota team allows pods 0: 1 is asked for."),
    ],
)
def test_all_pods_of_a_stage_together_are_within_the_quota(
    count: int, quota: Document, result: CheckResult, said: str
) -> None:
    nodes = [EIGHT, a_node("two", P5) | {"status": EIGHT["status"]}]
    cluster = NodesAndQueues(nodes, quotas=[quota])
    room = room_of([[a_group(gpus(8), count=count)]], cluster, [], TYPES)
    assert (room.found.result, room.found.detail[: len(said)]) == (result, said)
    unread = room_of([[a_group(gpus(8))]], NodesAndQueues(nodes, quotas=None), [], TYPES)
    assert unread.found.detail == "They fit on 1 node of those that are there. ResourceQuotas may not be read."


def as_its_seed_makes_it(kind: str, number: int) -> Document:
    """A node of a managed node group with its devices, as the plugins of its image tell of them."""
    found = TYPES.find(kind)
    assert found is not None
    labels = {"accelerator": "nvidia", "instance-type": kind.replace("xlarge", "xl").replace(".", "-")} | ON_DEMAND
    taints = (("nvidia.com/gpu", "true", "NoSchedule"),) if found.gpus else ()
    name = f"{kind}-{number}"
    machine = Machine(name, "i-1", "10.0.0.1", found, "us-west-2a", labels, taints, True, True)
    status = node_status(machine, is_ready=True, now="2026-11-29T08:00:00Z")
    status["allocatable"] = allocatable_of(found, has_devices=True, has_efa=True, is_managed=True)
    return {"kind": "Node", "status": status} | node_document(machine, "us-west-2")


@pytest.mark.parametrize(
    ("name", "nodes"),
    [
        ("bionemo-esm1nv", {"g5.12xlarge": 2}),
        ("nemo-gpt3-5b", {"p4de.24xlarge": 2}),
        ("efa-nccl-tests", {"g5.8xlarge": 2}),
        ("llama2-trn1-mpi", {"trn1.32xlarge": 4}),
        ("llama2-trn1-ray", {"trn1.32xlarge": 2}),
    ],
)
def test_the_five_fit_on_the_nodes_of_their_seeds_and_on_no_fewer(name: str, nodes: dict[str, int]) -> None:
    launch = a_launch(name, existing_cluster=True)
    there = [as_its_seed_makes_it(kind, number) for kind, count in nodes.items() for number in range(count)]
    there += [as_its_seed_makes_it("m5.2xlarge", number) for number in range(2)]
    stages = [groups for stage in launch.stages if (groups := groups_of(launch.objects(stage), "default"))]
    pools = [one for stage in launch.stages for one in launch.objects(stage) if one["kind"] == "NodePool"]
    room = room_of(stages, NodesAndQueues(there), pools, TYPES)
    assert room.found.result is CheckResult.PASSED, room.found
    assert set(room.started) <= {"m5.4xlarge"}, "the accelerators are there, the head's node may not be"
    first = next(iter(nodes))
    fewer = [one for one in there if one["metadata"]["name"] != f"{first}-0"]
    short = room_of(stages, NodesAndQueues(fewer), pools, TYPES)
    assert short.found.result is not CheckResult.PASSED or first in short.started


@pytest.mark.parametrize(
    ("used", "quota", "is_there", "result"),
    [
        (0, 200, True, CheckResult.PASSED),
        (192, 200, True, CheckResult.UNKNOWN),
        (192, 200, False, CheckResult.FAILED),
        (0, 100, True, CheckResult.FAILED),
    ],
)
async def test_a_quota_does_not_count_a_node_twice_that_is_there(
    used: int, quota: int, is_there: bool, result: CheckResult, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(external, "fetch_quota", AsyncMock(return_value=quota))
    monkeypatch.setattr(external, "fetch_use", AsyncMock(return_value=used))
    check = QuotaCheck(title="P quota", code="L-417A185B", amount="192", existing_cluster_only=is_there)
    found = await external.check_quota(check, region="us-west-2", wanted=192)
    assert found.result is result

"""Room for pods: tables of cases over plain documents."""

from __future__ import annotations

from typing import Any

import pytest

from actions.fleet.fit import Fit, PodSet, fit_of, kueue_pause, kueue_refusal, quota_refusal
from actions.fleet.instance_types import InstanceTable
from actions.fleet.placement import Document, space_of, spaces_of

TYPES = InstanceTable.load()
P5 = "p5.48xlarge"
ON_DEMAND = {"eks.amazonaws.com/capacityType": "ON_DEMAND"}
TAINT = {"key": "nvidia.com/gpu", "value": "true", "effect": "NoSchedule"}
TOLERATION = {"key": "nvidia.com/gpu", "operator": "Exists"}


def a_node(name: str, kind: str = P5, *, taints: tuple[Document, ...] = ()) -> Document:
    allocatable = {"cpu": "190", "memory": "2000Gi", "pods": "100"}
    return {
        "kind": "Node",
        "metadata": {"name": name, "labels": {"node.kubernetes.io/instance-type": kind} | ON_DEMAND},
        "spec": {"taints": list(taints)},
        "status": {"allocatable": allocatable, "conditions": [{"type": "Ready", "status": "True"}]},
    }


def gpus(count: int, **more: str) -> dict[str, str]:
    return {"nvidia.com/gpu": str(count), **more}


def a_pod(requests: dict[str, str] | None = None, **spec: Any) -> Document:
    container = {"name": "main", "resources": {"requests": requests or {}}}
    return {
        "kind": "Pod",
        "metadata": {"name": "train", "namespace": "default"},
        "spec": {"containers": [container], **spec},
    }


def with_devices(node: Document, devices: dict[str, str]) -> Document:
    node["status"]["allocatable"] |= devices
    return node


def a_pool(name: str = "gpu", *, types: tuple[str, ...] = (P5,), **spec: Any) -> Document:
    requirement = {"key": "node.kubernetes.io/instance-type", "operator": "In", "values": list(types)}
    template = {"spec": {"requirements": [requirement], "taints": [TAINT]}}
    return {"metadata": {"name": name}, "spec": {"template": template, **spec}, "status": {}}


def placed(pod: Document, nodes: list[Document], *, count: int = 1, pools: tuple[Document, ...] = ()) -> Fit:
    group = PodSet("train", pod, count, count)
    return fit_of([group], [space_of(node) for node in nodes], pools, list(TYPES))


EIGHT = with_devices(a_node("one"), gpus(8, **{"hugepages-2Mi": "21122Mi", "vpc.amazonaws.com/efa": "32"}))
ON_P5 = {"nodeSelector": {"node.kubernetes.io/instance-type": P5}}


@pytest.mark.parametrize(
    ("pod", "nodes", "count", "reason"),
    [
        (a_pod(gpus(8)), [EIGHT], 1, ""),
        (a_pod(gpus(4)), [EIGHT], 2, ""),
        (a_pod(gpus(8)), [EIGHT], 2, "Insufficient nvidia.com/gpu"),
        (a_pod(gpus(9)), [EIGHT], 1, "Insufficient nvidia.com/gpu"),
        (a_pod({"aws.amazon.com/neuron": "1"}), [EIGHT], 1, "Insufficient aws.amazon.com/neuron"),
        (a_pod({"vpc.amazonaws.com/efa": "32"}), [EIGHT], 1, ""),
        (a_pod({"vpc.amazonaws.com/efa": "33"}), [EIGHT], 1, "Insufficient vpc.amazonaws.com/efa"),
        (a_pod({"hugepages-2Mi": "5120Mi"}), [EIGHT], 4, ""),
        (a_pod({"hugepages-2Mi": "5120Mi"}), [EIGHT], 5, "Insufficient hugepages-2Mi"),
        (a_pod({"cpu": "200"}), [EIGHT], 1, "Insufficient cpu"),
        (a_pod({"memory": "2001Gi"}), [EIGHT], 1, "Insufficient memory"),
        (a_pod(**ON_P5), [EIGHT], 1, ""),
        (a_pod(**ON_P5), [a_node("m5", "m5.large")], 1, "didn't match Pod's node affinity/selector"),
        (a_pod(), [a_node("tainted", taints=(TAINT,))], 1, "untolerated taint {nvidia.com/gpu: true}"),
        (a_pod(tolerations=[TOLERATION]), [a_node("tainted", taints=(TAINT,))], 1, ""),
        (a_pod(), [], 1, "no nodes available to schedule pods"),
    ],
)
def test_pods_on_the_nodes_that_are_there(pod: Document, nodes: list[Document], count: int, reason: str) -> None:
    found = placed(pod, nodes, count=count)
    assert reason in found.refused.get("train", "")
    assert (found.placed["train"] == count) is not bool(reason)
    assert not found.started


def test_what_others_have_taken_is_not_free() -> None:
    other = a_pod(gpus(6)) | {"status": {"phase": "Running"}}
    other["spec"]["nodeName"] = "one"
    group = PodSet("train", a_pod(gpus(4)))
    assert fit_of([group], spaces_of([EIGHT], [other])).placed == {"train": 0}
    done = other | {"status": {"phase": "Succeeded"}}
    assert fit_of([group], spaces_of([EIGHT], [done])).placed == {"train": 1}


@pytest.mark.parametrize(
    ("requests", "count", "share"),
    [(gpus(8), 1, 1.0), (gpus(2), 2, 0.5), ({"cpu": "95"}, 1, 0.5), ({"cpu": "1", "memory": "500Gi"}, 2, 0.5)],
)
def test_the_part_of_a_node_is_that_of_its_accelerators_else_of_its_scarcest(
    requests: dict[str, str], count: int, share: float
) -> None:
    assert placed(a_pod(requests), [EIGHT], count=count).shares == {"one": pytest.approx(share)}


TOLERANT: dict[str, Any] = {"tolerations": [TOLERATION]}


@pytest.mark.parametrize(
    ("pod", "pool", "count", "started", "reason"),
    [
        (a_pod(gpus(8), **TOLERANT), a_pool(), 2, {P5: 2}, ""),
        (a_pod(gpus(8), **TOLERANT, **ON_P5), a_pool(), 1, {P5: 1}, ""),
        (a_pod(gpus(8), **TOLERANT, **ON_P5), a_pool(types=("g5.xlarge",)), 1, {}, "no nodes available"),
        (a_pod(gpus(8)), a_pool(), 1, {}, "no nodes available"),
        (a_pod(gpus(8), **TOLERANT), a_pool(limits={"nvidia.com/gpu": "8"}), 2, {P5: 1}, 'limits for nodepool: "gpu"'),
        (
            a_pod(gpus(8), nodeSelector={"topology.kubernetes.io/zone": "us-west-2b"}, **TOLERANT),
            a_pool(),
            1,
            {P5: 1},
            "",
        ),
    ],
)
def test_pods_on_the_nodes_that_a_pool_may_start(
    pod: Document, pool: Document, count: int, started: dict[str, int], reason: str
) -> None:
    found = placed(pod, [], count=count, pools=(pool,))
    assert found.started == started
    assert reason in found.refused.get("train", "")


def test_nodes_that_are_there_are_filled_before_a_pool_starts_any() -> None:
    found = placed(a_pod(gpus(8), **TOLERANT), [EIGHT], count=3, pools=(a_pool(),))
    assert (found.shares, found.started, found.placed) == ({"one": 1.0}, {P5: 2}, {"train": 3})


def test_what_a_pool_has_started_counts_in_its_limits() -> None:
    pool = a_pool(limits={"nvidia.com/gpu": "16"}) | {"status": {"resources": {"nvidia.com/gpu": "16"}}}
    assert "limits for nodepool" in placed(a_pod(gpus(8), **TOLERANT), [], pools=(pool,)).refused["train"]


def a_queue(quota: str, **spec: Any) -> dict[str, Document]:
    flavor = {"name": "on-demand", "resources": [{"name": "nvidia.com/gpu", "nominalQuota": quota}]}
    return {"all": {"spec": {"resourceGroups": [{"flavors": [flavor]}], **spec}}}


GPU_JOB = PodSet("train", a_pod(gpus(8)), 2, 1, "mine", 2)
MASTER = PodSet("lead", a_pod(gpus(1)), 1, 1, "mine", 1)
TO_ALL = {"mine": {"spec": {"clusterQueue": "all"}}}
TWO = {"flavors": [{"name": name, "resources": [{"name": "nvidia.com/gpu", "nominalQuota": "16"}]} for name in "ab"]}


@pytest.mark.parametrize(
    ("groups", "clusters", "reason"),
    [
        ([GPU_JOB], a_queue("16"), ""),
        ([GPU_JOB], a_queue("8"), "train: insufficient quota for nvidia.com/gpu in flavor on-demand, request > maximum"
         " capacity (16 > 8)"),
        ([GPU_JOB], a_queue("8", cohort="lab"), ""),
        ([GPU_JOB], {}, ""),
        ([MASTER, GPU_JOB], a_queue("17"), ""),
        ([MASTER, GPU_JOB], a_queue("16"), "train: insufficient quota for nvidia.com/gpu in flavor on-demand,"
         " previously considered podsets requests (1) + current podset request > maximum capacity (16 > 16)"),
        ([MASTER, GPU_JOB], {"all": {"spec": {"resourceGroups": [TWO]}}}, ""),
        ([PodSet("train", a_pod(gpus(8)), 2, 1, "mine", 1)], a_queue("8"), ""),
        ([PodSet("train", a_pod({"aws.amazon.com/neuron": "1"}), queue="mine")], a_queue("8"),
         "train: resource aws.amazon.com/neuron unavailable in ClusterQueue"),
        ([PodSet("train", a_pod({"cpu": "1"}), queue="mine")], a_queue("8"), ""),
    ],
    ids=["as many", "fewer", "borrowed", "not seen", "together", "too few together", "two flavors", "in part",
         "not covered", "may be left out"],
)  # fmt: skip
def test_a_queue_that_can_never_admit_it(groups: list[PodSet], clusters: dict[str, Document], reason: str) -> None:
    words = f"couldn't assign flavors to pod set {reason}" if reason else ""
    assert kueue_refusal(groups, TO_ALL, clusters) == words
    assert kueue_refusal(groups, {}, clusters) == "LocalQueue mine doesn't exist"


STOPPED = {"status": {"conditions": [{"type": "Active", "status": "False", "reason": "Stopped"}]}}


def test_a_queue_that_admits_nothing_now() -> None:
    assert kueue_pause(GPU_JOB, TO_ALL, a_queue("8")) == ""
    assert kueue_pause(GPU_JOB, TO_ALL, {"all": STOPPED}) == "ClusterQueue all is inactive"
    assert kueue_pause(GPU_JOB, {"mine": TO_ALL["mine"] | STOPPED}, {}) == "LocalQueue mine is inactive"


def of_class(operator: str, *values: str) -> Document:
    return {"scopeSelector": {"matchExpressions": [scope("PriorityClass", operator, *values)]}}


def scope(name: str, operator: str = "Exists", *values: str) -> Document:
    return {"scopeName": name, "operator": operator, "values": list(values)}


LARGE: Document = {"priorityClassName": "large"}
ACROSS = [{"weight": 1, "podAffinityTerm": {"topologyKey": "zone", "namespaceSelector": {}}}]
AFFINITY: Document = {"affinity": {"podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": ACROSS}}}
NEAR = [{"topologyKey": "zone"}]
HERE: Document = {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": NEAR}}}


@pytest.mark.parametrize(
    ("scopes", "counted", "others"),
    [
        ({"scopes": ["BestEffort"]}, [a_pod(), a_pod(gpus(8))], [a_pod({"cpu": "1"}), a_pod({"memory": "1"})]),
        ({"scopes": ["NotBestEffort"]}, [a_pod(resources={"limits": {"cpu": "1"}})], [a_pod(), a_pod({"cpu": "0"})]),
        ({"scopes": ["Terminating"]}, [a_pod(activeDeadlineSeconds=9)], [a_pod()]),
        (
            {"scopes": ["NotTerminating", "BestEffort"]},
            [a_pod()],
            [a_pod(activeDeadlineSeconds=9), a_pod({"cpu": "1"})],
        ),
        ({"scopes": ["PriorityClass"]}, [a_pod(**LARGE)], [a_pod()]),
        (of_class("In", "large"), [a_pod(**LARGE)], [a_pod(), a_pod(priorityClassName="small")]),
        (of_class("NotIn", "large"), [a_pod(), a_pod(priorityClassName="small")], [a_pod(**LARGE)]),
        (of_class("DoesNotExist"), [a_pod()], [a_pod(**LARGE)]),
        ({"scopes": ["CrossNamespacePodAffinity"]}, [a_pod(**AFFINITY)], [a_pod(), a_pod(**HERE)]),
        ({"scopes": ["VolumeAttributesClass"]}, [], [a_pod()]),
    ],
)
def test_a_quota_with_scopes_counts_the_pods_that_all_of_them_select(
    scopes: Document, counted: list[Document], others: list[Document]
) -> None:
    quota = {"metadata": {"name": "few", "namespace": "default"}, "spec": {"hard": {"pods": "0"}, **scopes}}
    assert all(quota_refusal([PodSet("train", pod)], [quota]).startswith("The ResourceQuota few (") for pod in counted)
    assert not any(quota_refusal([PodSet("train", pod)], [quota]) for pod in others)

"""Facts out of real documents."""

from __future__ import annotations

import copy
from typing import Any

import msgspec
import pytest

from actions.cluster.state.decode import (
    container_with_devices,
    decode_claim,
    decode_event,
    decode_node,
    decode_pod,
    workload_decoder,
)
from actions.cluster.state.pod_requests import effective_requests, parse_quantity, resources_of
from actions.fleet.facts import NOTHING, PodFacts, Resources, state_of
from tests.unit.cluster.samples import EVENT, NODE, POD, a_container, a_pod, with_conditions

GIB = 1 << 30
RESERVATION = "karpenter.k8s.aws/capacity-reservation-type"


def _pod(document: dict[str, Any]) -> PodFacts:
    return decode_pod(msgspec.json.encode(document))


def _status_of(**status: Any) -> str:
    facts = _pod(a_pod(**status))
    return facts.reason or facts.phase


def test_a_running_pod_is_read_whole() -> None:
    pod = _pod(POD)
    assert pod.key == "default/esm1nv-pretraining-worker-0"
    assert (pod.phase, pod.reason, pod.message) == ("Running", "", "")
    assert (pod.ready, pod.restarts, pod.containers) == (1, 2, ("pytorch",))
    assert pod.requests == Resources(cpu_milli=40_000, memory_bytes=160 * GIB, gpu=4, efa=1)
    assert (pod.owner_kind, pod.owner_name) == ("PyTorchJob", "esm1nv-pretraining")
    assert (pod.run, pod.stage) == ("bionemo-1", "train")
    assert pod.started_at - pod.created_at == 300.0


def test_equal_documents_give_equal_facts_that_share_their_strings() -> None:
    first, second = _pod(POD), _pod(copy.deepcopy(POD))
    assert first == second
    assert first.node is second.node


@pytest.mark.parametrize(
    ("status", "word"),
    [
        ({"phase": "Pending", "containerStatuses": []}, "Pending"),
        ({"containerStatuses": [a_container("waiting", reason="CrashLoopBackOff")]}, "CrashLoopBackOff"),
        ({"containerStatuses": [a_container("waiting", reason="ContainerCreating")]}, "ContainerCreating"),
        ({"containerStatuses": [a_container("terminated", exitCode=137, reason="OOMKilled")]}, "OOMKilled"),
        ({"containerStatuses": [a_container("terminated", exitCode=3)]}, "ExitCode:3"),
        ({"containerStatuses": [a_container("terminated", exitCode=0, signal=9)]}, "Signal:9"),
        ({"phase": "Succeeded", "containerStatuses": [a_container("terminated", reason="Completed")]}, "Completed"),
        ({"phase": "Failed", "reason": "Evicted", "containerStatuses": []}, "Evicted"),
        (
            {
                "phase": "Pending",
                "conditions": [{"type": "PodScheduled", "status": "False", "reason": "SchedulingGated"}],
                "containerStatuses": [],
                "initContainerStatuses": [],
            },
            "SchedulingGated",
        ),
        (
            {
                "phase": "Pending",
                "conditions": [{"type": "Initialized", "status": "False"}],
                "initContainerStatuses": [a_container("running", name="init-pytorch")],
            },
            "Init:0/1",
        ),
        (
            {
                "phase": "Pending",
                "conditions": [],
                "initContainerStatuses": [a_container("terminated", name="init-pytorch", exitCode=1, reason="Error")],
            },
            "Init:Error",
        ),
        (
            {
                "containerStatuses": [
                    a_container("terminated", name="sidecar", reason="Completed"),
                    a_container("running", ready=True),
                ]
            },
            "Running",
        ),
    ],
)
def test_the_status_word_is_kubectls(status: dict[str, Any], word: str) -> None:
    assert _status_of(**status) == word


def test_a_pod_that_is_being_deleted_is_terminating() -> None:
    document = a_pod()
    document["metadata"]["deletionTimestamp"] = "2026-11-21T11:00:00Z"
    assert _pod(document).reason == "Terminating"


def test_the_reason_for_waiting_is_in_the_apis_words() -> None:
    unscheduled = {
        "type": "PodScheduled",
        "status": "False",
        "reason": "Unschedulable",
        "message": "0/2 nodes\x1b[31m fit",
    }
    assert _pod(a_pod(phase="Pending", conditions=[unscheduled])).message == "0/2 nodes fit"
    waiting = a_container("waiting", reason="ImagePullBackOff", message="Back-off pulling image")
    assert _pod(a_pod(phase="Pending", conditions=[], containerStatuses=[waiting])).message == "Back-off pulling image"


def test_nulls_and_absent_fields_are_survived() -> None:
    document = {"metadata": {"name": "p", "labels": None}, "spec": {"containers": None}, "status": None}
    assert _pod(document).requests == NOTHING
    assert _pod({"metadata": {"name": "p"}}).phase == ""


def test_hostile_names_are_cleaned() -> None:
    document = a_pod()
    document["metadata"]["labels"]["eksml.dev/run"] = "\x1b]52;c;ZXZpbA==\x07run"
    assert _pod(document).run == "run"


def test_a_node_is_read_whole() -> None:
    node = decode_node(msgspec.json.encode(NODE))
    assert (node.instance_type, node.region, node.zone) == ("g5.12xlarge", "us-west-2", "us-west-2b")
    assert (node.capacity_type, node.pool) == ("on-demand", "g5-gpu-karpenter")
    assert node.allocatable == Resources(cpu_milli=47_810, memory_bytes=189_519_284 * 1024, gpu=4, efa=1)
    assert node.pods_allocatable == 234
    assert (node.is_ready, node.is_schedulable) == (True, False)
    assert node.taints == ("nvidia.com/gpu:NoSchedule", "team=ml:NoExecute")


def test_what_hyperpod_has_against_a_node_stands_beside_its_state() -> None:
    document = copy.deepcopy(NODE)
    health = {"node-health-status": "Unschedulable", "deep-health-check-status": "Failed"}
    document["metadata"]["labels"] |= {f"sagemaker.amazonaws.com/{name}": text for name, text in health.items()}
    assert state_of(decode_node(msgspec.json.encode(document))) == "Ready,Cordoned,Unschedulable,DeepHealthCheckFailed"
    document["metadata"]["labels"] |= {"sagemaker.amazonaws.com/node-health-status": "Schedulable"}
    assert state_of(decode_node(msgspec.json.encode(document))) == "Ready,Cordoned,DeepHealthCheckFailed"


def test_a_warning_with_which_pods_start_is_none() -> None:
    event = {"metadata": {"name": "e", "uid": "u"}, "type": "Warning", "involvedObject": {"kind": "Pod", "name": "p"}}
    told = {
        reason: decode_event(msgspec.json.encode(event | {"reason": reason})).is_warning
        for reason in ("FailedToRetrieveImagePullSecret", "FailedScheduling")
    }
    assert told == {"FailedToRetrieveImagePullSecret": False, "FailedScheduling": True}


def test_an_eks_node_group_names_pool_and_capacity_in_its_own_way() -> None:
    document = copy.deepcopy(NODE)
    labels = {"eks.amazonaws.com/capacityType": "CAPACITY_BLOCK", "eks.amazonaws.com/nodegroup": "core"}
    document["metadata"]["labels"] = labels
    node = decode_node(msgspec.json.encode(document))
    assert (node.capacity_type, node.pool) == ("capacity-block", "core")


@pytest.mark.parametrize(
    ("labels", "bought"),
    [
        ({"karpenter.sh/capacity-type": "reserved", RESERVATION: "capacity-block"}, "capacity-block"),
        ({"karpenter.sh/capacity-type": "reserved", RESERVATION: "default"}, "on-demand"),
        ({"karpenter.sh/capacity-type": "reserved"}, "reserved"),
        ({"eks.amazonaws.com/compute-type": "fargate"}, "fargate"),
        ({"eks.amazonaws.com/compute-type": "hybrid"}, "hybrid"),
        ({"eks.amazonaws.com/compute-type": "auto", "karpenter.sh/capacity-type": "spot"}, "spot"),
        ({"eks.amazonaws.com/compute-type": "auto"}, ""),
    ],
)
def test_how_a_node_is_bought_is_read_from_its_labels(labels: dict[str, str], bought: str) -> None:
    document = copy.deepcopy(NODE)
    document["metadata"]["labels"] = labels
    assert decode_node(msgspec.json.encode(document)).capacity_type == bought


def test_a_number_of_pods_may_be_any_quantity() -> None:
    document = copy.deepcopy(NODE)
    document["status"]["allocatable"]["pods"] = "1k"
    assert decode_node(msgspec.json.encode(document)).pods_allocatable == 1000


def test_a_node_without_a_label_for_it_is_in_the_region_of_its_cluster() -> None:
    """Else each of its prices was `?`, below a header with the region."""
    labels = {name: text for name, text in NODE["metadata"]["labels"].items() if not name.endswith("/region")}
    bare = {**NODE, "metadata": {**NODE["metadata"], "labels": labels}}
    assert decode_node(msgspec.json.encode(bare)).region == ""
    assert decode_node(msgspec.json.encode(bare), region="eu-west-1").region == "eu-west-1"
    assert decode_node(msgspec.json.encode(NODE), region="eu-west-1").region != "eu-west-1"


def test_an_event_is_read_in_both_forms() -> None:
    old = decode_event(msgspec.json.encode(EVENT))
    assert (old.kind, old.name, old.count) == ("Pod", "esm1nv-pretraining-worker-0", 3)
    assert old.message == "0/2 nodes are available: 2 Insufficient nvidia.com/gpu."
    series = {"count": 9, "lastObservedTime": "2026-11-21T10:09:00.123456Z"}
    new = EVENT | {"count": None, "lastTimestamp": None, "firstTimestamp": None, "series": series}
    assert decode_event(msgspec.json.encode(new)).count == 9
    assert decode_event(msgspec.json.encode(new)).last_seen_at > old.last_seen_at


def test_a_node_claim_on_its_way_says_what_it_waits_for() -> None:
    document = {
        "metadata": {"name": "gpu-x7k", "uid": "c-1", "labels": {"karpenter.sh/nodepool": "gpu"}},
        "status": {"conditions": [{"type": "Launched", "status": "False", "message": "InsufficientInstanceCapacity"}]},
    }
    claim = decode_claim(msgspec.json.encode(document))
    assert (claim.name, claim.pool, claim.node, claim.state) == ("gpu-x7k", "gpu", "", "waiting")
    assert claim.message == "InsufficientInstanceCapacity"


def test_a_node_claim_that_became_a_node_names_it() -> None:
    labels = {
        "karpenter.sh/nodepool": "gpu",
        "karpenter.sh/capacity-type": "spot",
        "node.kubernetes.io/instance-type": "g5.12xlarge",
        "topology.kubernetes.io/zone": "us-west-2b",
    }
    ready = [{"type": kind, "status": "True"} for kind in ("Launched", "Registered", "Initialized", "Ready")]
    document = {
        "metadata": {"name": "gpu-x7k", "uid": "c-1", "labels": labels},
        "status": {"nodeName": "ip-10-0-1-7", "conditions": ready},
    }
    claim = decode_claim(msgspec.json.encode(document))
    assert (claim.node, claim.instance_type, claim.capacity_type) == ("ip-10-0-1-7", "g5.12xlarge", "spot")


def test_a_workload_of_a_list_is_judged_by_the_kind_of_its_list() -> None:
    document = with_conditions("PyTorchJob", "kubeflow.org/v1", Created="True", Running="True")
    del document["kind"], document["apiVersion"]
    facts = workload_decoder("kubeflow.org/v1", "PyTorchJob")(msgspec.json.encode(document))
    assert (facts.kind, facts.state) == ("PyTorchJob", "running")


def test_what_is_no_object_is_a_decode_error() -> None:
    with pytest.raises(msgspec.DecodeError):
        decode_pod(b'{"metadata": 3}')


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("500m", 0.5),
        ("16Gi", 16 * GIB),
        ("1e3", 1000.0),
        ("128974848", 128974848.0),
        ("2E", 2e18),
        ("129M", 129e6),
        ("0", 0),
    ],
)
def test_quantities(text: str, value: float) -> None:
    assert parse_quantity(text) == value


def test_neuron_cores_count_as_devices() -> None:
    assert resources_of({"aws.amazon.com/neuroncore": "3"}).neuron == 2
    assert resources_of({"aws.amazon.com/neuron": "16", "aws.amazon.com/neuroncore": "32"}).neuron == 16


@pytest.mark.parametrize(
    ("amounts", "gpus"),
    [
        ({"nvidia.com/gpu": "1", "nvidia.com/mig-1g.10gb": "4", "nvidia.com/mig-3g.40gb": "2"}, 7),
        ({"nvidia.com/gpu": "0", "nvidia.com/gpu.shared": "4"}, 4),
        ({"nvidia.com/mig-1g.10gb.shared": "8"}, 8),
        ({"amd.com/gpu": "2"}, 2),
    ],
)
def test_gpus_count_under_every_name(amounts: dict[str, str], gpus: int) -> None:
    assert resources_of(amounts).gpu == gpus


@pytest.mark.parametrize(
    ("resources", "found"),
    [
        ({"requests": {"nvidia.com/gpu": "8"}}, "trainer"),
        ({"requests": {"aws.amazon.com/neuroncore": "2"}}, "trainer"),
        ({"claims": [{"name": "gpus"}]}, "trainer"),
        ({"requests": {"cpu": "4"}}, "proxy"),
    ],
)
def test_the_container_that_has_the_devices_is_found_behind_a_sidecar(resources: dict[str, Any], found: str) -> None:
    containers = [{"name": "proxy", "resources": {}}, {"name": "trainer", "resources": resources}]
    assert container_with_devices({"spec": {"containers": containers}}) == found
    assert container_with_devices({"spec": {"containers": None}}) == container_with_devices({"spec": None}) == ""


def test_requests_follow_the_schedulers_rule() -> None:
    def cpu(amount: int) -> Resources:
        return Resources(cpu_milli=amount)

    assert effective_requests([cpu(100), cpu(200)], [(cpu(1000), False)], cpu(50)).cpu_milli == 1050
    assert effective_requests([cpu(100)], [(cpu(30), True), (cpu(50), False)], NOTHING).cpu_milli == 130
    assert effective_requests([cpu(100)], [(cpu(30), True), (cpu(500), False)], NOTHING).cpu_milli == 530
    for_all = {"cpu": "3", "hugepages-2Mi": "4Mi"}
    assert effective_requests([cpu(100)], [(cpu(30), True)], cpu(50), for_all).cpu_milli == 3050
    both = Resources(cpu_milli=100, memory_bytes=GIB, gpu=1)
    assert effective_requests([both], [], NOTHING, for_all) == Resources(cpu_milli=3000, memory_bytes=GIB, gpu=1)

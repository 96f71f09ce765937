"""One cluster at one moment: what the snapshots of screens show.

A training of eight workers on two GPU nodes, beside nodes, pods and events in the states that operators meet.
"""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from actions.cluster.state.snapshot import ClusterSnapshot
from actions.fleet.facts import EventFacts, NodeFacts, PodFacts, Resources, WorkloadFacts
from tests.support.builders import GIB, NOW, a_snapshot

RUN = "bionemo-esm1nv-1121-k3v7q2mzxa4pe"
_NOW = NOW.timestamp()
_HOUR = 3600.0


def _host(address: str) -> str:
    return f"ip-{address.replace('.', '-')}.us-west-2.compute.internal"


CORE = (_host("10.1.0.11"), _host("10.1.16.42"))
GPU = (_host("10.1.32.7"), _host("10.1.32.118"))
TRAINIUM = _host("10.1.48.90")


def _node(name: str, instance_type: str, pool: str, **changes: Any) -> NodeFacts:
    cpus, memory_gib, gpu, neuron, efa, pods = {
        "m5.xlarge": (3.92, 14.6, 0, 0, 0, 58),
        "g5.12xlarge": (47.8, 178, 4, 0, 1, 234),
        "trn1.32xlarge": (127.8, 480, 0, 16, 8, 247),
    }.get(instance_type, (15.9, 60, int(pool == "spare"), 0, 0, 110))
    node = NodeFacts(
        uid=f"uid-{name}",
        name=name,
        instance_type=instance_type,
        region="us-west-2",
        zone="us-west-2b",
        capacity_type="on-demand",
        pool=pool,
        allocatable=Resources(int(cpus * 1000), int(memory_gib * GIB), gpu, neuron, efa),
        pods_allocatable=pods,
        is_ready=True,
        created_at=_NOW - 3 * _HOUR,
        version="v1.32.9-eks-113cf36",
    )
    return replace(node, **changes)


def nodes() -> tuple[NodeFacts, ...]:
    """Nodes in every state."""
    return (
        _node(CORE[0], "m5.xlarge", "core", zone="us-west-2a"),
        _node(CORE[1], "m5.xlarge", "core"),
        _node(GPU[0], "g5.12xlarge", "g5-gpu-karpenter"),
        _node(GPU[1], "g5.12xlarge", "g5-gpu-karpenter"),
        _node(_host("10.1.33.201"), "g5.12xlarge", "g5-gpu-karpenter", is_ready=False, zone="us-west-2c"),
        _node(TRAINIUM, "trn1.32xlarge", "trn1-nodes", capacity_type="capacity-block", zone="us-west-2d"),
        _node(_host("10.1.64.3"), "g4dn.4xlarge", "spare", capacity_type="spot", is_schedulable=False),
        _node(_host("10.1.64.77"), "x9.mystery", "", capacity_type="", zone=""),
    )


def _pod(key: str, node: str, owner: tuple[str, str], **changes: Any) -> PodFacts:
    namespace, _, name = key.partition("/")
    pod = PodFacts(
        uid=f"uid-{name}",
        namespace=namespace,
        name=name,
        node=node,
        phase="Running",
        ready=1,
        containers=("main",),
        requests=Resources(100, GIB // 8),
        owner_kind=owner[0],
        owner_name=owner[1],
        created_at=_NOW - 3 * _HOUR,
        started_at=_NOW - 3 * _HOUR,
    )
    return replace(pod, **changes)


def workers() -> list[PodFacts]:
    """The eight pods of the training."""
    return [
        _pod(
            f"default/esm1nv-pretraining-worker-{number}",
            GPU[number // 4],
            ("PyTorchJob", "esm1nv-pretraining"),
            containers=("pytorch",),
            requests=Resources(8_000, 24 * GIB, gpu=1),
            restarts=1 if number == 5 else 0,
            run=RUN,
            stage="train",
        )
        for number in range(8)
    ]


SIDECARS = "default/inference-llama-7b-predictor-6d9f4c7b8-x2x9k"
"""A pod with three containers."""
BROKEN = "default/tokenizer-nightly-29063510-7kq2v"
"""A pod whose image cannot be pulled."""


def pods() -> tuple[PodFacts, ...]:
    """Pods in every state."""
    daemons = [
        _pod(f"kube-system/{name}-{suffix}", node, ("DaemonSet", name), ready=len(containers), containers=containers)
        for name, containers in (("aws-node", ("aws-node", "aws-eks-nodeagent")), ("kube-proxy", ("kube-proxy",)))
        for suffix, node in zip(("4xk2p", "8d7wz", "hq5vn", "m2c9t"), (*CORE, *GPU), strict=True)
    ]
    coredns = ("ReplicaSet", "coredns-6b9575c64c")
    return (
        *workers(),
        *daemons,
        _pod("kube-system/coredns-6b9575c64c-5rjkq", CORE[0], coredns),
        _pod("kube-system/coredns-6b9575c64c-w8zlm", CORE[1], coredns),
        _pod(
            "kubeflow/training-operator-7f8c9d-qk4nv",
            CORE[1],
            ("ReplicaSet", "training-operator-7f8c9d"),
            restarts=2,
            run=RUN,
            stage="operators",
        ),
        _pod(
            BROKEN,
            CORE[0],
            ("Job", "tokenizer-nightly-29063510"),
            phase="Pending",
            reason="ImagePullBackOff",
            message='Back-off pulling image "public.ecr.aws/example/tokenizer:nightly"',
            ready=0,
        ),
        _pod("default/eval-mlm-0", "", ("Job", "eval-mlm"), phase="Pending", ready=0, requests=Resources(8_000, gpu=4)),
        _pod("default/uniref50-split-0-9wq7d", CORE[0], ("Job", "uniref50-split"), phase="Succeeded", ready=0, run=RUN),
        _pod(
            "monitoring/dcgm-exporter-zt6pl",
            GPU[1],
            ("DaemonSet", "dcgm-exporter"),
            reason="CrashLoopBackOff",
            ready=0,
            restarts=37,
        ),
        _pod(
            "research/notebook-ada-0",
            GPU[0],
            ("StatefulSet", "notebook-ada"),
            phase="Failed",
            reason="OOMKilled",
            ready=0,
        ),
        _pod("research/notebook-grace-0", CORE[1], ("StatefulSet", "notebook-grace"), reason="Terminating"),
        _pod(
            SIDECARS,
            GPU[1],
            ("ReplicaSet", "inference-llama-7b-predictor-6d9f4c7b8"),
            containers=("server", "metrics", "queue-proxy"),
            ready=2,
            requests=Resources(2_000, 16 * GIB),
        ),
    )


def events() -> tuple[EventFacts, ...]:
    """Events, oldest first."""
    told: list[tuple[float, str, str, str, str, int]] = [
        (10_800, "Normal", "Node", CORE[0], "RegisteredNode", 1),
        (5_400, "Normal", "NodeClaim", "g5-gpu-karpenter-x7k2m", "Launched", 1),
        (5_280, "Normal", "NodeClaim", "g5-gpu-karpenter-x7k2m", "Registered", 1),
        *(
            (5_200 - number, "Normal", "Pod", f"esm1nv-pretraining-worker-{number}", "Scheduled", 1)
            for number in range(8)
        ),
        *((5_100 - number, "Normal", "Pod", f"esm1nv-pretraining-worker-{number}", "Pulled", 1) for number in range(8)),
        (4_300, "Warning", "Pod", "esm1nv-pretraining-worker-5", "BackOff", 3),
        (2_700, "Warning", "Node", _host("10.1.33.201"), "NodeNotReady", 1),
        (900, "Warning", "Pod", BROKEN.split("/")[1], "Failed", 12),
        (420, "Warning", "Pod", "eval-mlm-0", "FailedScheduling", 140),
        (61, "Warning", "NodePool", "g5-gpu-karpenter", "InsufficientCapacityError", 9),
        (12, "Normal", "Pod", "notebook-grace-0", "Killing", 1),
    ]
    return tuple(
        EventFacts(
            uid=f"event-{number:02}",
            namespace="" if kind in ("Node", "NodeClaim", "NodePool") else "default",
            kind=kind,
            name=name,
            type=type_,
            reason=reason,
            message=_MESSAGES[reason],
            count=count,
            last_seen_at=_NOW - ago,
        )
        for number, (ago, type_, kind, name, reason, count) in enumerate(told)
    )


_MESSAGES = {
    "RegisteredNode": "Node registered with the node controller",
    "Launched": "Status condition transitioned, Type: Launched, Status: Unknown -> True, Reason: Launched",
    "Registered": "Status condition transitioned, Type: Registered, Status: Unknown -> True, Reason: Registered",
    "Scheduled": "Successfully assigned the pod to a node",
    "Pulled": 'Container image "nvcr.io/nvidia/clara/bionemo-framework:1.2" already present on machine',
    "BackOff": "Back-off restarting failed container pytorch in pod esm1nv-pretraining-worker-5_default",
    "NodeNotReady": "Node status is now: NodeNotReady",
    "Failed": 'Failed to pull image "public.ecr.aws/example/tokenizer:nightly": not found',
    "FailedScheduling": (
        "0/8 nodes are available: 1 node(s) were unschedulable, 4 Insufficient nvidia.com/gpu. "
        "preemption: 0/8 nodes are available: 8 No preemption victims found for incoming pod."
    ),
    "InsufficientCapacityError": (
        "NodeClaim g5-gpu-karpenter-9fjq4 event: creating instance, insufficient capacity, with fleet error(s), "
        "InsufficientInstanceCapacity: We currently do not have sufficient g5.12xlarge capacity"
    ),
    "Killing": "Stopping container main",
}


def picture() -> ClusterSnapshot:
    """The whole cluster."""
    snapshot = a_snapshot(nodes(), pods(), events())
    jobs = [
        WorkloadFacts("uid-job", "PyTorchJob", "default", "esm1nv-pretraining", "running", run=RUN, stage="train"),
        WorkloadFacts("uid-eval", "Job", "default", "eval-mlm", "waiting"),
    ]
    return replace(snapshot, workloads={f"{job.kind} {job.namespace}/{job.name}": job for job in jobs})

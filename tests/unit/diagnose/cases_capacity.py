"""Nodes that AWS does not give, that do not join, or that are lost."""

from __future__ import annotations

from tests.unit.diagnose.samples import a_node, a_pod, an_event
from tests.unit.diagnose.troubles import Case, claim, fleet, refused

CASES: list[Case] = [
    (
        "quota on demand",
        "AWS_QUOTA",
        fleet("VcpuLimitExceeded: more than your current vCPU limit of 64"),
    ),
    ("quota of fleets", "AWS_QUOTA", fleet("MaxFleetCountExceeded: too many fleets")),
    ("capacity", "CAPACITY", fleet("InsufficientInstanceCapacity: We currently do not have sufficient p5 capacity")),
    ("full reservation", "RESERVATION_FULL", fleet("ReservationCapacityExceeded: exceeds the available capacity")),
    ("full subnet", "SUBNET_FULL", fleet("InsufficientFreeAddressesInSubnet: not enough free addresses")),
    (
        "wrong zone",
        "WRONG_ZONE",
        fleet(
            "Unsupported: Your instance type (p5.48xlarge) is not supported in your requested Availability Zone"
            " (us-west-2b)."
        ),
    ),
    ("not joined", "NODE_NOT_JOINING", claim(reason="NodeNotFound", message="Node not registered with cluster")),
    (
        "lost node",
        "NODE_LOST",
        {
            "pods": [a_pod(phase="Running", node="n1")],
            "nodes": [a_node("n1", "p5.48xlarge", status="Unknown", message="Kubelet stopped posting node status.")],
        },
    ),
    (
        "full disk",
        "NODE_DISK_FULL",
        {"events": [an_event("NodeHasDiskPressure", "Node n1 status is now: NodeHasDiskPressure", "n1", kind="Node")]},
    ),
    (
        "limit, old wording",
        "NODEPOOL_LIMIT",
        refused('Failed to schedule pod, all available instance types exceed limits for nodepool: "gpu"'),
    ),
    (
        "labels",
        "NODEPOOL_MISMATCH",
        refused("0/6 nodes are available: 6 node(s) didn't match Pod's node selector."),
    ),
    (
        "unreachable",
        "NODE_LOST",
        refused("0/1 nodes are available: 1 node(s) had untolerated taint {node.kubernetes.io/unreachable: }."),
    ),
    (
        "rebalance",
        "SPOT_INTERRUPTED",
        {"events": [an_event("SpotInterruption", "Spot ITN received.", "n1", kind="Node")]},
    ),
    (
        "scale-up",
        "WAITING_FOR_NODE",
        refused("0/1 nodes are available: 1 Insufficient nvidia.com/gpu.")
        | {"events": [an_event("TriggeredScaleUp", "pod triggered scale-up: [{g5 0->1 (max: 4)}]", type_="Normal")]},
    ),
    (
        "no address",
        "NO_POD_IP",
        {"events": [an_event("FailedCreatePodSandBox", 'plugin type="aws-cni" failed (add): no free IP addresses')]},
    ),
]

"""EC2 instances as nodes: the Node that its kubelet registers, and how it is drained."""

from __future__ import annotations

import msgspec

from actions.fleet.instance_types import InstanceType
from actions.fleet.node_amounts import allocatable_of, total_amounts_of
from actions.fleet.node_offers import INSTANCE_TYPE
from actions.sandbox.clientkit.cache import Caches
from actions.sandbox.clientkit.client import ApiClient
from actions.sandbox.clientkit.conditions import condition
from actions.sandbox.clientkit.kinds import (
    NODES,
    PODS,
    Document,
    is_deleting,
    key_of,
    owner_of,
)
from actions.sandbox.controllers.core.pods import phase_of

KUBELET_VERSION = "v1.32.3-eks-473151a"
EFA_PRESENT = "vpc.amazonaws.com/efa.present"
"""The label of nodes with EFA interfaces, by which the EFA plugin finds them."""
_HAS_EFA = "eksml.dev/efa-interfaces"
"""The annotation of nodes whose instance was launched with its EFA interfaces: data of EC2, not of the API."""


class Machine(msgspec.Struct, frozen=True):
    """An instance that is, or becomes, a node."""

    name: str
    """The node's name: its private DNS name."""
    instance_id: str
    address: str
    type: InstanceType
    zone: str
    labels: dict[str, str]
    taints: tuple[tuple[str, str, str], ...] = ()
    """Key, value, effect."""
    has_efa: bool = False
    """Launched with its EFA interfaces, from an image that reserves huge pages for them."""
    is_managed: bool = False
    """Part of a managed node group, which limits its pods."""


def well_known_labels(machine: Machine, region: str) -> dict[str, str]:
    """The labels that every EKS node has."""
    return {
        "beta.kubernetes.io/arch": "amd64",
        "beta.kubernetes.io/instance-type": machine.type.name,
        "beta.kubernetes.io/os": "linux",
        "failure-domain.beta.kubernetes.io/region": region,
        "failure-domain.beta.kubernetes.io/zone": machine.zone,
        "kubernetes.io/arch": "amd64",
        "kubernetes.io/hostname": machine.name,
        "kubernetes.io/os": "linux",
        INSTANCE_TYPE: machine.type.name,
        "topology.kubernetes.io/region": region,
        "topology.kubernetes.io/zone": machine.zone,
    }


def node_document(machine: Machine, region: str) -> Document:
    """The Node as its kubelet registers it: not ready yet, without devices."""
    taints = [{"key": key, "value": value, "effect": effect} for key, value, effect in machine.taints]
    annotations = {_HAS_EFA: str(machine.type.efa_interfaces)} if machine.has_efa else {}
    labels = {EFA_PRESENT: "true"} if machine.has_efa else {}
    return {
        "metadata": {
            "name": machine.name,
            "labels": well_known_labels(machine, region) | labels | machine.labels,
            "annotations": annotations,
        },
        "spec": {
            "providerID": f"aws:///{machine.zone}/{machine.instance_id}",
            "taints": taints or None,
        },
    }


def has_efa(node: Document) -> bool:
    """Return whether a node's instance was launched with its EFA interfaces."""
    return _HAS_EFA in (node["metadata"].get("annotations") or {})


def node_status(machine: Machine, *, is_ready: bool, now: str) -> Document:
    """Return the status of the machine's node."""
    reasons = {
        "MemoryPressure": ("KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
        "DiskPressure": ("KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
        "PIDPressure": ("KubeletHasSufficientPID", "kubelet has sufficient PID available"),
    }
    conditions = [_condition(name, False, *why, now) for name, why in reasons.items()]
    if is_ready:
        conditions.append(_condition("Ready", True, "KubeletReady", "kubelet is posting ready status", now))
    else:
        conditions.append(_condition("Ready", False, "KubeletNotReady", "container runtime network not ready", now))
    return {
        "capacity": total_amounts_of(
            machine.type, has_devices=False, has_efa=machine.has_efa, is_managed=machine.is_managed
        ),
        "allocatable": allocatable_of(
            machine.type, has_devices=False, has_efa=machine.has_efa, is_managed=machine.is_managed
        ),
        "conditions": conditions,
        "addresses": [
            {"type": "InternalIP", "address": machine.address},
            {"type": "InternalDNS", "address": machine.name},
            {"type": "Hostname", "address": machine.name},
        ],
        "nodeInfo": {
            "architecture": "amd64",
            "bootID": machine.instance_id,
            "containerRuntimeVersion": "containerd://1.7.27",
            "kernelVersion": "6.1.134-150.224.amzn2023.x86_64",
            "kubeProxyVersion": KUBELET_VERSION,
            "kubeletVersion": KUBELET_VERSION,
            "machineID": machine.instance_id,
            "operatingSystem": "linux",
            "osImage": "Amazon Linux 2023.7.20250428",
            "systemUUID": machine.instance_id,
        },
    }


def _condition(name: str, is_true: bool, reason: str, message: str, now: str) -> Document:
    return {**condition(name, is_true, reason, message, now), "lastHeartbeatTime": now}


NOT_READY_TAINT = {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}
DRAIN_POLL_SECONDS = 0.3


async def register_node(client: ApiClient, machine: Machine, document: Document) -> None:
    """Make the Node as its kubelet does: tainted, not ready, without devices. Safe to call again."""
    document["spec"]["taints"] = [*(document["spec"].get("taints") or ()), NOT_READY_TAINT]
    node = await client.create(NODES, document) or await client.read(NODES, machine.name)
    if node is not None:
        await client.patch_status(NODES, node, node_status(machine, is_ready=False, now=client.timestamp()))


async def mark_ready(client: ApiClient, machine: Machine, node: Document) -> None:
    """Report the node ready, and let pods on it."""
    status = node_status(machine, is_ready=True, now=client.timestamp())
    await client.patch_status(NODES, node, {"conditions": status["conditions"]})
    taints = [taint for taint in node["spec"].get("taints") or () if taint["key"] != NOT_READY_TAINT["key"]]
    await client.patch(NODES, machine.name, {"spec": {"taints": taints or None}})
    message = f"Node {machine.name} status is now: NodeReady"
    await client.record_event(node, NODES, "NodeReady", message, source="kubelet")


async def drain_node(client: ApiClient, caches: Caches, node: str, *, source: str) -> bool:
    """Evict all pods of a node but daemons. Return whether some are still there."""
    pods = [
        pod
        for pod in caches[PODS].objects.values()
        if pod["spec"].get("nodeName") == node
        and phase_of(pod) not in ("Succeeded", "Failed")
        and (owner_of(pod) or {}).get("kind") != "DaemonSet"
    ]
    for pod in pods:
        if not is_deleting(pod):
            await client.delete(PODS, key_of(pod))
            await client.record_event(pod, PODS, "Evicted", "Evicted pod", source=source)
    return bool(pods)

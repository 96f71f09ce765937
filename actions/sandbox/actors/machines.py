"""EC2 instances as nodes: what an instance type offers under EKS, and the Node object that its kubelet registers.

Source: the instance table of `actions.fleet`; EKS bootstrap's reservations (CPU per core, 255 MiB + 11 MiB a pod),
100 MiB eviction threshold, Karpenter's 7.5 % for the hypervisor.
"""

from __future__ import annotations

from dataclasses import dataclass

from actions.fleet.instances import InstanceType
from actions.sandbox.actors.kinds import GPU, Document

KUBELET_VERSION = "v1.32.3-eks-473151a"
_MIB = 1 << 20
_CPU_SHARES = ((1, 0.06), (2, 0.01), (4, 0.005))
"""Up to so many cores, the share of each further core that is kept back."""
_CPU_SHARE_BEYOND = 0.0025
_HYPERVISOR_SHARE = 0.075
_EVICTION_MIB = 100


@dataclass(frozen=True, slots=True)
class Machine:
    """One instance."""

    name: str
    """Of the node: its private DNS name."""
    instance_id: str
    address: str
    type: InstanceType
    zone: str
    labels: dict[str, str]
    taints: tuple[tuple[str, str, str], ...] = ()
    """Key, value, effect."""


def capacity_of(kind: InstanceType, *, has_devices: bool) -> Document:
    """What the machine has; devices only once a device plugin has told of them."""
    capacity = {
        "cpu": str(kind.vcpu),
        "memory": f"{_memory_mib(kind) * 1024}Ki",
        "ephemeral-storage": "104779756Ki",
        "hugepages-1Gi": "0",
        "hugepages-2Mi": "0",
        "pods": str(kind.max_pods or 110),
    }
    return capacity | ({GPU: str(kind.gpus)} if has_devices and kind.gpus else {})


def allocatable_of(kind: InstanceType, *, has_devices: bool) -> Document:
    """What pods may have of it."""
    reserved_mib = 255 + 11 * (kind.max_pods or 110) + _EVICTION_MIB
    changed = {
        "cpu": f"{kind.vcpu * 1000 - _reserved_millicores(kind.vcpu)}m",
        "memory": f"{(_memory_mib(kind) - reserved_mib) * 1024}Ki",
        "ephemeral-storage": "95491281146",
    }
    return capacity_of(kind, has_devices=has_devices) | changed


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
        "node.kubernetes.io/instance-type": machine.type.name,
        "topology.kubernetes.io/region": region,
        "topology.kubernetes.io/zone": machine.zone,
    }


def node_document(machine: Machine, region: str) -> Document:
    """The Node as its kubelet registers it: not ready yet, without devices."""
    taints = [{"key": key, "value": value, "effect": effect} for key, value, effect in machine.taints]
    return {
        "metadata": {"name": machine.name, "labels": well_known_labels(machine, region) | machine.labels},
        "spec": {
            "providerID": f"aws:///{machine.zone}/{machine.instance_id}",
            "taints": taints or None,
        },
    }


def node_status(machine: Machine, *, is_ready: bool, now: str) -> Document:
    """The status that goes with it."""
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
        "capacity": capacity_of(machine.type, has_devices=False),
        "allocatable": allocatable_of(machine.type, has_devices=False),
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
    return {
        "type": name,
        "status": "True" if is_true else "False",
        "reason": reason,
        "message": message,
        "lastHeartbeatTime": now,
        "lastTransitionTime": now,
    }


def _memory_mib(kind: InstanceType) -> int:
    return int(kind.memory_bytes * (1 - _HYPERVISOR_SHARE)) // _MIB


def _reserved_millicores(cores: int) -> int:
    reserved, counted = 0.0, 0
    for limit, share in _CPU_SHARES:
        reserved += max(0, min(cores, limit) - counted) * share
        counted = max(counted, min(cores, limit))
    return round((reserved + max(0, cores - counted) * _CPU_SHARE_BEYOND) * 1000)

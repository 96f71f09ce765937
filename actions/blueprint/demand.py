"""How many nodes of which type the pods of rendered objects will need."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from actions.blueprint.targets import Manifest, pod_specs_of
from actions.fleet.instances import InstanceTable, InstanceType

INSTANCE_TYPE_LABELS = ("node.kubernetes.io/instance-type", "beta.kubernetes.io/instance-type")
DEVICES = {
    "nvidia.com/gpu": "gpus",
    "aws.amazon.com/neuron": "neuron_devices",
    "vpc.amazonaws.com/efa": "efa_interfaces",
}

_QUANTITY = re.compile(r"^([0-9.]+)([EPTGMk]i?|m)?$")
_FACTORS = {"": 1.0, "m": 1e-3, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15, "E": 1e18} | {
    f"{letter}i": 1024.0**power for power, letter in enumerate("KMGTPE", start=1)
}
_KUBELET_SHARE = 0.92
"""Of an instance's CPU and memory: what is left for pods after the kubelet, the system and the daemons, about."""


def nodes_for(manifests: Iterable[Manifest], instances: InstanceTable) -> Mapping[str, int]:
    """Nodes by instance type, for the pods that name an instance type. Others run on what is there.

    Pods of one type fill a node until its devices, CPU or memory run out.
    """
    nodes: Counter[str] = Counter()
    for manifest in manifests:
        for count, spec in _pods_of(manifest):
            name = _instance_type(spec)
            instance = instances.find(name) if name else None
            if instance is not None:
                nodes[name] += math.ceil(count / _pods_per_node(spec, instance))
            elif name:
                nodes[name] += count
    return nodes


def _pods_of(manifest: Manifest) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """Each pod spec of an object with the number of pods that it stands for."""
    groups = list(_replica_groups(manifest.get("spec") or {}))
    if groups:
        for count, template in groups:
            yield count, template.get("spec") or {}
        return
    for spec in pod_specs_of(manifest):
        yield _count(manifest.get("spec") or {}), spec


def _replica_groups(spec: Mapping[str, Any]) -> Iterator[tuple[int, Mapping[str, Any]]]:
    for key in ("pytorchReplicaSpecs", "mpiReplicaSpecs"):
        for group in (spec.get(key) or {}).values():
            yield int(group.get("replicas", 1)), group.get("template") or {}
    head = spec.get("headGroupSpec")
    if head:
        yield 1, head.get("template") or {}
    for group in spec.get("workerGroupSpecs") or ():
        yield int(group.get("replicas", group.get("minReplicas", 1))), group.get("template") or {}


def _count(spec: Mapping[str, Any]) -> int:
    return int(spec.get("parallelism", spec.get("replicas", 1)))


def _instance_type(spec: Mapping[str, Any]) -> str:
    selector = spec.get("nodeSelector") or {}
    return next((str(selector[label]) for label in INSTANCE_TYPE_LABELS if label in selector), "")


def _pods_per_node(spec: Mapping[str, Any], instance: InstanceType) -> int:
    capacity = {"cpu": instance.vcpu * _KUBELET_SHARE, "memory": instance.memory_bytes * _KUBELET_SHARE}
    capacity |= {resource: float(getattr(instance, field) or 0) for resource, field in DEVICES.items()}
    fitting = [
        math.floor(capacity[resource] / amount)
        for resource, amount in _requests(spec).items()
        if resource in capacity and amount > 0
    ]
    return max(1, min(fitting, default=1))


def _requests(spec: Mapping[str, Any]) -> Mapping[str, float]:
    amounts: dict[str, float] = {}
    for container in spec.get("containers") or ():
        resources = container.get("resources") or {}
        asked = {**(resources.get("limits") or {}), **(resources.get("requests") or {})}
        for resource, quantity in asked.items():
            amounts[resource] = amounts.get(resource, 0.0) + _amount(quantity)
    return amounts


def _amount(quantity: object) -> float:
    match = _QUANTITY.match(str(quantity))
    return float(match[1]) * _FACTORS[match[2] or ""] if match else 0.0

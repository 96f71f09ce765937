"""The instance type of a node: its labels, and the devices that its device plugins tell the kubelet of."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from actions.fleet.instance_types import InstanceTable

TYPE = "node.kubernetes.io/instance-type"
EFA = "vpc.amazonaws.com/efa"
DEVICES = "/mnt/devices"
"""On a node: what its device plugins declare."""
_ADAPTERS = "infiniband"
"""The folder with a file for each EFA interface."""
_TYPE_FILE = "instance-type"
"""Tools in containers, which ask the device itself on a real instance, find here what it is."""


def devices_of(instance_type: str, node: str) -> dict[str, dict[str, Any]]:
    """Return what each vendor's device plugin declares on a node: a file of resources, by vendor.

    Args:
        instance_type: As EC2 names it.
        node: Whose; it makes the ids of GPUs different from those of other nodes.
    """
    kind = InstanceTable.load().find(instance_type)
    assert kind is not None, instance_type
    number = sum(node.encode())
    told = {"mounts": {f"{DEVICES}/{_TYPE_FILE}": f"/etc/eksml/{_TYPE_FILE}"}}
    gpu = {"count": kind.gpus, "id": f"GPU-{number:08x}-0000-4000-8000-%012d", "env": "NVIDIA_VISIBLE_DEVICES"} | told
    neuron = {"count": kind.neuron_devices, "env": "AWS_NEURON_VISIBLE_DEVICES"} | told
    efa = {"count": kind.efa_interfaces, "mounts": {f"{DEVICES}/{_ADAPTERS}": f"/dev/{_ADAPTERS}"}}
    return {
        "nvidia": {"nvidia.com/gpu": gpu} if kind.gpus else {},
        "efa": {EFA: efa} if kind.efa_interfaces else {},
        "neuron": {"aws.amazon.com/neuron": neuron} if kind.neuron_devices else {},
    }


def write_devices(instance_type: str, node: str, folder: Path) -> None:
    """Write a file for each vendor; a device plugin reads it again when it has changed."""
    (folder / _TYPE_FILE).write_text(instance_type, encoding="ascii")
    (folder / _ADAPTERS).mkdir(exist_ok=True)
    devices = devices_of(instance_type, node)
    for name in [path.name for path in (folder / _ADAPTERS).iterdir()]:
        (folder / _ADAPTERS / name).unlink()
    for index in range(devices["efa"].get(EFA, {}).get("count", 0)):
        (folder / _ADAPTERS / f"uverbs{index}").touch()
    for vendor, resources in devices.items():
        scratch = folder / f"{vendor}.new"
        scratch.write_text(json.dumps(resources), encoding="ascii")
        scratch.replace(folder / f"{vendor}.json")


def labels_of(instance_type: str) -> dict[str, str]:
    """Return the labels of a node of a type, by some of which pods find it; an empty value takes one away."""
    kind = InstanceTable.load().find(instance_type)
    assert kind is not None, instance_type
    return {
        TYPE: instance_type,
        "accelerator": "nvidia" if kind.gpus else "neuron" if kind.neuron_devices else "",
        "vpc.amazonaws.com/efa.present": "true" if kind.efa_interfaces else "",
        "instance-type": "trn1-32xl" if instance_type == "trn1.32xlarge" else "",
    }


def equip(kubeconfig: str, node: str, folder: Path, instance_type: str) -> None:
    """Make a node one of another type.

    Args:
        kubeconfig: Of the cluster.
        node: Its name.
        folder: Of the node, as the harness names it.
        instance_type: As EC2 names it.
    """
    write_devices(instance_type, node, folder / "devices")
    set_labels(kubeconfig, node, labels_of(instance_type))


def set_labels(kubeconfig: str, node: str, labels: Mapping[str, str]) -> None:
    """Set labels of a node; an empty value takes one away."""
    words = [f"{name}={value}" if value else f"{name}-" for name, value in labels.items()]
    argv = ["kubectl", "--kubeconfig", kubeconfig, "label", "--overwrite", "node", node, *words]
    subprocess.run(argv, check=True, stdout=subprocess.DEVNULL)

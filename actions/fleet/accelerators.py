"""The names of accelerator resources, and the instance types that have them."""

from __future__ import annotations

import re

GPU = "nvidia.com/gpu"
AMD = "amd.com/gpu"
NEURON = "aws.amazon.com/neuron"
EFA = "vpc.amazonaws.com/efa"
_NEURON_NAMES = (NEURON, "aws.amazon.com/neuroncore", "aws.amazon.com/neurondevice")
ACCELERATORS = (GPU, *_NEURON_NAMES, AMD)

_GPU_TYPE = re.compile(r"(?:p\d+|g(?!4ad)\d+|gr\d+)[a-z]*(?:-[a-z0-9]+)?\.")
_NEURON_TYPE = re.compile(r"(?:trn|inf)\d+[a-z]*\.")


def is_accelerator(resource: str) -> bool:
    """Return whether it is an accelerator, or a part of one (`nvidia.com/mig-1g.10gb`, `nvidia.com/gpu.shared`)."""
    return any(is_of_family(resource, whole) for whole in (GPU, NEURON, AMD))


def is_profile(resource: str) -> bool:
    """Return whether it is a MIG device: `nvidia.com/mig-1g.10gb`."""
    return resource.startswith("nvidia.com/mig-")


def accelerator_of(instance_type: str) -> str:
    """Return the resource that a node of the type should advertise; empty for a type without accelerators."""
    if instance_type.startswith("g4ad."):
        return AMD
    if _GPU_TYPE.match(instance_type):
        return GPU
    return NEURON if _NEURON_TYPE.match(instance_type) else ""


def is_of_family(resource: str, whole: str) -> bool:
    """Return whether a node may advertise the devices of `whole` under the name `resource`."""
    if whole == GPU:
        return resource in (GPU, f"{GPU}.shared") or is_profile(resource)
    return resource in _NEURON_NAMES if whole == NEURON else resource == whole

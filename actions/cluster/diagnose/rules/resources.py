"""The names of accelerator resources, and the instance types that have them."""

from __future__ import annotations

import re

GPU = "nvidia.com/gpu"
NEURON = "aws.amazon.com/neuron"
EFA = "vpc.amazonaws.com/efa"
ACCELERATORS = (GPU, NEURON, "aws.amazon.com/neuroncore", "aws.amazon.com/neurondevice")

_GPU_TYPE = re.compile(r"(?:p\d+|g(?!4ad)\d+|gr\d+)[a-z]*(?:-[a-z0-9]+)?\.")
_NEURON_TYPE = re.compile(r"(?:trn|inf)\d+[a-z]*\.")


def is_accelerator(resource: str) -> bool:
    """Return whether it is an accelerator, or a part of one (`nvidia.com/mig-1g.10gb`)."""
    return resource in ACCELERATORS or resource.startswith(f"{GPU.partition('/')[0]}/mig-")


def accelerator_of(instance_type: str) -> str:
    """Return the resource that a node of the type should advertise; empty for a type without accelerators."""
    if _GPU_TYPE.match(instance_type):
        return GPU
    return NEURON if _NEURON_TYPE.match(instance_type) else ""


def family_of(resource: str) -> tuple[str, ...]:
    """Return all names under which a node may advertise the devices of a resource."""
    return (GPU,) if resource == GPU else ACCELERATORS[1:]

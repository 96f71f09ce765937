"""The resources of an instance type as a node of EKS: all of them, and the part that pods can request.

Source: the instance table of `actions.fleet`; EKS bootstrap's reservations (CPU per core, 255 MiB + 11 MiB a pod),
100 MiB eviction threshold; managed node groups' limits of pods; what a p4de.24xlarge (1146004920Ki allocatable, huge
pages 21122Mi) and an m5.xlarge were seen to have of their memory.
"""

from __future__ import annotations

from actions.fleet.instance_types import InstanceType

GPU = "nvidia.com/gpu"
NEURON = "aws.amazon.com/neuron"
NEURON_CORE = "aws.amazon.com/neuroncore"
EFA = "vpc.amazonaws.com/efa"

_MIB = 1 << 20
_CPU_SHARES = ((1, 0.06), (2, 0.01), (4, 0.005))
"""Up to so many cores, the share of each further core that is reserved."""
_CPU_SHARE_BEYOND = 0.0025
_HYPERVISOR_SHARE = 0.03
_KERNEL_MIB = 350
_EVICTION_MIB = 100
_HUGE_PAGES_PER_CORE = 110
"""Reserved by images for EFA: two MiB each, and one page more."""
_MANAGED_PODS = ((30, 110), (10**6, 250))
"""Up to so many cores, the most pods that a managed node group lets on a node."""


def devices_of(kind: InstanceType, *, has_efa: bool) -> dict[str, str]:
    """Return the resources that device plugins would advertise, with their amounts."""
    amounts = {
        GPU: kind.gpus,
        NEURON: kind.neuron_devices,
        NEURON_CORE: kind.neuron_cores,
        EFA: kind.efa_interfaces if has_efa else 0,
    }
    return {name: str(amount) for name, amount in amounts.items() if amount}


def total_amounts_of(
    kind: InstanceType, *, has_devices: bool, has_efa: bool = False, is_managed: bool = False
) -> dict[str, str]:
    """Return the machine's capacity; devices only once a device plugin has advertised them."""
    capacity = {
        "cpu": str(kind.vcpu),
        "memory": f"{_memory_mib(kind) * 1024}Ki",
        "ephemeral-storage": "104779756Ki",
        "hugepages-1Gi": "0",
        "hugepages-2Mi": f"{_huge_pages_mib(kind, has_efa=has_efa)}Mi" if has_efa else "0",
        "pods": str(_most_pods(kind, is_managed=is_managed)),
    }
    return capacity | (devices_of(kind, has_efa=has_efa) if has_devices else {})


def allocatable_of(
    kind: InstanceType, *, has_devices: bool, has_efa: bool = False, is_managed: bool = False
) -> dict[str, str]:
    """Return the part of the capacity that pods can request."""
    reserved_mib = 255 + 11 * _most_pods(kind, is_managed=is_managed) + _EVICTION_MIB
    reserved_mib += _huge_pages_mib(kind, has_efa=has_efa)
    changed = {
        "cpu": f"{kind.vcpu * 1000 - _reserved_millicores(kind.vcpu)}m",
        "memory": f"{(_memory_mib(kind) - reserved_mib) * 1024}Ki",
        "ephemeral-storage": "95491281146",
    }
    return total_amounts_of(kind, has_devices=has_devices, has_efa=has_efa, is_managed=is_managed) | changed


def _memory_mib(kind: InstanceType) -> int:
    return int(kind.memory_bytes * (1 - _HYPERVISOR_SHARE)) // _MIB - _KERNEL_MIB


def _huge_pages_mib(kind: InstanceType, *, has_efa: bool) -> int:
    return 2 * (kind.vcpu * _HUGE_PAGES_PER_CORE + 1) if has_efa else 0


def _most_pods(kind: InstanceType, *, is_managed: bool) -> int:
    own = kind.max_pods or 110
    return min(own, next(most for cores, most in _MANAGED_PODS if kind.vcpu < cores)) if is_managed else own


def _reserved_millicores(cores: int) -> int:
    reserved, counted = 0.0, 0
    for limit, share in _CPU_SHARES:
        reserved += max(0, min(cores, limit) - counted) * share
        counted = max(counted, min(cores, limit))
    return round((reserved + max(0, cores - counted) * _CPU_SHARE_BEYOND) * 1000)

"""Kubernetes quantities, and the requests that a scheduler counts for a pod."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache

from msgspec.structs import replace

from actions.fleet.facts import CORES_PER_NEURON_DEVICE, NOTHING, Resources
from actions.fleet.quantity import parse_quantity

__all__ = ["effective_requests", "parse_quantity", "resources_of"]

_GPUS = ("nvidia.com/gpu", "nvidia.com/gpu.shared", "amd.com/gpu")
"""GPUs, and shares of one where the device plugin renames what it shares in time (`renameByDefault`)."""
_MIG_PREFIX = "nvidia.com/mig-"
"""Parts of GPUs, `nvidia.com/mig-1g.10gb`, where the device plugin names them by their profile (strategy `mixed`)."""
_MEMO_SIZE = 16384


def resources_of(amounts: Mapping[str, str] | None) -> Resources:
    """Return the resources that we count, from a requests or allocatable map.

    Raises:
        ValueError: A quantity cannot be read.
    """
    return _resources(tuple(amounts.items())) if amounts else NOTHING


@lru_cache(maxsize=_MEMO_SIZE)
def _resources(pairs: tuple[tuple[str, str], ...]) -> Resources:
    """Read resources, memoised: a fleet has few distinct ones."""
    amounts = dict(pairs)

    def whole(name: str) -> int:
        return round(parse_quantity(amounts[name])) if name in amounts else 0

    devices = whole("aws.amazon.com/neuron") or whole("aws.amazon.com/neurondevice")
    cores = whole("aws.amazon.com/neuroncore")
    return Resources(
        cpu_milli=round(parse_quantity(amounts.get("cpu", "0")) * 1000),
        memory_bytes=whole("memory"),
        gpu=sum(whole(name) for name in amounts if name in _GPUS or name.startswith(_MIG_PREFIX)),
        neuron=devices or -(-cores // CORES_PER_NEURON_DEVICE),
        efa=whole("vpc.amazonaws.com/efa"),
        neuron_cores=cores,
    )


def effective_requests(
    containers: Iterable[Resources],
    init: Iterable[tuple[Resources, bool]],
    overhead: Resources,
    whole_pod: Mapping[str, str] | None = None,
) -> Resources:
    """Return the resources that a pod occupies on its node, by the scheduler's rule.

    Args:
        containers: Requests of the main containers.
        init: Requests of the init containers in order; whether each is a sidecar (`restartPolicy: Always`).
        overhead: The pod's overhead.
        whole_pod: Requests of the pod as a whole (`spec.resources`), which replace what its containers sum up to.

    Source: `PodRequests` of k8s.io/component-helpers v0.34.4.
    """
    total = _of_containers(containers, init)
    if whole_pod:
        given = resources_of(whole_pod)
        total = replace(
            total,
            cpu_milli=given.cpu_milli if "cpu" in whole_pod else total.cpu_milli,
            memory_bytes=given.memory_bytes if "memory" in whole_pod else total.memory_bytes,
        )
    return total if overhead is NOTHING else total.plus(overhead)


def _of_containers(containers: Iterable[Resources], init: Iterable[tuple[Resources, bool]]) -> Resources:
    total, sidecars, peak = NOTHING, NOTHING, NOTHING
    for requests in containers:
        total = requests if total is NOTHING else total.plus(requests)
    for requests, is_sidecar in init:
        if is_sidecar:
            sidecars = sidecars.plus(requests)
            peak = _larger(peak, sidecars)
        else:
            peak = _larger(peak, sidecars.plus(requests))
    if peak is NOTHING:
        return total
    return _larger(total.plus(sidecars), peak)


def _larger(left: Resources, right: Resources) -> Resources:
    return Resources(
        max(left.cpu_milli, right.cpu_milli),
        max(left.memory_bytes, right.memory_bytes),
        max(left.gpu, right.gpu),
        max(left.neuron, right.neuron),
        max(left.efa, right.efa),
        max(left.neuron_cores, right.neuron_cores),
    )

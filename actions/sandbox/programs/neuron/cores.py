"""The Neuron cores of a container at one moment, from which neuron-monitor and the exporters print.

Source:
    trn1: two NeuronCores v2 and 32 GiB a device.
"""

from __future__ import annotations

import random

import msgspec

from actions.sandbox.programs.program import ContainerView, Load, NeuronLoad

CORES_OF_A_DEVICE = 2
DEVICE_BYTES = 32 << 30
PROCESS_ID = 7286
_MIB = 1 << 20


class Core(msgspec.Struct, frozen=True):
    """A core and its load."""

    index: int
    """Counted over the instance."""
    device: int
    utilisation_percent: float
    memory_bytes: int
    """Used, of the device's memory."""


class InstanceIdentity(msgspec.Struct, frozen=True):
    """The identity of the instance, as the tools print it."""

    type: str
    id: str


def load_of(load: Load) -> NeuronLoad:
    """Return the load of Neuron devices: idle if the load is of other devices."""
    return load if isinstance(load, NeuronLoad) else NeuronLoad()


def instance_of(container: ContainerView) -> InstanceIdentity:
    """Return the identity of the instance, as far as a container can know it."""
    generator = random.Random(container.environment.get("HOSTNAME", container.pod))
    digits = "".join(generator.choice("0123456789abcdef") for _ in range(17))
    return InstanceIdentity(container.instance_type or "trn1.32xlarge", f"i-{digits}")


def cores_of(container: ContainerView, load: Load, moment: float) -> list[Core]:
    """All cores of the container's devices at `moment` (seconds since the epoch), in order."""
    known = load_of(load)
    cores = []
    for device in container.neurons:
        for part in range(CORES_OF_A_DEVICE):
            index = device * CORES_OF_A_DEVICE + part
            cores.append(Core(index, device, *_use_of(known, index, moment)))
    return cores


def _use_of(load: NeuronLoad, index: int, moment: float) -> tuple[float, int]:
    jitter = random.Random(int(moment) * 131 + index)
    busy = load.utilisation_percent
    shown = min(100.0, max(0.0, busy + jitter.uniform(-1.6, 1.6))) if busy else 0.0
    return round(shown, 2), load.memory_mib * _MIB

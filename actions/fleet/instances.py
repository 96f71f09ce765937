"""The instance table: what one EC2 instance of a type has."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import StrEnum
from pathlib import Path

import msgspec

from actions.base.files import asset
from actions.fleet.tables import TableRow, load_rows

GIB = 1 << 30


class Accelerator(StrEnum):
    """What kind of device an instance is paid for."""

    NONE = ""
    GPU = "gpu"
    NEURON = "neuron"


class InstanceType(msgspec.Struct, frozen=True):
    """One instance type as the machine is, before the kubelet reserves its share.

    Source: columns of `assets/instances/ec2.csv`; see the README beside it.
    """

    name: str
    vcpu: int
    memory_bytes: int
    accelerator: Accelerator
    accelerator_model: str
    """`A10G`, `H100`, `trainium`…; empty without accelerators."""
    accelerators: int
    """Whole devices: GPUs, or Neuron devices (not cores)."""
    accelerator_memory_gib: float | None
    """Of each device. `None` if unknown or without accelerators."""
    neuron_cores: int
    """Of the whole instance; 0 without Neuron devices."""
    efa_interfaces: int | None
    """`None` if unknown."""
    max_pods: int | None
    """The kubelet's default limit under the VPC CNI. `None` if unknown."""

    @property
    def gpus(self) -> int:
        """NVIDIA GPUs."""
        return self.accelerators if self.accelerator is Accelerator.GPU else 0

    @property
    def neuron_devices(self) -> int:
        """Neuron devices."""
        return self.accelerators if self.accelerator is Accelerator.NEURON else 0

    @property
    def efa_reads_remotely(self) -> bool:
        """Whether its EFA devices can read the memory of others (RDMA read), as GPUDirect needs it.

        Source: aws-ofi-nccl and libfabric's efa provider: P4d and later P types and Trainium; not G types.
        """
        return bool(self.efa_interfaces) and self.name.startswith(("p4d", "p5", "p6", "trn"))


class InstanceTable:
    """Instance types by name.

    Args:
        types: What is known.
    """

    def __init__(self, types: Mapping[str, InstanceType]) -> None:
        self._types = dict(types)

    @classmethod
    def load(cls, path: Path | None = None) -> InstanceTable:
        """Read the table at `path`, or the one that ships with the program.

        Raises:
            FormatError: A row is wrong; the message names file and line.
        """
        return cls({kind.name: kind for kind in map(_instance_of, load_rows(path or asset("instances/ec2.csv")))})

    def find(self, name: str) -> InstanceType | None:
        """The type called `name`, `None` if the table does not list it."""
        return self._types.get(name)

    def __iter__(self) -> Iterator[InstanceType]:
        return iter(self._types.values())

    def __len__(self) -> int:
        return len(self._types)


def _instance_of(row: TableRow) -> InstanceType:
    vcpu, memory_gib = row.count("vcpu"), row.text("memory_gib")
    if not vcpu or not memory_gib:
        raise row.error("vcpu and memory_gib must be known")
    try:
        accelerator = Accelerator(row.text("accelerator"))
        memory_bytes = int(float(memory_gib) * GIB)
        each_gib = float(row.text("accelerator_memory_gib")) if row.text("accelerator_memory_gib") else None
    except ValueError as error:
        raise row.error(str(error)) from error
    return InstanceType(
        name=row.text("instance_type"),
        vcpu=vcpu,
        memory_bytes=memory_bytes,
        accelerator=accelerator,
        accelerator_model=row.text("accelerator_model"),
        accelerators=row.count("accelerator_count") or 0,
        accelerator_memory_gib=each_gib,
        neuron_cores=row.count("neuron_cores") or 0,
        efa_interfaces=row.count("efa_interfaces"),
        max_pods=row.count("max_pods"),
    )

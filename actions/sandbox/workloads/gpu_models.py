"""Models of NVIDIA devices by the EC2 instance type that has them.

Source:
    Captured tables of `nvidia-smi` for A10G (g5, driver 535), A100 (driver 550) and H100 (driver 570); AWS's list of
    accelerated instance types for the models and counts; NVIDIA's data sheets for power limits and clocks.
"""

from __future__ import annotations

import msgspec


class GpuModel(msgspec.Struct, frozen=True):
    """One model, as its driver shows it."""

    name: str
    total_mib: int
    limit_watts: int
    idle_watts: float
    busy_watts: float
    """In training, at full load."""
    busy_celsius: int
    clock_mhz: int
    """The multiprocessors' highest."""
    dense_tflops: float
    """Peak of matrix products in bfloat16, without sparsity."""
    buses: tuple[str, ...]
    """PCI addresses of a node's devices, in order, without the domain."""
    driver: str = "570.133.20"
    cuda: str = "12.8"
    fan: str = "N/A"
    mig: str = "Disabled"
    middle_column: int = 24
    """Width of the middle column of the table: 22 up to driver 535."""

    def celsius(self, utilisation_percent: int) -> int:
        """How warm it is at a load."""
        return 23 + round(utilisation_percent / 100 * (self.busy_celsius - 23))

    def power_watts(self, utilisation_percent: int) -> float:
        """What it draws at a load."""
        return self.idle_watts + utilisation_percent / 100 * (self.busy_watts - self.idle_watts)


A10G = GpuModel(
    name="NVIDIA A10G",
    total_mib=23028,
    limit_watts=300,
    idle_watts=9.2,
    busy_watts=117.2,
    busy_celsius=34,
    clock_mhz=1710,
    dense_tflops=70.0,
    buses=("00:1B.0", "00:1C.0", "00:1D.0", "00:1E.0", "00:16.0", "00:17.0", "00:18.0", "00:19.0"),
    driver="535.230.02",
    cuda="12.2",
    fan="0%",
    mig="N/A",
    middle_column=22,
)
_P4_BUSES = ("10:1C.0", "10:1D.0", "20:1C.0", "20:1D.0", "90:1C.0", "90:1D.0", "A0:1C.0", "A0:1D.0")
_P5_BUSES = ("53:00.0", "64:00.0", "75:00.0", "86:00.0", "97:00.0", "A8:00.0", "B9:00.0", "CA:00.0")
_A100_40 = GpuModel("NVIDIA A100-SXM4-40GB", 40960, 400, 52.0, 371.0, 58, 1410, 312.0, _P4_BUSES)
_A100_80 = GpuModel("NVIDIA A100-SXM4-80GB", 81920, 400, 61.0, 382.0, 61, 1410, 312.0, _P4_BUSES)
_H100 = GpuModel("NVIDIA H100 80GB HBM3", 81559, 700, 69.0, 641.0, 57, 1980, 989.0, _P5_BUSES)
_H200 = GpuModel("NVIDIA H200", 143771, 700, 76.0, 652.0, 56, 1980, 989.0, _P5_BUSES)
_BY_FAMILY = {"p4d": _A100_40, "p4de": _A100_80, "p5": _H100, "p5e": _H200, "p5en": _H200}


def model_of(instance_type: str) -> GpuModel:
    """The devices of an instance type; an A10G for one that is not listed."""
    return _BY_FAMILY.get(instance_type.partition(".")[0], A10G)

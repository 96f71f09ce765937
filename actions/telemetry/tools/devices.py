"""Accelerators of one machine at one moment, from any tool's output.

A GPU is a device; of Neuron, a device is a chip whose cores are its parts.
"""

from __future__ import annotations

import msgspec

from actions.telemetry.tools.neuron import (
    NeuronListing,
    NeuronReport,
    NeuronScreen,
    is_top,
    read_monitor_line,
    read_neuron_ls,
    read_neuron_top,
)
from actions.telemetry.tools.nvidia_smi import read as read_smi
from actions.telemetry.tools.nvidia_smi_reading import SmiReading

_MIB = 1 << 20
_DEFAULT_CORES = 2
"""Cores of a device if the record has no number: those of Trainium 1 and Inferentia 2."""


class Device(msgspec.Struct, frozen=True, gc=False):
    """An accelerator. `None` is unknown."""

    index: int
    label: str
    """`0` for a GPU, `ND0` for a Neuron device."""
    model: str = ""
    load_pct: float | None = None
    """For a Neuron device the mean of its cores."""
    core_pcts: tuple[float, ...] = ()
    """Load of each core of a Neuron device."""
    mem_used_bytes: int | None = None
    mem_total_bytes: int | None = None
    power_w: float | None = None
    power_cap_w: float | None = None
    temp_c: int | None = None


class DeviceReading(msgspec.Struct, frozen=True, gc=False):
    """All of one machine, or of one container."""

    devices: tuple[Device, ...] = ()
    noun: str = "GPU"
    error: str = ""
    """The tool's own words where it gave no answer."""


def read_devices(text: str) -> DeviceReading:
    """Read what nvidia-smi, neuron-monitor, neuron-top or neuron-ls printed; of several records the last whole one."""
    reports = [report for line in text.splitlines() if (report := read_monitor_line(line))]
    if reports:
        return _of_report(reports[-1])
    if is_top(text):
        return _of_screen(read_neuron_top(text))
    if text.lstrip().startswith("[") and '"neuron_device"' in text:
        return _of_listing(read_neuron_ls(text))
    if "euron" in text and "NVIDIA" not in text:
        return DeviceReading(noun="Neuron device", error=" ".join(text.split())[:400])
    return _of_smi(read_smi(text))


def _of_smi(reading: SmiReading) -> DeviceReading:
    devices = tuple(
        Device(
            index=gpu.index,
            label=str(gpu.index),
            model=gpu.name,
            load_pct=gpu.util_pct,
            mem_used_bytes=None if gpu.mem_used_mib is None else gpu.mem_used_mib * _MIB,
            mem_total_bytes=None if gpu.mem_total_mib is None else gpu.mem_total_mib * _MIB,
            power_w=gpu.power_w,
            power_cap_w=gpu.power_cap_w,
            temp_c=gpu.temp_c,
        )
        for gpu in reading.gpus
    )
    return DeviceReading(devices, error=reading.error)


def _of_report(report: NeuronReport) -> DeviceReading:
    per_device = report.cores_per_device or _DEFAULT_CORES
    if report.logical_core_config and report.logical_core_config > 1:
        per_device = max(1, per_device // report.logical_core_config)
    numbers = sorted({core // per_device for core in report.cores} | set(range(report.device_count or 0)))
    devices = []
    for number in numbers:
        cores = [report.cores.get(number * per_device + place) for place in range(per_device)]
        loads = tuple(core.util_max if core else 0.0 for core in cores)
        devices.append(
            Device(
                index=number,
                label=f"ND{number}",
                model=report.device_type or "Neuron",
                load_pct=sum(loads) / len(loads),
                core_pcts=loads,
                mem_used_bytes=sum(core.mem_bytes for core in cores if core),
                mem_total_bytes=report.device_memory_size,
            )
        )
    return DeviceReading(tuple(devices), "Neuron device", "" if devices else "neuron-monitor shows no device.")


def _of_screen(screen: NeuronScreen) -> DeviceReading:
    devices = tuple(
        Device(number, f"ND{number}", "Neuron", sum(cores) / len(cores) if cores else None, cores)
        for number, cores in sorted(screen.devices.items())
    )
    return DeviceReading(devices, "Neuron device", "" if devices else "neuron-top shows no device.")


def _of_listing(listing: NeuronListing) -> DeviceReading:
    devices = tuple(
        Device(one.device, f"ND{one.device}", "Neuron", mem_total_bytes=one.memory_bytes) for one in listing.devices
    )
    return DeviceReading(devices, "Neuron device", listing.error)

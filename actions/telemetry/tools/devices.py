"""Accelerators of one machine at one moment, from any tool's output.

A GPU is a device; of Neuron, a device is a chip whose cores are its parts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import msgspec
from msgspec.structs import replace

from actions.base.readonly import reading_command
from actions.telemetry.tools.neuron import (
    CoreUse,
    NeuronListing,
    NeuronReport,
    NeuronScreen,
    is_top,
    read_monitor_line,
    read_neuron_ls,
    read_neuron_top,
)
from actions.telemetry.tools.nvidia_smi import read as read_smi
from actions.telemetry.tools.nvidia_smi_reading import Gpu, MigDevice, SmiReading
from actions.telemetry.tools.nvidia_smi_rows import DETAIL_FIELDS
from actions.telemetry.tools.traffic import TRAFFIC_SCRIPT, Traffic, read_traffic

NVIDIA_COMMAND = reading_command(
    "sh",
    "-c",
    f"nvidia-smi || exit; nvidia-smi --query-gpu={','.join(DETAIL_FIELDS)} --format=csv,nounits; {TRAFFIC_SCRIPT}",
)
"""The table, then what it lacks: one unknown field fails a query, and the table still stands; then links."""
NEURON_COMMAND = reading_command("sh", "-c", "timeout 15 neuron-monitor | head -n 2 | tail -n 1")
"""The second record of a program that prints one every five seconds; the first has no data of the runtimes yet."""
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
    clock_mhz: int | None = None
    """Of the multiprocessors."""
    clock_max_mhz: int | None = None
    throttle: tuple[str, ...] = ()
    """The reasons why its clock is held down; see `throttle_reasons`."""
    throttle_shares: tuple[float, ...] = ()
    """The part of the time in which each of them held it down; empty for a single moment."""
    ecc_corrected: int | None = None
    ecc_uncorrected: int | None = None
    """Errors since the driver was loaded; of Neuron, in the period of the record."""
    processes: int | None = None
    """Number of processes that the tool named; `None` if it named none: in a container it often sees none."""
    mem_parts: tuple[tuple[str, int], ...] = ()
    """Memory in use by kind, in bytes, the greatest first: `tensors`, `model code`."""
    nvlink_bytes: int | None = None
    """Sent and received over its NVLinks since the driver was loaded; `None` without any."""
    nvlink_errors: int | None = None
    """Errors of its NVLinks since the driver was loaded."""
    nvlink_rate: float | None = None
    """Bytes a second over its NVLinks, sent and received, since the sample before."""
    efa_bytes: int | None = None
    """Sent and received over all EFA adapters of its node; the same for each device of a node."""
    efa_rate: float | None = None
    """Bytes a second over all EFA adapters of its node, sent and received, since the sample before."""


class DeviceReading(msgspec.Struct, frozen=True, gc=False):
    """All of one machine, or of one container."""

    devices: tuple[Device, ...] = ()
    noun: str = "GPU"
    error: str = ""
    """The tool's own words where it gave no answer."""
    trouble: tuple[str, ...] = ()
    """Errors that the runtimes counted, as the end of a sentence: `3 hardware errors`."""


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
    return _with_traffic(_of_smi(read_smi(text)), read_traffic(text))


def _with_traffic(reading: DeviceReading, traffic: Traffic) -> DeviceReading:
    """Add the counters; a MIG device has none."""
    if not traffic.nvlink_bytes and traffic.efa_bytes is None:
        return reading
    return replace(
        reading,
        devices=tuple(
            replace(
                device,
                nvlink_bytes=traffic.nvlink_bytes.get(device.index) if device.label.isdigit() else None,
                nvlink_errors=traffic.errors_of(device.index) if device.label.isdigit() else None,
                efa_bytes=traffic.efa_bytes,
            )
            for device in reading.devices
        ),
    )


def _of_smi(reading: SmiReading) -> DeviceReading:
    """Return the GPUs. One that is divided (MIG) is not a device, its MIG devices are."""
    divided: dict[int, list[MigDevice]] = {}
    for mig in reading.mig_devices:
        divided.setdefault(mig.gpu, []).append(mig)
    counted = Counter((process.gpu, process.gi, process.ci) for process in reading.processes)
    devices: list[Device] = []
    for gpu in reading.gpus:
        parts = divided.get(gpu.index, [])
        devices += [_of_mig(gpu, mig, len(devices) + place, counted) for place, mig in enumerate(parts)]
        if not parts:
            devices.append(_of_gpu(gpu, sum(count for key, count in counted.items() if key[0] == gpu.index)))
    noun = "MIG device" if divided and all(gpu.index in divided for gpu in reading.gpus) else "GPU"
    return DeviceReading(tuple(devices), noun, reading.error)


def _of_gpu(gpu: Gpu, processes: int) -> Device:
    return Device(
        index=gpu.index,
        label=str(gpu.index),
        model=gpu.name,
        load_pct=gpu.util_pct,
        mem_used_bytes=None if gpu.mem_used_mib is None else gpu.mem_used_mib * _MIB,
        mem_total_bytes=None if gpu.mem_total_mib is None else gpu.mem_total_mib * _MIB,
        power_w=gpu.power_w,
        power_cap_w=gpu.power_cap_w,
        temp_c=gpu.temp_c,
        clock_mhz=gpu.clock_mhz,
        clock_max_mhz=gpu.clock_max_mhz,
        throttle=gpu.throttle,
        ecc_corrected=gpu.ecc_corrected,
        ecc_uncorrected=gpu.ecc_uncorrected,
        processes=processes or None,
    )


def _of_mig(
    gpu: Gpu, mig: MigDevice, index: int, counted: Mapping[tuple[int | None, int | None, int | None], int]
) -> Device:
    """Return a MIG device. Load and power are measured of the whole GPU only, if at all."""
    return Device(
        index=index,
        label=f"{gpu.index}:{mig.device}",
        model=f"{gpu.name} MIG {mig.profile or f'{mig.sm} SM' if mig.sm or mig.profile else ''}".rstrip(),
        mem_used_bytes=None if mig.mem_used_mib is None else mig.mem_used_mib * _MIB,
        mem_total_bytes=None if mig.mem_total_mib is None else mig.mem_total_mib * _MIB,
        temp_c=gpu.temp_c,
        clock_mhz=gpu.clock_mhz,
        clock_max_mhz=gpu.clock_max_mhz,
        throttle=gpu.throttle,
        ecc_uncorrected=mig.ecc_uncorrected,
        processes=counted.get((gpu.index, mig.gi, mig.ci)) or None,
    )


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
                ecc_corrected=report.device_ecc.get(number, (None, None))[0],
                ecc_uncorrected=report.device_ecc.get(number, (None, None))[1],
                processes=len(report.runtimes) or None,
                mem_parts=_memory_parts([core for core in cores if core]),
            )
        )
    error = "" if devices else "neuron-monitor shows no device."
    return DeviceReading(tuple(devices), "Neuron device", error, report.trouble)


def _memory_parts(cores: list[CoreUse]) -> tuple[tuple[str, int], ...]:
    total: Counter[str] = Counter()
    for core in cores:
        total.update(core.mem_parts)
    return tuple((name.replace("_", " "), size) for name, size in total.most_common() if size)


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

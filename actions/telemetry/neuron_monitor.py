"""Reports of neuron-monitor: one JSON object a line.

Every runtime lists all cores of the instance, used by it or not, so a core's utilization is the greatest that any
runtime saw, and its memory is the sum. `error_summary.generic` is large in healthy runs and no alarm.

Source: AWS Neuron SDK guide 2.2x, neuron-monitor; captures of trn1, inf1 and inf2;
`docs/facts/neuron.md#neuron-monitor`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from actions.base.untrusted import cleaned


class NeuronRuntime(msgspec.Struct, frozen=True, gc=False):
    """One process that uses Neuron cores."""

    pid: int
    tag: str | None
    device_mem_bytes: int
    host_mem_bytes: int
    completed: int
    """Executions in the period."""
    errors: int
    """All error counts of the period added up, `generic` among them."""
    device_latency_p50_s: float | None
    device_latency_p99_s: float | None
    failed: int
    """Executions that ended wrong: with errors, numerical errors, or out of time."""
    hardware_errors: int
    group_errors: dict[str, str]
    """What the monitor could not measure, by group."""


class CoreUse(msgspec.Struct, frozen=True, gc=False):
    """One core over all runtimes."""

    util_max: float
    """Percent, the greatest of any runtime."""
    mem_bytes: int
    util_sum: float = 0.0
    """Percent over all runtimes."""
    flops: int | None = None
    """Floating-point operations a second; `None` where the tool does not count them."""


class NeuronReport(msgspec.Struct, frozen=True, gc=False):
    """One record."""

    runtimes: tuple[NeuronRuntime, ...]
    cores: dict[int, CoreUse]
    """By number, counted over the whole instance."""
    ecc_uncorrected: int | None
    """In the period; `None` if nobody counted."""
    host_memory_used_bytes: int | None
    vcpu_user_pct: float | None
    instance_type: str | None
    device_type: str | None
    device_count: int | None
    cores_per_device: int | None
    logical_core_config: int | None
    device_memory_size: int | None
    """Bytes of each device."""

    @property
    def device_mem_total_bytes(self) -> int:
        """Used on all devices."""
        return sum(runtime.device_mem_bytes for runtime in self.runtimes)


def read_monitor_line(line: str) -> NeuronReport | None:
    """Read one record; `None` for a line that is none, such as the cut last line of a pipe."""
    text = line.strip()
    if not text.startswith("{"):
        return None
    try:
        return _report_of(cleaned(msgspec.json.decode(text)))
    except (msgspec.DecodeError, RecursionError):
        return None


def read_records(text: str) -> Iterator[NeuronReport]:
    """Read records that somebody has laid out over many lines, one behind the other."""
    decoder = json.JSONDecoder()
    start = text.find("{") if "neuron_runtime_data" in text else -1
    while start >= 0:
        try:
            record, end = decoder.raw_decode(text, start)
        except (ValueError, RecursionError):
            start = text.find("\n{", start + 1)
            start = start + 1 if start >= 0 else -1
            continue
        report = _report_of(cleaned(record))
        if report is not None:
            yield report
        start = text.find("{", end)


def _report_of(record: object) -> NeuronReport | None:
    if not isinstance(record, dict) or "neuron_runtime_data" not in record:
        return None
    reports = [entry for entry in _list(record, "neuron_runtime_data") if isinstance(entry, dict)]
    system, hardware = _table(record, "system_data"), _table(record, "neuron_hardware_info")
    instance = _table(record, "instance_info")
    return NeuronReport(
        runtimes=tuple(map(_runtime_of, reports)),
        cores=_cores_of(reports),
        ecc_uncorrected=_ecc_of(system),
        host_memory_used_bytes=_whole(_table(system, "memory_info").get("memory_used_bytes")),
        vcpu_user_pct=_number(_table(system, "vcpu_usage", "average_usage").get("user")),
        instance_type=_text(instance.get("instance_type")),
        device_type=_text(hardware.get("neuron_device_type")),
        device_count=_whole(hardware.get("neuron_device_count")),
        cores_per_device=_whole(hardware.get("neuroncore_per_device_count")),
        logical_core_config=_whole(hardware.get("logical_neuroncore_config")),
        device_memory_size=_whole(hardware.get("neuron_device_memory_size")),
    )


def _runtime_of(entry: Mapping[str, Any]) -> NeuronRuntime:
    report = _table(entry, "report")
    stats = _table(report, "execution_stats")
    summary, errors = _table(stats, "execution_summary"), _table(stats, "error_summary")
    used = _table(report, "memory_used", "neuron_runtime_used_bytes")
    latency = _table(stats, "latency_stats", "device_latency")
    failures = ("completed_with_err", "completed_with_num_err", "timed_out")
    return NeuronRuntime(
        pid=_whole(entry.get("pid")) or 0,
        tag=_text(entry.get("neuron_runtime_tag")),
        device_mem_bytes=_whole(used.get("neuron_device")) or 0,
        host_mem_bytes=_whole(used.get("host")) or 0,
        completed=_whole(summary.get("completed")) or 0,
        errors=sum(_whole(count) or 0 for count in errors.values()),
        device_latency_p50_s=_number(latency.get("p50")),
        device_latency_p99_s=_number(latency.get("p99")),
        failed=sum(_whole(summary.get(name)) or 0 for name in failures),
        hardware_errors=_whole(errors.get("hardware")) or 0,
        group_errors={
            name: group["error"]
            for name, group in report.items()
            if isinstance(group, dict) and isinstance(group.get("error"), str) and group["error"]
        },
    )


def _cores_of(reports: Sequence[Mapping[str, Any]]) -> dict[int, CoreUse]:
    cores: dict[int, CoreUse] = {}
    for entry in reports:
        report = _table(entry, "report")
        in_use = _table(report, "neuroncore_counters", "neuroncores_in_use")
        used = _table(report, "memory_used", "neuron_runtime_used_bytes", "usage_breakdown", "neuroncore_memory_usage")
        for name in in_use:
            if not name.isdigit():
                continue
            before = cores.get(int(name), CoreUse(0.0, 0))
            core = _table(in_use, name)
            seen = _number(core.get("neuroncore_utilization")) or 0.0
            size = sum(_whole(part) or 0 for part in _table(used, name).values())
            flops = _whole(core.get("effective_flops", core.get("flops")))
            cores[int(name)] = CoreUse(
                util_max=max(before.util_max, seen),
                mem_bytes=before.mem_bytes + size,
                util_sum=before.util_sum + seen,
                flops=before.flops if flops is None else flops + (before.flops or 0),
            )
    return cores


def _ecc_of(system: Mapping[str, Any]) -> int | None:
    devices = _list(_table(system, "neuron_hw_counters"), "neuron_devices")
    counts = [
        _whole(device.get(name))
        for device in devices
        if isinstance(device, dict)
        for name in ("mem_ecc_uncorrected", "sram_ecc_uncorrected")
    ]
    known = [count for count in counts if count is not None]
    return sum(known) if known else None


def _table(source: Mapping[str, Any], *path: str) -> dict[str, Any]:
    found: object = source
    for key in path:
        found = found.get(key) if isinstance(found, Mapping) else None
    return found if isinstance(found, dict) else {}


def _list(source: Mapping[str, Any], key: str) -> list[Any]:
    found = source.get(key)
    return found if isinstance(found, list) else []


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def _whole(value: object) -> int | None:
    number = _number(value)
    return None if number is None or not number.is_integer() else int(number)


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value else None

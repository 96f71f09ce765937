"""Readings as JSON documents: plain values, `null` for what is unknown, `"nan"`, `"inf"` and `"-inf"` as texts."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import msgspec

from actions.base.untrusted import redact
from actions.telemetry.points import Point, number_or_none
from actions.telemetry.tools.collectives import NcclReading, NccomReading
from actions.telemetry.tools.efa import EfaReading
from actions.telemetry.tools.neuron import NeuronDevice, NeuronListing, NeuronReport, NeuronScreen
from actions.telemetry.tools.node_listing import NodeListing, quantity_of
from actions.telemetry.tools.nvidia_smi_reading import Gpu, MigDevice, SmiReading, SmiRows
from actions.telemetry.tools.topology import Topology

Json = dict[str, object]

_GIB = 1 << 30


def value_of(number: float | None) -> float | str | None:
    """A number as JSON can write it."""
    if number is None or math.isfinite(number):
        return number
    return "nan" if math.isnan(number) else "inf" if number > 0 else "-inf"


def point_document(point: Point) -> Json:
    """`step, metric, value, raw, key, rank`, and `epoch` where it is known."""
    document: Json = {
        "step": point.step,
        "metric": point.metric,
        "value": value_of(point.value),
        "raw": point.raw,
        "key": point.key,
        "rank": point.rank,
    }
    return document if point.epoch is None else document | {"epoch": value_of(point.epoch)}


def nccl_document(reading: NcclReading | NccomReading) -> Json:
    """The document of nccl-tests or nccom-test: rows, their average, and what else the tool reported."""
    average = value_of(reading.avg_bus_bandwidth)
    if isinstance(reading, NccomReading):
        rows = [{name: _finite(cell) for name, cell in row.items()} for row in reading.rows]
        error = redact(reading.error) if reading.error else None
        return {"format": "nccom-test", "rows": rows, "avg_bus_bandwidth": average, "error": error}
    found: Json = _finite(msgspec.to_builtins(reading))  # type: ignore[assignment]  # a struct becomes a mapping
    return found | {
        "format": "nccl-tests",
        "avg_bus_bandwidth": average,
        "peak_busbw": value_of(reading.peak_busbw),
        "mean_of_rows": _mean(reading),
        "table_complete": _is_complete(reading),
        "is_checked": reading.is_checked,
        "error": redact(reading.error) or None,
    }


def smi_document(reading: SmiReading, *, answers: int = 1) -> Json:
    """GPUs, MIG devices, processes; rows where the tool was to print rows."""
    document: Json = {
        "format": _form_of(reading),
        "answers": answers,
        "smi_version": reading.smi_version,
        "driver_version": reading.driver_version,
        "cuda_version": reading.cuda_version,
        "gpus": [_gpu_document(gpu) for gpu in reading.gpus],
        "mig_devices": [_mig_document(mig) for mig in reading.mig_devices],
        "processes": msgspec.to_builtins(reading.processes),
        "warnings": list(reading.warnings),
    }
    if reading.rows is not None:
        document |= _rows_document(reading.rows)
    return document | {"error": redact(reading.error)} if reading.error else document


def neuron_document(reading: NeuronReport | NeuronScreen | NeuronListing, *, records: int = 0) -> Json:
    """The document of neuron-monitor, neuron-top or neuron-ls."""
    match reading:
        case NeuronReport():
            return _monitor_document(reading, records)
        case NeuronScreen():
            return _screen_document(reading)
        case NeuronListing():
            return _listing_document(reading)


def efa_document(reading: EfaReading | Sequence[NodeListing]) -> Json:
    """The adapters that each rank sees, or the resources of nodes."""
    if isinstance(reading, EfaReading):
        ranks = sorted({one.rank for one in reading.providers})
        return {
            "format": "fi_info",
            "providers": msgspec.to_builtins(reading.providers),
            "adapters": {str(rank): reading.adapters_of(rank) for rank in ranks},
            "error": redact(reading.error) or None,
        }
    nodes = [{"name": node.name or None, "sections": _sections_of(node)} for node in reading]
    return {"format": "kubectl-describe-node", "sections": nodes[0]["sections"] if nodes else {}, "nodes": nodes}


def topology_document(reading: Topology) -> Json:
    """The devices of `nvidia-smi topo -m` with their links."""
    document = msgspec.to_builtins(reading) | {"format": "nvidia-smi-topo", "error": redact(reading.error) or None}
    for device in document["devices"]:
        device |= {key: device[key] or None for key in ("cpu_affinity", "numa_affinity", "gpu_numa_id", "adapter")}
    return {"format": document.pop("format"), **document}


def _finite(value: object) -> object:
    """The same with `"nan"` and its like in the place of numbers that JSON does not have."""
    if isinstance(value, float):
        return value_of(value)
    if isinstance(value, Mapping):
        return {key: _finite(item) for key, item in value.items()}
    return [_finite(item) for item in value] if isinstance(value, list | tuple) else value


def _mean(reading: NcclReading) -> float | str | None:
    """Return the average of the bus bandwidths that are there: the printed average may be of more rows."""
    known = [way.busbw for row in reading.rows for way in row.ways]
    return value_of(round(sum(known) / len(known), 4)) if known else None


def _is_complete(reading: NcclReading) -> bool:
    """Return whether the printed average is that of the rows that are there, as far as its few digits show."""
    known = [way.busbw for row in reading.rows for way in row.ways]
    average = reading.avg_bus_bandwidth
    return (
        bool(known)
        and average is not None
        and math.isclose(sum(known) / len(known), average, rel_tol=2e-3, abs_tol=6e-3)
    )


def _form_of(reading: SmiReading) -> str:
    """`nvidia-smi-table` and so on; `nvidia-smi` alone where it gave no answer."""
    form = reading.form
    if reading.rows is not None and not form:
        form = ("pmon" if "pid" in reading.rows.columns else "dmon") if reading.rows.units else "csv"
    return f"nvidia-smi-{form}" if form else "nvidia-smi"


_SOMETIMES = ("clock_mhz", "clock_max_mhz", "throttle", "ecc_corrected")
"""Keys that stand only where the tool printed them."""


def _gpu_document(gpu: Gpu) -> Json:
    document: Json = msgspec.to_builtins(gpu)
    untold = {name for name in _SOMETIMES if document[name] in (None, [], ())}
    return {key: value for key, value in document.items() if key not in untold and (value != "" or key == "name")}


def _mig_document(mig: MigDevice) -> Json:
    """`nvidia-smi` heads the number of a device `Dev` in its table, and calls it `Device` in its list."""
    document: Json = msgspec.to_builtins(mig)
    if mig.profile:
        return {key: document[key] for key in ("gpu", "profile", "device", "uuid")}
    del document["profile"], document["uuid"]
    return document | {"dev": document.pop("device")}


def _rows_document(rows: SmiRows) -> Json:
    if not rows.units:
        return {"rows": [list(row) for row in ((rows.columns, *rows.cells) if rows.columns else rows.cells)]}
    named = [{name: _cell(cell) for name, cell in zip(rows.columns, row, strict=False)} for row in rows.cells]
    return {"columns": list(rows.columns), "units": list(rows.units), "rows": named}


def _cell(text: str) -> object:
    number = number_or_none(text)
    return (None if text == "-" else text) if number is None else value_of(number)


def _monitor_document(report: NeuronReport, records: int) -> Json:
    cores = {str(number): msgspec.to_builtins(use) for number, use in sorted(report.cores.items())}
    for use in cores.values():
        if use["flops"] is None:
            del use["flops"]
        del use["mem_parts"]
    document: Json = msgspec.to_builtins(report)
    for name in ("logical_core_config", "device_ecc", "trouble"):
        del document[name]
    return document | {
        "format": "neuron-monitor-json",
        "complete_records": records,
        "runtimes_in_last": len(report.runtimes),
        "cores": cores,
        "device_mem_total_bytes": report.device_mem_total_bytes,
        "lnc": report.logical_core_config,
    }


def _screen_document(screen: NeuronScreen) -> Json:
    devices = [{"device": number, "cores": list(cores)} for number, cores in sorted(screen.devices.items())]
    usage: Json = {}
    for name, (user, system) in screen.vcpu.items():
        usage |= {f"vcpu_{name}_user": user, f"vcpu_{name}_sys": system}
    return {
        "format": "neuron-top-screen",
        "avg_utilization": screen.avg_utilization,
        "cores_per_device": max((len(cores) for cores in screen.devices.values()), default=0),
        "devices": devices,
        **usage,
        "host_used": screen.host_used or None,
        "device_used": screen.device_used or None,
        "device_breakdown": screen.device_parts,
        "tabs": list(screen.tabs),
    }


def _listing_document(listing: NeuronListing) -> Json:
    document: Json = {
        "format": "neuron-ls-table" if listing.columns else "neuron-ls-json" if listing.devices else "neuron-ls",
        "instance_type": listing.instance_type,
        "instance_id": listing.instance_id,
        "lnc": listing.logical_core_config,
        "devices": [_device_document(one, listing) for one in listing.devices],
    }
    if listing.columns:
        document["columns"] = list(listing.columns)
    return document | {"error": redact(listing.error)} if listing.error else document


def _device_document(device: NeuronDevice, listing: NeuronListing) -> Json:
    """Return a device of neuron-ls. A table has memory in GB and cores as a range; JSON has bytes and numbers."""
    common: Json = {
        "device": device.device,
        "cores": device.cores,
        "memory_bytes": device.memory_bytes,
        "connected": list(device.connected),
        "bdf": device.bdf,
        "processes": msgspec.to_builtins(device.processes),
        "pids": [process.pid for process in device.processes],
    }
    if not listing.columns:
        return common | {"core_ids": list(device.core_ids), "numa": device.numa, "lnc": listing.logical_core_config}
    if device.memory_bytes is not None:
        common["memory_gb"] = device.memory_bytes // _GIB
    if device.core_ids:
        common["core_ids"] = f"{device.core_ids[0]}-{device.core_ids[-1]}"
    return common if device.numa is None else common | {"numa": str(device.numa)}


def _sections_of(node: NodeListing) -> Json:
    return {
        title: {resource: {"raw": text, "value": _whole(quantity_of(text))} for resource, text in amounts.items()}
        for title, amounts in node.sections.items()
    }


def _whole(amount: float | None) -> float | None:
    return int(amount) if amount is not None and amount.is_integer() else amount

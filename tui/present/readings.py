"""Readings of captured output as lines of text."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from actions.base.untrusted import one_line
from actions.fleet.quantity import format_bytes
from actions.telemetry.points import Point
from actions.telemetry.tools.collectives import Bandwidth, NcclReading, NccomReading
from actions.telemetry.tools.efa import EfaReading
from actions.telemetry.tools.neuron import NeuronListing, NeuronReport, NeuronScreen
from actions.telemetry.tools.node_listing import NodeListing
from actions.telemetry.tools.nvidia_smi_reading import Gpu, MigDevice, SmiReading
from actions.telemetry.tools.topology import Topology
from tui.present.charts.curves import short_number

_UNKNOWN = "-"


def point_line(points: Sequence[Point]) -> str:
    """Format the points of one record: its step, then each value as it was printed.

    A bar is drawn with the metrics of the step before, and then with its own: the newest of a metric counts.
    """
    first = points[0]
    newest = {point.metric: point for point in points}
    where = f"{_or_unknown(first.step):>10}  {_or_unknown(_short(first.epoch)):>6}  {first.rank:>4}"
    values = " · ".join(f"{point.metric} {point.raw or short_number(point.value)}" for point in newest.values())
    return f"{where}  {one_line(values, limit=2000)}"


def point_head() -> str:
    """Return the heading of the lines of `point_line`."""
    return f"{'step':>10}  {'epoch':>6}  {'rank':>4}  values"


def is_same_record(one: Point, other: Point) -> bool:
    """Return whether two points belong to the same line of the table."""
    return (one.step, one.epoch, one.rank) == (other.step, other.epoch, other.rank)


def nccl_lines(reading: NcclReading | NccomReading) -> Iterator[str]:
    """Return the rows of the table and their summary."""
    if isinstance(reading, NccomReading):
        yield from _nccom_lines(reading)
        return
    rows = [
        (
            format_bytes(row.size),
            f"{row.count:,}",
            row.type,
            row.redop,
            "" if row.root is None else str(row.root),
            *_way(row.out_of_place),
            *(_way(row.in_place) if row.in_place else ("",) * 4),
        )
        for row in reading.rows
    ]
    time = "cpu time µs" if reading.is_cpu_time else "time µs"
    wrong = "deviation" if reading.is_deviation else "wrong"
    heads = ("size", "count", "type", "redop", "root", *(time, "algbw", "busbw", wrong) * 2)
    yield from columns_of(heads, rows)
    yield from bandwidth_lines(reading)


def bandwidth_lines(reading: NcclReading) -> Iterator[str]:
    """Summarize the bandwidth: the peak first, since the average includes small messages."""
    if reading.error:
        yield f"✗ {one_line(reading.error)}"
    if not reading.rows:
        yield "This output has no rows of a table."
        return
    best = max(reading.rows, key=lambda row: max(way.busbw for way in row.ways))
    parts = [f"peak {reading.peak_busbw or 0.0:g} GB/s at {format_bytes(best.size)}"]
    parts.append(
        "no average printed" if reading.avg_bus_bandwidth is None else f"average {reading.avg_bus_bandwidth:g} GB/s"
    )
    if reading.is_efa is not None:
        parts.append("over EFA" if reading.is_efa else "not over EFA")
    parts.append(_verdict(reading))
    yield " · ".join(parts)


def smi_lines(reading: SmiReading) -> Iterator[str]:
    """Return GPUs, MIG devices and processes, or the rows of a query."""
    if reading.error:
        yield f"✗ {one_line(reading.error)}"
    if reading.rows is not None and (not reading.gpus or reading.rows.is_wider):
        yield from columns_of(reading.rows.columns, reading.rows.cells)
    elif reading.gpus:
        yield from _gpu_lines(reading.gpus)
    if reading.mig_devices:
        yield ""
        yield from _mig_lines(reading.mig_devices)
    if reading.processes:
        yield ""
        processes = [
            (_or_unknown(one.gpu), str(one.pid), one.type, _or_unknown(one.mem_mib), one.name)
            for one in reading.processes
        ]
        yield from columns_of(("gpu", "pid", "type", "MiB", "process"), processes)
    yield from reading.warnings


_GPU_HEADS = ("gpu", "name", "busy", "memory MiB", "power W", "°C", "perf", "MHz", "held by", "ecc", "errors")
_GPU_EXTRAS = {"MHz", "held by"}
"""Columns that are left out where they say nothing of any GPU."""


def _gpu_lines(gpus: Sequence[Gpu]) -> Iterator[str]:
    rows = [
        (
            str(gpu.index),
            gpu.name,
            _or_unknown(gpu.util_pct, "%"),
            f"{_or_unknown(gpu.mem_used_mib)}/{_or_unknown(gpu.mem_total_mib)}",
            f"{_or_unknown(_short(gpu.power_w))}/{_or_unknown(_short(gpu.power_cap_w))}",
            _or_unknown(gpu.temp_c),
            gpu.perf or _UNKNOWN,
            "" if gpu.clock_mhz is None else f"{gpu.clock_mhz}/{_or_unknown(gpu.clock_max_mhz)}",
            ", ".join(gpu.throttle),
            _or_unknown(gpu.ecc_uncorrected),
            ", ".join(gpu.errors),
        )
        for gpu in gpus
    ]
    shown = [at for at, head in enumerate(_GPU_HEADS) if head not in _GPU_EXTRAS or any(row[at] for row in rows)]
    yield from columns_of([_GPU_HEADS[at] for at in shown], [[row[at] for at in shown] for row in rows])


def _mig_lines(devices: Sequence[MigDevice]) -> Iterator[str]:
    rows = [
        (
            str(mig.gpu),
            str(mig.device),
            mig.profile or f"GI {_or_unknown(mig.gi)} CI {_or_unknown(mig.ci)}",
            f"{_or_unknown(mig.mem_used_mib)}/{_or_unknown(mig.mem_total_mib)}",
            _or_unknown(mig.sm),
            _or_unknown(mig.ecc_uncorrected),
        )
        for mig in devices
    ]
    yield from columns_of(("gpu", "mig", "what", "memory MiB", "SM", "ecc"), rows)


def topology_lines(reading: Topology) -> Iterator[str]:
    """Return the matrix, and what its words mean."""
    if reading.error:
        yield f"✗ {one_line(reading.error)}"
        return
    names = [device.name for device in reading.devices]
    has_memory = any(device.gpu_numa_id for device in reading.devices)
    rows = [
        (
            f"{device.name} {device.adapter}".strip(),
            *(device.links.get(name, "X" if name == device.name else _UNKNOWN) for name in names),
            device.cpu_affinity or _UNKNOWN,
            device.numa_affinity or _UNKNOWN,
            *([device.gpu_numa_id or _UNKNOWN] if has_memory else []),
        )
        for device in reading.devices
    ]
    yield from columns_of(("device", *names, "cpus", "numa", *(["gpu numa"] if has_memory else [])), rows)
    used = {re.sub(r"^NV\d+$", "NV#", link) for device in reading.devices for link in device.links.values()}
    yield from (f"{word}: {meaning}" for word, meaning in reading.legend.items() if word in used)
    yield from map(one_line, reading.warnings)


def neuron_lines(reading: NeuronReport | NeuronScreen | NeuronListing) -> Iterator[str]:
    """Return devices and cores, and the processes that use them."""
    match reading:
        case NeuronReport():
            yield from _report_lines(reading)
        case NeuronScreen():
            average = _short(reading.avg_utilization)
            yield f"NeuronCores {_or_unknown(average, '%')} busy on average · devices hold {reading.device_used or '?'}"
            devices = [(f"ND{number}", *(f"{core:g}%" for core in cores)) for number, cores in reading.devices.items()]
            most = max(map(len, devices), default=1)
            yield from columns_of(("device", *(f"NC{core}" for core in range(most - 1))), devices)
        case NeuronListing():
            yield from _listing_lines(reading)


def efa_lines(reading: EfaReading | Sequence[NodeListing]) -> Iterator[str]:
    """Return the adapters that each rank found, or the resources of nodes."""
    if isinstance(reading, EfaReading):
        if reading.error:
            is_missing = "not found" in reading.error or "No such file" in reading.error
            yield f"✗ {reading.error}" + ("" if is_missing else ": no EFA adapter is visible there.")
        rows = [(str(p.rank), p.provider, p.domain, p.fabric, p.version, p.type, p.protocol) for p in reading.providers]
        if rows:
            yield from columns_of(("rank", "provider", "domain", "fabric", "version", "type", "protocol"), rows)
            for rank in sorted({one.rank for one in reading.providers}):
                yield f"rank {rank} found {reading.adapters_of(rank)} EFA adapters"
        elif not reading.error:
            yield "This output has no adapter and no node."
        return
    for node in reading:
        yield node.name or "node"
        resources = list(dict.fromkeys(name for amounts in node.sections.values() for name in amounts))
        cells = [(name, *(node.sections[title].get(name, _UNKNOWN) for title in node.sections)) for name in resources]
        yield from columns_of(("resource", *(title.lower() for title in node.sections)), cells)


def columns_of(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    """Lay out a table: columns as narrow as possible, numbers to the right."""
    cells = [[one_line(cell, limit=80) for cell in row] for row in rows]
    table = [list(heads), *cells] if heads else cells
    count = max(map(len, table), default=0)
    widths = [max((len(row[at]) for row in table if at < len(row)), default=0) for at in range(count)]
    for row in table:
        padded = (_padded(cell, widths[at], cells, at) for at, cell in enumerate(row))
        yield "  ".join(padded).rstrip()


def _padded(cell: str, width: int, cells: Sequence[Sequence[str]], at: int) -> str:
    numeric = all(row[at][:1] in "0123456789-.+" for row in cells if at < len(row) and row[at])
    return cell.rjust(width) if numeric else cell.ljust(width)


def _nccom_lines(reading: NccomReading) -> Iterator[str]:
    if reading.rows:
        heads = tuple(reading.rows[0])
        rows = [tuple(cell if isinstance(cell, str) else f"{cell:g}" for cell in row.values()) for row in reading.rows]
        yield from columns_of(heads, rows)
    if reading.error:
        yield f"✗ {one_line(reading.error)}"
    if reading.avg_bus_bandwidth is not None:
        yield f"average {reading.avg_bus_bandwidth:g} GB/s"


def _way(way: Bandwidth) -> tuple[str, ...]:
    return (f"{way.time_us:g}", f"{way.algbw:g}", f"{way.busbw:g}", "n/a" if way.wrong is None else f"{way.wrong:g}")


def _verdict(reading: NcclReading) -> str:
    bounds = reading.out_of_bounds
    if bounds is not None and not bounds.ok:
        return f"✗ {bounds.count} tests had wrong values"
    if not reading.is_checked:
        return "values were not checked"
    wrong = len(reading.wrong_rows)
    return f"✗ {wrong} row{'s have' if wrong > 1 else ' has'} wrong values" if wrong else "✓ values are correct"


def _report_lines(report: NeuronReport) -> Iterator[str]:
    per_device = report.cores_per_device or 0
    cores = [
        (
            f"ND{number // per_device}" if per_device else _UNKNOWN,
            f"NC{number}",
            f"{use.util_max:.1f}%",
            format_bytes(use.mem_bytes),
        )
        for number, use in sorted(report.cores.items())
    ]
    yield f"{report.instance_type or 'instance ?'} · devices hold {format_bytes(report.device_mem_total_bytes)}"
    if cores:
        yield from columns_of(("device", "core", "busy", "memory"), cores)
    for runtime in report.runtimes:
        latency = runtime.device_latency_p99_s
        shown = f", p99 {latency * 1000:.2f} ms" if latency is not None else ""
        bad = f", ✗ {runtime.failed} failed" if runtime.failed else ""
        yield f"process {runtime.pid}: {runtime.completed:,} executions{shown}{bad}"
        yield from (f"  {group}: {one_line(text)}" for group, text in runtime.group_errors.items())
    if not report.runtimes:
        yield "No process uses a Neuron core."
    if report.ecc_uncorrected:
        yield f"✗ {report.ecc_uncorrected} uncorrected memory errors"


def _listing_lines(listing: NeuronListing) -> Iterator[str]:
    if listing.error:
        yield f"✗ {one_line(listing.error)}"
    if not listing.devices:
        return
    if listing.instance_type:
        yield f"{listing.instance_type} {listing.instance_id or ''}".rstrip()
    devices = [
        (
            str(one.device),
            _or_unknown(one.cores),
            format_bytes(one.memory_bytes) if one.memory_bytes is not None else _UNKNOWN,
            ", ".join(map(str, one.connected)) or _UNKNOWN,
            one.bdf or _UNKNOWN,
            "; ".join(f"{process.pid} {process.command or ''}".strip() for process in one.processes) or _UNKNOWN,
        )
        for one in listing.devices
    ]
    yield from columns_of(("device", "cores", "memory", "connected", "pci", "processes"), devices)


def _short(number: float | None) -> str | None:
    return None if number is None else f"{number:g}"


def _or_unknown(value: object, unit: str = "") -> str:
    return _UNKNOWN if value is None else f"{value}{unit}"

"""The outputs of the Neuron tools: the list of neuron-ls, the reports of neuron-monitor, the screen of neuron-top.

neuron-monitor prints one JSON object a line. Every runtime lists all cores of the instance, used by it or not, so a
core's utilization is the greatest of any runtime, and its memory is the sum. `error_summary.generic` is large in
healthy runs and no alarm. neuron-top has no batch mode, so a live panel reads neuron-monitor; screens are read from
saved logs.

Source: AWS Neuron SDK guide 2.2x; captures of trn1, inf1 and inf2; `docs/facts/neuron.md`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec
from msgspec.structs import replace

from actions.base.decoding import convert
from actions.base.numbers import real, whole
from actions.base.untrusted import cleaned
from actions.telemetry.log_records import strip_controls


class NeuronProcess(msgspec.Struct, frozen=True, gc=False):
    """A process on a device."""

    pid: int
    command: str | None = None
    """May end in `...`; empty or absent in containers."""
    runtime: str | None = None
    """Version of the Neuron runtime in it; `NA` for programs that only monitor."""


class NeuronDevice(msgspec.Struct, frozen=True, gc=False):
    """A device (a chip), which has several cores."""

    device: int
    cores: int | None = None
    memory_bytes: int | None = None
    connected: tuple[int, ...] = ()
    """Neighbours in the ring or torus."""
    bdf: str = ""
    core_ids: tuple[int, ...] = ()
    numa: int | None = None
    processes: tuple[NeuronProcess, ...] = ()


class NeuronListing(msgspec.Struct, frozen=True, gc=False):
    """The output of neuron-ls."""

    devices: tuple[NeuronDevice, ...] = ()
    instance_type: str | None = None
    instance_id: str | None = None
    logical_core_config: int | None = None
    """Physical cores in a logical one; `None` where older tools do not print them."""
    columns: tuple[str, ...] = ()
    """The columns of a table, as its header names them."""
    error: str = ""
    """The tool's own words where it listed nothing."""


_LISTING_HEADER = re.compile(r"^(instance-type|instance-id|logical-neuroncore-config):\s{1,8}(\S{1,80})")
_MEMORY = re.compile(r"(\d{1,6})\s?GB")
_LISTING_JSON = re.compile(r"^[ \t]{0,40}(?:\[(?=\s*(?:\{|\]))|\{(?=\s*\"))", re.MULTILINE)
"""A list of objects, or of Neuron 2.34 an object around it; a terminal's prompt and command may stand around it."""
_GIB = 1 << 30


def read_neuron_ls(text: str) -> NeuronListing:
    """Read the table, in whatever order its columns are, or the JSON of `-j`."""
    stripped = text.strip()
    if pasted := _LISTING_JSON.search(stripped):
        return _read_json(stripped[pasted.start() : max(stripped.rfind("]"), stripped.rfind("}")) + 1 or None])
    head: dict[str, str] = {}
    table: list[list[str]] = []
    for line in map(strip_controls, text.splitlines()):
        if match := _LISTING_HEADER.match(line.strip()):
            head[match[1]] = match[2]
        elif line.strip().startswith("|"):
            table.append([cell.strip() for cell in line.strip().strip("|").split("|")])
    devices = _devices_of(table)
    words = " ".join(stripped.split())[:400]
    return NeuronListing(
        devices=devices,
        instance_type=head.get("instance-type"),
        instance_id=head.get("instance-id"),
        logical_core_config=_whole_cell(head.get("logical-neuroncore-config", "")),
        columns=_columns_of(table),
        error="" if devices else words or "neuron-ls printed nothing: no Neuron device can be seen here.",
    )


def _devices_of(table: list[list[str]]) -> tuple[NeuronDevice, ...]:
    if len(table) < 2:
        return ()
    columns = _columns_of(table)
    devices: list[NeuronDevice] = []
    for cells in table[2:]:
        # of a row with a cell too few or too many, as a paste may have it, only the first is where its title is
        row = dict(zip(columns, cells if len(cells) == len(columns) else cells[:1], strict=False))
        device = _whole_cell(row.get("NEURON DEVICE", ""))
        if device is not None:
            devices.append(_device_of(device, row))
        elif devices:
            more = (*devices[-1].processes, *_processes_of(row))
            devices[-1] = replace(devices[-1], processes=more)
    return tuple(devices)


def _columns_of(table: list[list[str]]) -> tuple[str, ...]:
    """The header's two lines, joined."""
    return tuple(" ".join(filter(None, pair)) for pair in zip(*table[:2], strict=False)) if len(table) > 1 else ()


def _device_of(device: int, row: dict[str, str]) -> NeuronDevice:
    memory = _MEMORY.match(row.get("NEURON MEMORY", ""))
    neighbours = (_whole_cell(part.strip()) for part in row.get("CONNECTED DEVICES", "").split(","))
    return NeuronDevice(
        device=device,
        cores=_whole_cell(row.get("NEURON CORES", "")),
        memory_bytes=int(memory[1]) * _GIB if memory else None,
        connected=tuple(one for one in neighbours if one is not None),
        bdf=row.get("PCI BDF", ""),
        core_ids=_range_of(row.get("NEURON CORE IDS", "")),
        numa=_whole_cell(row.get("NUMA NODE", "")),
        processes=_processes_of(row),
    )


def _processes_of(row: dict[str, str]) -> tuple[NeuronProcess, ...]:
    pid = _whole_cell(row.get("PID", ""))
    if pid is None:
        return ()
    return (NeuronProcess(pid, row.get("COMMAND") or None, row.get("RUNTIME VERSION") or None),)


def _range_of(text: str) -> tuple[int, ...]:
    first, _, last = text.partition("-")
    start, end = _whole_cell(first.strip()), _whole_cell(last.strip())
    if start is None:
        return ()
    return tuple(range(start, min(end, start + 64) + 1)) if end is not None else (start,)


def _whole_cell(text: str) -> int | None:
    return whole(text)


class _JsonProcess(msgspec.Struct):
    pid: int
    command: str = ""
    neuron_runtime_version: str = ""


class _JsonDevice(msgspec.Struct):
    neuron_device: int
    nc_count: int | None = None
    memory_size: int | None = None
    connected_to: list[int] | None = None
    bdf: str = ""
    neuroncore_ids: list[int] | None = None
    numa_node: str | int = ""
    logical_neuroncore_config: int | None = None
    neuron_processes: list[_JsonProcess] | None = None
    instance_type: str | None = None
    instance_id: str | None = None


class _JsonListing(msgspec.Struct):
    neuron_devices: list[_JsonDevice]
    instance_type: str | None = None
    instance_id: str | None = None
    logical_neuroncore_config: int | None = None


def _read_json(text: str) -> NeuronListing:
    try:
        decoded = convert(cleaned(msgspec.json.decode(text)), list[_JsonDevice] | _JsonListing)
    except (msgspec.MsgspecError, RecursionError) as error:
        return NeuronListing(error=f"The JSON is damaged: {error}.")
    listing = _of_devices(decoded) if isinstance(decoded, list) else decoded
    return NeuronListing(
        devices=tuple(map(_device_of_json, listing.neuron_devices)),
        instance_type=listing.instance_type,
        instance_id=listing.instance_id,
        logical_core_config=listing.logical_neuroncore_config,
        error="" if listing.neuron_devices else "The list is empty.",
    )


def _of_devices(found: list[_JsonDevice]) -> _JsonListing:
    """Return a listing of the older form: until Neuron 2.33 each device repeats what holds for all."""
    if not found:
        return _JsonListing([])
    return _JsonListing(found, found[0].instance_type, found[0].instance_id, found[0].logical_neuroncore_config)


def _device_of_json(one: _JsonDevice) -> NeuronDevice:
    return NeuronDevice(
        device=one.neuron_device,
        cores=one.nc_count,
        memory_bytes=one.memory_size,
        connected=tuple(one.connected_to or ()),
        bdf=one.bdf,
        core_ids=tuple(one.neuroncore_ids or ()),
        numa=_whole_cell(str(one.numa_node)),
        processes=tuple(
            NeuronProcess(process.pid, process.command or None, process.neuron_runtime_version or None)
            for process in one.neuron_processes or ()
        ),
    )


class NeuronRuntime(msgspec.Struct, frozen=True, gc=False):
    """A process that uses Neuron cores."""

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
    """Errors of the monitor where it could not measure, by group."""


class CoreUse(msgspec.Struct, frozen=True, gc=False):
    """The use of a core by all runtimes."""

    util_max: float
    """Percent, the greatest of any runtime."""
    mem_bytes: int
    util_sum: float = 0.0
    """Percent over all runtimes."""
    flops: int | None = None
    """Floating-point operations a second; `None` where the tool does not count them."""
    mem_parts: dict[str, int] = {}
    """Bytes by kind: `tensors`, `constants`, `model_code`, `model_shared_scratchpad`, `runtime_memory`."""


class NeuronReport(msgspec.Struct, frozen=True, gc=False):
    """A record of neuron-monitor."""

    runtimes: tuple[NeuronRuntime, ...]
    cores: dict[int, CoreUse]
    """By number, counted over the whole instance."""
    ecc_uncorrected: int | None
    """Errors of the period; `None` if they were not counted."""
    host_memory_used_bytes: int | None
    vcpu_user_pct: float | None
    instance_type: str | None
    device_type: str | None
    device_count: int | None
    cores_per_device: int | None
    logical_core_config: int | None
    device_memory_size: int | None
    """Bytes of each device."""
    device_ecc: dict[int, tuple[int | None, int | None]] = {}
    """Corrected and uncorrected errors of the period, by device."""
    trouble: tuple[str, ...] = ()
    """Errors of the period: `3 hardware errors`; not `generic` ones, of which healthy runs count thousands."""

    @property
    def device_mem_total_bytes(self) -> int:
        """Bytes used on all devices."""
        return sum(runtime.device_mem_bytes for runtime in self.runtimes)


def read_monitor_line(line: str) -> NeuronReport | None:
    """Read one record; `None` for another line, such as the cut last line of a pipe."""
    text = line.strip()
    if not text.startswith("{"):
        return None
    try:
        return _report_of(cleaned(msgspec.json.decode(text)))
    except (msgspec.DecodeError, RecursionError):
        return None


def read_records(text: str) -> Iterator[NeuronReport]:
    """Read records that were formatted over many lines, one behind the other."""
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
        device_ecc=_device_ecc_of(system),
        trouble=_trouble_of(reports),
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
            flops = _whole(core.get("effective_flops", core.get("flops")))
            parts = {kind: _whole(part) or 0 for kind, part in _table(used, name).items()}
            cores[int(name)] = CoreUse(
                util_max=max(before.util_max, seen),
                mem_bytes=before.mem_bytes + sum(parts.values()),
                util_sum=before.util_sum + seen,
                flops=before.flops if flops is None else flops + (before.flops or 0),
                mem_parts={
                    kind: before.mem_parts.get(kind, 0) + parts.get(kind, 0) for kind in before.mem_parts | parts
                },
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


def _device_ecc_of(system: Mapping[str, Any]) -> dict[int, tuple[int | None, int | None]]:
    found: dict[int, tuple[int | None, int | None]] = {}
    for device in _list(_table(system, "neuron_hw_counters"), "neuron_devices"):
        number = _whole(device.get("neuron_device_index")) if isinstance(device, dict) else None
        if number is not None:
            corrected, uncorrected = (
                [_whole(device.get(f"{memory}_ecc_{kind}")) for memory in ("mem", "sram")]
                for kind in ("corrected", "uncorrected")
            )
            found[number] = _sum_of_known(corrected), _sum_of_known(uncorrected)
    return found


def _sum_of_known(counts: Sequence[int | None]) -> int | None:
    known = [count for count in counts if count is not None]
    return sum(known) if known else None


_TROUBLE = (
    ("error_summary", "hardware", "hardware error"),
    ("error_summary", "numerical", "numerical error"),
    ("error_summary", "transient", "transient error"),
    ("error_summary", "model", "model error"),
    ("error_summary", "runtime", "runtime error"),
    ("execution_summary", "completed_with_err", "execution with errors"),
    ("execution_summary", "completed_with_num_err", "execution with numerical errors"),
    ("execution_summary", "timed_out", "execution out of time"),
    ("execution_summary", "failed_to_queue", "execution that found no place in the queue"),
)
"""Group, name and singular of what counts as trouble."""


def _trouble_of(reports: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
    stats = [_table(entry, "report", "execution_stats") for entry in reports]
    found = []
    for group, name, noun in _TROUBLE:
        count = sum(_whole(_table(one, group).get(name)) or 0 for one in stats)
        if count:
            found.append(f"{count:,} {noun if count == 1 else _plural_of(noun)}")
    return tuple(found)


def _plural_of(noun: str) -> str:
    first, blank, rest = noun.partition(" ")
    return f"{noun}s" if first != "execution" else f"{first}s{blank}{rest}"


def _table(source: Mapping[str, Any], *path: str) -> dict[str, Any]:
    found: object = source
    for key in path:
        found = found.get(key) if isinstance(found, Mapping) else None
    return found if isinstance(found, dict) else {}


def _list(source: Mapping[str, Any], key: str) -> list[Any]:
    found = source.get(key)
    return found if isinstance(found, list) else []


def _number(value: object) -> float | None:
    return real(value)


def _whole(value: object) -> int | None:
    number = _number(value)
    return None if number is None or not number.is_integer() else int(number)


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value else None


_SCREEN_TITLE = re.compile(
    r"neuron-top\b.{0,80}\b(?:running on|\(\w{1,8}\.\w{1,16}\))|NeuronCore(?: v\d\w?)? Utilization"
)
_SCREEN_AVERAGE = re.compile(r"Utilization \(Avg:\s{0,4}(\d{1,3}(?:\.\d{1,4})?)%\)")
_SCREEN_DEVICE = re.compile(r"^\s{0,8}ND(\d{1,3})\s")
_PERCENT = re.compile(r"\[\s{0,4}(\d{1,3}(?:\.\d{1,4})?)%\]")
_SCREEN_VCPU = re.compile(
    r"(System|Runtime) vCPU Usage.{0,400}?\[\s{0,4}(\d{1,3}(?:\.\d{1,4})?)%,\s{0,4}(\d{1,3}(?:\.\d{1,4})?)%\]"
)
_SCREEN_MEMORY = re.compile(r"^\s{0,8}(Host|Device) Used Memory\s{1,24}Total:\s{0,4}(\S{1,16})")
_SCREEN_PARTS = {
    name: re.compile(rf"{label}:\s{{0,4}}(\S{{1,16}})")
    for name, label in (
        ("tensors", "Tensors"),
        ("constants", "Constants"),
        ("model_code", "Model Code"),
        ("runtime", "Runtime Memory"),
        ("scratchpad", "Model Scratchpad"),
    )
}
_SCREEN_TAB = re.compile(r"\[\d{1,3}\]:([\w.-]{1,40})")


class NeuronScreen(msgspec.Struct, frozen=True, gc=False):
    """A screen of neuron-top."""

    avg_utilization: float | None = None
    """Percent."""
    devices: dict[int, tuple[float, ...]] = {}
    """Percent of each core, by device."""
    vcpu: dict[str, tuple[float, float]] = {}
    """Percent in user and in system mode, for `system` and for `runtime`."""
    host_used: str = ""
    """As shown: `888.4MB`."""
    device_used: str = ""
    device_parts: dict[str, str] = {}
    """Memory of the devices by its use, as shown: `tensors`, `constants`, `model_code`, `runtime`, `scratchpad`."""
    tabs: tuple[str, ...] = ()
    """The tab of all processes, and one for each."""


def is_top(text: str) -> bool:
    """Return whether `text` holds such a screen."""
    return _SCREEN_TITLE.search(text) is not None or _SCREEN_AVERAGE.search(text) is not None


def read_neuron_top(text: str) -> NeuronScreen:
    """Read a screen; parts that are not there stay empty."""
    average: float | None = None
    devices: dict[int, tuple[float, ...]] = {}
    vcpu: dict[str, tuple[float, float]] = {}
    memory = {"Host": "", "Device": ""}
    parts: dict[str, str] = {}
    tabs: tuple[str, ...] = ()
    for line in map(strip_controls, text.splitlines()):
        if found := _SCREEN_AVERAGE.search(line):
            average = float(found[1])
        elif device := _SCREEN_DEVICE.match(line):
            devices[int(device[1])] = tuple(map(float, _PERCENT.findall(line)))
        elif usage := _SCREEN_VCPU.search(line):
            vcpu[usage[1].lower()] = (float(usage[2]), float(usage[3]))
        elif total := _SCREEN_MEMORY.match(line):
            memory[total[1]] = total[2]
            if total[1] == "Device":
                parts = {name: found[1] for name, pattern in _SCREEN_PARTS.items() if (found := pattern.search(line))}
        elif line.lstrip().startswith("Neuron Apps"):
            tabs = tuple(_SCREEN_TAB.findall(line))
    return NeuronScreen(average, devices, vcpu, memory["Host"], memory["Device"], parts, tabs)

"""What neuron-ls lists: the Neuron devices that a container can see.

Source: AWS Neuron SDK guide 2.2x, neuron-ls; `docs/facts/neuron.md#neuron-ls`.
"""

from __future__ import annotations

import re

import msgspec
from msgspec.structs import replace

from actions.base.untrusted import cleaned
from actions.telemetry.lines import strip_controls


class NeuronProcess(msgspec.Struct, frozen=True, gc=False):
    """One process on one device."""

    pid: int
    command: str | None = None
    """May end in `...`; empty or absent in containers."""
    runtime: str | None = None
    """Version of the Neuron runtime in it; `NA` for programs that only look."""


class NeuronDevice(msgspec.Struct, frozen=True, gc=False):
    """One device (a chip), which has several cores."""

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
    """One answer of neuron-ls."""

    devices: tuple[NeuronDevice, ...] = ()
    instance_type: str | None = None
    instance_id: str | None = None
    logical_core_config: int | None = None
    """Physical cores in a logical one; `None` where older tools do not say."""
    columns: tuple[str, ...] = ()
    """Of a table, as its header names them."""
    error: str = ""
    """The tool's own words where it listed nothing."""


_HEADER = re.compile(r"^(instance-type|instance-id|logical-neuroncore-config):\s{1,8}(\S{1,80})")
_MEMORY = re.compile(r"(\d{1,6})\s?GB")
_JSON = re.compile(r"^[ \t]{0,40}(?:\[(?=\s*(?:\{|\]))|\{(?=\s*\"))", re.MULTILINE)
"""A list of objects, or of Neuron 2.34 an object around it; a terminal's prompt and command may stand around it."""
_GIB = 1 << 30


def read_neuron_ls(text: str) -> NeuronListing:
    """Read the table, in whatever order its columns are, or the JSON of `-j`."""
    stripped = text.strip()
    if pasted := _JSON.search(stripped):
        return _read_json(stripped[pasted.start() : max(stripped.rfind("]"), stripped.rfind("}")) + 1 or None])
    head: dict[str, str] = {}
    table: list[list[str]] = []
    for line in map(strip_controls, text.splitlines()):
        if match := _HEADER.match(line.strip()):
            head[match[1]] = match[2]
        elif line.strip().startswith("|"):
            table.append([cell.strip() for cell in line.strip().strip("|").split("|")])
    devices = _devices_of(table)
    words = " ".join(stripped.split())[:400]
    return NeuronListing(
        devices=devices,
        instance_type=head.get("instance-type"),
        instance_id=head.get("instance-id"),
        logical_core_config=_whole(head.get("logical-neuroncore-config", "")),
        columns=_columns_of(table),
        error="" if devices else words or "neuron-ls printed nothing: no Neuron device can be seen here.",
    )


def _devices_of(table: list[list[str]]) -> tuple[NeuronDevice, ...]:
    if len(table) < 2:
        return ()
    columns = _columns_of(table)
    devices: list[NeuronDevice] = []
    for cells in table[2:]:
        row = dict(zip(columns, cells, strict=False))
        device = _whole(row.get("NEURON DEVICE", ""))
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
    neighbours = (_whole(part.strip()) for part in row.get("CONNECTED DEVICES", "").split(","))
    return NeuronDevice(
        device=device,
        cores=_whole(row.get("NEURON CORES", "")),
        memory_bytes=int(memory[1]) * _GIB if memory else None,
        connected=tuple(one for one in neighbours if one is not None),
        bdf=row.get("PCI BDF", ""),
        core_ids=_range_of(row.get("NEURON CORE IDS", "")),
        numa=_whole(row.get("NUMA NODE", "")),
        processes=_processes_of(row),
    )


def _processes_of(row: dict[str, str]) -> tuple[NeuronProcess, ...]:
    pid = _whole(row.get("PID", ""))
    if pid is None:
        return ()
    return (NeuronProcess(pid, row.get("COMMAND") or None, row.get("RUNTIME VERSION") or None),)


def _range_of(text: str) -> tuple[int, ...]:
    first, _, last = text.partition("-")
    start, end = _whole(first.strip()), _whole(last.strip())
    if start is None:
        return ()
    return tuple(range(start, min(end, start + 64) + 1)) if end is not None else (start,)


def _whole(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 12 else None


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
        decoded = msgspec.convert(cleaned(msgspec.json.decode(text)), type=list[_JsonDevice] | _JsonListing)
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
    """Until Neuron 2.33 each device says what is true of all."""
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
        numa=_whole(str(one.numa_node)),
        processes=tuple(
            NeuronProcess(process.pid, process.command or None, process.neuron_runtime_version or None)
            for process in one.neuron_processes or ()
        ),
    )

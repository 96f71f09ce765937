"""`neuron-ls`, `neuron-monitor` and `neuron-top` in a container.

neuron-ls prints a table or JSON. neuron-monitor prints a JSON object a line, one each period; its first record comes at
once and has nothing of the runtimes yet, as the real one's. neuron-top draws one screen after the other until `q`;
without a terminal it draws one and ends: the behaviour of the real one is not known there.

Source: AWS Neuron SDK guide; captured tables of trn1.32xlarge, captured records of trn1 (one runtime under training,
one without), screens of a trn1.32xlarge, typed off.
"""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Callable, Sequence
from typing import Any

from actions.sandbox.programs.neuron.cores import (
    CORES_OF_A_DEVICE,
    DEVICE_BYTES,
    PROCESS_ID,
    RUNTIME,
    Core,
    bus_of,
    cores_of,
    instance_of,
    load_of,
    neighbours_of,
)
from actions.sandbox.programs.program import ContainerView, Load, Program, ProgramStep

_COLUMNS = (("NEURON", "DEVICE"), ("NEURON", "CORES"), ("NEURON", "MEMORY"), ("CONNECTED", "DEVICES"), ("PCI", "BDF"))
_OF_PROCESSES = (("PID", ""), ("COMMAND", ""), ("RUNTIME", "VERSION"))
_COMMAND_WIDTH = 40
_WIDE_COMMAND_WIDTH = 80


def run_neuron_ls(container: ContainerView, load: Load, argv: Sequence[str]) -> Program:
    """Run `neuron-ls` with its arguments. Without a device it fails, with the reason on stderr only."""
    if not container.neurons:
        yield ProgramStep(text="neuron-ls: No neuron device found\n", is_error=True)
        return 1
    if {"-j", "--json-output"} & set(argv):
        yield ProgramStep(text=json.dumps(_devices(container, load), indent=4) + "\n")
        return 0
    is_wide = bool({"-w", "--wide"} & set(argv))
    yield ProgramStep(text=_table(container, load, width=_WIDE_COMMAND_WIDTH if is_wide else _COMMAND_WIDTH))
    return 0


def _devices(container: ContainerView, load: Load) -> list[dict[str, object]]:
    command = load_of(load).command
    process = {"pid": PROCESS_ID, "command": command, "neuron_runtime_version": RUNTIME}
    return [
        {
            "neuron_device": device,
            "bdf": bus_of(device),
            "cpu_affinity": "0-31,64-95" if device < 8 else "32-63,96-127",
            "numa_node": "0" if device < 8 else "1",
            "connected_to": list(neighbours_of(device, devices=len(container.neurons))) or None,
            "nc_count": CORES_OF_A_DEVICE,
            "logical_neuroncore_config": 1,
            "memory_size": DEVICE_BYTES,
            "neuroncore_ids": [device * CORES_OF_A_DEVICE + part for part in range(CORES_OF_A_DEVICE)],
            "neuron_processes": [process] if command and _is_held(load, place) else [],
        }
        for place, device in enumerate(container.neurons)
    ]


def _is_held(load: Load, place: int) -> bool:
    """Return whether a process has cores of the container's device at that place."""
    cores = load_of(load).cores
    return cores is None or place * CORES_OF_A_DEVICE < cores


def _table(container: ContainerView, load: Load, *, width: int) -> str:
    """Return a header of two lines, then a row a device; columns of processes only where there are some."""
    command = load_of(load).command
    columns = _COLUMNS + (_OF_PROCESSES if command else ())
    rows = []
    for place, device in enumerate(container.neurons):
        linked = ", ".join(map(str, neighbours_of(device, devices=len(container.neurons))))
        row = [str(device), str(CORES_OF_A_DEVICE), "32 GB", linked, bus_of(device)]
        if command:
            shown = command if len(command) <= width else command[: width - 3] + "..."
            row += [str(PROCESS_ID), shown, RUNTIME] if _is_held(load, place) else ["", "", ""]
        rows.append(row)
    widths = [max(map(len, (*pair, *column))) for pair, column in zip(columns, zip(*rows, strict=True), strict=True)]
    rule = "+" + "+".join("-" * (one + 2) for one in widths) + "+"
    head = [_table_line([pair[part].center(one) for pair, one in zip(columns, widths, strict=True)]) for part in (0, 1)]
    body = [_table_line([cell.ljust(one) for cell, one in zip(row, widths, strict=True)]) for row in rows]
    where = instance_of(container)
    lines = [f"instance-type: {where.type}", f"instance-id: {where.id}", rule, *head, rule, *body, rule]
    return "\n".join(lines) + "\n"


def _table_line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"


_DEFAULT_PERIOD_SECONDS = 5.0
_HOST_BYTES = 512 << 30
_HOST_USED_BYTES = 96 << 30
_SHARES = (("constants", 0.06), ("model_code", 0.15), ("model_shared_scratchpad", 0.09), ("runtime_memory", 0.0))
"""Shares of a core's memory; tensors have the rest."""


def run_neuron_monitor(
    container: ContainerView, load: Callable[[], Load], now: Callable[[], float], argv: Sequence[str]
) -> Program:
    """Run `neuron-monitor`, with `-c FILE` for its configuration.

    Args:
        container: The one with the devices.
        load: Returns their present load.
        now: Seconds since the epoch.
        argv: The arguments after the program's name.
    """
    if not container.neurons:
        yield ProgramStep(text="neuron-monitor: No neuron device found\n", is_error=True)
        return 1
    period = _period_of(container, argv)
    yield ProgramStep(text=_json_line(_first_record(container)))
    while True:
        yield ProgramStep(period)
        yield ProgramStep(text=_json_line(record(container, load(), now(), period)))


def record(container: ContainerView, load: Load, moment: float, period: float) -> dict[str, Any]:
    """Return a whole record."""
    known = load_of(load)
    cores = cores_of(container, load, moment)
    counters = [
        {
            "neuron_device_index": device,
            "mem_ecc_corrected": 0,
            "mem_ecc_uncorrected": known.uncorrected_errors if place == 0 else 0,
            "sram_ecc_uncorrected": 0,
            "sram_ecc_corrected": 0,
        }
        for place, device in enumerate(container.neurons)
    ]
    return _first_record(container) | {
        "neuron_runtime_data": [_runtime(cores, known.utilisation_percent, period)] if known.command else [],
        "system_data": {
            "memory_info": _memory_info(period),
            "neuron_hw_counters": {"period": period, "neuron_devices": counters, "error": ""},
            "vcpu_usage": {
                "period": period,
                "average_usage": _vcpu(12.4 if known.utilisation_percent else 0.6),
                "context_switch_count": 84801,
                "error": "",
            },
        },
    }


def _first_record(container: ContainerView) -> dict[str, Any]:
    where = instance_of(container)
    return {
        "neuron_runtime_data": [],
        "system_data": {"memory_info": _memory_info(0.00047258)},
        "instance_info": {
            "instance_name": "",
            "instance_id": where.id,
            "instance_type": where.type,
            "instance_availability_zone": "us-west-2d",
            "instance_availability_zone_id": "usw2-az4",
            "instance_region": "us-west-2",
            "ami_id": "",
            "subnet_id": "",
            "error": "",
        },
        "neuron_hardware_info": {
            "neuron_device_type": "trainium",
            "neuron_device_version": "v2",
            "neuroncore_version": "v2",
            "neuron_device_count": len(container.neurons),
            "neuron_device_memory_size": DEVICE_BYTES,
            "neuroncore_per_device_count": CORES_OF_A_DEVICE,
            "logical_neuroncore_config": 1,
            "error": "",
        },
    }


def _runtime(cores: Sequence[Core], busy: float, period: float) -> dict[str, Any]:
    """Return the entry of a process that holds the cores. Its `generic` errors are many in good runs, too."""
    device_bytes = sum(core.memory_bytes for core in cores)
    latency = {name: 0.118 + 0.0004 * place for place, name in enumerate(("p0", "p1", "p25", "p50", "p75", "p99"))}
    executed = {"completed": round(period * 8.2) if busy else 0}
    wrong = dict.fromkeys(
        ("completed_with_err", "completed_with_num_err", "timed_out", "incorrect_input", "failed_to_queue"), 0
    )
    stats = {
        "period": period,
        "error_summary": {"generic": 217, "numerical": 0, "transient": 0, "model": 0, "runtime": 0, "hardware": 0},
        "execution_summary": executed | wrong,
        "latency_stats": {
            "total_latency": latency | {"p100": 0.131} if busy else None,
            "device_latency": latency | {"p100": 0.131} if busy else None,
        },
        "error": "",
    }
    host = {"application_memory": 609656832, "constants": 0, "dma_buffers": 8388608, "tensors": 0}
    breakdown = {
        "host": host,
        "neuroncore_memory_usage": {str(core.index): _breakdown(core.memory_bytes) for core in cores},
    }
    used = {"host": sum(host.values()), "neuron_device": device_bytes, "usage_breakdown": breakdown}
    return {
        "pid": PROCESS_ID,
        "neuron_runtime_tag": str(PROCESS_ID),
        "error": "",
        "report": {
            "execution_stats": stats,
            "memory_used": {"period": period, "neuron_runtime_used_bytes": used, "loaded_models": [], "error": ""},
            "neuron_runtime_vcpu_usage": {"period": period, "vcpu_usage": {"user": 9.3, "system": 1.4}, "error": ""},
            "neuroncore_counters": {
                "period": period,
                "neuroncores_in_use": {
                    str(core.index): {"neuroncore_utilization": core.utilisation_percent} for core in cores
                },
                "error": "",
            },
        },
    }


def _breakdown(size: int) -> dict[str, int]:
    parts = {name: int(size * share) for name, share in _SHARES}
    return parts | {"tensors": size - sum(parts.values())}


def _memory_info(period: float) -> dict[str, Any]:
    return {
        "period": period,
        "memory_total_bytes": _HOST_BYTES,
        "memory_used_bytes": _HOST_USED_BYTES,
        "swap_total_bytes": 0,
        "swap_used_bytes": 0,
        "error": "",
    }


def _vcpu(user: float) -> dict[str, float]:
    return {"user": user, "nice": 0, "system": 1.9, "idle": 98.1 - user, "io_wait": 0, "irq": 0, "soft_irq": 0}


def _json_line(one: dict[str, Any]) -> str:
    return json.dumps(one, separators=(",", ":")) + "\n"


def _period_of(container: ContainerView, argv: Sequence[str]) -> float:
    """Return the seconds of the configuration's `period`, such as `2s`; one that cannot be read counts as not given."""
    path = next((after for before, after in itertools.pairwise(argv) if before in ("-c", "--config-file")), "")
    found = container.files.file(path) if path else None
    given = re.search(rb'"period"\s*:\s*"(\d+(?:\.\d+)?)(ms|s|m)"', found.content) if found else None
    if given is None:
        return _DEFAULT_PERIOD_SECONDS
    return max(0.1, float(given[1]) * {b"ms": 0.001, b"s": 1.0, b"m": 60.0}[given[2]])


_VERSION = "2.20.213.0"
_WIDTH = 160
_BAR = 56
_CLEAR = "\x1b[H\x1b[2J"
_PERIOD_SECONDS = 1.0
_FOOT = (
    "q: quit            arrows: move tree selection    enter: expand/collapse tree    "
    "x: expand/collapse entire tree    a/d: previous/next tab    f: FLOPS on/off    1-9: select tab"
)


def run_neuron_top(
    container: ContainerView, load: Callable[[], Load], now: Callable[[], float], *, has_terminal: bool
) -> Program:
    """Run `neuron-top`; see the module.

    Args:
        container: Whose devices.
        load: How busy they are at the moment of asking.
        now: Seconds since the epoch.
        has_terminal: Whether it draws on a terminal, again and again.
    """
    if not container.neurons:
        yield ProgramStep(text="neuron-top: No neuron device found\n", is_error=True)
        return 1
    while has_terminal:
        yield ProgramStep(text=_CLEAR + screen(container, load(), now()))
        yield ProgramStep(_PERIOD_SECONDS)
    yield ProgramStep(text=screen(container, load(), now()))
    return 0


def screen(container: ContainerView, load: Load, moment: float) -> str:
    """Return one screen."""
    cores, known, where = cores_of(container, load, moment), load_of(load), instance_of(container)
    average = sum(core.utilisation_percent for core in cores) / len(cores)
    is_busy = bool(known.utilisation_percent)
    used = sum(core.memory_bytes for core in cores)
    lines = [
        f"neuron-top {_VERSION} running on {where.id} ({where.type})".center(_WIDTH),
        "",
        f"NeuronCore v2 Utilization (Avg: {average:.2f}%)",
        " " * 6 + "".join(f"NC{part}".center(_BAR + 9) for part in range(CORES_OF_A_DEVICE)),
        *_grid(cores),
        "",
        "vCPU Utilization",
        "System vCPU Usage  " + _pair(*((12.41, 1.93) if is_busy else (0.61, 0.22))),
        "Runtime vCPU Usage " + _pair(*((9.32, 1.41) if is_busy else (0.0, 0.0))),
        "",
        "Memory Usage Summary",
        _memory_row("Host", 618_000_000 if known.command else 0, "DMA Buffers: 8.0MB"),
        _memory_row("Device", used, "Model Scratchpad: 0.0B"),
        "",
        "Memory Usage Details",
        f"{'Model ID':>104}{'Device Memory':>26}{'Host Memory':>24}",
        *_tree(cores),
        "",
        f"{'Neuron Apps':<36} >[1]:all<" + (f"{f'[2]:{PROCESS_ID}':>34}" if known.command else ""),
        _FOOT,
    ]
    return "\n".join(lines) + "\n"


def _grid(cores: Sequence[Core]) -> list[str]:
    rows: dict[int, list[str]] = {}
    for core in cores:
        bars = "|" * max(0, round(_BAR * core.utilisation_percent / 100))
        rows.setdefault(core.device, []).append(f"{bars}[{core.utilisation_percent:.2f}%]".ljust(_BAR + 9))
    return [f"{f'ND{device}':<6}{' '.join(cells)}".rstrip() for device, cells in rows.items()]


def _pair(user: float, system: float) -> str:
    bars = "|" * round(_BAR * (user + system) / 100)
    return f"{bars}[{user:5.2f}%, {system:.2f}%]"


def _memory_row(place: str, used: int, last: str) -> str:
    return (
        f"{f'{place} Used Memory':<24}{f'Total: {size(used)}':<26}{f'Tensors: {size(used * 7 // 10)}':<26}"
        f"{f'Constants: {size(used * 6 // 100)}':<26}{last}"
    )


def _tree(cores: Sequence[Core]) -> list[str]:
    lines = []
    for device in dict.fromkeys(core.device for core in cores):
        used = sum(core.memory_bytes for core in cores if core.device == device)
        lines.append(f"{f'[+] ND {device}':<117}{size(used):<26}{size(0)}")
    return lines


def size(count: int) -> str:
    """Return bytes as the tool prints them: `888.4MB`, `20.2GB`, `0.0B`."""
    amount, units = float(count), ["B", "KB", "MB", "GB", "TB"]
    while amount >= 1024 and len(units) > 1:
        amount /= 1024
        units.pop(0)
    return f"{amount:.1f}{units[0]}"

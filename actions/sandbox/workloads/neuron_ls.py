"""`neuron-ls` in a container: its Neuron devices, as a table or as JSON.

Source: AWS Neuron SDK guide, neuron-ls; captured tables of trn1.32xlarge.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from actions.sandbox.workloads.neuron_cores import (
    CORES_OF_A_DEVICE,
    DEVICE_BYTES,
    PROCESS_ID,
    RUNTIME,
    bus_of,
    instance_of,
    load_of,
    neighbours_of,
)
from actions.sandbox.workloads.program import Container, Load, Program, Step

_COLUMNS = (("NEURON", "DEVICE"), ("NEURON", "CORES"), ("NEURON", "MEMORY"), ("CONNECTED", "DEVICES"), ("PCI", "BDF"))
_OF_PROCESSES = (("PID", ""), ("COMMAND", ""), ("RUNTIME", "VERSION"))
_COMMAND_WIDTH = 40
_WIDE_COMMAND_WIDTH = 80


def run_neuron_ls(container: Container, load: Load, argv: Sequence[str]) -> Program:
    """`neuron-ls` with its arguments. Without a device it fails, and says so on stderr only."""
    if not container.neurons:
        yield Step(text="neuron-ls: No neuron device found\n", is_error=True)
        return 1
    if {"-j", "--json-output"} & set(argv):
        yield Step(text=json.dumps(_devices(container, load), indent=4) + "\n")
        return 0
    is_wide = bool({"-w", "--wide"} & set(argv))
    yield Step(text=_table(container, load, width=_WIDE_COMMAND_WIDTH if is_wide else _COMMAND_WIDTH))
    return 0


def _devices(container: Container, load: Load) -> list[dict[str, object]]:
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
    """Whether a process has cores of the container's device at that place."""
    cores = load_of(load).cores
    return cores is None or place * CORES_OF_A_DEVICE < cores


def _table(container: Container, load: Load, *, width: int) -> str:
    """Header of two lines, then a row a device; columns of processes only where there are some."""
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
    head = [_line([pair[part].center(one) for pair, one in zip(columns, widths, strict=True)]) for part in (0, 1)]
    body = [_line([cell.ljust(one) for cell, one in zip(row, widths, strict=True)]) for row in rows]
    where = instance_of(container)
    lines = [f"instance-type: {where.type}", f"instance-id: {where.id}", rule, *head, rule, *body, rule]
    return "\n".join(lines) + "\n"


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"

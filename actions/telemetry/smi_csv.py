"""nvidia-smi's answers to queries: comma-separated values, with or without header and units.

Source: FORMATS 4; driver 580 captured in `tests/fixtures/corpus/nvidia_smi/csv_*`.
"""

from __future__ import annotations

import csv
import re

from actions.telemetry.smi_reading import Gpu, SmiProcess, SmiReading, SmiRows, amount_of, count_of, word_of

QUERY_FIELDS = (
    "index",
    "name",
    "utilization.gpu",
    "memory.used",
    "memory.total",
    "temperature.gpu",
    "power.draw",
    "power.limit",
    "pstate",
)
"""What the console asks for. All are known to every driver: one unknown field fails a whole query."""

_KNOWN = {
    len(QUERY_FIELDS): QUERY_FIELDS,
    12: (
        "index",
        "name",
        "utilization.gpu",
        "utilization.memory",
        "memory.used",
        "memory.total",
        "temperature.gpu",
        "power.draw",
        "power.limit",
        "clocks.sm",
        "ecc.errors.uncorrected.volatile.total",
        "pstate",
    ),
}
"""Queries that are usual without a header, by the number of their columns."""

QUERY_ARGV = ("nvidia-smi", f"--query-gpu={','.join(QUERY_FIELDS)}", "--format=csv,noheader,nounits")

_UNIT = re.compile(r"\s*\[[^\]]{1,20}\]$")
_MODEL = re.compile(r"NVIDIA|Tesla|Quadro|GeForce|GRID|RTX|GTX|^[ABHLTV]\d{1,3}\b")
_ECC = "ecc.errors.uncorrected.volatile.total"


def is_header(line: str) -> bool:
    """Whether a line is the header of an answer about GPUs or about processes."""
    names = _names_of(line)
    return "index" in names or "name" in names or "uuid" in names or "pid" in names


def is_row(line: str) -> bool:
    """Whether a line can be a row of a query without a header: a number, then a name."""
    cells = _cells_of(line)
    return len(cells) > 1 and cells[0].isdigit() and not cells[1][:1].isdigit() and not cells[1].startswith("[")


def read_csv(text: str) -> SmiReading:
    """Read an answer; of a loop the newest row of each GPU.

    Without a header the columns are those of a usual query with so many; of another one only index and name are known.
    """
    lines = [line for line in text.splitlines() if line.strip()]
    names, heads = list(QUERY_FIELDS), list[str]()
    if lines and not is_header(lines[0]):
        names = _names_without_header(_cells_of(lines[0]))
    elif lines:
        heads = _cells_of(lines[0])
        names = _names_of(lines.pop(0))
    kept = SmiRows(tuple(heads), cells=tuple(tuple(_cells_of(line)) for line in lines))
    rows = [dict(zip(names, _cells_of(line), strict=False)) for line in lines]
    if "pid" in names:
        return SmiReading(processes=tuple(_process_of(row) for row in rows if row["pid"].isdigit()), rows=kept)
    newest = {gpu.index: gpu for gpu in (_gpu_of(row, position) for position, row in enumerate(rows))}
    return SmiReading(gpus=tuple(newest.values()), rows=kept)


def _names_without_header(cells: list[str]) -> list[str]:
    """What the columns of a first row may be: of a usual query about GPUs, or about processes."""
    known = _KNOWN.get(len(cells))
    if known is None and len(cells) < 5 and not _MODEL.search(cells[1]):
        return ["pid", "process_name", "used_gpu_memory"]
    return list(known or QUERY_FIELDS[:2])


def _names_of(line: str) -> list[str]:
    return [_UNIT.sub("", cell) for cell in _cells_of(line)]


def _cells_of(line: str) -> list[str]:
    return [cell.strip() for cell in next(csv.reader([line], skipinitialspace=True), [])]


def _gpu_of(row: dict[str, str], position: int) -> Gpu:
    index = count_of(row.get("index"))
    return Gpu(
        index=position if index is None else index,
        name=row.get("name", ""),
        uuid=row.get("uuid", ""),
        bus_id=row.get("pci.bus_id", ""),
        fan_pct=count_of(row.get("fan.speed")),
        temp_c=count_of(row.get("temperature.gpu")),
        perf=word_of(row.get("pstate")),
        power_w=amount_of(row.get("power.draw")),
        power_cap_w=amount_of(row.get("power.limit")),
        mem_used_mib=count_of(row.get("memory.used")),
        mem_total_mib=count_of(row.get("memory.total")),
        util_pct=count_of(row.get("utilization.gpu")),
        ecc_uncorrected=count_of(row.get(_ECC)),
        mig_mode=row.get("mig.mode.current", "").strip("[]") or None,
        errors=tuple(name for name, cell in row.items() if cell == "ERR!" or "Error]" in cell or "lost]" in cell),
    )


def _process_of(row: dict[str, str]) -> SmiProcess:
    return SmiProcess(
        gpu=count_of(row.get("gpu_index")) or 0,
        pid=int(row["pid"]),
        type="C",
        name=row.get("process_name", row.get("name", "")),
        mem_mib=count_of(row.get("used_gpu_memory", row.get("used_memory"))),
    )

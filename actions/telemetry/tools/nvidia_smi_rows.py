"""nvidia-smi's rows: comma-separated answers to queries, and the rows of dmon and pmon.

Queries come with or without header and units. Of dmon and pmon the columns differ by driver and by request; the first
of the two `#` lines names them, and both come again every few rows.

Source: docs/facts/nvidia-smi.md#queries and docs/facts/nvidia-smi.md#dmon-and-pmon; driver 580 captured in
`tests/fixtures/corpus/nvidia_smi`, `csv_*` and `dmon_h200_*`.
"""

from __future__ import annotations

import csv
import re

from msgspec.structs import replace

from actions.telemetry.tools.nvidia_smi_reading import (
    Gpu,
    SmiProcess,
    SmiReading,
    SmiRows,
    amount_of,
    count_of,
    is_failure,
    throttle_reasons,
    word_of,
)

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
"""The fields that the console queries. Every driver has them all: one unknown field fails a whole query."""

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

DETAIL_FIELDS = (
    "index",
    "clocks.sm",
    "clocks.max.sm",
    "clocks_throttle_reasons.active",
    "ecc.errors.corrected.volatile.total",
    "ecc.errors.uncorrected.volatile.total",
)
"""The fields that the table lacks. Younger drivers take the old names, and print new ones in the header."""

_READ = frozenset({
    *QUERY_FIELDS,
    *DETAIL_FIELDS,
    "clocks.current.sm",
    "clocks_event_reasons.active",
})  # fmt: skip
"""Fields that the console shows of a GPU."""
_UNIT = re.compile(r"\s*\[[^\]]{1,20}\]$")
_FIELD = re.compile(r"[a-z][a-z0-9_]{0,40}(?:\.[a-z0-9_]{1,40}){0,5}")
_WORDS = frozenset({"index", "name", "uuid", "pid", "count", "pstate", "timestamp", "driver_version"})
"""Fields that are known for what they are without a dot in them, where one stands alone."""
_MODEL = re.compile(r"NVIDIA|Tesla|Quadro|GeForce|GRID|RTX|GTX|^[ABHLTV]\d{1,3}\b")
_SHAPES = (
    ("timestamp", re.compile(r"\d{4}/\d\d/\d\d \d\d:\d\d")),
    ("uuid", re.compile(r"GPU-[0-9a-f]{4}")),
    ("pci.bus_id", re.compile(r"[0-9A-F]{4,8}:[0-9A-F]{2}:")),
    ("pstate", re.compile(r"P\d{1,2}$")),
    ("name", _MODEL),
)
"""Columns that can be recognised by their values."""
_AMOUNT = re.compile(r"\d{1,9}(?:\.\d{1,9})? (?:%|MiB|W|MHz)")
_LONGEST_LINE = 16_384
_LONGEST_WARNING, _MOST_WARNINGS = 400, 8
_ECC = "ecc.errors.uncorrected.volatile.total"
_ECC_CORRECTED = "ecc.errors.corrected.volatile.total"


def is_header(line: str) -> bool:
    """Return whether a line is the header of an answer about GPUs or about processes."""
    names = _names_of(line)
    if len(names) == 1:
        return names[0] in _WORDS or ("." in names[0] and _FIELD.fullmatch(names[0]) is not None)
    return bool(names) and all(map(_FIELD.fullmatch, names))


def is_row(line: str) -> bool:
    """Return whether a line can be a row of a query without a header: a number and a name, a model, or amounts."""
    cells = _cells_of(line)
    if len(cells) < 2:
        return False
    if cells[0].isdigit() and not cells[1][:1].isdigit() and not cells[1].startswith("["):
        return True
    return any(map(_shape_of, cells[:3])) or all(map(_AMOUNT.fullmatch, cells))


def read_csv(text: str) -> SmiReading:
    """Read an answer; of a loop the newest row of each GPU.

    Without a header the columns are those of a usual query with so many; of another one those that values identify.
    """
    lines = [line for line in text.splitlines() if line.strip()]
    if not lines:
        return SmiReading()
    heads = _cells_of(lines[0]) if is_header(lines[0]) else []
    names = _names_of(lines.pop(0)) if heads else _names_without_header(_cells_of(lines[0]))
    width = len(heads or _cells_of(lines[0]))
    cells = [row for row in map(_cells_of, lines) if len(row) == width]
    others = tuple(line.strip()[:_LONGEST_WARNING] for line in lines if len(_cells_of(line)) != width)[:_MOST_WARNINGS]
    found = _reading_of([dict(zip(names, row, strict=False)) for row in cells], frozenset(names))
    is_wider = bool(heads) and not _READ.issuperset(names)
    kept = SmiRows(tuple(heads), cells=tuple(map(tuple, cells)), is_wider=is_wider)
    return replace(found, rows=kept, warnings=others)


def _reading_of(rows: list[dict[str, str]], names: frozenset[str]) -> SmiReading:
    """Return the processes or GPUs of rows; nothing if no column identifies the subject of a row."""
    if "pid" in names:
        return SmiReading(processes=tuple(_process_of(row) for row in rows if row["pid"].isdigit()))
    if not _NAMING & names:
        return SmiReading()
    newest = {_key_of(row, position): row for position, row in enumerate(rows)}
    return SmiReading(gpus=tuple(_gpu_of(row, place) for place, row in enumerate(newest.values())))


_NAMING = frozenset({"index", "uuid", "pci.bus_id", "name", "utilization.gpu", "memory.used"})
"""Columns that name a GPU or describe its state: without any of them only the rows themselves are returned."""


def _key_of(row: dict[str, str], position: int) -> tuple[str, str]:
    """Return the key of a row's GPU in the output of a loop; without a column for it, each row is another GPU."""
    for name in ("index", "uuid", "pci.bus_id"):
        if row.get(name):
            return name, row[name]
    return "", str(position)


def _names_without_header(cells: list[str]) -> list[str]:
    """Return the likely names of a first row's columns: of a query for GPUs or processes, or by their values."""
    shapes = [_shape_of(cell) for cell in cells]
    known = _KNOWN.get(len(cells))
    if known is not None and shapes[:2] == ["", "name"]:
        return list(known)
    if "name" not in shapes and len(cells) < 5 and cells[0].isdigit():
        return ["pid", "process_name", "used_gpu_memory"]
    first = next((place for place, shape in enumerate(shapes) if shape != "timestamp"), 0)
    if cells[first].isdigit():
        shapes[first] = "index"
    return [shape or f"column {place}" for place, shape in enumerate(shapes)]


def _shape_of(cell: str) -> str:
    return next((name for name, shape in _SHAPES if shape.search(cell)), "")


def _names_of(line: str) -> list[str]:
    return [_UNIT.sub("", cell) for cell in _cells_of(line)]


def _cells_of(line: str) -> list[str]:
    """The cells; none of a line that is longer than any of nvidia-smi."""
    if len(line) > _LONGEST_LINE:
        return []
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
        power_w=_first_amount(row, "power.draw", "power.draw.average", "power.draw.instant"),
        power_cap_w=_first_amount(row, "power.limit", "enforced.power.limit"),
        mem_used_mib=count_of(row.get("memory.used")),
        mem_total_mib=count_of(row.get("memory.total")),
        util_pct=count_of(row.get("utilization.gpu")),
        ecc_uncorrected=count_of(row.get(_ECC)),
        ecc_corrected=count_of(row.get(_ECC_CORRECTED)),
        clock_mhz=count_of(row.get("clocks.current.sm", row.get("clocks.sm"))),
        clock_max_mhz=count_of(row.get("clocks.max.sm")),
        throttle=throttle_reasons(row.get("clocks_event_reasons.active", row.get("clocks_throttle_reasons.active"))),
        mig_mode=row.get("mig.mode.current", "").strip("[]") or None,
        errors=tuple(name for name, cell in row.items() if is_failure(cell)),
    )


def _first_amount(row: dict[str, str], *names: str) -> float | None:
    return next((amount for name in names if (amount := amount_of(row.get(name))) is not None), None)


def _process_of(row: dict[str, str]) -> SmiProcess:
    return SmiProcess(
        gpu=count_of(row.get("gpu_index")),
        pid=int(row["pid"]),
        type="C",
        name=row.get("process_name", row.get("name", "")),
        mem_mib=count_of(row.get("used_gpu_memory", row.get("used_memory"))),
    )


def with_details(reading: SmiReading, text: str) -> SmiReading:
    """Add the answer to a query of `DETAIL_FIELDS`, if it stands in the text behind the table."""
    lines = text.splitlines()
    heads = (place for place, line in enumerate(lines) if line.startswith("index, clocks.") and is_header(line))
    head = next(heads, None)
    if head is None:
        return reading
    found = {gpu.index: gpu for gpu in read_csv("\n".join(lines[head:])).gpus}
    return replace(reading, gpus=tuple(_detailed(gpu, found.get(gpu.index)) for gpu in reading.gpus))


def _detailed(gpu: Gpu, more: Gpu | None) -> Gpu:
    if more is None:
        return gpu
    return replace(
        gpu,
        clock_mhz=more.clock_mhz,
        clock_max_mhz=more.clock_max_mhz,
        throttle=more.throttle,
        ecc_corrected=more.ecc_corrected,
        ecc_uncorrected=gpu.ecc_uncorrected if more.ecc_uncorrected is None else more.ecc_uncorrected,
    )


_HEADER = re.compile(r"^#\s{0,8}((?:Date,?\s{1,16})?(?:Time,?\s{1,16})?gpu,?\s.{1,400})$")
_UNITS = re.compile(r"^#\s{0,8}((?:YYYYMMDD,?\s{1,16})?(?:HH:MM:SS,?\s{1,16})?Idx,?\s.{1,400})$")


def is_monitor(line: str) -> bool:
    """Return whether a line is the header of such rows."""
    return _HEADER.match(line.strip()) is not None


def read_monitor(text: str) -> SmiReading:
    """Read the rows, also those of `--format csv`. A process's command may hold blanks: it is the last column."""
    separator = None
    columns: tuple[str, ...] = ()
    units: tuple[str, ...] = ()
    cells: list[tuple[str, ...]] = []
    for line in map(str.strip, text.splitlines()):
        if header := _HEADER.match(line):
            separator = "," if "," in header[1] else None
            columns = columns or _parted(header[1], separator)
        elif unit := _UNITS.match(line):
            units = units or _parted(unit[1], separator)
        elif columns and line and not line.startswith("#"):
            row = _parted(line, separator, len(columns) - 1)
            if len(row) == len(columns) and row[columns.index("gpu")].isdigit():
                cells.append(row)
    return SmiReading(rows=SmiRows(columns, units or tuple("-" * len(columns)), tuple(cells)))


def _parted(line: str, separator: str | None, most: int = -1) -> tuple[str, ...]:
    return tuple(cell.strip() for cell in line.split(separator, most))

"""nvidia-smi dmon and pmon: a row for each GPU, or each process, a second.

Columns differ by driver and by what was asked for; the first of the two `#` lines names them, and both come again
every few rows.

Source: `docs/facts/nvidia-smi.md#dmon-and-pmon`.
"""

from __future__ import annotations

import re

from actions.telemetry.smi_reading import SmiReading, SmiRows

_HEADER = re.compile(r"^#\s{0,8}((?:Date\s{1,16})?(?:Time\s{1,16})?gpu\s.{1,400})$")
_UNITS = re.compile(r"^#\s{0,8}((?:YYYYMMDD\s{1,16})?(?:HH:MM:SS\s{1,16})?Idx\s.{1,400})$")


def is_monitor(line: str) -> bool:
    """Whether a line is the header of such rows."""
    return _HEADER.match(line.strip()) is not None


def read_monitor(text: str) -> SmiReading:
    """Read the rows. A process's command may hold blanks: it is the last column."""
    columns: tuple[str, ...] = ()
    units: tuple[str, ...] = ()
    cells: list[tuple[str, ...]] = []
    for line in map(str.strip, text.splitlines()):
        if header := _HEADER.match(line):
            columns = columns or tuple(header[1].split())
        elif unit := _UNITS.match(line):
            units = units or tuple(unit[1].split())
        elif columns and line and not line.startswith("#"):
            row = line.split(maxsplit=len(columns) - 1)
            if len(row) == len(columns) and row[columns.index("gpu")].isdigit():
                cells.append(tuple(row))
    return SmiReading(rows=SmiRows(columns, units, tuple(cells)))

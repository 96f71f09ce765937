"""The result tables of nccom-test, Neuron's counterpart of nccl-tests.

Source: AWS Neuron SDK guide 2.2x, nccom-test; `docs/facts/bandwidth-tests.md#nccom-test`.
"""

from __future__ import annotations

import re

import msgspec

from actions.telemetry.lines import PrefixReader, strip_controls
from actions.telemetry.numbers import NUMBER, number_of, number_or_none

_AVERAGE = re.compile(rf"Avg bus bandwidth:\s{{0,20}}({NUMBER})\s?GB/s")
_FAILURE = re.compile(r"Failure running .{0,300}")


class NccomReading(msgspec.Struct, frozen=True, gc=False):
    """What one run printed."""

    rows: tuple[dict[str, float | str], ...] = ()
    """By the names of the header, which depend on the options: `size(B)`, `time:p99(us)`, `busbw(GB/s)`…"""
    avg_bus_bandwidth: float | None = None
    """GB/s as printed."""
    error: str | None = None
    """What stopped the test, in its own words."""


class NccomReader:
    """Reads the output line by line: cells are named by the header above them."""

    def __init__(self) -> None:
        self._prefixes = PrefixReader()
        self._names: list[str] = []
        self._rows: list[dict[str, float | str]] = []
        self._average: float | None = None
        self._error: str | None = None

    @property
    def is_table(self) -> bool:
        """Whether a header of such a table has come."""
        return bool(self._names)

    def feed(self, line: str) -> None:
        """Read one line."""
        record = self._prefixes.read(strip_controls(line), None)
        if record is None:
            return
        cells = record.text.split()
        if cells[0] == "size(B)":
            self._names = cells
        elif found := _AVERAGE.search(record.text):
            self._average = number_of(found[1])
        elif failure := _FAILURE.search(record.text):
            self._error = self._error or failure[0].strip()
        elif self._names and len(cells) == len(self._names) and cells[0].isdigit() and cells[1].isdigit():
            self._rows.append(dict(zip(self._names, map(_cell_of, cells), strict=True)))

    def reading(self) -> NccomReading:
        """All that has been read so far."""
        return NccomReading(tuple(self._rows), self._average, self._error)


def _cell_of(cell: str) -> float | str:
    number = number_or_none(cell)
    return cell if number is None else number

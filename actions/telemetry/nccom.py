"""The result tables of nccom-test, Neuron's counterpart of nccl-tests.

Source: AWS Neuron SDK guide 2.2x, nccom-test; FORMATS 3.
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


def is_nccom(text: str) -> bool:
    """Whether `text` holds such a table."""
    return "size(B)" in text and "busbw(GB/s)" in text


def read_nccom(text: str) -> NccomReading:
    """Read a whole output: cells are named by the header above them."""
    prefixes, names = PrefixReader(), list[str]()
    rows: list[dict[str, float | str]] = []
    average: float | None = None
    error: str | None = None
    for line in text.splitlines():
        record = prefixes.read(strip_controls(line), None)
        if record is None:
            continue
        cells = record.text.split()
        if cells[0] == "size(B)":
            names = cells
        elif found := _AVERAGE.search(record.text):
            average = number_of(found[1])
        elif failure := _FAILURE.search(record.text):
            error = error or failure[0].strip()
        elif names and len(cells) == len(names) and cells[0].isdigit() and cells[1].isdigit():
            rows.append(dict(zip(names, map(_cell_of, cells), strict=True)))
    return NccomReading(tuple(rows), average, error)


def _cell_of(cell: str) -> float | str:
    number = number_or_none(cell)
    return cell if number is None else number

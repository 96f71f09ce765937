"""Rows of nccl-tests as points of a curve: bus bandwidth over message size.

Source: `actions.telemetry.nccl`, which reads the rows.
"""

from __future__ import annotations

from actions.telemetry.dialects.dialect import Finding
from actions.telemetry.lines import Record
from actions.telemetry.nccl import row_of
from actions.telemetry.points import Point

BUS_BANDWIDTH = "busbw_gbs"
"""GB/s out of place; its step is the size of the message in bytes."""
OPERATIONS = (" sum ", " none ", " prod ", " max ", " min ", " avg ")
"""One of them is in every row."""
_LEAST_CELLS = 8


def may_be_row(text: str) -> bool:
    """Whether a text with prefixes can hold a row: a cheap look before the real one."""
    for word in OPERATIONS:
        if word in text:
            return len(text.split()) >= _LEAST_CELLS
    return False


class NcclRows:
    """Reads the rows of a table; its header and footer are no points."""

    marks = OPERATIONS

    def read(self, record: Record) -> list[Finding] | None:
        row = row_of(record.text) if may_be_row(record.text) else None
        if row is None:
            return None
        value = row.out_of_place.busbw
        return [Point(BUS_BANDWIDTH, row.size, value, record.rank, None, "busbw", record.at, f"{value:g}")]

"""Tables: a line of column names with a row for each step below it, and the rows of nccl-tests."""

from __future__ import annotations

import re
from typing import ClassVar

import msgspec

from actions.telemetry.dialects.dialect import WaitingDialect
from actions.telemetry.dialects.named import report_of
from actions.telemetry.log_records import LogRecord
from actions.telemetry.outlines import memoize_by_outline
from actions.telemetry.points import LogValue, Point, number_or_none
from actions.telemetry.tools.collectives import row_of

_EDGES = " |│"
_RULE = re.compile(r"[\s|+=─━│├┤╞╡╭╮╰╯┼┬┴-]{1,400}")
_GAP = re.compile(r" {2,}")
_STEPS = frozenset({"step", "global_step", "iter", "iteration", "training_iteration"})
_BAR = re.compile(r": {1,4}\d{1,3}% ?[|━].{0,400}$")
"""A bar behind the cells of a row, as YOLO draws it: the row's last state is the one with the full bar."""
_LOSS = re.compile(r"(?:^|[_/])loss(?:$|[_/])")
_MOST_COLUMNS = 64
_LONGEST_NAME = 40


class _Columns(msgspec.Struct, frozen=True):
    """The columns of a table."""

    separator: str
    """Empty for blanks, two at least."""
    names: tuple[str, ...]
    step: int | None
    epoch: int | None
    trial: int | None
    """The name of one of several runs in a table."""

    def cells_of(self, text: str) -> list[str] | None:
        """Return the cells of a row; `None` for another line."""
        cells = _cells_in(_BAR.sub("", text), self.separator)
        return cells if len(cells) == len(self.names) else None


class Tables(WaitingDialect):
    """Reads rows until a line comes that is not one. Each trial of a table has a rank of its own."""

    marks: ClassVar[tuple[str, ...]] = ("oss",)

    def __init__(self) -> None:
        self._columns: _Columns | None = None
        self._trials: dict[str, int] = {}

    @property
    def is_waiting(self) -> bool:
        """True while a table is open, so that every record must be shown to this dialect: rows have no marks."""
        return self._columns is not None

    def flush(self) -> list[LogValue]:
        """Return nothing: a row is read at once."""
        return []

    def read(self, record: LogRecord) -> list[LogValue] | None:
        if self._columns is not None and _RULE.fullmatch(record.text):
            return []
        cells = self._columns.cells_of(record.text) if self._columns else None
        points = self._row(record, self._columns, cells) if self._columns and cells else None
        if points is None:
            columns = _columns_in(record.outline)
            names = _names_in(record.text, columns.separator) if columns else ()
            self._columns = msgspec.structs.replace(columns, names=names) if columns else None
            return [] if self._columns else None
        return points

    def _row(self, record: LogRecord, columns: _Columns, cells: list[str]) -> list[LogValue] | None:
        step, epoch = _number_in(cells, columns.step), _number_in(cells, columns.epoch)
        if columns.trial is not None:
            record = record._replace(rank=self._trials.setdefault(cells[columns.trial], len(self._trials)))
        elif step is None and epoch is None:
            return None
        bar = _BAR.search(record.text)
        if bar is not None and "100%" not in bar[0]:
            return []
        texts = dict(zip(columns.names, cells, strict=True)) | ({} if epoch is None else {"epoch": f"{epoch:g}"})
        texts = {name: cell for name, cell in texts.items() if number_or_none(cell) is not None}
        return report_of(record, texts, None if columns.step is None else texts.get(columns.names[columns.step]))


@memoize_by_outline
def _columns_in(outline: str) -> _Columns | None:
    """Return the columns that a line names, if they are those of a table of losses."""
    if "oss" not in outline:
        return None
    separator = next((sign for sign in (",", "\t", "|") if sign in outline.strip(_EDGES)), "")
    names = _names_in(outline, separator)
    step = next((at for at, name in enumerate(names) if name in _STEPS), None)
    epoch = names.index("epoch") if "epoch" in names else None
    has_loss = any(_LOSS.search(name) for name in names) and all(len(name) <= _LONGEST_NAME for name in names)
    if not has_loss or (step is None and epoch is None):
        return None
    return _Columns(separator, names, step, epoch, names.index("trial_name") if "trial_name" in names else None)


def _names_in(text: str, separator: str) -> tuple[str, ...]:
    return tuple(cell.lower().replace(" ", "_") for cell in _cells_in(text, separator))


def _cells_in(text: str, separator: str) -> list[str]:
    if separator in (",", "\t"):
        return [cell.strip() for cell in text.split(separator, _MOST_COLUMNS)]
    inner = text.strip(_EDGES)
    if separator:
        inner = text.strip().removeprefix(separator).removesuffix(separator)
        return [cell.strip() for cell in inner.split(separator, _MOST_COLUMNS)]
    return _GAP.split(inner, _MOST_COLUMNS)


def _number_in(cells: list[str], column: int | None) -> float | None:
    """Return a cell's whole or broken number, that of `70/1000` without its end; `None` without one."""
    number = None if column is None else number_or_none(cells[column].partition("/")[0])
    return number if number is not None and abs(number) < float("inf") else None


BUS_BANDWIDTH = "busbw_gbs"
"""GB/s out of place; its step is the size of the message in bytes."""
_OPERATIONS = (" sum ", " none ", " prod ", " max ", " min ", " avg ")
"""Texts of which one is in every row."""
_LEAST_CELLS = 8


def _may_be_row(text: str) -> bool:
    """Return whether a text can hold a row: a cheap look before the real one."""
    for word in _OPERATIONS:
        if word in text:
            return len(text.split()) >= _LEAST_CELLS
    return False


class NcclRows:
    """Reads the rows of a table; its header and footer are not points."""

    marks: ClassVar[tuple[str, ...]] = _OPERATIONS

    def read(self, record: LogRecord) -> list[LogValue] | None:
        row = row_of(record.text) if _may_be_row(record.text) else None
        if row is None:
            return None
        value = row.out_of_place.busbw
        return [Point(BUS_BANDWIDTH, row.size, value, record.rank, None, "busbw", record.at, f"{value:g}")]

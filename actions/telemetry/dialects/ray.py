"""Results that Ray Train reports itself.

Source: `docs/facts/training-logs.md#ray-train`; Ray 2.4x.
"""

from __future__ import annotations

import math
import re
from typing import ClassVar

from actions.telemetry.dialects.dialect import TRAIN_LOSS, VAL_LOSS, LogValue, first_of, point_of
from actions.telemetry.dialects.named import named_points
from actions.telemetry.log_records import LogRecord
from actions.telemetry.points import NUMBER, number_of

_ROW = re.compile(rf"^\s{{0,8}}│ (\w{{1,80}})\s{{1,120}}({NUMBER})\s{{1,120}}│")
_REPORT = re.compile(r"Reporting training result (\d{1,9}):.{0,500}?metrics=(\{[^{}]{0,6000}\})")
_FROM_RANK = re.compile(r"\) from rank (\d{1,9})")
_PAIR = re.compile(rf"'(\w{{1,80}})': ({NUMBER})(?=[,}}])")
_TRAIN = ("train_loss", "loss")
_VALIDATION = ("val_loss", "eval_loss", "validation_loss")


class RayTables:
    """Reads the box that Ray draws around each result: many records, one point."""

    marks: ClassVar[tuple[str, ...]] = ("╭", "╰", "│", "├")

    def __init__(self) -> None:
        self._rows: dict[str, str] | None = None

    def read(self, record: LogRecord) -> list[LogValue] | None:
        start = record.text.lstrip()[:1]
        if start == "╭":
            self._rows = {}
            return []
        if self._rows is None:
            return None
        if start == "╰":
            rows, self._rows = self._rows, None
            return _result(record, rows, rows.get("step", rows.get("training_iteration")))
        row = _ROW.match(record.text)
        if row:
            self._rows[row[1]] = row[2]
        return [] if start in "│├" else None


class RayReports:
    """Reads the one-line reports of Ray Train V2, which prints each of them twice."""

    marks: ClassVar[tuple[str, ...]] = ("Reporting training result",)

    def read(self, record: LogRecord) -> list[LogValue] | None:
        report = _REPORT.search(record.text) if "Reporting training result" in record.text else None
        if report is None:
            return None
        sender = _FROM_RANK.search(record.text, report.end())
        values = dict(_PAIR.findall(report[2]))
        located = record._replace(rank=int(sender[1]) if sender else record.rank)
        return _result(located, values, values.get("step", report[1]))


def _result(record: LogRecord, values: dict[str, str], counted: str | None) -> list[LogValue]:
    epoch = number_of(values["epoch"]) if "epoch" in values else None
    step = number_of(counted) if counted is not None else math.nan
    whole = int(step) if step.is_integer() else None
    points: list[LogValue] = []
    for metric, keys in ((TRAIN_LOSS, _TRAIN), (VAL_LOSS, _VALIDATION)):
        key = first_of(values, keys)
        if key:
            points.append(point_of(record, metric, whole, values[key], key=key, epoch=epoch))
    return points + named_points(record, whole, values, {}, epoch=epoch, taken=(*_TRAIN, *_VALIDATION))

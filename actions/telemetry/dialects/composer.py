"""Composer and LLM Foundry: a batch's number on one line, its values indented below.

Source: `docs/facts/training-logs.md#composer`.
"""

from __future__ import annotations

import re

from actions.telemetry.dialects.dialect import TRAIN_LOSS, VAL_LOSS, Finding, point_of
from actions.telemetry.lines import Record
from actions.telemetry.numbers import NUMBER
from actions.telemetry.points import Progress

_BATCH = re.compile(r"\[(?:[a-z]{1,10}=\d{1,9}/\d{1,9}\]\[)?batch=(\d{1,12})/(\d{1,12})\]:")
_VALUE = re.compile(rf"^\s{{1,40}}(Train|Eval) ([\w/ -]{{1,80}}?): ({NUMBER})\s{{0,8}}$")
_LOSS = re.compile(r"^loss/train/total$|CrossEntropy$")


class Composer:
    """Remembers the batch. The same loss stands there under two names; the second is no new point."""

    marks = ("batch=", "Train ", "Eval ")

    def __init__(self) -> None:
        self._batch: int | None = None

    def read(self, record: Record) -> list[Finding] | None:
        batch = _BATCH.search(record.text) if "batch=" in record.text else None
        if batch:
            self._batch = int(batch[1])
            return [Progress("batch", self._batch, int(batch[2]), rank=record.rank)]
        value = _VALUE.match(record.text) if self._batch is not None else None
        if value is None or not _LOSS.search(value[2]):
            return None
        metric = TRAIN_LOSS if value[1] == "Train" else VAL_LOSS
        return [point_of(record, metric, self._batch, value[3], key=value[2])]

"""Trainers that print a step on one line and its values indented below: Composer, LLM Foundry and OLMo.

Source: `docs/facts/training-logs.md#own-loops`; OLMo `train.py`, OLMo-core `ConsoleLoggerCallback`.
"""

from __future__ import annotations

import re
from typing import ClassVar

from actions.telemetry.dialects.dialect import TRAIN_LOSS, VAL_LOSS, LogValue, point_of
from actions.telemetry.dialects.named import named_points
from actions.telemetry.log_records import LogRecord
from actions.telemetry.points import NUMBER, TrainingProgress

_BATCH = re.compile(r"\[(?:[a-z]{1,10}=\d{1,9}/\d{1,9}\]\[)?batch=(\d{1,12})/(\d{1,12})\]:")
_BATCH_VALUE = re.compile(rf"^\s{{1,40}}(Train|Eval) ([\w/ -]{{1,80}}?): ({NUMBER})\s{{0,8}}$")
_LOSS = re.compile(r"^loss/train/total$|CrossEntropy$")


class Composer:
    """Remembers the batch. The same loss stands there under two names; the second is not a new point."""

    marks: ClassVar[tuple[str, ...]] = ("batch=", "Train ", "Eval ")

    def __init__(self) -> None:
        self._batch: int | None = None

    def read(self, record: LogRecord) -> list[LogValue] | None:
        batch = _BATCH.search(record.text) if "batch=" in record.text else None
        if batch:
            self._batch = int(batch[1])
            return [TrainingProgress("batch", self._batch, int(batch[2]), rank=record.rank)]
        value = _BATCH_VALUE.match(record.text) if self._batch is not None else None
        if value is None:
            return None
        if not _LOSS.search(value[2]):
            return named_points(record, self._batch, {value[2]: value[3]}, {})
        metric = TRAIN_LOSS if value[1] == "Train" else VAL_LOSS
        return [point_of(record, metric, self._batch, value[3], key=value[2])]


_STEP_HEAD = re.compile(r"\[step=(\d{1,12})/(\d{1,12})(?:,[^\]]{1,80})?\]\s{0,4}$")
_STEP_VALUE = re.compile(
    rf"^\s{{2,40}}(train|eval)/([\w/ -]{{0,80}}?(?:CrossEntropyLoss|CE loss))=({NUMBER})\s{{0,4}}$"
)


class Olmo:
    """Remembers the step. Of several sets that are evaluated the first is the curve."""

    marks: ClassVar[tuple[str, ...]] = ("step=", "oss=")

    def __init__(self) -> None:
        self._step: int | None = None
        self._validated = ""

    def read(self, record: LogRecord) -> list[LogValue] | None:
        head = _STEP_HEAD.search(record.text) if "[step=" in record.text else None
        if head:
            self._step = int(head[1])
            return [TrainingProgress("step", self._step, int(head[2]), rank=record.rank)]
        value = _STEP_VALUE.match(record.text) if self._step is not None else None
        if value is None:
            return None
        key = f"{value[1]}/{value[2]}"
        if value[1] == "train":
            return [point_of(record, TRAIN_LOSS, self._step, value[3], key=key)]
        self._validated = self._validated or key
        return [point_of(record, VAL_LOSS, self._step, value[3], key=key)] if key == self._validated else []

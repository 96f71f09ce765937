"""OLMo: a step in brackets at the end of a line, its values indented below.

Source: OLMo `train.py`, OLMo-core `ConsoleLoggerCallback`.
"""

from __future__ import annotations

import re

from actions.telemetry.dialects.dialect import TRAIN_LOSS, VAL_LOSS, Finding, point_of
from actions.telemetry.lines import Record
from actions.telemetry.numbers import NUMBER
from actions.telemetry.points import Progress

_HEAD = re.compile(r"\[step=(\d{1,12})/(\d{1,12})(?:,[^\]]{1,80})?\]\s{0,4}$")
_VALUE = re.compile(rf"^\s{{2,40}}(train|eval)/([\w/ -]{{0,80}}?(?:CrossEntropyLoss|CE loss))=({NUMBER})\s{{0,4}}$")


class Olmo:
    """Remembers the step. Of several sets that are evaluated the first is the curve."""

    marks = ("step=", "oss=")

    def __init__(self) -> None:
        self._step: int | None = None
        self._validated = ""

    def read(self, record: Record) -> list[Finding] | None:
        head = _HEAD.search(record.text) if "[step=" in record.text else None
        if head:
            self._step = int(head[1])
            return [Progress("step", self._step, int(head[2]), rank=record.rank)]
        value = _VALUE.match(record.text) if self._step is not None else None
        if value is None:
            return None
        key = f"{value[1]}/{value[2]}"
        if value[1] == "train":
            return [point_of(record, TRAIN_LOSS, self._step, value[3], key=key)]
        self._validated = self._validated or key
        return [point_of(record, VAL_LOSS, self._step, value[3], key=key)] if key == self._validated else []

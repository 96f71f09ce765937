"""Reports over several lines: a line with the step and one for each value below it, or a box with a row for each.

Source: `docs/facts/training-logs.md#own-loops`; Composer and LLM Foundry, OLMo `train.py`, OLMo-core
`ConsoleLoggerCallback`, NeMo RL; OpenAI baselines' and Stable Baselines 3's loggers.
"""

from __future__ import annotations

import re
from typing import ClassVar

from actions.telemetry.dialects.dialect import TRAIN_LOSS, VAL_LOSS, WaitingDialect, first_of
from actions.telemetry.dialects.named import named_points, report_of
from actions.telemetry.log_records import LogRecord
from actions.telemetry.points import NUMBER, LogValue, TrainingProgress

_HEAD = re.compile(
    r"\[(?:[a-z]{1,10}=\d{1,9}/\d{1,9}\]\[)?(?P<counter>batch)=(?P<step>\d{1,12})/(?P<last>\d{1,12})\]:"
    r"|\[step=(?P<olmo>\d{1,12})/(?P<olmo_last>\d{1,12})(?:,[^\]]{1,80})?\]\s{0,4}$"
    r"|^[\s=*#>-]{0,40}(?:[Tt]raining )?(?:[Ss]tep|[Ii]ter(?:ation)?)[\s:=]{1,8}(?P<plain>\d{1,12})"
    r"(?:/(?P<plain_last>\d{1,12}))?[\s:=*#-]{0,40}$"
)
_VALUE = re.compile(
    rf"^[\s•*|>-]{{0,40}}(?P<name>[A-Za-z][\w/ .()@-]{{0,80}}?)(?:\s{{0,8}}[:=]\s{{0,12}}|\s{{0,2}}\t\s{{0,12}})"
    rf"(?P<number>{NUMBER})(?: ?(?:s|ms|%|seconds|tokens))?(?:\s{{1,4}}\+-\s.{{1,40}})?\s{{0,8}}$"
)
_TRAIN = re.compile(
    r"(?:train(?:ing)?[ /_])?(?:(?:avg|average|mean|total)[ _])?loss"
    r"|train (?:loss/train/total|.{0,60}crossentropy)|train/(?:crossentropyloss|ce loss)"
)
_VALIDATION = re.compile(
    r"(?:val(?:id(?:ation)?)?|eval(?:uation)?)[ /_](?:loss|.{0,80}crossentropy(?:loss)?|.{0,80}ce loss)"
)
_PATIENCE = 30
"""Lines without a value after which a report is over."""


class Blocks(WaitingDialect):
    """Remembers the step. A loss that stands there under two names is one point; of several validations the first."""

    marks: ClassVar[tuple[str, ...]] = ("batch=", "step", "Step", "iter", "Iter")

    def __init__(self) -> None:
        self._step: int | None = None
        self._left = 0
        self._validated = ""

    @property
    def is_waiting(self) -> bool:
        """True while values may follow."""
        return self._left > 0

    def flush(self) -> list[LogValue]:
        """Return nothing: a value is read at once."""
        return []

    def read(self, record: LogRecord) -> list[LogValue] | None:
        head = _HEAD.search(record.text) if len(record.text) < _LONGEST else None
        if head:
            step, last = (head[name] or head[f"olmo{end}"] or head[f"plain{end}"] for name, end in _ENDS)
            self._step, self._left = int(step), _PATIENCE
            label = head["counter"] or "step"
            return [TrainingProgress(label, self._step, int(last), rank=record.rank)] if last else []
        value = _VALUE.match(record.text) if self._left else None
        self._left = _PATIENCE if value else max(0, self._left - 1)
        return self._point(record, value["name"], value["number"]) if value else None

    def _point(self, record: LogRecord, name: str, number: str) -> list[LogValue]:
        small = name.lower()
        names = {name: TRAIN_LOSS} if _TRAIN.fullmatch(small) else {}
        if _VALIDATION.fullmatch(small):
            self._validated = self._validated or name
            names = {name: VAL_LOSS if name == self._validated else ""}
        return named_points(record, self._step, {name: number}, names)


_ENDS = (("step", ""), ("last", "_last"))
_LONGEST = 400
"""Characters of the line of a step."""

_ROW = re.compile(
    rf"^\s{{0,8}}[│|](?P<indent>\s{{0,8}})(?P<name>[\w/.()@-]{{1,80}})\s{{1,120}}[│|]?\s{{0,120}}"
    rf"(?P<number>{NUMBER})?\s{{0,120}}[│|]$"
)
_STEPS = ("step", "training_iteration", "time/total_timesteps", "total_timesteps", "n_updates")


class Boxes(WaitingDialect):
    """Reads the box that Ray or a logger of reinforcement learning draws around each result: many records, one step."""

    marks: ClassVar[tuple[str, ...]] = ("╭", "╰", "rollout/", "ep_rew", "grad_norm", "oss", "iter", "step")

    def __init__(self) -> None:
        self._rows: dict[str, str] | None = None
        self._section = ""
        self._is_drawn = False
        """True of Ray's box, into which lines of other processes fall."""

    @property
    def is_waiting(self) -> bool:
        """True while a box is open: its rows have no marks."""
        return self._rows is not None

    def flush(self) -> list[LogValue]:
        """Return nothing: a box without its end may lack rows."""
        return []

    def read(self, record: LogRecord) -> list[LogValue] | None:
        start = record.text.lstrip()[:1]
        row = _ROW.match(record.text) if start in ("│", "|") else None
        if start == "╭" or (row and self._rows is None and start == "|"):
            self._rows, self._section, self._is_drawn = {}, "", start == "╭"
        if self._rows is None:
            return None
        if row is None:
            return self._end(record, start)
        if row["number"] is None:
            self._section = row["name"] if row["name"].endswith("/") else ""
        else:
            self._rows[(self._section if len(row["indent"]) > 1 else "") + row["name"]] = row["number"]
        return []

    def _end(self, record: LogRecord, start: str) -> list[LogValue] | None:
        """Read what is not a row: the end of the box, or one of Ray's lines within it."""
        if self._is_drawn and start != "╰":
            return [] if start in ("╭", "├", "│") else None
        rows, self._rows = self._rows or {}, None
        return report_of(record, rows, rows.get(first_of(rows, _STEPS))) if start in ("╰", "-") else None

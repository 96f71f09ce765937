"""Dictionaries of the Hugging Face Trainer, TRL and their relatives.

The step is not in the dictionary. It is the counter of the bar's redraw right after it: tqdm clears the bar, prints
the dictionary, draws the bar again; the bar before may be many steps old. Behind `torchrun --tee` the bar after it may
be of a later step: such a point has its epoch alone.

Source: `docs/facts/training-logs.md#hugging-face-trainer`; transformers 4 and 5 (which quotes its numbers), captured in
`tests/fixtures/corpus/logs/hf_*`.
"""

from __future__ import annotations

import re
from typing import ClassVar

from msgspec.structs import replace

from actions.telemetry.dialects.dialect import (
    TRAIN_LOSS,
    VAL_LOSS,
    WRAPPER,
    WaitingDialect,
)
from actions.telemetry.dialects.named import named_points
from actions.telemetry.dialects.progress_bars import BAR_MARKS, Bar, bar_of
from actions.telemetry.log_records import LogRecord
from actions.telemetry.points import NUMBER, LogValue, Point, number_of

_DICTIONARY = re.compile(r"\{'[^{}]{1,6000}\}")
_PAIR = re.compile(rf"'([\w/ ().-]{{1,80}})': '?{WRAPPER}({NUMBER})'?(?=[,}})])")
_RESULT = re.compile(rf"^\s{{0,8}}((?:eval|train)_loss) {{1,60}}= {{1,40}}({NUMBER})\s{{0,8}}$")
"""A row of the table at the end of a training or an evaluation."""
_TOTAL = re.compile(r"Total optimization steps = ([\d,]{1,15})")
_COMPANION = re.compile(r"'(?:epoch|learning_rate|(?:\w{1,20}_)?lr|eval_runtime|train_runtime)':")
"""Keys of which one stands in every dictionary that the Trainer prints; older versions leave the epoch out."""
_REPORTED = re.compile(r"(?:loss|reward|kl|runtime)\b")
"""A word that the names of a report have, and those of settings do not."""
_NAMES = {
    "loss": TRAIN_LOSS,
    "eval_loss": VAL_LOSS,
    "train_loss": "train_loss_final_mean",
    "train_samples_per_second": "throughput",
    "train_steps_per_second": "iters_per_second",
}
_PATIENCE = 20


class HuggingFace(WaitingDialect):
    """Reads the dictionaries, holding each until the bar shows its step.

    A stream without bars is not held back: its points have no step, only an epoch; nor are lines of `torchrun --tee`.
    """

    marks: ClassVar[tuple[str, ...]] = (
        "Total opt",
        "l_loss ",
        "n_loss ",
        "loss'",
        "'train_runtime'",
        "'epoch'",
        "lr'",
        "'learning_rate'",
        *BAR_MARKS,
    )

    def __init__(self) -> None:
        self._total: int | None = None
        self._held: list[Point] = []
        self._waited = 0

    def read(self, record: LogRecord) -> list[LogValue] | None:
        findings = self._wait()
        total = _TOTAL.search(record.text) if "Total opt" in record.text else None
        if total:
            self._total = int(total[1].replace(",", ""))
            return findings
        dictionary = _dictionary_of(record.text)
        if dictionary is not None:
            return findings + self._read_bar_before(record) + self.flush() + self._read_dictionary(record, dictionary)
        result = _RESULT.match(record.text) if "_loss " in record.text else None
        if result:
            return findings + named_points(record, None, {result[1]: result[2]}, _NAMES)
        bar = bar_of(record.text) if "[" in record.text else None
        if bar is None or bar.metrics:
            return findings or None
        return findings + self._read_bar(record, bar)

    def flush(self) -> list[LogValue]:
        """Return the points that wait for a bar, without a step."""
        held: list[LogValue] = [*self._held]
        self._held.clear()
        self._waited = 0
        return held

    @property
    def is_waiting(self) -> bool:
        """True while points wait for a bar, so that every record must be shown to this dialect."""
        return bool(self._held)

    def _wait(self) -> list[LogValue]:
        self._waited += bool(self._held)
        return self.flush() if self._waited > _PATIENCE else []

    def _read_bar_before(self, record: LogRecord) -> list[LogValue]:
        """Read a bar that lost its `\\r`, and so stands on the dictionary's own line: it is of what was held before."""
        bar = bar_of(record.text.partition("{'")[0]) if "[" in record.text else None
        return [] if bar is None or bar.metrics else self._read_bar(record, bar)

    def _read_dictionary(self, record: LogRecord, values: dict[str, str]) -> list[LogValue]:
        epoch = number_of(values["epoch"]) if "epoch" in values else None
        points = named_points(record, None, values, _NAMES, epoch=epoch)
        if self._total is None or record.is_teed:
            return points
        self._held = [point for point in points if isinstance(point, Point)]
        return []

    def _read_bar(self, record: LogRecord, bar: Bar) -> list[LogValue]:
        findings: list[LogValue] = [bar.progress(record.rank)]
        if bar.label or bar.total is None:
            return findings
        if self._total is None:
            self._total = bar.total
        if bar.total == self._total and self._held:
            findings += [replace(point, step=bar.done) for point in self._held]
            self._held.clear()
            self._waited = 0
        return findings


def _dictionary_of(text: str) -> dict[str, str] | None:
    if "{'" not in text:
        return None
    for match in _DICTIONARY.finditer(text):
        values: dict[str, str] = dict(_PAIR.findall(match[0]))
        if len(values) > 1 and _COMPANION.search(match[0]) and _REPORTED.search(match[0]):
            return values
    return None

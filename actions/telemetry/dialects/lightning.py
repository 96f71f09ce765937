"""Bars whose postfix carries the metrics: Lightning, NeMo 1, BioNeMo 1, neuronx-nemo-megatron, NxD Training.

Source: `docs/facts/training-logs.md#lightning`; Lightning 2.5 captured in `tests/fixtures/corpus/logs/lightning_*`.
"""

from __future__ import annotations

import re

from actions.telemetry.dialects.dialect import (
    TEST_LOSS,
    TRAIN_LOSS,
    VAL_LOSS,
    Finding,
    first_of,
    named_points,
    point_of,
)
from actions.telemetry.lines import Record
from actions.telemetry.numbers import NUMBER
from actions.telemetry.points import Point
from actions.telemetry.progress import Bar, bar_of

_NAMED_LOSSES = (
    "reduced_train_loss",
    "train_loss",
    "train_loss_step",
    "train/loss",
    "train/loss_step",
    "training_loss",
    "step_loss",
)
_VALIDATION_LOSSES = (
    "val_loss",
    "validation_loss",
    "val/loss",
    "val_loss_epoch",
    "val/loss_epoch",
    "valid_loss",
    "valid_loss_epoch",
)
_EXTRAS = {
    "lr": "lr",
    "learning_rate": "lr",
    "grad_norm": "grad_norm",
    "gradient_norm": "grad_norm",
    "parameter_norm": "param_norm",
    "throughput": "throughput",
    "consumed_samples": "consumed_samples",
    "train_step_timing in s": "step_time_s",
    "iteration_time": "step_time_s",
}
_RATES = {"it/s": "iters_per_second", "s/it": "seconds_per_iter"}
_REDRAWN = re.compile(r"(?<=\])(?=Epoch \d{1,9}[:/])|(?<=, )(?=Epoch \d{1,9}: {1,4}\d{1,3}%\|)")
"""Where a bar was drawn again on the same line: a copy that has lost its `\\r`, the bar cut at the screen's width or
not."""
_EPOCH = re.compile(r"\b[Ee]poch[ :]{1,3}(\d{1,9})(?:/\d{1,9})?\W{0,4}$")


_RESULT = re.compile(rf"^[\s│|]{{0,40}}((?:test|val)[_/]loss(?:_epoch)?)[\s│|]{{2,80}}({NUMBER})[\s│|]{{0,40}}$")


class LightningResults:
    """Reads the table at the end of a test or a validation, row by row; a box around it or not."""

    marks = ("test_loss", "test/loss", "val_loss", "val/loss")

    def read(self, record: Record) -> list[Finding] | None:
        row = _RESULT.match(record.text)
        if row is None:
            return None
        return [point_of(record, TEST_LOSS if row[1][0] == "t" else VAL_LOSS, None, row[2], key=row[1])]


class LightningBars:
    """Reads the postfix of training bars.

    `loss=` is a running mean wherever a named loss stands beside it, and the curve only where none ever does. A
    validation loss stays in the postfix after its validation: only a change is a point.
    """

    marks = ("[",)

    def __init__(self) -> None:
        self._has_named_loss = False
        self._seen_validation: dict[tuple[int, str], str] = {}

    def read(self, record: Record) -> list[Finding] | None:
        if "[" not in record.text:
            return None
        is_glued = "]Epoch " in record.text or ", Epoch " in record.text
        redraws = _REDRAWN.split(record.text) if is_glued else [record.text]
        bars = [bar for bar in map(bar_of, redraws) if bar is not None]
        if not any(bar.metrics for bar in bars):
            return None
        return [finding for bar in bars for finding in self._read_bar(record, bar)]

    def _read_bar(self, record: Record, bar: Bar) -> list[Finding]:
        findings: list[Finding] = [bar.progress(record.rank)]
        if bar.is_training and bar.metrics and bar.done > 0:
            findings += self._points(record, bar)
        return findings

    def _points(self, record: Record, bar: Bar) -> list[Finding]:
        match = _EPOCH.search(bar.label)
        epoch = float(match[1]) if match else None
        step = _step_of(bar)
        losses: list[Finding] = []
        named = first_of(bar.texts, _NAMED_LOSSES)
        if named:
            self._has_named_loss = True
            losses.append(point_of(record, TRAIN_LOSS, step, bar.texts[named], key=named, epoch=epoch))
        plain = first_of(bar.texts, ("loss", "Loss"))
        if plain:
            metric = "train_loss_smoothed" if self._has_named_loss else TRAIN_LOSS
            losses.append(point_of(record, metric, step, bar.texts[plain], key=plain, epoch=epoch))
        losses += self._held(record, bar, step, epoch)
        if not losses:
            return []
        extras = named_points(record, step, bar.texts, _EXTRAS, epoch=epoch)
        return losses + _rate_points(record, bar, step, epoch) + extras

    def _held(self, record: Record, bar: Bar, step: int, epoch: float | None) -> list[Finding]:
        points: list[Finding] = []
        for metric, keys in ((VAL_LOSS, _VALIDATION_LOSSES), (TEST_LOSS, ("test_loss",))):
            key = first_of(bar.texts, keys)
            if key and self._seen_validation.get((record.rank, metric)) != bar.texts[key]:
                self._seen_validation[record.rank, metric] = bar.texts[key]
                points.append(point_of(record, metric, step, bar.texts[key], key=key, epoch=epoch))
        return points


def _rate_points(record: Record, bar: Bar, step: int, epoch: float | None) -> list[Finding]:
    """The rate as printed, and the time of a step: tqdm changes its unit where the rate passes one a second."""
    if bar.rate is None:
        return []
    points: list[Finding] = [
        point_of(record, _RATES[bar.rate_unit], step, bar.rate_text, key="tqdm rate", epoch=epoch),
    ]
    if bar.rate > 0 and not any(_EXTRAS.get(key) == "step_time_s" for key in bar.metrics):
        seconds = 1 / bar.rate if bar.rate_unit == "it/s" else bar.rate
        points.append(Point("step_time_s", step, seconds, record.rank, epoch, "tqdm rate", record.at))
    return points


def _step_of(bar: Bar) -> int:
    """`global_step` unless it has lost digits; then the bar's own counter, which is exact."""
    exact = bar.metrics.get("global_step")
    if exact is None or "e" in bar.texts["global_step"].lower() or not exact.is_integer():
        return bar.done
    return int(exact)

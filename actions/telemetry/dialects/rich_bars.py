"""Rich's progress bar, as Lightning draws it: a bar, its metrics behind it, wrapped over lines where it is too wide.

    Epoch 2/2  ━━━━━━━━━━━━━━╸━ 187/200 0:00:00 •       291.75it/s train_loss: 0.054
                                        0:00:01                    lr: 0.001
                                                                   val_loss: 0.094

On a terminal it is redrawn, each time with all of its lines; in a pipe only the last state is printed.

Source: `docs/facts/training-logs.md#lightning`; Lightning 2.6.6 in `tests/fixtures/corpus/logs/lightning_rich_*`.
"""

from __future__ import annotations

import re
from typing import ClassVar

import msgspec

from actions.telemetry.dialects.dialect import TRAIN_LOSS, VAL_LOSS, LogValue, WaitingDialect, first_of, point_of
from actions.telemetry.log_records import LogRecord
from actions.telemetry.points import NUMBER, Point, TrainingProgress, number_of

_BAR = re.compile(
    rf"^Epoch (?P<epoch>\d{{1,9}})(?:/\d{{1,9}})?\s{{1,8}}[━╸╺\s-]{{1,400}} "
    rf"(?P<done>\d{{1,12}})/(?P<total>\d{{1,12}}|--|\?)\s{{1,20}}"
    rf"(?P<elapsed>\d{{1,4}}:\d\d:\d\d) •\s{{0,12}}(?P<left>\d{{1,4}}:\d\d:\d\d|-:--:--)?\s{{0,12}}"
    rf"(?:(?P<rate>{NUMBER})it/s)?"
)
_BELOW = re.compile(rf"^\s{{8,400}}(?:[\d-]{{1,4}}:[\d-]{{2}}:[\d-]{{2}}(?:\s{{1,80}}|$))?(?:({NUMBER})(?=\s|$|`))?")
"""A line below the bar: perhaps the time that is left, perhaps a number whose name stands above it."""
_OPEN = re.compile(r"(?<=\s)([A-Za-z][\w/.-]{0,60}):\s{0,200}$")
"""A name at the end of a line, its number on the next."""
_METRIC = re.compile(rf"(?:^|(?<=\s))([A-Za-z][\w/.-]{{0,60}}): ({NUMBER})(?=\s|$|`)")
_LOSSES = ("reduced_train_loss", "train_loss", "train_loss_step", "train/loss", "train/loss_step", "loss")
_VALIDATION = ("val_loss", "validation_loss", "val/loss", "val_loss_epoch", "valid_loss")
_EXTRAS = {"lr": "lr", "learning_rate": "lr", "grad_norm": "grad_norm", "consumed_samples": "consumed_samples"}


class _Frame(msgspec.Struct):
    """The bar as it was drawn last."""

    step: int
    epoch: float
    is_begun: bool
    """It has counted a batch of its epoch: before, its metrics are those of the epoch before."""
    ended: tuple[int, float] | None
    """Step and epoch of the newest bar before it that had counted one."""
    rate: str = ""
    """Batches a second, as printed."""
    has_loss: bool = False
    open: str = ""
    """The name that the next line's number has."""


class RichBars(WaitingDialect):
    """Reads the bar and the lines below it.

    A validation loss stays there after its validation: only a change is a point, of the epoch that it ended. One that
    is there before the first batch of all is of the check before the training, and no point.
    """

    marks: ClassVar[tuple[str, ...]] = (":: •", "oss: ", "lr: ", "learning_rate: ", "grad_norm: ", "consumed_samples: ")

    def __init__(self) -> None:
        self._frames: dict[int, _Frame] = {}
        self._held: dict[int, str] = {}
        """By rank, the validation loss that was seen last."""

    @property
    def is_waiting(self) -> bool:
        """True while a name's number is on the next line."""
        return any(frame.open for frame in self._frames.values())

    def flush(self) -> list[LogValue]:
        """Wait no longer; nothing is held."""
        for frame in self._frames.values():
            frame.open = ""
        return []

    def read(self, record: LogRecord) -> list[LogValue] | None:
        bar = _BAR.match(record.text) if " •" in record.text else None
        if bar is not None:
            return self._read_bar(record, bar)
        frame = self._frames.get(record.rank)
        below = _BELOW.match(record.text) if frame is not None else None
        if frame is None or below is None:
            self.flush()
            return None
        texts = {frame.open: below[1]} if frame.open and below[1] else {}
        texts |= _METRIC.findall(record.text, below.end())
        frame.open = _open_in(record.text)
        return self._points(record, frame, texts) if texts or frame.open else None

    def _read_bar(self, record: LogRecord, bar: re.Match[str]) -> list[LogValue]:
        texts = dict(_METRIC.findall(record.text, bar.end()))
        done = int(bar["done"])
        rate = number_of(bar["rate"]) if bar["rate"] else None
        before = self._frames.get(record.rank)
        frame = _Frame(_step_of(texts, done), float(bar["epoch"]), is_begun=done > 0, ended=_end_of(before))
        frame.open = _open_in(record.text)
        frame.rate = bar["rate"] if rate else ""
        self._frames[record.rank] = frame
        total = int(bar["total"]) if bar["total"].isdigit() else None
        left = _seconds_of(bar["left"])
        values: list[LogValue] = [
            TrainingProgress(f"Epoch {bar['epoch']}", done, total, _seconds_of(bar["elapsed"]), left, rate, record.rank)
        ]
        return values + self._points(record, frame, texts)

    def _points(self, record: LogRecord, frame: _Frame, texts: dict[str, str]) -> list[LogValue]:
        """Return the points of one line: of its numbers as printed, by name."""
        points: list[LogValue] = []
        named = first_of(texts, _LOSSES)
        if named and frame.is_begun and not frame.has_loss:
            frame.has_loss = True
            points.append(point_of(record, TRAIN_LOSS, frame.step, texts[named], key=named, epoch=frame.epoch))
            points += _rate_points(record, frame)
        held = first_of(texts, _VALIDATION)
        if held and self._held.get(record.rank) != texts[held]:
            self._held[record.rank] = texts[held]
            place = (frame.step, frame.epoch) if frame.is_begun else frame.ended
            if place is not None:
                points.append(point_of(record, VAL_LOSS, place[0], texts[held], key=held, epoch=place[1]))
        if frame.is_begun:
            points += [
                point_of(record, _EXTRAS[key], frame.step, text, key=key, epoch=frame.epoch)
                for key, text in texts.items()
                if key in _EXTRAS
            ]
        return points


def _open_in(text: str) -> str:
    found = _OPEN.search(text)
    return found[1] if found else ""


def _rate_points(record: LogRecord, frame: _Frame) -> list[LogValue]:
    if not frame.rate:
        return []
    seconds = 1 / number_of(frame.rate)
    return [
        point_of(record, "iters_per_second", frame.step, frame.rate, key="rich rate", epoch=frame.epoch),
        Point("step_time_s", frame.step, seconds, record.rank, frame.epoch, "rich rate", record.at),
    ]


def _end_of(before: _Frame | None) -> tuple[int, float] | None:
    """Return step and epoch of the last bar that had counted a batch, `before` or one before it."""
    if before is None:
        return None
    return (before.step, before.epoch) if before.is_begun else before.ended


def _step_of(texts: dict[str, str], done: int) -> int:
    """Return the global step if the bar's own line has it, else the batches that it has counted in its epoch."""
    printed = number_of(texts["global_step"]) if "global_step" in texts else None
    return int(printed) if printed is not None and printed.is_integer() else done


def _seconds_of(text: str | None) -> float | None:
    if not text or "-" in text:
        return None
    hours, minutes, seconds = text.split(":")
    return float(int(hours) * 3600 + int(minutes) * 60 + int(seconds))

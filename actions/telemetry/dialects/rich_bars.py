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
from msgspec.structs import replace

from actions.telemetry.dialects.dialect import (
    TRAIN_LOSS,
    VAL_LOSS,
    WaitingDialect,
    first_of,
    point_of,
)
from actions.telemetry.dialects.named import PLAIN_NAME, TRAINING_NAMES, VALIDATION_NAMES, named_points
from actions.telemetry.log_records import LogRecord
from actions.telemetry.points import NUMBER, LogValue, TrainingProgress, number_of

_BAR = re.compile(
    rf"^Epoch (?P<epoch>\d{{1,9}})(?:/-?\d{{1,9}})?\s{{1,8}}[━╸╺\s-]{{1,400}} "
    rf"(?P<done>\d{{1,12}})/(?P<total>\d{{1,12}}|--|\?)\s{{1,20}}"
    rf"(?P<elapsed>\d{{1,4}}:\d\d:\d\d) •\s{{0,12}}(?P<left>\d{{1,4}}:\d\d:\d\d|-:--:--)?\s{{0,12}}"
    rf"(?:(?P<rate>{NUMBER})it/s)?"
)
_BELOW = re.compile(rf"^\s{{8,400}}(?:[\d-]{{1,4}}:[\d-]{{2}}:[\d-]{{2}}(?:\s{{1,80}}|$))?(?:({NUMBER})(?=\s|$|`))?")
"""A line below the bar: perhaps the time that is left, perhaps a number whose name stands above it."""
_OPEN = re.compile(r"(?:^|(?<=\s))([A-Za-z][\w/.-]{0,60})(?::\s{0,200}|…\s{0,200})$")
"""A name at the end of a line, its number on the next. One that is wider than its column ends with `…`."""
_METRIC = re.compile(rf"(?:^|(?<=\s))([A-Za-z][\w/.-]{{0,60}}): ({NUMBER})(?=\s|$|`)")
_LOSSES = (*TRAINING_NAMES, PLAIN_NAME)
_STEP = "global_step"
_MEANS = ("train_loss_epoch", "train/loss_epoch")
_KNOWN = (*_LOSSES, *VALIDATION_NAMES, *_MEANS, _STEP, "lr", "learning_rate", "grad_norm", "consumed_samples")


class _Frame(msgspec.Struct):
    """The bar as it was drawn last."""

    record: LogRecord
    """The bar's own line."""
    done: int
    epoch: float
    ended: tuple[int, float] | None
    """Step and epoch of the newest bar before it that had counted a batch."""
    rate: str
    """Batches a second, as printed; empty without a rate."""
    texts: dict[str, str]
    """Its numbers as printed, by name."""
    open: str = ""
    """The name that the next line's number has."""
    is_open: bool = True
    """True while lines below it may follow."""

    @property
    def is_begun(self) -> bool:
        """True if it has counted a batch of its epoch: before, its metrics are those of the epoch before."""
        return self.done > 0

    @property
    def step(self) -> int:
        """The global step if it shows that, else the batches that it has counted in its epoch."""
        printed = number_of(self.texts[_STEP]) if _STEP in self.texts else None
        return int(printed) if printed is not None and printed.is_integer() else self.done

    def add(self, text: str, start: int) -> None:
        """Take the numbers of one of its lines, from `start` on."""
        self.texts |= _METRIC.findall(text, start)
        found = _OPEN.search(text, start)
        self.open = found[1] if found and text.rstrip().endswith(":") else _whole_name(found[1]) if found else ""


class RichBars(WaitingDialect):
    """Reads the bar and the lines below it, and holds all until they have ended: the step may be on the last of them.

    A validation loss stays there after its validation: only a change is a point, of the epoch that it ended. One that
    is there before the first batch of all is of the check before the training, and no point.
    """

    marks: ClassVar[tuple[str, ...]] = (":: •",)

    def __init__(self) -> None:
        self._frames: dict[int, _Frame] = {}
        self._held: dict[int, str] = {}
        """By rank, the validation loss that was seen last."""

    @property
    def is_waiting(self) -> bool:
        """True while lines of a bar may follow."""
        return any(frame.is_open for frame in self._frames.values())

    def flush(self) -> list[LogValue]:
        """Return the points of the bars whose lines have not ended yet."""
        return [value for frame in self._frames.values() for value in self._close(frame)]

    def release(self, record: LogRecord) -> list[LogValue]:
        """Return the points of the bar that ends with this record, which is not a line of it."""
        frame = self._frames.get(record.rank)
        is_part = frame is None or _BELOW.match(record.text) or (" •" in record.text and _BAR.match(record.text))
        return [] if frame is None or is_part else self._close(frame)

    def read(self, record: LogRecord) -> list[LogValue] | None:
        bar = _BAR.match(record.text) if " •" in record.text else None
        if bar is not None:
            return self._read_bar(record, bar)
        frame = self._frames.get(record.rank)
        below = _BELOW.match(record.text) if frame is not None and frame.is_open else None
        if frame is None or below is None:
            return None
        if frame.open and below[1]:
            frame.texts[frame.open] = below[1]
        frame.add(record.text, below.end())
        return []

    def _read_bar(self, record: LogRecord, bar: re.Match[str]) -> list[LogValue]:
        before = self._frames.get(record.rank)
        values = self._close(before) if before is not None else []
        rate = number_of(bar["rate"]) if bar["rate"] else None
        frame = _Frame(record, int(bar["done"]), float(bar["epoch"]), _end_of(before), bar["rate"] if rate else "", {})
        frame.add(record.text, bar.end())
        self._frames[record.rank] = frame
        total = int(bar["total"]) if bar["total"].isdigit() else None
        elapsed, left = _seconds_of(bar["elapsed"]), _seconds_of(bar["left"])
        label = f"Epoch {bar['epoch']}"
        return [*values, TrainingProgress(label, frame.done, total, elapsed, left, rate, record.rank)]

    def _close(self, frame: _Frame) -> list[LogValue]:
        """Return the points of a bar, none if they have been returned before."""
        if not frame.is_open:
            return []
        frame.is_open = False
        record, texts = frame.record, frame.texts
        points: list[LogValue] = []
        named = first_of(texts, _LOSSES)
        if named and frame.is_begun:
            points.append(point_of(record, TRAIN_LOSS, frame.step, texts[named], key=named, epoch=frame.epoch))
            points += _rate_points(record, frame)
        points += self._validation(record, frame)
        if frame.is_begun:
            taken = (*_LOSSES, *VALIDATION_NAMES, *_MEANS)
            points += named_points(record, frame.step, texts, {}, epoch=frame.epoch, taken=taken)
        return points

    def _validation(self, record: LogRecord, frame: _Frame) -> list[LogValue]:
        key = first_of(frame.texts, VALIDATION_NAMES)
        if not key or self._held.get(record.rank) == frame.texts[key]:
            return []
        self._held[record.rank] = frame.texts[key]
        place = (frame.step, frame.epoch) if frame.is_begun else frame.ended
        return (
            [] if place is None else [point_of(record, VAL_LOSS, place[0], frame.texts[key], key=key, epoch=place[1])]
        )


def _whole_name(beginning: str) -> str:
    """Return the name that begins so, empty if it is not known or not the only one."""
    names = {name for name in _KNOWN if name.startswith(beginning)}
    return names.pop() if len(names) == 1 else ""


def _rate_points(record: LogRecord, frame: _Frame) -> list[LogValue]:
    if not frame.rate:
        return []
    rate = point_of(record, "iters_per_second", frame.step, frame.rate, key="rich rate", epoch=frame.epoch)
    if not rate.value > 0:
        return [rate]
    return [rate, replace(rate, metric="step_time_s", value=1 / rate.value, raw="")]


def _end_of(before: _Frame | None) -> tuple[int, float] | None:
    """Return step and epoch of the last bar that had counted a batch, `before` or one before it."""
    if before is None:
        return None
    return (before.step, before.epoch) if before.is_begun else before.ended


def _seconds_of(text: str | None) -> float | None:
    if not text or "-" in text:
        return None
    hours, minutes, seconds = text.split(":")
    return float(int(hours) * 3600 + int(minutes) * 60 + int(seconds))

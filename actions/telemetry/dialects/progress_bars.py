"""Progress bars: tqdm's, those whose postfix carries metrics (Lightning and its relatives), and Keras' bars.

Lightning's dialect also covers NeMo 1, BioNeMo 1, neuronx-nemo-megatron and NxD Training. Keras prints the number of
the epoch on a line, and below it a bar that is redrawn; its loss is the mean over the epoch so far, there is no
other.

Source: tqdm 4.67 `std.py` format_meter; `docs/facts/training-logs.md#lightning`; Lightning 1.9 to 2.5 captured in
`tests/fixtures/corpus/logs/lightning_*`; keras 2 and 3 `ProgbarLogger`, both verbosities.
"""

from __future__ import annotations

import math
import re
from functools import lru_cache
from typing import ClassVar, NamedTuple

import msgspec

from actions.telemetry.dialects.dialect import (
    TEST_LOSS,
    TRAIN_LOSS,
    VAL_LOSS,
    first_of,
    point_of,
)
from actions.telemetry.dialects.named import (
    TRAINING_NAMES,
    VALIDATION_NAMES,
    Named,
    named_in,
    named_points,
    points_at,
)
from actions.telemetry.log_records import LogRecord
from actions.telemetry.outlines import group_place, memoize_by_outline, outline_of
from actions.telemetry.points import NUMBER, LogValue, Point, TrainingProgress, number_of

_COUNTER = re.compile(
    r"(?<![\d.])(?P<done>\d{1,12})(?:/(?P<total>\d{1,12}|\?)| ?it) "
    r"\[(?P<elapsed>[\d:?]{1,12})(?:<(?P<left>[\d:?]{1,12}))?"
)
BAR_MARKS = ("/ [", "/? [", "it [")
"""Marks of a bar without its digits: of `12/100 [`, `12/? [`, `12it [`."""
_PERCENT = re.compile(r"\s{0,12}\d{1,4}%\|")
"""Between label and bar."""
_RATE = re.compile(
    rf"[, ]\s{{0,8}}({NUMBER}) ?"
    r"(?:(?P<many>(?:it|ba|batch(?:es)?|steps?|iters?)/s)|s/(?:it|ba|batch(?:es)?|steps?|iters?))(?=[,\]]|\s|$)"
)
"""The unit is the loop's own: Composer counts `ba`, many others `batch`; some begin it with a blank."""
_METRIC = re.compile(rf"[,\[ ]\s{{0,4}}([A-Za-z][\w/.-]{{0,60}}(?: in s)?)[=:] ?({NUMBER})(?=\s{{0,4}}[,\]])")
_NOT_TRAINING = re.compile(
    r"(?i)^\W{0,8}(?:validati|sanity|test|predict|eval|generat|map\b|filter\b|download|loading|tokeni|extract|sav|"
    r"writ|merg|creat|resolv|fetch|convert)"
)
_POSTFIX = 4000


class Bar(NamedTuple):
    """A bar, drawn once."""

    label: str
    """The text before it: `Epoch 0`, `Map`, empty."""
    done: int
    total: int | None
    elapsed_seconds: float | None
    remaining_seconds: float | None
    rate: float | None
    """As printed, in `rate_unit`."""
    rate_text: str
    """The same as it was printed; empty if it was not."""
    rate_unit: str
    """`it/s`, `s/it`, or empty."""
    metrics: dict[str, float]
    """The postfix: `reduced_train_loss`, `global_step`…"""
    texts: dict[str, str]
    """The same numbers as they were printed: `3.1e+4` has lost digits."""

    @property
    def is_training(self) -> bool:
        """True if it counts steps of training, as far as its label shows."""
        return _NOT_TRAINING.match(self.label) is None

    def progress(self, rank: int) -> TrainingProgress:
        """Return the progress that it shows."""
        rate = self.rate
        if rate is not None and self.rate_unit == "s/it":
            rate = 1 / rate if rate else None
        return TrainingProgress(
            self.label, self.done, self.total, self.elapsed_seconds, self.remaining_seconds, rate, rank
        )


def bar_of(text: str) -> Bar | None:
    """Return the first bar in a record, `None` if there is none."""
    counter = _COUNTER.search(text)
    if counter is None:
        return None
    tail = text[counter.end() : counter.end() + _POSTFIX]
    closing = tail.find("]")
    postfix = tail if closing < 0 else tail[: closing + 1]
    places = _postfix_in(outline_of(postfix))
    texts = {postfix[key]: postfix[value] for key, value in places.metrics}
    rate = postfix[places.rate] if places.rate else ""
    return Bar(
        label=_label_of(text[: counter.start()]),
        done=int(counter["done"]),
        total=int(counter["total"]) if counter["total"] and counter["total"] != "?" else None,
        elapsed_seconds=_seconds_of(counter["elapsed"]),
        remaining_seconds=_seconds_of(counter["left"]),
        rate=number_of(rate) if rate else None,
        rate_text=rate,
        rate_unit=places.rate_unit,
        metrics={key: number_of(value) for key, value in texts.items()},
        texts=texts,
    )


class _BarPlaces(msgspec.Struct, frozen=True):
    """The places of rate and metrics in the text behind a counter."""

    rate: slice | None
    rate_unit: str
    metrics: tuple[tuple[slice, slice], ...]
    """Keys and values."""


@memoize_by_outline
def _postfix_in(outline: str) -> _BarPlaces:
    rate = _RATE.search(outline)
    metrics = ((slice(*match.span(1)), slice(*match.span(2))) for match in _METRIC.finditer(outline))
    unit = "" if rate is None else "it/s" if rate["many"] else "s/it"
    return _BarPlaces(group_place(rate, 1), unit, tuple(metrics))


def _label_of(before: str) -> str:
    near = before[-600:]
    drawn = _PERCENT.search(near)
    head = near[: drawn.start()] if drawn else near.partition("|")[0]
    return head.strip().rstrip(":").strip().rstrip(":").strip()


def _seconds_of(text: str | None) -> float | None:
    if not text or "?" in text:
        return None
    seconds = 0
    for part in text.split(":"):
        if not part:
            return None
        seconds = seconds * 60 + int(part)
    return float(seconds)


_PLAIN_LOSSES = ("loss", "Loss", "avr_loss", "avg_loss")
"""As a rule means of several steps."""
_EXTRAS = {
    "parameter_norm": "param_norm",
    "train_step_timing in s": "step_time_s",
    "iteration_time": "step_time_s",
}
_READ = frozenset({*TRAINING_NAMES, *_PLAIN_LOSSES, *VALIDATION_NAMES, "train_loss_epoch", "train/loss_epoch"})
"""Names of losses, and of their means, that are no further curves."""
_RATES = {"it/s": "iters_per_second", "s/it": "seconds_per_iter"}
_REDRAWN = re.compile(r"(?<=\])(?=Epoch \d{1,9}[:/])|(?<=, )(?=Epoch \d{1,9}: {1,4}\d{1,3}%\|)")
"""The places where a bar was drawn again on the same line: in a copy that has lost its `\\r`, the bar cut at the
screen's width or not."""
_EPOCH = re.compile(r"\b[Ee]poch[ :]{1,3}(\d{1,9})(?:/\d{1,9})?\W{0,4}$")


_LABEL_LOSS = re.compile(
    rf"(?<![\w/-])(?:(?:[Tt]rain(?:ing)?|[Aa]vg|[Mm]ean|[Ss]tep)[ _])?[Ll]oss[ =:]{{1,4}}({NUMBER})(?=[\s,:;|)\]]|$)"
)
"""A loss in the text before a bar, set by the loop itself."""
_LABEL_EPOCH = re.compile(r"(?i)\bepoch[ :=]{0,3}(\d{1,9})(?:/\d{1,9})?\b")
_LABEL_STEP = re.compile(r"(?i)\bstep[ :=]{0,3}(\d{1,12})(?:/\d{1,12})?\b")

_RESULT = re.compile(rf"^[\s│|]{{0,40}}((?:test|val)[_/]loss(?:_epoch)?)[\s│|]{{2,80}}({NUMBER})[\s│|]{{0,40}}$")


class LightningResults:
    """Reads the table at the end of a test or a validation, row by row; a box around it or not."""

    marks: ClassVar[tuple[str, ...]] = ("test_loss", "test/loss", "val_loss", "val/loss")

    def read(self, record: LogRecord) -> list[LogValue] | None:
        row = _RESULT.match(record.text)
        if row is None:
            return None
        return [point_of(record, TEST_LOSS if row[1][0] == "t" else VAL_LOSS, None, row[2], key=row[1])]


_DIGITS = 3
"""Significant digits of a number that tqdm shortens: 3999.0 becomes `4e+3`."""


class _Anchor(NamedTuple):
    """A known step, and the bar beside it, which may count batches."""

    done: int
    step: int
    steps_each: float
    """Steps for each count of the bar."""

    @staticmethod
    def after(before: _Anchor | None, done: int, step: int) -> _Anchor:
        if before is None or done <= before.done or step <= before.step:
            return _Anchor(done, step, 1.0 if before is None else before.steps_each)
        return _Anchor(done, step, (step - before.step) / (done - before.done))

    def guess(self, done: int) -> int:
        """Return the step beside a later count; a smaller count is of the next epoch."""
        counted = done - self.done if done >= self.done else done
        return round(self.step + counted * self.steps_each)


@lru_cache(maxsize=64)
def _epoch_in(label: str) -> float | None:
    match = _EPOCH.search(label)
    return float(match[1]) if match else None


def _state_of(bar: Bar) -> tuple[str, str | None]:
    """Return the loss and the global step that a bar shows, as printed."""
    key = first_of(bar.texts, TRAINING_NAMES) or first_of(bar.texts, _PLAIN_LOSSES)
    return bar.texts.get(key, ""), bar.texts.get("global_step")


class _Pause(msgspec.Struct):
    """A training bar during a validation, which Lightning before 2.0 counts on it, too."""

    shown: tuple[str, str | None]
    """Loss and global step that it shows all the while, as printed."""
    begun: int
    """The count at which the validation began."""
    last: int
    """The newest count during the validation."""
    skipped: int
    """The batches of validations that the bar had counted before in its epoch."""
    validated: int = 0
    """The newest count of the validation's own bar."""
    is_drawn: bool = True
    """True if that was drawn after this one."""
    unread: Bar | None = None
    """The newest one that has moved behind a draw of it: a step of the training, if the validation does not go on."""


class LightningBars:
    """Reads the postfix of training bars.

    `loss=` is a running mean wherever a named loss stands beside it, and the curve only where none ever does. A
    validation loss stays in the postfix after its validation: only a change is a point.
    """

    marks: ClassVar[tuple[str, ...]] = BAR_MARKS

    def __init__(self) -> None:
        self._has_named_loss = False
        self._anchors: dict[int, _Anchor] = {}
        self._latest: dict[int, tuple[int, int]] = {}
        """By rank the newest count of the bar, and its step."""
        self._seen_validation: dict[tuple[int, str], str] = {}
        self._shown: dict[int, Bar] = {}
        """By rank the newest training bar."""
        self._skipped: dict[int, int] = {}
        """By rank the batches of validations that the bar has counted in its epoch."""
        self._pauses: dict[int, _Pause] = {}
        self._counting: set[int] = set()
        """Ranks whose bar was seen to count batches of a validation."""

    def read(self, record: LogRecord) -> list[LogValue] | None:
        if "[" not in record.text:
            return None
        is_glued = "]Epoch " in record.text or ", Epoch " in record.text
        redraws = _REDRAWN.split(record.text) if is_glued else [record.text]
        bars = [bar for bar in map(bar_of, redraws) if bar is not None]
        if not any(bar.metrics for bar in bars):
            if bars and bars[0].label.startswith("Validati"):
                self._pause(record.rank, bars[0].done)
            return self._read_label(record, bars[0]) if bars else None
        return [finding for bar in bars for finding in self._read_bar(record, bar)]

    def _read_label(self, record: LogRecord, bar: Bar) -> list[LogValue] | None:
        """Return the loss that stands before the bar, `None` if none does."""
        loss = _LABEL_LOSS.search(bar.label) if "oss" in bar.label else None
        if loss is None or not bar.is_training or bar.done == 0:
            return None
        named, counted = _LABEL_EPOCH.search(bar.label), _LABEL_STEP.search(bar.label)
        step, epoch = int(counted[1]) if counted else bar.done, float(named[1]) if named else None
        return [bar.progress(record.rank), point_of(record, TRAIN_LOSS, step, loss[1], key="loss", epoch=epoch)]

    def _read_bar(self, record: LogRecord, bar: Bar) -> list[LogValue]:
        findings: list[LogValue] = [bar.progress(record.rank)]
        if bar.is_training and bar.metrics and bar.done > 0:
            findings += self._points(record, bar)
        return findings

    def _points(self, record: LogRecord, bar: Bar) -> list[LogValue]:
        before, pause = self._shown.get(record.rank), self._pauses.get(record.rank)
        if (
            before is not None
            and (self._pauses or bar.done < before.done)
            and self._is_paused(record.rank, bar, before)
        ):
            return self._held(record, bar, self._latest[record.rank][1], _epoch_in(bar.label))
        unread = pause.unread if pause is not None and record.rank not in self._counting else None
        if unread is None or unread.done >= bar.done:
            return self._points_of(record, bar)
        return self._points_of(record, unread) + self._points_of(record, bar)

    def _points_of(self, record: LogRecord, bar: Bar) -> list[LogValue]:
        epoch = _epoch_in(bar.label)
        named, plain = first_of(bar.texts, TRAINING_NAMES), first_of(bar.texts, _PLAIN_LOSSES)
        self._shown[record.rank] = bar
        step = self._step_of(record.rank, bar)
        self._latest[record.rank] = bar.done, step
        losses: list[LogValue] = []
        if named:
            self._has_named_loss = True
            losses.append(point_of(record, TRAIN_LOSS, step, bar.texts[named], key=named, epoch=epoch))
        if plain:
            metric = "train_loss_smoothed" if self._has_named_loss else TRAIN_LOSS
            losses.append(point_of(record, metric, step, bar.texts[plain], key=plain, epoch=epoch))
        losses += self._held(record, bar, step, epoch)
        others = named_points(record, step, bar.texts, _EXTRAS, epoch=epoch, taken=_READ)
        if not losses and all(point.value.is_integer() for point in others if isinstance(point, Point)):
            return []
        return losses + _rate_points(record, bar, step, epoch) + others

    def _pause(self, rank: int, validated: int) -> None:
        """Note that a validation was drawn: what the bar of the training counts while it goes on are batches of it."""
        shown, pause = self._shown.get(rank), self._pauses.get(rank)
        if pause is not None:
            if not pause.is_drawn and pause.last > pause.begun and validated > pause.validated:
                self._counting.add(rank)
            pause.validated, pause.is_drawn = validated, True
        elif shown is not None:
            skipped = self._skipped.get(rank, 0)
            self._pauses[rank] = _Pause(_state_of(shown), shown.done, shown.done, skipped, validated)

    def _is_paused(self, rank: int, bar: Bar, before: Bar) -> bool:
        """Return whether a bar was drawn for a validation; note its end."""
        pause = self._pauses.get(rank)
        if bar.done < before.done:
            self._skipped.pop(rank, None)
            self._pauses.pop(rank, None)
        elif pause is not None:
            is_counting = rank in self._counting
            may_go_on = pause.is_drawn or (bar.done <= pause.last and (is_counting or bar.done == pause.begun))
            if may_go_on and _state_of(bar) == pause.shown:
                pause.unread = bar if bar.done > pause.begun else None
                pause.last, pause.is_drawn = max(pause.last, bar.done), False
                return True
            if is_counting:
                counted = min(pause.last, bar.done - 1) - pause.begun  # this batch is one of the training
                self._skipped[rank] = pause.skipped + max(0, counted)
            del self._pauses[rank]
        return False

    def _step_of(self, rank: int, bar: Bar) -> int:
        """Return `global_step`; one that has lost digits is the last known one and what the bar has counted since."""
        printed = bar.metrics.get("global_step")
        if printed is None or not printed.is_integer():
            return bar.done - self._skipped.get(rank, 0) if self._skipped else bar.done
        anchor = self._anchors.get(rank)
        if "e" not in bar.texts["global_step"].lower():
            self._anchors[rank] = _Anchor.after(anchor, bar.done, int(printed))
            return int(printed)
        half = 5 * 10.0 ** (math.floor(math.log10(max(printed, 1.0))) - _DIGITS)
        for guess in (bar.done, *([] if anchor is None else [anchor.guess(bar.done)])):
            if abs(guess - printed) <= half:
                return guess
        done, latest = self._latest.get(rank, (bar.done + 1, 0))
        goes_on = bar.done >= done and abs(latest - printed) <= half  # the bar has counted a validation, too: same step
        step = latest if goes_on else int(printed)
        self._anchors[rank] = _Anchor(bar.done, step, 1.0 if anchor is None else anchor.steps_each)
        return step

    def _held(self, record: LogRecord, bar: Bar, step: int, epoch: float | None) -> list[LogValue]:
        points: list[LogValue] = []
        for metric, keys in ((VAL_LOSS, VALIDATION_NAMES), (TEST_LOSS, ("test_loss",))):
            key = first_of(bar.texts, keys)
            if key and self._seen_validation.get((record.rank, metric)) != bar.texts[key]:
                self._seen_validation[record.rank, metric] = bar.texts[key]
                points.append(point_of(record, metric, step, bar.texts[key], key=key, epoch=epoch))
        return points


def _rate_points(record: LogRecord, bar: Bar, step: int, epoch: float | None) -> list[LogValue]:
    """The rate as printed, and the time of a step: tqdm changes its unit where the rate passes one a second."""
    if bar.rate is None:
        return []
    points: list[LogValue] = [
        point_of(record, _RATES[bar.rate_unit], step, bar.rate_text, key="tqdm rate", epoch=epoch),
    ]
    if bar.rate > 0 and not any(_EXTRAS.get(key) == "step_time_s" for key in bar.metrics):
        seconds = 1 / bar.rate if bar.rate_unit == "it/s" else bar.rate
        points.append(Point("step_time_s", step, seconds, record.rank, epoch, "tqdm rate", record.at))
    return points


_KERAS_EPOCH = re.compile(r"^\s{0,8}Epoch (\d{1,9})/\d{1,9}$")
_KERAS_BAR = re.compile(r"^\s{0,12}(\d{1,12})/(?:(\d{1,12})|Unknown)\s{1,4}[\[━\d-]")
_KERAS_PAIR = re.compile(rf" - ([\w/]{{1,60}}): ({NUMBER})(?=\s|$)")
_KERAS_NAMES = {"loss": TRAIN_LOSS, "val_loss": VAL_LOSS}


class _KerasBar(msgspec.Struct, frozen=True):
    """The places of the numbers in Keras' bars of one outline."""

    step: slice
    last_step: slice | None
    numbers: tuple[Named, ...]


class Keras:
    """Reads the bars. Their steps begin again with each epoch."""

    marks: ClassVar[tuple[str, ...]] = ("Epoch ", " - loss: ")

    def __init__(self) -> None:
        self._epoch: int | None = None
        """The newest one: of ranks that print none, too."""
        self._epochs: dict[int, int] = {}
        self._ended: dict[int, tuple[int, bool]] = {}
        """By rank the steps of the epoch whose bar is full, and whether a validation loss stood behind it."""

    def read(self, record: LogRecord) -> list[LogValue] | None:
        epoch = _KERAS_EPOCH.match(record.text)
        if epoch:
            self._begin_epoch(record.rank, int(epoch[1]))
            return []
        bar = _keras_bar_in(record.outline)
        if bar is None:
            return None
        step = int(record.text[bar.step])
        last = int(record.text[bar.last_step]) if bar.last_step else None
        is_validated = any(number.metric == VAL_LOSS for number in bar.numbers)
        ended, number = self._ended.get(record.rank), self._epochs.get(record.rank, self._epoch)
        if ended is not None and (step != ended[0] or ended[1] > is_validated):
            return self._evaluation(record, bar, is_full=step == last)
        if number is not None and step == last:
            self._ended[record.rank] = step, is_validated
        label = "" if number is None else f"epoch {number}"
        points = points_at(record, step, bar.numbers, epoch=number)
        return [TrainingProgress(label, step, last, rank=record.rank), *points]

    def _begin_epoch(self, rank: int, epoch: int) -> None:
        """Note the epoch of a rank, and of those that have printed none themselves."""
        self._epoch = self._epochs[rank] = epoch
        for other in [each for each in self._ended if each == rank or each not in self._epochs]:
            del self._ended[other]

    @staticmethod
    def _evaluation(record: LogRecord, bar: _KerasBar, *, is_full: bool) -> list[LogValue]:
        """Return the loss of `evaluate`, whose bar comes behind that of an epoch, without a line for a new one."""
        losses = [record.text[number.place] for number in bar.numbers if number.metric == TRAIN_LOSS]
        return [point_of(record, TEST_LOSS, None, text, key="loss") for text in losses if is_full]


@memoize_by_outline
def _keras_bar_in(outline: str) -> _KerasBar | None:
    head = _KERAS_BAR.match(outline) if " - loss: " in outline else None
    if head is None:
        return None
    numbers = named_in(_KERAS_PAIR.finditer(outline, head.end() - 2), _KERAS_NAMES)
    return _KerasBar(slice(*head.span(1)), group_place(head, 2), numbers)

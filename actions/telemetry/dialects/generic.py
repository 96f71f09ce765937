"""Loops that people write themselves: a step and a loss somewhere on a line.

Source: `docs/facts/training-logs.md#own-loops`; llm.c and nanoGPT print this way too.
"""

from __future__ import annotations

import math
import re
from collections import deque
from collections.abc import Sequence
from typing import ClassVar

import msgspec
from msgspec.structs import replace

from actions.telemetry.dialects.dialect import (
    TRAIN_LOSS,
    VAL_LOSS,
    WRAPPER,
    point_of,
)
from actions.telemetry.dialects.named import Named, numbers_in, points_at
from actions.telemetry.log_records import LogRecord
from actions.telemetry.outlines import group_place, has_mark, memoize_by_outline
from actions.telemetry.points import NUMBER, LogValue, Point, TrainingProgress

_STEP = re.compile(
    r"(?:\b(?:global_|train_|num_)?[Ss]teps?(?:_i)?|\bnum_updates|\b[Ii]ter(?:ation|s)?|스텝|\bBatch)"
    r"(?:[ :=]{1,12}[\[(#]?|[\[(])"
    r"(\d{1,3}(?:,\d{3}){1,4}(?![\d,])|\d{1,12})(?:/ {0,8}(\d{1,12}))?[\])]?(?!:\d\d[<,:\]])(?=[\s:|\[]|,(?!\d)|$)"
)
"""A step behind a word for it. A clock in brackets is none: `12 steps [00:05, 2.00 steps/s]`."""
_SHORT_STEP = re.compile(
    r"(?:^\s{0,8}|[\[\]|,] {0,4}|\w:|\b[Ee]poch[ :=]{1,3}\d{1,9}(?:/\d{1,9})?[ :-]{1,4})"
    r"(?:[Uu]pdate|[Ii]t)(?:[ :=]{1,4}[\[#]?|\[)(\d{1,12})(?:/(\d{1,12}))?\]?(?!:\d)"
    r"(?= {0,4}(?:[:|)\]-]|,(?!\d)|$)"
    r"|\s{1,4}(?:(?:[Tt]rain(?:ing)?|[Aa]vg|[Mm]ean)[ _])?(?:[Ll]oss\b|(?!of\b)[\w/]{1,24}[ =:]{1,4}[\d.]))"
)
"""A step behind a word that has other meanings: where a report begins, and before signs or a named number."""
_BARE_STEP = re.compile(r"^\s{0,8}(\d{1,12})(\Z)?: {1,4}(?=[Ll]oss[ :=])")
"""A step without a word for it, which may also be a rank, as `srun -l` puts it before each line."""
_COUNTER = re.compile(
    r"(?:\[ {0,8}(?P<epoch>\d{1,9})/(?P<epochs>\d{1,9})\] ?)?"
    r"\[ {0,8}(?P<step>\d{1,12})/(?P<last>\d{1,12})(?: \( {0,3}\d{1,3}%\))?\]"
)
"""Batches of an epoch without a word for them, perhaps behind the epoch: `[0/300][10/1251]`."""
_COUNTS_STEPS = re.compile(
    r"(?i)(?:^|[^\w\s:=#]|\d|\b(?:(?:pre)?train(?:ing)?|progress|(?:mini-?)?batch(?:es)?|info|debug|warning|root|__main__))"
    r"[\s:=#]{0,8}\Z"
)
"""The text that may stand before a counter of batches: any other word (layer, file, client, rank) is what it counts."""
_MOST_COUNTERS = 4
"""Of a line, the last ones."""
_BATCH_OF_EPOCH = re.compile(
    r"\b[Ee]poch[ :=]{1,3}\d{1,9}(?:/\d{1,9})?[ ,|-]{1,4}batch[ :=]{1,3}(?P<step>\d{1,12})(?:/(?P<last>\d{1,12}))?"
    r"(?=[\s:|\]]|,(?!\d)|$)"
)
"""A batch behind its epoch: elsewhere the word may stand before a size."""
_RECALLED = re.compile(r"(?i)(?<!new )\b(?:best|lowest|resum\w{2,4}|restor\w{2,4})[: ] ?(?:[\w.]{1,12} ){0,6}\Z")
"""The words before a step that name one of earlier."""
_EPOCH = re.compile(r"\b[Ee]poch(?:[ :=]{1,3}\[?|\[)(\d{1,9}(?:\.\d{1,9})?)\b")
_TRAIN = re.compile(
    r"(?<![\w/-])(?:(?:[Tt]rain(?:ing)?[ _])?[Ll]oss(?: is |[ =:]{1,4})|[Tt]rain/[Ll]oss[=:] ?)"
    rf"{WRAPPER}({NUMBER})(?![\w%-]|\.\w)"
)
_FURTHER = re.compile(
    rf"(?<![\w/-])(?:reduced_train|total|tot|step|avg|mean|lm)_loss[ =:]{{1,4}}{WRAPPER}"
    rf"({NUMBER})(?![\w%-]|\.\w)"
)
"""Names of the loss that count where no plain one stands on the line."""
_VALIDATION = re.compile(
    r"(?<![\w/-])"
    r"(?:(?:[Vv]al(?:id(?:ation)?)?|[Ee]val(?:uation)?|[Dd]ev)[ _:]{1,2}[Ll]oss\)?[ =:]{1,4}|[Vv]al/[Ll]oss[=:] ?)"
    rf"{WRAPPER}({NUMBER})(?![\w%-]|\.\w)"
)
_BEFORE_TRAIN = re.compile(
    r"(?i)\b(?:val(?:id(?:ation)?)?|eval(?:uation)?|dev|test|packet|data|weight|frame|precision|kl|policy|value"
    r"|aux(?:iliary)?|best|lowest|min(?:imum)?|target|[dg]|disc(?:riminator)?|gen(?:erator)?|adv(?:ersarial)?)"
    r"[ _:]{1,2}\Z"
)
"""Words before `loss` that make it another one."""
_OF_VALIDATION = re.compile(
    r"(?i)(?:^|[\s(\[|])(?:val(?:idati(?:on|ng)|id)?|eval(?:uati(?:on|ng))?|(?P<test>test(?:ing)?))[\])]?"
    r"(?: (?:results?|metrics|set))?(?: (?:at|after|for))?[ :|.,-]{1,4}"
    r"(?=(?:global_)?(?:step|iter|batch|epoch)|\[ {0,8}\d)"
)
"""The words before the step in a line about a validation: its plain `loss` is the validation's."""
_BATCHES_OF_SUBSET = re.compile(r"\| valid on '[^']{1,60}' subset:? {0,4}\d")
"""The batches of a validation in fairseq's bar."""
_RANK = re.compile(r"(?:^|[\[(|>] {0,2})(?:[Gg]lobal[ _])?[Rr]ank[ :=]{0,2}(\d{1,6})(?=[\]) :,|])")
"""A rank that a line begins with, or that stands in brackets."""
_LOOK_BACK = 20
"""Characters before a loss or a counter that can name its kind, and before a loss' `oss` that can belong to it."""
_STEP_WORDS = ("tep", "ter", "스텝", "Batch", "num_updates")
"""Texts of which one is in every name of a step, at most so many characters behind its beginning:"""
_LONGEST_STEP_WORD = len("global_s")
_SHORT_STEP_WORDS = ("it", "It", "pdate")
_VAL_ONLY = re.compile(rf"^val loss ({NUMBER})\s{{0,8}}$")


class _LoopPlaces(msgspec.Struct, frozen=True):
    """The places of the numbers in a line; `None` for those that it does not have."""

    alone: slice | None = None
    """A validation loss that is all there is."""
    step: slice | None = None
    last_step: slice | None = None
    epoch: slice | None = None
    loss: slice | None = None
    validation_loss: slice | None = None
    is_of_validation: bool = False
    """True if `loss` is a validation loss."""
    rank: slice | None = None
    is_bare: bool = False
    """True if no word names the step."""
    others: tuple[Named, ...] = ()
    """The numbers with a name that are no loss of these."""


class GenericLines:
    """Reads `step 20 loss 2.1` and its like.

    A validation loss without a step (llm.c) belongs to the step that follows it; at the end of the stream, to the
    last one. A line that names an epoch keeps that instead.
    """

    marks: ClassVar[tuple[str, ...]] = ("oss", "tep", "iter", "Iter", "pdate")

    def __init__(self) -> None:
        self._held: Point | None = None
        self._last_step: int | None = None
        self._last_bare: float = -1
        """The last step without a word for it; infinite once they went back: they are ranks then."""
        self.reads_training = True
        """False once another dialect has read training losses in the stream: they are then not read here."""

    def read(self, record: LogRecord) -> list[LogValue] | None:
        text, places = record.text, _places_in(record.outline)
        if places is None:
            return None
        if places.alone:
            released = self.flush()
            self._held = point_of(record, VAL_LOSS, None, text[places.alone], key="val loss")
            return released
        step = int(text[places.step].replace(",", "")) if places.step else None
        if places.rank:
            record = record._replace(rank=int(text[places.rank]))
        if places.is_bare and step is not None and not self._is_counting(step):
            return None
        findings = self._losses(record, places, step)
        if step is not None and (findings or places.loss is None):
            self._last_step = step
            findings += points_at(record, step, places.others)
            if places.last_step:
                findings.append(TrainingProgress("step", step, int(text[places.last_step]), rank=record.rank))
            findings += self._release(step)
        is_repeated = places.loss is not None and not self.reads_training  # another dialect has read it
        return findings if findings or is_repeated else None

    def _is_counting(self, step: int) -> bool:
        """Return whether numbers without a word for them have risen until now."""
        self._last_bare = step if step > self._last_bare else math.inf
        return step >= self._last_bare

    def flush(self) -> list[LogValue]:
        """Return the held validation loss, on the last step."""
        return self._release(self._last_step)

    def _losses(self, record: LogRecord, places: _LoopPlaces, step: int | None) -> list[LogValue]:
        findings: list[LogValue] = []
        epoch = float(record.text[places.epoch]) if places.epoch else None
        if places.loss and self._reads_line(step, epoch, is_validation=places.is_of_validation):
            metric = VAL_LOSS if places.is_of_validation else TRAIN_LOSS
            findings.append(point_of(record, metric, step, record.text[places.loss], key="loss", epoch=epoch))
        if places.validation_loss and (step is not None or epoch is not None):
            text = record.text[places.validation_loss]
            findings.append(point_of(record, VAL_LOSS, step, text, key="validation loss", epoch=epoch))
        return findings

    def _reads_line(self, step: int | None, epoch: float | None, *, is_validation: bool) -> bool:
        """Return whether a plain loss is a point; one of the training over a whole epoch only where no step has one."""
        if step is None and (epoch is None or (self._last_step is not None and not is_validation)):
            return False
        return is_validation or self.reads_training

    def _release(self, step: int | None) -> list[LogValue]:
        held, self._held = self._held, None
        if held is None:
            return []
        return [replace(held, step=step)]


@memoize_by_outline
def _places_in(outline: str) -> _LoopPlaces | None:
    alone = _VAL_ONLY.match(outline)
    if alone:
        return _LoopPlaces(alone=group_place(alone, 1))
    has_loss = "oss" in outline
    loss = (
        (_training_in(outline) or _FURTHER.search(outline))
        if has_loss and not _BATCHES_OF_SUBSET.search(outline)
        else None
    )
    validation = _VALIDATION.search(outline) if has_loss and "val" in outline.lower() else None
    step, epoch = _step_in(outline), _EPOCH.search(outline)
    if step is not None and _RECALLED.search(outline, 0, step.start()):
        return None
    of_validation = _OF_VALIDATION.search(outline)
    counter = None if step is not None or loss is None else _counter_in(outline, loss.start())
    if of_validation is not None and (of_validation["test"] or counter is not None):
        return None  # the batches of a validation are no steps of the training
    others = _others_in(outline, step or counter, loss, validation) if step or counter else ()
    if loss is None and validation is None and (of_validation is not None or not _are_of_a_report(outline, others)):
        return None
    rank = _RANK.search(outline, 0, step.start(1)) if step is not None else None
    return _LoopPlaces(
        step=group_place(step, 1) if counter is None else group_place(counter, "step"),
        last_step=group_place(step, 2) if counter is None else group_place(counter, "last"),
        epoch=group_place(epoch or counter, 1 if epoch else "epoch"),
        loss=group_place(loss, 1),
        validation_loss=group_place(validation, 1),
        is_of_validation=of_validation is not None,
        is_bare=step is not None and step.re is _BARE_STEP,
        rank=group_place(rank, 1),
        others=() if of_validation is not None else others,
    )


def _others_in(outline: str, step: re.Match[str] | None, *losses: re.Match[str] | None) -> tuple[Named, ...]:
    """Return the named numbers of a line that are neither its step nor one of its losses."""
    taken = {found.start(group) for found in (step, *losses) if found for group in range(1, found.re.groups + 1)}
    return numbers_in(outline, {}, taken=taken)


def _are_of_a_report(outline: str, numbers: Sequence[Named]) -> bool:
    """Return whether numbers beside a step are those of a training: several, and one of them is not a count."""
    return len(numbers) > 1 and any(not outline[each.place].strip("+-").replace(",", "").isdigit() for each in numbers)


def _step_in(text: str) -> re.Match[str] | None:
    """Return the step, looked for from where its name can begin."""
    found = [at for word in _STEP_WORDS if (at := text.find(word)) >= 0]
    at = text.find("global ") if "global " in text else max(0, min(found, default=0) - _LONGEST_STEP_WORD)
    step = (_STEP.search(text, at) or (_STEP.search(text) if at else None)) if found else None
    return step or (_SHORT_STEP.search(text) if has_mark(text, _SHORT_STEP_WORDS) else None) or _BARE_STEP.match(text)


def _counter_in(text: str, end: int) -> re.Match[str] | None:
    """Return the batch of an epoch that stands before `end` without a word for a step, the last of several."""
    named = _BATCH_OF_EPOCH.search(text, 0, end)
    if named is not None:
        return named
    counters = deque(_COUNTER.finditer(text, 0, end), maxlen=_MOST_COUNTERS)
    if any(_is_of_a_date(found) for found in counters):
        return None
    for found in reversed(counters):
        start = found.start()
        if _COUNTS_STEPS.search(text, max(0, start - _LOOK_BACK), start):
            return found
    return None


def _is_of_a_date(counter: re.Match[str]) -> bool:
    """Return whether a counter has counted beyond its end by its digits, as in `[2024/11] [12/26]`."""
    return len(counter["step"]) > len(counter["last"]) or len(counter["epoch"] or "") > len(counter["epochs"] or "")


def _training_in(text: str) -> re.Match[str] | None:
    """Return the first loss that is not a validation loss."""
    for match in _TRAIN.finditer(text, max(0, text.find("oss") - _LOOK_BACK)):
        start = match.start()
        if not _BEFORE_TRAIN.search(text, max(0, start - _LOOK_BACK), start):
            return match
    return None

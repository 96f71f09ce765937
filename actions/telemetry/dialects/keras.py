"""Keras: the number of the epoch on a line, below it a bar that is drawn again and again.

Its loss is the mean over the epoch so far; that is what Keras prints, there is no other.

Source: keras 2 and 3 `ProgbarLogger`, both verbosities.
"""

from __future__ import annotations

import re

import msgspec

from actions.telemetry.dialects.dialect import TRAIN_LOSS, VAL_LOSS, Finding, Named, named_in, points_at
from actions.telemetry.lines import Record
from actions.telemetry.numbers import NUMBER
from actions.telemetry.outlines import place_of, remembered
from actions.telemetry.points import Progress

_EPOCH = re.compile(r"^\s{0,8}Epoch (\d{1,9})/\d{1,9}$")
_BAR = re.compile(r"^\s{0,12}(\d{1,12})/(?:(\d{1,12})|Unknown)\s{1,4}[\[━\d-]")
_PAIR = re.compile(rf" - ([\w/]{{1,60}}): ({NUMBER})(?=\s|$)")
_NAMES = {"loss": TRAIN_LOSS, "val_loss": VAL_LOSS, "lr": "lr", "learning_rate": "lr"}


class _Bar(msgspec.Struct, frozen=True):
    """Where bars of one outline say what."""

    step: slice
    last_step: slice | None
    numbers: tuple[Named, ...]


class Keras:
    """Reads the bars. Their steps begin again with each epoch."""

    marks = ("Epoch ", " - loss: ")

    def __init__(self) -> None:
        self._epoch: int | None = None

    def read(self, record: Record) -> list[Finding] | None:
        epoch = _EPOCH.match(record.text)
        if epoch:
            self._epoch = int(epoch[1])
            return []
        bar = _bar_in(record.outline)
        if bar is None:
            return None
        step = int(record.text[bar.step])
        last = int(record.text[bar.last_step]) if bar.last_step else None
        label = "" if self._epoch is None else f"epoch {self._epoch}"
        points = points_at(record, step, bar.numbers, epoch=self._epoch)
        return [Progress(label, step, last, rank=record.rank), *points]


@remembered
def _bar_in(outline: str) -> _Bar | None:
    head = _BAR.match(outline) if " - loss: " in outline else None
    if head is None:
        return None
    numbers = named_in(_PAIR.finditer(outline, head.end() - 2), _NAMES)
    return _Bar(slice(*head.span(1)), place_of(head, 2), numbers)

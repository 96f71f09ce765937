"""What a dialect is."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Protocol

from actions.telemetry.lines import Record
from actions.telemetry.numbers import number_of
from actions.telemetry.points import Point, Progress

Finding = Point | Progress

TRAIN_LOSS = "train_loss"
VAL_LOSS = "val_loss"
TEST_LOSS = "test_loss"


class Dialect(Protocol):
    """Reads records of one trainer. It may remember earlier records of the same stream."""

    @property
    def marks(self) -> tuple[str, ...]:
        """One of them, without digits, is in every record that it reads: others need not be shown to it."""
        ...

    def read(self, record: Record) -> list[Finding] | None:
        """What the record says; `None` if it is not in this dialect, `[]` if it is and says nothing new."""
        ...


def point_of(
    record: Record, metric: str, step: int | None, text: str, *, key: str, epoch: float | None = None
) -> Point:
    """A point whose value is printed as `text`, which `numbers.NUMBER` matches."""
    return Point(metric, step, number_of(text), record.rank, epoch, key, record.at, text)


def named_points(
    record: Record,
    step: int | None,
    texts: Mapping[str, str],
    names: Mapping[str, str],
    *,
    epoch: float | None = None,
) -> list[Finding]:
    """A point for each of `texts` that has a name.

    Args:
        record: Where they were read.
        step: Global step.
        texts: Numbers as printed, by the key that the trainer uses.
        names: Metric by key; other keys are left out.
        epoch: If the record says it.
    """
    return [
        point_of(record, names[key], step, text, key=key, epoch=epoch) for key, text in texts.items() if key in names
    ]


def first_of(values: Mapping[str, str], keys: Iterable[str]) -> str:
    """The first of `keys` that `values` has, empty if it has none."""
    return next((key for key in keys if key in values), "")

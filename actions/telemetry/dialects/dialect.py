"""What a dialect is."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Protocol

from actions.telemetry.lines import Record
from actions.telemetry.points import Point, Progress

Finding = Point | Progress

TRAIN_LOSS = "train_loss"
VAL_LOSS = "val_loss"
TEST_LOSS = "test_loss"


class Dialect(Protocol):
    """Reads records of one trainer. It may remember earlier records of the same stream."""

    def read(self, record: Record) -> list[Finding] | None:
        """What the record says; `None` if it is not in this dialect, `[]` if it is and says nothing new."""
        ...


class Patient(Dialect, Protocol):
    """A dialect whose records are completed by later ones."""

    def flush(self) -> list[Finding]:
        """What it has been holding: nothing more will come, or nothing has come for a while."""
        ...


def named_points(
    record: Record,
    step: int | None,
    values: Mapping[str, float],
    names: Mapping[str, str],
    *,
    epoch: float | None = None,
) -> list[Finding]:
    """A point for each of `values` that has a name.

    Args:
        record: Where they were read.
        step: Global step.
        values: By the key that the trainer uses.
        names: Metric by key; other keys are left out.
        epoch: If the record says it.
    """
    return [
        Point(names[key], step, value, record.rank, epoch, key, record.at)
        for key, value in values.items()
        if key in names
    ]


def first_of(values: Mapping[str, float], keys: Iterable[str]) -> str:
    """The first of `keys` that `values` has, empty if it has none."""
    return next((key for key in keys if key in values), "")

"""The interface of a dialect, and the choice of dialects for a record by their marks."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import ClassVar, Protocol

import msgspec

from actions.telemetry.log_records import LogRecord
from actions.telemetry.outlines import has_mark, memoize_by_outline, place_of, without_digits
from actions.telemetry.points import NUMBER, Point, TrainingProgress, number_of

LogValue = Point | TrainingProgress

TRAIN_LOSS = "train_loss"
VAL_LOSS = "val_loss"
TEST_LOSS = "test_loss"
WRAPPER = r"(?:(?:tensor|Array|(?:np|numpy)\.float\d{2})\()?"
"""Expression of what Python prints before the number of an object: `tensor(2.1, …)`, `np.float64(2.1)` (NumPy 2)."""


class Dialect(Protocol):
    """Reads records of one trainer. It may remember earlier records of the same stream."""

    marks: ClassVar[tuple[str, ...]]
    """Texts of which one is in every record that it reads, when the record's digits are left out. Other records need
    not be shown to it, and lines without any dialect's mark are not read at all. So a mark is as long as it can be."""

    def read(self, record: LogRecord) -> list[LogValue] | None:
        """Return the values in a record; `None` if it is not in this dialect, `[]` if it is and holds nothing new."""
        ...


def point_of(
    record: LogRecord, metric: str, step: int | None, text: str, *, key: str, epoch: float | None = None
) -> Point:
    """Return a point whose value is printed as `text`, which `points.NUMBER` matches."""
    return Point(metric, step, number_of(text), record.rank, epoch, key, record.at, text)


def named_points(
    record: LogRecord,
    step: int | None,
    texts: Mapping[str, str],
    names: Mapping[str, str],
    *,
    epoch: float | None = None,
) -> list[LogValue]:
    """Return a point for each of `texts` that has a name.

    Args:
        record: The record that holds them.
        step: Global step.
        texts: Numbers as printed, by the key that the trainer uses.
        names: Metric by key; other keys are left out.
        epoch: If the record has it.
    """
    return [
        point_of(record, names[key], step, text, key=key, epoch=epoch) for key, text in texts.items() if key in names
    ]


class Named(msgspec.Struct, frozen=True):
    """The place of a named number in records of one outline."""

    metric: str
    key: str
    place: slice


def named_in(pairs: Iterable[re.Match[str]], names: Mapping[str, str]) -> tuple[Named, ...]:
    """Return the numbers that have a name.

    Args:
        pairs: The key that the trainer uses in group 1, a number in group 2; the last counts of those with one key.
        names: Metric by key; other keys are left out.
    """
    places = {pair[1].strip(): place_of(pair, 2) for pair in pairs}
    return tuple(Named(names[key], key, place) for key, place in places.items() if key in names and place)


_EXTRA = re.compile(
    r"(?<![\w/-])(lr|LR|[Ll]earning[ _][Rr]ate|[Gg]rad[ _]norm|gnorm|norm|tok(?:en)?s?/s(?:ec)?|samples/s(?:ec)?)"
    rf"[ =:]{{1,4}}({NUMBER})(?![\w%-]|\.\w)"
)
_EXTRA_NAMES = {
    "l": "lr", "g": "grad_norm", "n": "grad_norm", "t": "tokens_per_s", "s": "samples_per_s", "m": "step_time_ms"
}  # fmt: skip
"""Metric by the first letter of its name or unit."""
_UNIT = re.compile(rf"(?<![\w.,])({NUMBER}) ?(ms|tok(?:ens?)?/s(?:ec)?)(?=[\s,|)\]]|$)")
"""A number that its unit alone names, as llm.c and nanoGPT print: `31.25 ms`, `524,232 tok/s`."""


def extras_in(outline: str) -> tuple[Named, ...]:
    """Return what else stands on a line with a loss, the first of each metric."""
    found = {_EXTRA_NAMES[match[1][0].lower()]: match for match in reversed(list(_EXTRA.finditer(outline)))}
    named = {metric: Named(metric, match[1], slice(*match.span(2))) for metric, match in found.items()}
    units = [(_EXTRA_NAMES[match[2][0]], match) for match in _UNIT.finditer(outline)]
    metrics = [metric for metric, _ in units]
    by_unit = {
        metric: Named(metric, match[2], slice(*match.span(1)))
        for metric, match in units
        if metrics.count(metric) == 1  # of two durations nobody knows which one is a step's
    }
    return tuple({**by_unit, **named}.values())


def points_at(
    record: LogRecord, step: int | None, numbers: Iterable[Named], *, epoch: float | None = None
) -> list[LogValue]:
    """Return a point for each of `numbers`."""
    text = record.text
    return [point_of(record, each.metric, step, text[each.place], key=each.key, epoch=epoch) for each in numbers]


def first_of(values: Mapping[str, str], keys: Iterable[str]) -> str:
    """Return the first of `keys` that `values` has, empty if it has none."""
    return next((key for key in keys if key in values), "")


class WaitingDialect(ABC):
    """A dialect that may hold something that a later record completes.

    A base class, as `isinstance` of a protocol takes longer than most logs.
    """

    marks: ClassVar[tuple[str, ...]]

    @abstractmethod
    def read(self, record: LogRecord) -> list[LogValue] | None:
        """As every dialect."""

    def release(self, record: LogRecord) -> list[LogValue]:
        """Return what it holds and this record, which it will not read, completes; asked before it is read by any."""
        return []

    @property
    @abstractmethod
    def is_waiting(self) -> bool:
        """True while it does: every record must then be shown to it, with a mark or without."""

    @abstractmethod
    def flush(self) -> list[LogValue]:
        """Return the values that it holds, as no record will complete them."""


class DialectChoice:
    """Chooses among dialects by their marks.

    Args:
        dialects: In the order in which they are tried.
    """

    def __init__(self, dialects: Sequence[Dialect]) -> None:
        self._dialects = dialects
        self._marked = memoize_by_outline(self._find)

    def of(self, outline: str, *, waiting: Collection[Dialect] = ()) -> Sequence[Dialect]:
        """Return those that a record is shown to, in their order.

        Args:
            outline: The record's.
            waiting: Dialects that every record is shown to now.
        """
        if not waiting:
            return self._marked(outline)
        marked = self._marked(outline)
        return [dialect for dialect in self._dialects if dialect in waiting or dialect in marked]

    def _find(self, outline: str) -> list[Dialect]:
        text = without_digits(outline)
        return [dialect for dialect in self._dialects if has_mark(text, dialect.marks)]

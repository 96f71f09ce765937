"""The interface of a dialect, and the choice of dialects for a record by their marks."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import ClassVar, Protocol

from actions.telemetry.log_records import LogRecord
from actions.telemetry.outlines import has_mark, memoize_by_outline, without_digits
from actions.telemetry.points import LogValue, Point, number_of

TRAIN_LOSS = "train_loss"
VAL_LOSS = "val_loss"
TEST_LOSS = "test_loss"
WRAPPER = r"(?:(?:tensor|Array|(?:np|numpy)\.float\d{2})\(|\[(?=[\d.eE+-]{1,24}\]))?"
"""Expression of what Python prints before the number of an object: `tensor(2.1, …)`, `np.float64(2.1)`, `[2.1]`."""


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

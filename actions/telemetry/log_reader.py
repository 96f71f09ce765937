"""The reader of one container's log: lines or batches of lines in, points and progress out.

Source: `docs/facts/training-logs.md`; every dialect names its own part.
"""

from __future__ import annotations

import math
import re
from itertools import chain
from typing import Protocol

import msgspec

from actions.base.line_cutter import LineCutter
from actions.telemetry.dialects.blocks import Blocks, Boxes
from actions.telemetry.dialects.dialect import TRAIN_LOSS, Dialect, DialectChoice, WaitingDialect
from actions.telemetry.dialects.generic import GenericLines
from actions.telemetry.dialects.huggingface import HuggingFace
from actions.telemetry.dialects.megatron import Megatron, NemoFields
from actions.telemetry.dialects.progress_bars import Keras, LightningBars, LightningResults
from actions.telemetry.dialects.rich_bars import RichBars
from actions.telemetry.dialects.single_lines import DeepSpeed, JsonLines, Preprocessing, RayReports, SingleLines
from actions.telemetry.dialects.tables import NcclRows, Tables
from actions.telemetry.log_records import (
    PREFIX_MARKS,
    LogRecord,
    PrefixReader,
    epoch_of,
    is_bare,
    split_records,
    strip_controls,
)
from actions.telemetry.outlines import (
    LONGEST_KEPT,
    LinePrefilter,
    has_mark,
    memoize_by_outline,
    outline_of,
    shortest_of,
    without_digits,
)
from actions.telemetry.points import LogValue, Point, sound
from actions.telemetry.runtime_format import (
    RECORD_MARKS,
    TOOL_OUTPUT,
    ContainerLogDecoder,
    decode_lines,
    is_container_record,
)

DIALECTS: tuple[type[Dialect], ...] = (
    SingleLines,
    Tables,
    RayReports,
    Boxes,
    NemoFields,
    Megatron,
    DeepSpeed,
    LightningBars,
    RichBars,
    LightningResults,
    Blocks,
    Keras,
    Preprocessing,
    JsonLines,
    NcclRows,
    HuggingFace,
)
"""A row for each dialect, in the order in which a record is shown to them; `GenericLines` reads what is left."""
_REPEATED = "repeated"
_MARKS = shortest_of(
    (*GenericLines.marks, *chain.from_iterable(dialect.marks for dialect in DIALECTS), *PREFIX_MARKS, _REPEATED)
)
_DEDUPLICATED = re.compile(r"\[repeated \d{1,9}x across cluster\]")
_MOST_METRICS = 256
_TOO_MANY = f"This log names more than {_MOST_METRICS} numbers: those that came first are read."
RAY_NOTICE = "Ray hides repeated lines, losses too: set RAY_DEDUP_LOGS=0 for a complete curve."


_LIKE_A_LOSS = re.compile(
    r"(?i)(?<!packet )loss(?:es)?(?![a-rt-z]|[ _-]?scal|[ _-]?func)[^\n%]{0,24}?[-+]?"
    r"(?:0\.0{1,20}(?![\w.]{0,9}-\w)|0e[-+]|\bnan\b|\binf\b)"
)
_MOST_EXAMPLES = 3


class Unread(msgspec.Struct):
    """The records in which a loss seems to stand and that no dialect has read."""

    count: int = 0
    examples: list[str] = []
    """The first of them, as printed."""


class LogReader:
    """Reads one container's log line by line. It keeps little: never the lines.

    Points come in the order of the log, at most once for each redraw of the same value. After a restart from a
    checkpoint steps go back: the later value of a step is the curve.

    Args:
        rank: The rank of lines that do not name one.
    """

    def __init__(self, rank: int = 0) -> None:
        self._rank = rank
        self._unwrapper = ContainerLogDecoder()
        self._prefixes = PrefixReader(rank)
        dialects: list[Dialect] = [dialect() for dialect in DIALECTS]
        self._choice = DialectChoice(dialects)
        self._may_wait = [dialect for dialect in dialects if isinstance(dialect, WaitingDialect)]
        self._waiting: list[WaitingDialect] = []
        """Those of them that wait now."""
        self._generic = GenericLines()
        self._last: dict[tuple[str, int, str], tuple[int | None, float | None, float | None]] = {}
        self.notices: set[str] = set()
        """Remarks on this log for the operator, in sentences."""
        self.unread = Unread()
        self._metrics: set[str] = set()

    def feed(self, line: str, at: float | None = None) -> list[LogValue]:
        """Read one line.

        Args:
            line: Without its `\\n`. It may hold `\\r`, colours, and the wrapping of a container's log file.
            at: Its time, seconds since the epoch, if the caller has it from a better source than the line.

        Returns:
            New points and states of progress, in order. A value that is repeated is not returned again.
        """
        if not self.is_waiting:
            outline = outline_of(line)
            if _is_plain(outline):
                return self._fresh(self._read_record(LogRecord(line.rstrip(), self._rank, at, outline.rstrip())))
        unwrapped = self._unwrapper.unwrap(line)
        if unwrapped is None:
            return []
        text, stamp = unwrapped
        if at is None and stamp:
            at = epoch_of(stamp)
        return self._read_text(text, at)

    def flush(self) -> list[LogValue]:
        """Return what waits for a line to come: call it at the end, and when nothing has come for about a second."""
        held: list[LogValue] = []
        for text in self._unwrapper.flush():
            held += self._read_text(text, None)
        flushed = [*chain.from_iterable(dialect.flush() for dialect in self._may_wait), *self._generic.flush()]
        self._waiting = [dialect for dialect in self._may_wait if dialect.is_waiting]
        return held + self._fresh(flushed)

    @property
    def is_waiting(self) -> bool:
        """True while every line must be shown to this reader: it holds something that a later line completes."""
        return bool(self._waiting)

    def _read_text(self, text: str, at: float | None) -> list[LogValue]:
        if not self.is_waiting and not _has_mark(outline_of(text)):
            return []
        findings: list[LogValue] = []
        for piece in split_records(text):
            record = self._prefixes.read(strip_controls(piece), at)
            if record:
                findings += self._read_record(record)
        return self._fresh(findings)

    def _read_record(self, record: LogRecord) -> list[LogValue]:
        if _REPEATED in record.text and _DEDUPLICATED.search(record.text):
            self.notices.add(RAY_NOTICE)
        found = self._values_in(record)
        self._waiting = [dialect for dialect in self._may_wait if dialect.is_waiting]
        return found

    def _values_in(self, record: LogRecord) -> list[LogValue]:
        released = [value for dialect in self._waiting for value in dialect.release(record)]
        for dialect in self._choice.of(record.outline, waiting=self._waiting):
            found = dialect.read(record)
            if found is not None:
                self._note_loss(found)
                return released + found
        found = self._generic.read(record)
        if found is None and _is_like_a_loss(record.outline):
            self.unread.count += 1
            if len(self.unread.examples) < _MOST_EXAMPLES:
                self.unread.examples.append(record.text)
        return released + (found or [])

    def _note_loss(self, found: list[LogValue]) -> None:
        """Leave training losses to the dialects, once one has read some: a generic line is not the curve then."""
        if any(isinstance(finding, Point) and finding.metric == TRAIN_LOSS for finding in found):
            self._generic.reads_training = False

    def _fresh(self, findings: list[LogValue]) -> list[LogValue]:
        kept = (finding for finding in map(sound, findings) if finding is not None)
        return [finding for finding in kept if not isinstance(finding, Point) or self._is_new(finding)]

    def _is_new(self, point: Point) -> bool:
        if point.metric not in self._metrics:
            if len(self._metrics) >= _MOST_METRICS:
                self.notices.add(_TOO_MANY)
                return False
            self._metrics.add(point.metric)
        # NaN differs from itself: None stands for it, so that a redrawn NaN is a repetition too.
        value = None if math.isnan(point.value) else point.value
        seen = (point.step, point.epoch, value)
        where = (point.metric, point.rank, "" if point.metric == TRAIN_LOSS else point.key)
        if self._last.get(where) == seen:
            return False
        self._last[where] = seen
        return True


@memoize_by_outline
def _is_plain(outline: str) -> bool:
    """Return whether a line of this outline is one record as it stands, and worth reading."""
    return len(outline) <= LONGEST_KEPT and is_bare(outline) and not is_container_record(outline) and _has_mark(outline)


@memoize_by_outline
def _is_like_a_loss(outline: str) -> bool:
    return "oss" in outline and _LIKE_A_LOSS.search(outline) is not None


@memoize_by_outline
def _has_mark(outline: str) -> bool:
    return has_mark(without_digits(outline), _MARKS)


def read_log(data: bytes, *, rank: int = 0) -> list[Point]:
    """Return all points of a whole log, in its order.

    Args:
        data: The file, in any encoding close to UTF-8.
        rank: The rank of lines that do not name one.
    """
    return [finding for finding in LogStream(rank).read_all(data) if isinstance(finding, Point)]


class LogStream:
    """Reads a log that comes as bytes, cut anywhere.

    Args:
        rank: The rank of lines that do not name one.
    """

    def __init__(self, rank: int = 0) -> None:
        self._cutter = LineCutter(TOOL_OUTPUT)
        self.reader = LogReader(rank)

    def feed(self, chunk: bytes) -> list[LogValue]:
        """Return the values in the lines that `chunk` completes."""
        return self._read(self._cutter.feed(chunk))

    def finish(self) -> list[LogValue]:
        """Return what is left at the end of the stream."""
        return self._read(self._cutter.finish()) + self.reader.flush()

    def _read(self, lines: list[bytes]) -> list[LogValue]:
        return [value for line in decode_lines(lines) for value in self.reader.feed(line)]

    def read_all(self, data: bytes) -> list[LogValue]:
        """Read a whole log at once."""
        return self.feed(data) + self.finish()


class LineBatch(Protocol):
    """Consecutive lines of one log."""

    @property
    def data(self) -> bytes:
        """Return all of them, each ended by a newline; something short may stand before their texts."""
        ...

    def text(self, index: int) -> str:
        """Return one line, without its newline."""
        ...

    def at_ns(self, index: int) -> int:
        """Return the time of a line, nanoseconds since the epoch."""
        ...

    def __len__(self) -> int: ...


def log_prefilter() -> LinePrefilter:
    """Return a choice of the lines in which a dialect may read something. One does for any number of logs."""
    return LinePrefilter((*_MARKS, *RECORD_MARKS))


def read_batch(reader: LogReader, prefilter: LinePrefilter, batch: LineBatch) -> list[LogValue]:
    """Return the values in a batch: the same as if every line were fed to the reader.

    Args:
        reader: Of this log.
        prefilter: Made by `log_prefilter`.
        batch: The lines that come next.
    """
    values: list[LogValue] = []
    done = 0
    for place in prefilter.pick(batch.data):
        values += _while_waiting(reader, batch, done, place)
        values += _read(reader, batch, place)
        done = place + 1
    return values + _while_waiting(reader, batch, done, len(batch))


def _while_waiting(reader: LogReader, batch: LineBatch, start: int, end: int) -> list[LogValue]:
    """Show the reader lines without a mark, for as long as it waits for what follows."""
    findings: list[LogValue] = []
    while start < end and reader.is_waiting:
        findings += _read(reader, batch, start)
        start += 1
    return findings


def _read(reader: LogReader, batch: LineBatch, place: int) -> list[LogValue]:
    return reader.feed(batch.text(place), batch.at_ns(place) / 1e9)

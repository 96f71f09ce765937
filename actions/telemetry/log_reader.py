"""The reader of one container's log: lines or batches of lines in, points and progress out.

Source: `docs/FORMATS` of the project's facts; every dialect names its own.
"""

from __future__ import annotations

import math
import re
from typing import Protocol

from actions.telemetry.dialects.dialect import TRAIN_LOSS, Dialect, DialectChoice, LogValue
from actions.telemetry.dialects.generic import GenericLines
from actions.telemetry.dialects.huggingface import HuggingFace
from actions.telemetry.dialects.indented import Composer, Olmo
from actions.telemetry.dialects.megatron import Megatron, NemoFields
from actions.telemetry.dialects.progress_bars import Keras, LightningBars, LightningResults
from actions.telemetry.dialects.ray import RayReports, RayTables
from actions.telemetry.dialects.single_lines import DeepSpeed, JsonLines, Preprocessing, SingleLines
from actions.telemetry.dialects.tables import OPERATIONS, NcclRows, Tables, may_be_row
from actions.telemetry.line_cutter import ContainerLogDecoder, LineAssembler, is_container_record
from actions.telemetry.log_records import LogRecord, PrefixReader, epoch_of, is_bare, split_records, strip_controls
from actions.telemetry.outlines import LONGEST_KEPT, LinePrefilter, memoize_by_outline, outline_of
from actions.telemetry.points import Point

_MARKS = (
    "oss",
    "it [",
    "iteration",
    "Epoch ",
    "CrossEntropy",
    "SamplesPerSec",
    "images/sec",
    "step=",
    "batch=",
    "world_rank=",
    "documents (",
    "│",
    "╭",
    "╰",
    "optimization",
    "repeated",
)
"""One of them is in every record that a dialect reads, but for bars."""

SIGNS = "".join(_MARKS) + "/?[{"
"""What `may_interest` looks at besides letters and blanks."""

_BAR = re.compile(r"\d/[\d?]{1,12} \[")
_HINTS = (*_MARKS, *OPERATIONS, "/ [", "/? [", " stdout ", " stderr ", "{log")
"""One of them is in the shape of every line that is interesting, or is a record of a container's log file."""
_DEDUPLICATED = re.compile(r"\[repeated \d{1,9}x across cluster\]")
RAY_NOTICE = "Ray hides repeated lines, losses too: set RAY_DEDUP_LOGS=0 for a complete curve."


class LogReader:
    """Reads one container's log line by line. It keeps little: never the lines.

    Points come in the order of the log, at most once for each redraw of the same value. After a restart from a
    checkpoint steps go back: the later value of a step is the curve.

    Args:
        rank: The rank of lines that do not tell theirs.
    """

    def __init__(self, rank: int = 0) -> None:
        self._rank = rank
        self._unwrapper = ContainerLogDecoder()
        self._prefixes = PrefixReader(rank)
        self._huggingface = HuggingFace()
        self._own_loops = GenericLines()
        self._tables = Tables()
        dialects: tuple[Dialect, ...] = (
            self._tables,
            RayReports(),
            RayTables(),
            NemoFields(),
            Megatron(),
            SingleLines(),
            DeepSpeed(),
            LightningBars(),
            LightningResults(),
            Composer(),
            Olmo(),
            Keras(),
            Preprocessing(),
            JsonLines(),
            NcclRows(),
            self._huggingface,
        )
        self._choice = DialectChoice(dialects)
        self._last: dict[tuple[str, int, str], tuple[int | None, float | None, float | None]] = {}
        self.notices: set[str] = set()
        """What the operator should know about this log, in sentences."""

    def feed(self, line: str, at: float | None = None) -> list[LogValue]:
        """Read one line.

        Args:
            line: Without its `\\n`. It may hold `\\r`, colours, and the wrapping of a container's log file.
            at: Its time, seconds since the epoch, if the caller knows it better than the line does.

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
        """What waits for a line to come: call it at the end, and when nothing has come for about a second."""
        held: list[LogValue] = []
        for text in self._unwrapper.flush():
            held += self._read_text(text, None)
        return held + self._fresh([*self._huggingface.flush(), *self._own_loops.flush()])

    @property
    def is_waiting(self) -> bool:
        """Whether every line must be shown to this reader: it holds something that a later line completes."""
        return self._huggingface.is_waiting or self._tables.is_waiting

    def _read_text(self, text: str, at: float | None) -> list[LogValue]:
        if not self.is_waiting and not _is_interesting(text):
            return []
        findings: list[LogValue] = []
        for piece in split_records(text):
            record = self._prefixes.read(strip_controls(piece), at)
            if record:
                findings += self._read_record(record)
        return self._fresh(findings)

    def _read_record(self, record: LogRecord) -> list[LogValue]:
        if "repeated" in record.text and _DEDUPLICATED.search(record.text):
            self.notices.add(RAY_NOTICE)
        waiting = [dialect for dialect in (self._tables, self._huggingface) if dialect.is_waiting]
        for dialect in self._choice.of(record.outline, waiting=waiting):
            found = dialect.read(record)
            if found is not None:
                self._settle(found)
                return found
        return self._own_loops.read(record) or []

    def _settle(self, found: list[LogValue]) -> None:
        """Another dialect has been recognised: a line of somebody's own loop is not the curve any more."""
        if any(isinstance(finding, Point) and finding.metric == TRAIN_LOSS for finding in found):
            self._own_loops.reads_training = False

    def _fresh(self, findings: list[LogValue]) -> list[LogValue]:
        return [finding for finding in findings if not isinstance(finding, Point) or self._is_new(finding)]

    def _is_new(self, point: Point) -> bool:
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
    """Whether a line of this outline is one record as it stands, and worth reading."""
    return (
        len(outline) <= LONGEST_KEPT
        and is_bare(outline)
        and not is_container_record(outline)
        and _is_interesting(outline)
    )


def _is_interesting(text: str) -> bool:
    for mark in _MARKS:
        if mark in text:
            return True
    return (" [" in text and _BAR.search(text) is not None) or may_be_row(text)


def may_interest(shape: str) -> bool:
    """Whether a line may tell a reader something that waits for nothing.

    Args:
        shape: The line without its digits and without signs that are not among `SIGNS`.
    """
    return any(hint in shape for hint in _HINTS)


def read_log(data: bytes, *, rank: int = 0) -> list[Point]:
    """All points of a whole log, in its order.

    Args:
        data: The file, in any encoding close to UTF-8.
        rank: The rank of lines that do not tell theirs.
    """
    return [finding for finding in LogStream(rank).read_all(data) if isinstance(finding, Point)]


class LogStream:
    """Reads a log that comes as bytes, cut anywhere.

    Args:
        rank: The rank of lines that do not tell theirs.
    """

    def __init__(self, rank: int = 0) -> None:
        self._assembler = LineAssembler()
        self.reader = LogReader(rank)

    def feed(self, chunk: bytes) -> list[LogValue]:
        """What the lines say that `chunk` completes."""
        return [finding for line in self._assembler.feed(chunk) for finding in self.reader.feed(line)]

    def finish(self) -> list[LogValue]:
        """What is left at the end of the stream."""
        rest = [finding for line in self._assembler.flush() for finding in self.reader.feed(line)]
        return rest + self.reader.flush()

    def read_all(self, data: bytes) -> list[LogValue]:
        """A whole log at once."""
        return self.feed(data) + self.finish()


class LineBatch(Protocol):
    """Consecutive lines of one log."""

    @property
    def data(self) -> bytes:
        """All of them, each ended by a newline; something short may stand before their texts."""
        ...

    def text(self, index: int) -> str:
        """One line, without its newline."""
        ...

    def at_ns(self, index: int) -> int:
        """When it was written, nanoseconds since the epoch."""
        ...

    def __len__(self) -> int: ...


def log_sieve() -> LinePrefilter:
    """What keeps the lines apart in which no dialect sees anything. One does for any number of logs."""
    return LinePrefilter(may_interest, signs=SIGNS)


def read_batch(reader: LogReader, sieve: LinePrefilter, batch: LineBatch) -> list[LogValue]:
    """What a batch says: the same as if every line were fed to the reader.

    Args:
        reader: Of this log.
        sieve: Made by `log_sieve`.
        batch: The lines that come next.
    """
    findings: list[LogValue] = []
    done = 0
    for place in sieve.pick(batch.data):
        findings += _while_waiting(reader, batch, done, place)
        findings += _read(reader, batch, place)
        done = place + 1
    return findings + _while_waiting(reader, batch, done, len(batch))


def _while_waiting(reader: LogReader, batch: LineBatch, start: int, end: int) -> list[LogValue]:
    """Show the reader lines that say nothing by themselves, for as long as it waits for what follows."""
    findings: list[LogValue] = []
    while start < end and reader.is_waiting:
        findings += _read(reader, batch, start)
        start += 1
    return findings


def _read(reader: LogReader, batch: LineBatch, place: int) -> list[LogValue]:
    return reader.feed(batch.text(place), batch.at_ns(place) / 1e9)

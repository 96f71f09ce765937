"""The containers of a stage's output, and the places where their logs continue, as an earlier writer has left them.

All lines are read again: the places follow from them, and so do values that a crash has cost. A damaged segment is
passed over; what it held is a gap, and stays one.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby

from actions.cluster.logs.batch import LogBatch, batch_of, tag_in
from actions.cluster.logs.lines import START, LogCursor
from actions.run.output.segments import StreamReader
from actions.run.output.streams import (
    EndLine,
    GapLine,
    SourceLine,
    are_records,
    introduced_in,
    letters_in,
    pieces_of,
    raws_in,
    source_in,
    source_line_in,
    without_place,
)
from actions.run.output.values import ValueWriter
from actions.telemetry.log_reader import LogReader

_REPLAY_BYTES = 4 << 20
SourceKey = tuple[str, str]
"""Uid of the pod, name of the container."""


class OutputSource:
    """One container in the output: its number, and the place where its log continues."""

    def __init__(self, line: SourceLine) -> None:
        self.line = line
        self.cursor: LogCursor = START
        """The place up to which its log has been read."""
        self.offset = 0
        """The same place in bytes, for a file."""
        self.is_ended = False
        self.named_at = -1
        """The place of the segment of lines in which it was named last."""
        self.is_fresh = False
        """The output had no such source when it was opened."""
        self.reader = LogReader(line.rank)
        self.line_count = 0
        """Number of its lines in the output."""
        self.passed_count = 0
        """Number of its lines that this writer has taken."""
        self.uncounted = 0
        """Number of its lines that are not kept, because of the size limit."""

    @property
    def is_of_pod(self) -> bool:
        """True if the log is that of a container, which may be read again."""
        return bool(self.line.namespace)


class Loader:
    """The loader of one stage's output, used once.

    Args:
        sources: The stream `sources`.
        lines: The stream `lines`.
        points: The values in the lines.
    """

    def __init__(self, sources: StreamReader, lines: StreamReader, points: ValueWriter) -> None:
        self.by_key: dict[SourceKey, OutputSource] = {}
        self.gaps: dict[str, GapLine] = {}
        self.next_number = 0
        """Above every number that any stream mentions."""
        self.damaged_bytes = 0
        """Bytes of the log that cannot be read."""
        self._by_number: dict[int, OutputSource] = {}
        self._sources = sources
        self._lines = lines
        self._points = points

    def load(self) -> None:
        """Load it.

        Raises:
            OSError: It cannot be read.
        """
        ended: set[int] = set()
        for piece in pieces_of(self._sources):
            for line in map(source_line_in, raws_in(piece)):
                match line:
                    case SourceLine():
                        self.name(line)
                    case EndLine():
                        ended.add(line.number)
                    case GapLine():
                        self.gaps[line.key] = line
        self._load_lines()
        self._load_points()
        for number in ended:
            self._reserve(number)
            if source := self._by_number.get(number):
                source.is_ended = True
                self._points.take(number, source.reader.flush())
        self._reserve(*self._points.numbers)

    def _load_points(self) -> None:
        self._points.load_rest()
        for line in self._points.sources.values():
            self.name(line)

    def name(self, line: SourceLine) -> OutputSource:
        """Assign a container to a number, unless that has one. Two numbers may have the same container, and one log."""
        known = self._by_number.get(line.number)
        if known is None:
            known = self.by_key.setdefault((line.uid, line.container), OutputSource(line))
            self._by_number[line.number] = known
            self._points.name(line)
            self._reserve(line.number)
        return known

    def _reserve(self, *numbers: int) -> None:
        self.next_number = max(self.next_number, *(number + 1 for number in numbers), 0)

    def _load_lines(self) -> None:
        for piece in pieces_of(self._lines, limit_bytes=_REPLAY_BYTES):
            records = raws_in(piece)
            if not (records and are_records(records)):
                self.damaged_bytes += piece.end - piece.begin
                continue
            for number, group in groupby(records, key=source_in):
                self._replay(number, list(group))

    def _replay(self, number: int, records: list[bytes]) -> None:
        letters = letters_in(records)
        if b"S" in letters:
            for introduced in filter(None, map(introduced_in, records)):
                self.name(introduced)
            records = [record for record in records if record[:1] != b"S"]
        if number not in self._by_number and letters != {b"M"}:  # a marker of a gap in all logs has its own number
            self._load_points()  # which name it, too
            self._reserve(number)
        source = self._by_number.get(number)
        if source is None:
            return
        if b"F" in letters:
            self._replay_file(source, number, records)
            return
        for _, group in groupby(records, key=tag_in):
            self._take(source, number, batch_of(group), 0)

    def _replay_file(self, source: OutputSource, number: int, records: Iterable[bytes]) -> None:
        for _, group in groupby(map(without_place, records), key=lambda placed: tag_in(placed[0])):
            placed = list(group)
            self._take(source, number, batch_of([record for record, _ in placed]), placed[-1][1])

    def _take(self, source: OutputSource, number: int, batch: LogBatch, end: int) -> None:
        """Take lines that are kept; `end` is the offset at which the last one ends in a file."""
        self._points.read(number, source.reader, batch)
        if not batch.is_marker:
            source.line_count += len(batch)
            source.cursor, source.offset = batch.passed_by(source.cursor), end

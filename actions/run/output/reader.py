"""The reader of one stage's output while it grows: lines and log values by offset."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import lru_cache
from pathlib import Path
from typing import Concatenate, ParamSpec, TypeVar

import msgspec

from actions.base.errors import JournalError
from actions.cluster.logs.batch import line_in
from actions.cluster.logs.lines import LogLine
from actions.run.output.segments import StreamReader
from actions.run.output.streams import (
    DEVICES,
    LINES,
    PIECE_BYTES,
    POINTS,
    SAMPLES,
    SOURCES,
    WHOLE_STAGE,
    AcceleratorSample,
    EndLine,
    PointLine,
    SourceLine,
    are_records,
    introduced_in,
    letters_in,
    pieces_of,
    points_in,
    raws_in,
    readable,
    sample_in,
    source_in,
    source_line_in,
    span_record_in,
    stages_with_output,
    stream_path,
    value_line_in,
    without_places,
)
from actions.telemetry.points import LogValue
from actions.telemetry.tools.device_history import SpanRecord

P = ParamSpec("P")
T = TypeVar("T")
_MOST_KEPT = 12
"""Unpacked segments of lines that a reader keeps: so many logs are read side by side."""


class OutputLine(LogLine, frozen=True, gc=False, kw_only=True):
    """A log line with the container that printed it."""

    pod: str
    container: str


class OutputValue(msgspec.Struct, frozen=True, gc=False):
    """A point of a curve or a state of progress, with the pod that printed it."""

    pod: str
    value: LogValue


def _readable(
    read: Callable[Concatenate[OutputReader, P], T],
) -> Callable[Concatenate[OutputReader, P], T]:
    def call(reader: OutputReader, /, *args: P.args, **options: P.kwargs) -> T:
        try:
            return read(reader, *args, **options)
        except OSError as error:
            raise JournalError(
                f"{error.filename or reader.folder} cannot be read: {error.strerror}.",
                hint="Check the folder's rights and the disk.",
            ) from error

    return call


class OutputReader:
    """A reader of one stage's output. Cheap while nothing grows; there may be any number, each used by one thread.

    It reads past damage, which is shown as one marker, and counted. It writes nothing, and needs no right to. Every
    call but `accelerators`, `exit_codes`, `has_values`, `has_lines`, `has_printed_lines` and `device_bytes` may raise
    `JournalError`: the disk cannot be read.

    Args:
        folder: The run's.
        stage: Id of the stage, which may not have begun yet.
    """

    def __init__(self, folder: Path, stage: str) -> None:
        self.folder = folder
        self.stage = stage
        self._lines = StreamReader(stream_path(folder, stage, LINES), kept=_MOST_KEPT)
        self._points, self._containers, self._devices, self._texts = (
            StreamReader(stream_path(folder, stage, stream)) for stream in (POINTS, SOURCES, DEVICES, SAMPLES)
        )
        self._sources: dict[int, SourceLine] = {WHOLE_STAGE.number: WHOLE_STAGE}
        self._of_points: dict[int, SourceLine] = {}
        """As the points name them."""
        self._ends: dict[int, EndLine] = {}
        self._samples: dict[str, AcceleratorSample] = {}
        self._containers_end = self._texts_end = 0
        self._has_searched = False
        """The names were looked for in the lines, too."""

    @property
    def lost_lines(self) -> int:
        """The number of damaged or missing segments of lines that were met so far."""
        return len(self._lines.lost)

    @property
    def lost_values(self) -> int:
        """The number of damaged or missing segments of points that were met so far."""
        return len(self._points.lost)

    def lines(self, from_offset: int = 0, *, limit_bytes: int = PIECE_BYTES) -> tuple[list[OutputLine], int]:
        """Return about `limit_bytes` of lines from `from_offset` on, and the offset behind them.

        Lines of one container are in order; containers are interleaved as they arrived.
        """
        records, end = self.tagged_lines(from_offset, limit_bytes=limit_bytes)
        return [self._line_of(record) for record in records], end

    def tagged_lines(self, from_offset: int = 0, *, limit_bytes: int = PIECE_BYTES) -> tuple[list[bytes], int]:
        """Return lines like `lines`, as tagged lines (`actions.cluster.logs.batch`), the form for many at once."""
        records, _, end = self.placed_lines(from_offset, limit_bytes=limit_bytes)
        return self._plain(records), end

    @_readable
    def tagged_lines_at(self, places: Iterable[tuple[int, int]]) -> list[bytes]:
        """Return the tagged lines at known places.

        Args:
            places: Begin and end offset of each.
        """
        parts = [part for begin, end in places for part in self._lines.stretches(begin, end - begin)]
        return self._plain(readable(parts)[0])

    @_readable
    def placed_lines(self, from_offset: int, *, limit_bytes: int) -> tuple[list[bytes], list[int], int]:
        """Return tagged lines as `tagged_lines_at` does, where each begins, and where the last one ends."""
        parts = self._lines.stretches(from_offset, limit_bytes)
        return *readable(parts), parts[-1].end if parts else from_offset

    def pod_of(self, number: int) -> str:
        """Return the pod of a source, by the number in its records' tag."""
        return self._source(number).pod

    @_readable
    def values_end(self) -> int:
        """Return the offset behind the last value."""
        return self._points.end()

    def tail_offset(self, size_bytes: int) -> int:
        """Return an offset for `lines`, at most `size_bytes` before the end, at the beginning of a line."""
        return _tail_of(self, self._lines, size_bytes)

    def values_tail(self, size_bytes: int) -> int:
        """Return an offset for `values`, at most `size_bytes` before the end, at the beginning of a line."""
        return _tail_of(self, self._points, size_bytes)

    def spans_tail(self, size_bytes: int) -> int:
        """Return an offset for `device_spans`, at most `size_bytes` before the end, at the beginning of a span."""
        return _tail_of(self, self._devices, size_bytes)

    @_readable
    def values(self, from_offset: int = 0, *, limit_bytes: int = PIECE_BYTES) -> tuple[list[OutputValue], int]:
        """Return points and progress from `from_offset` on, and the offset behind them. Damaged ones are left out."""
        parts = self._points.stretches(from_offset, limit_bytes)
        found = []
        for one in (one for part in parts if part.data for one in points_in(part.data)):
            if isinstance(one, SourceLine):
                self._of_points[one.number] = one
            else:
                source = self._of_points.get(one[0]) or self._source(one[0])
                found.append(OutputValue(source.pod, one[1]))
        return found, parts[-1].end if parts else from_offset

    def accelerators(self) -> dict[str, AcceleratorSample]:
        """Return the newest sample of each pod; empty if there are none."""
        try:
            parts = self._texts.stretches(max(self._texts_end, self._texts.begin()))
        except OSError:
            return {}
        for raw in (raw for part in parts for raw in raws_in(part)):
            if (line := sample_in(raw)) is not None:
                self._samples[line.pod] = line.sample
        self._texts_end = parts[-1].end if parts else self._texts_end
        return dict(self._samples)

    @_readable
    def device_spans(self, from_offset: int = 0, *, limit_bytes: int = PIECE_BYTES) -> tuple[list[SpanRecord], int]:
        """Return accelerators over time from `from_offset` on, and the offset behind them, without damaged ones."""
        parts = self._devices.stretches(from_offset, limit_bytes)
        records = (span_record_in(raw) for part in parts for raw in raws_in(part))
        return [record for record in records if record is not None], parts[-1].end if parts else from_offset

    def exit_codes(self) -> dict[str, int | None]:
        """Return exit codes of containers with a complete log, by `pod/container`; `None` if unknown."""
        try:
            self._read_sources()
        except JournalError:
            return {}
        found = {}
        for number, end in self._ends.items():
            source = self._sources.get(number)
            if source is not None:
                found[f"{source.pod}/{source.container}"] = end.exit_code
        return found

    def has_lines(self) -> bool:
        """Return whether there is any line, if only a marker."""
        return _has_any(self._lines)

    def has_printed_lines(self) -> bool:
        """Return whether any container has printed a line."""
        try:
            pieces = map(raws_in, pieces_of(self._lines))
            return any(are_records(raws) and not {b"L", b"F"}.isdisjoint(letters_in(raws)) for raws in pieces)
        except OSError:
            return False

    def has_values(self) -> bool:
        """Return whether any point or progress was read from its lines."""
        return _has_any(self._points)

    def device_bytes(self) -> int:
        """Return the length of what is kept of accelerators over time; 0 if there is nothing."""
        return _length_of(self._devices)

    def _line_of(self, record: bytes) -> OutputLine:
        source, line = self._source(source_in(record)), line_in(record)
        return OutputLine(line.at_ns, line.text, line.is_marker, pod=source.pod, container=source.container)

    def _plain(self, records: list[bytes]) -> list[bytes]:
        """Return the records of lines alone; take note of those that name a source."""
        plain = without_places(records)
        if len(plain) != len(records):
            for introduced in filter(None, map(introduced_in, records)):
                self._sources.setdefault(introduced.number, introduced)
        return plain

    def _source(self, number: int) -> SourceLine:
        if number not in self._sources:
            self._read_sources()
        if number not in self._sources and not self._has_searched:
            self._has_searched = True
            self._sources = _names_in(self, self._lines) | self._sources
        return self._sources.get(number) or SourceLine(number, "", f"container {number}", "unknown", "")

    @_readable
    def _read_sources(self) -> None:
        parts = self._containers.stretches(self._containers_end)
        self._containers_end = parts[-1].end if parts else self._containers_end
        for line in (line for part in parts for line in map(source_line_in, raws_in(part))):
            if isinstance(line, SourceLine):
                self._sources[line.number] = line
            elif isinstance(line, EndLine):
                self._ends[line.number] = line


@_readable
def _tail_of(_reader: OutputReader, stream: StreamReader, size_bytes: int) -> int:
    return stream.record_at(max(stream.end() - size_bytes, 0))


@_readable
def _names_in(_reader: OutputReader, lines: StreamReader) -> dict[int, SourceLine]:
    """Return the sources that the lines name, as each of their segments does: the list of containers is lost."""
    raws = (raw for piece in pieces_of(lines) for raw in raws_in(piece) if raw[:1] == b"S")
    return {line.number: line for line in map(introduced_in, raws) if line is not None}


def _has_any(stream: StreamReader) -> bool:
    try:
        return stream.has_any()
    except OSError:
        return False


def _length_of(stream: StreamReader) -> int:
    try:
        return stream.end()
    except OSError:
        return 0


_TAIL_BYTES = 1 << 16


def last_loss(folder: Path) -> float | None:
    """Return the newest training loss among the points of a run; `None` if its log has none.

    Args:
        folder: The run's.
    """
    try:
        streams = [StreamReader(stream_path(folder, stage, POINTS)) for stage in stages_with_output(folder)]
        newest = sorted(filter(StreamReader.has_any, streams), key=StreamReader.changed_ns, reverse=True)
        found = (_loss_at_end(stream.folder, stream.end()) for stream in newest)
        return next((loss for loss in found if loss is not None), None)
    except OSError:
        return None


@lru_cache(maxsize=256)
def _loss_at_end(place: Path, end: int) -> float | None:
    """Return the last training loss in the last part of a stream that has that length."""
    stream = StreamReader(place)
    try:
        parts = stream.stretches(stream.record_at(max(end - _TAIL_BYTES, 0)))
    except OSError:
        return None
    raws = (raw for part in reversed(parts) for raw in reversed(raws_in(part)))
    found = (value_line_in(raw) for raw in raws if _LOSS_MARK in raw)
    return next((float(point.value) for point in found if isinstance(point, PointLine) and point.metric == _LOSS), None)


_LOSS = "train_loss"
_LOSS_MARK = b'"train_loss"'

"""Writing the spool of one stage: log lines and what was read in them, neither lost nor doubled by a crash.

Each batch of lines is one write. Where a container's log is to be taken up again follows from the lines themselves;
findings follow from the lines too, so after a crash the lines are read again and the findings that are there already
are skipped.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import groupby
from pathlib import Path
from typing import TypeVar

import msgspec

from actions.base.errors import FormatError
from actions.base.files import PRIVATE_FILE, private_directory
from actions.cluster.logbatch import LogBatch, batches_of
from actions.cluster.loglines import START, LogCursor, LogLine
from actions.cluster.logrecords import batch_of, tag_in, tag_of
from actions.run.folder import logs_path, series_path
from actions.run.spoolformat import (
    AcceleratorSample,
    EndLine,
    Finding,
    PointLine,
    ProgressLine,
    SourceLine,
    accelerators_file,
    check_records,
    file_record,
    line_of_finding,
    lines_file,
    points_file,
    source_in,
    sources_file,
    whole_lines,
    without_place,
)
from actions.telemetry.batch_reader import log_sieve, read_batch
from actions.telemetry.log_reader import LogReader
from actions.telemetry.points import Progress

MAX_LINES_BYTES = 4 << 30
"""After so much, lines are counted instead of kept: the disk belongs to the journal too."""

_REPLAY_BYTES = 4 << 20
_ENCODER = msgspec.json.Encoder()
_SOURCES: msgspec.json.Decoder[SourceLine | EndLine] = msgspec.json.Decoder(SourceLine | EndLine)
_FINDINGS: msgspec.json.Decoder[PointLine | ProgressLine] = msgspec.json.Decoder(PointLine | ProgressLine)

T = TypeVar("T")

SourceKey = tuple[str, str]
"""Uid of the pod, name of the container."""


class SpooledSource:
    """One container: its number, and where its log is to be taken up."""

    def __init__(self, line: SourceLine) -> None:
        self.line = line
        self.cursor: LogCursor = START
        self.offset = 0
        """Of a source that is a file: how many of its bytes are in the spool."""
        self.is_ended = False
        self.reader = LogReader(line.rank)
        self.known_findings = 0
        """Findings that are in the file and have not been met again since the start."""
        self.line_count = 0


class SpoolWriter:
    """The one writer of a stage's spool. Used from the runner's loop.

    A full disk loses lines, never the run: they are asked for again as long as the pod is there.

    Args:
        folder: The run's.
        stage: Id of the stage.

    Raises:
        FormatError: A file of the spool is damaged.
    """

    def __init__(self, folder: Path, stage: str) -> None:
        private_directory(logs_path(folder, stage))
        private_directory(series_path(folder, stage))
        self._sources_file = _AppendOnly(sources_file(folder, stage))
        self._lines_file = _AppendOnly(lines_file(folder, stage))
        self._points_file = _AppendOnly(points_file(folder, stage))
        self._accelerators = accelerators_file(folder, stage)
        self._samples: dict[str, AcceleratorSample] = {}
        self._sources: list[SpooledSource] = []
        self._by_key: dict[SourceKey, SpooledSource] = {}
        self._sieve = log_sieve()
        self._load_sources()
        self._count_findings()
        self._replay_lines()

    def source(self, namespace: str, pod: str, container: str, uid: str, *, rank: int = 0) -> SpooledSource:
        """The container's place in the spool, made if it is new."""
        known = self._by_key.get((uid, container))
        if known is not None:
            return known
        line = SourceLine(len(self._sources), namespace, pod, container, uid, rank)
        self._sources_file.append(_ENCODER.encode(line) + b"\n")
        return self._add(line)

    def sources(self) -> tuple[SpooledSource, ...]:
        """All containers so far, in the order of appearance."""
        return tuple(self._sources)

    def write(self, source: SpooledSource, batch: LogBatch) -> None:
        """Append lines of one container, in order, with what is read in them.

        Raises:
            OSError: The disk is full; nothing of these lines is kept.
        """
        if self._lines_file.size < MAX_LINES_BYTES:
            self._lines_file.append(batch.tagged(tag_of(source.line.number, is_marker=batch.is_marker)))
        self._take(source, batch)

    def write_lines(self, source: SpooledSource, lines: Iterable[LogLine]) -> None:
        """`write` lines that come one by one.

        Raises:
            OSError: The disk is full; the cursor tells which lines are kept.
        """
        for batch in batches_of(lines):
            self.write(source, batch)

    def write_file_lines(self, source: SpooledSource, lines: Sequence[tuple[LogLine, int]]) -> None:
        """Append lines of a file, in order, each with the offset of its end, and what is read in them.

        Raises:
            OSError: The disk is full; nothing of these lines is kept.
        """
        (batch,) = batches_of(line for line, _ in lines)
        number, ends = source.line.number, (end for _, end in lines)
        if self._lines_file.size < MAX_LINES_BYTES:
            records = (file_record(number, line, end) + b"\n" for line, end in zip(batch.lines, ends, strict=True))
            self._lines_file.append(b"".join(records))
        self._take(source, batch)
        source.offset = lines[-1][1]

    def write_findings(self, source: SpooledSource, findings: Sequence[Finding]) -> None:
        """Append findings of one container, but those that an earlier runner has written."""
        skipped = min(source.known_findings, len(findings))
        source.known_findings -= skipped
        fresh = findings[skipped:]
        if fresh:
            lines = (_ENCODER.encode(line_of_finding(source.line.number, finding)) + b"\n" for finding in fresh)
            self._points_file.append(b"".join(lines))

    def write_progress(self, source: SpooledSource, progress: Progress) -> None:
        """Append a progress that was counted, not read in the log."""
        self._points_file.append(_ENCODER.encode(line_of_finding(_COUNTED - source.line.number, progress)) + b"\n")

    def write_end(self, source: SpooledSource, exit_code: int | None, reason: str) -> None:
        """Note that a container has ended and its log is complete."""
        self.write_findings(source, source.reader.flush())
        self._sources_file.append(_ENCODER.encode(EndLine(source.line.number, exit_code, reason)) + b"\n")
        source.is_ended = True

    def write_sample(self, pod: str, sample: AcceleratorSample) -> None:
        """Replace the newest sample of a pod."""
        self._samples[pod] = sample
        scratch = self._accelerators.with_suffix(".tmp")
        descriptor = os.open(scratch, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, PRIVATE_FILE)
        with os.fdopen(descriptor, "wb") as file:
            file.write(_ENCODER.encode(self._samples))
        scratch.replace(self._accelerators)

    def close(self) -> None:
        """Close the files."""
        for file in (self._sources_file, self._lines_file, self._points_file):
            file.close()

    def _add(self, line: SourceLine) -> SpooledSource:
        source = SpooledSource(line)
        self._sources.append(source)
        self._by_key[(line.uid, line.container)] = source
        return source

    def _load_sources(self) -> None:
        for raw in whole_lines(self._sources_file.path)[0]:
            line = _decoded(_SOURCES, raw, self._sources_file.path)
            if isinstance(line, SourceLine):
                self._add(line)
            else:
                self._sources[line.number].is_ended = True

    def _count_findings(self) -> None:
        counts: Counter[int] = Counter()
        for raw in whole_lines(self._points_file.path)[0]:
            counts[_decoded(_FINDINGS, raw, self._points_file.path).number] += 1
        for source in self._sources:
            source.known_findings = counts[source.line.number]

    def _replay_lines(self) -> None:
        offset = 0
        while True:
            lines, end = whole_lines(self._lines_file.path, offset, _REPLAY_BYTES)
            if end == offset:
                return
            offset = end
            check_records(lines, self._lines_file.path)
            for number, records in groupby(lines, key=source_in):
                self._replay(self._sources[number], records)

    def _replay(self, source: SpooledSource, records: Iterable[bytes]) -> None:
        plain = [without_place(record) for record in records]
        for _, group in groupby((record for record, _ in plain), key=tag_in):
            self._take(source, batch_of(group))
        source.offset = plain[-1][1]

    def _take(self, source: SpooledSource, batch: LogBatch) -> None:
        """Read lines that are kept."""
        source.cursor = batch.passed_by(source.cursor)
        source.line_count += len(batch)
        if not batch.is_marker:
            self.write_findings(source, read_batch(source.reader, self._sieve, batch))


_COUNTED = -1
"""Counted progress has the number -1 - N, so that it is told from what was read in the log of source N."""


def _decoded(decoder: msgspec.json.Decoder[T], raw: bytes, path: Path) -> T:
    try:
        return decoder.decode(raw)
    except msgspec.MsgspecError as error:
        raise FormatError(f"{path} holds a line that cannot be read: {error}.") from error


class _AppendOnly:
    """A private file that grows by whole records. A tail that an earlier writer left torn is cut off."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, PRIVATE_FILE)
        self.size = _end_of_last_line(self._descriptor)
        os.ftruncate(self._descriptor, self.size)

    def append(self, data: bytes) -> None:
        """Append whole records in one step.

        Raises:
            OSError: The disk is full; nothing was appended.
        """
        written = 0
        try:
            while written < len(data):
                written += os.pwrite(self._descriptor, data[written:], self.size + written)
        except OSError:
            os.ftruncate(self._descriptor, self.size)
            raise
        self.size += written

    def close(self) -> None:
        os.close(self._descriptor)


def _end_of_last_line(descriptor: int) -> int:
    size = os.fstat(descriptor).st_size
    block = 1 << 16
    while size:
        start = max(size - block, 0)
        newline = os.pread(descriptor, size - start, start).rfind(b"\n")
        if newline >= 0:
            return start + newline + 1
        size = start
    return 0

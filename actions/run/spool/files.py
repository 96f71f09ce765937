"""The append-only files of a spool: whole records, damaged files set aside, findings once in `points.jsonl`.

Findings are derived from the lines. After a crash, or when the file was damaged, the lines are read again and findings
that the file holds already are skipped. What cannot be written now is written before the next line is taken.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import msgspec

from actions.base.files import PRIVATE_FILE, open_file
from actions.cluster.logs.batch import LogBatch
from actions.run.spool.compacted import compacted_path, expand
from actions.run.spool.format import (
    AcceleratorSample,
    LogFinding,
    PointLine,
    ProgressLine,
    SourceLine,
    line_of_finding,
    number_of_finding,
    pieces_of,
    points_line_in,
    span_record_in,
    whole_lines,
)
from actions.run.spool.thinning import Thinning
from actions.telemetry.log_reader import LogReader, log_prefilter, read_batch
from actions.telemetry.points import TrainingProgress
from actions.telemetry.tools.device_history import SpanCollector
from actions.telemetry.tools.devices import read_devices

MOST_SET_ASIDE = 3
"""Number of damaged states of one file that are kept, newest first."""
MOST_SET_ASIDE_BYTES = 256 << 20
"""Limit of their total size, except that the newest is always kept."""
_BLOCK_BYTES = 1 << 20


class AppendOnly:
    """A private file that grows by whole records. A torn tail of an earlier writer is cut off.

    Args:
        path: Created if it does not exist; then `is_new`. A compacted one is expanded.

    Raises:
        OSError: It cannot be created, expanded, read or cut.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        _expand(path)
        self.is_new = not path.exists()
        self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, PRIVATE_FILE)
        try:
            status = os.fstat(self._descriptor)
            self.modified_at = status.st_mtime
            self.size = _end_of_last_line(self._descriptor)
            if self.size != status.st_size:
                os.ftruncate(self._descriptor, self.size)
        except OSError:
            os.close(self._descriptor)
            raise

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

    def sync(self) -> None:
        """Flush what was appended to the disk.

        Raises:
            OSError: The disk refuses it.
        """
        os.fdatasync(self._descriptor)

    def close(self) -> None:
        """Close the file."""
        os.close(self._descriptor)


def _expand(path: Path) -> None:
    """Make the plain file of a compacted one. What remains of the latter is out of date, or damaged and set aside."""
    is_whole = expand(path)
    compacted = compacted_path(path)
    if not compacted.exists():
        return
    if is_whole:
        compacted.unlink()
        return
    compacted.rename(_next_name(path))
    _forget_old(path)


def replace_damaged(path: Path, pieces: Iterable[bytes | tuple[int, int]]) -> Path:
    """Replace a damaged file by a repaired one, and keep the damaged one beside it under another name.

    At every moment there is a file at `path`.

    Args:
        path: The file.
        pieces: The content of the repaired one: bytes, or begin and end offsets in the damaged one.

    Returns:
        The new path of the damaged one.

    Raises:
        OSError: The disk is full; nothing was changed.
    """
    scratch = path.with_name(f".{path.name}.mended")
    try:
        with open_file(path) as source:
            descriptor = os.open(scratch, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, PRIVATE_FILE)
            with os.fdopen(descriptor, "wb") as file:
                for piece in pieces:
                    if isinstance(piece, bytes):
                        file.write(piece)
                        continue
                    source.seek(piece[0])
                    left = piece[1] - piece[0]
                    while left and (block := source.read(min(left, _BLOCK_BYTES))):
                        file.write(block)
                        left -= len(block)
                file.flush()
                os.fsync(file.fileno())
        aside = _next_name(path)
        os.link(path, aside)
        scratch.replace(path)
    except OSError:
        scratch.unlink(missing_ok=True)
        raise
    _forget_old(path)
    return aside


def set_aside(path: Path) -> list[Path]:
    """Return the damaged states of a file that are kept, oldest first."""
    found = {
        int(number): other
        for other in path.parent.glob(f"{path.name}.damaged-*")
        if (number := other.name.rpartition("-")[2]).isdigit()
    }
    return [found[number] for number in sorted(found)]


def _next_name(path: Path) -> Path:
    numbers = [int(other.name.rpartition("-")[2]) for other in set_aside(path)]
    return path.with_name(f"{path.name}.damaged-{max(numbers, default=0) + 1}")


def _forget_old(path: Path) -> None:
    kept, size = 0, 0
    for other in reversed(set_aside(path)):
        kept, size = kept + 1, size + other.stat().st_size
        if kept > 1 and (kept > MOST_SET_ASIDE or size > MOST_SET_ASIDE_BYTES):
            other.unlink()


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


_COUNTED = -1
"""Counted progress of source N has the number -1 - N, which distinguishes it from progress read in its log."""
_ENCODER = msgspec.json.Encoder()


class PointsBook:
    """The findings of one stage: points and progress, with the source of each number.

    A source is written in one step with its first finding. So no order in which files reach a disk or a store, and no
    loss in between, gives a finding to another container.

    Args:
        file: `points.jsonl`.
    """

    def __init__(self, file: AppendOnly) -> None:
        self._file = file
        self._prefilter = log_prefilter()
        self._known: Counter[int] = Counter()
        self._counts: Counter[int] = Counter()
        """The findings read in each log, in the file or waiting for it."""
        self._waiting: list[bytes] = []
        self.sources: dict[int, SourceLine] = {}
        """The sources that the file names, or will with the next write."""
        self.numbers: set[int] = set()
        """Of the sources of all findings in the file."""
        self._names: dict[int, SourceLine] = {}
        self._thinning = Thinning()

    def load(self) -> int:
        """Read the file, and remove damaged lines from it.

        Returns:
            The number of damaged lines.

        Raises:
            OSError: The disk has no space for the repair.
        """
        damaged, good = 0, list[tuple[int, int]]()
        for piece in pieces_of(self._file.path):
            offset = piece.begin
            for raw in piece.raws:
                line = points_line_in(raw)
                if line is None:
                    damaged += 1
                else:
                    good.append((offset, offset + len(raw) + 1))
                    self._load_line(line)
                offset += len(raw) + 1
        if damaged:
            replace_damaged(self._file.path, good)
            self._file.close()
            self._file = AppendOnly(self._file.path)
        return damaged

    def _load_line(self, line: PointLine | ProgressLine | SourceLine) -> None:
        if isinstance(line, SourceLine):
            self.sources[line.number] = line
            return
        self.numbers.add(number_of_finding(line))
        if line.number >= 0:
            self._known[_identity(line)] += 1
            self._counts[line.number] += 1

    def name(self, line: SourceLine) -> None:
        """Name the source of a number. Findings that the file has of it get the name with the next write."""
        self._names[line.number] = line
        if line.number in self.numbers:
            self._introduce(line.number)

    def _introduce(self, number: int) -> None:
        line = self._names.get(number)
        if line is not None and self.sources.get(number) != line:
            self._waiting.append(_ENCODER.encode(line) + b"\n")
            self.sources[number] = line

    def read(self, number: int, reader: LogReader, batch: LogBatch) -> None:
        """Take the findings of a batch of lines."""
        if not batch.is_marker:
            self.take(number, read_batch(reader, self._prefilter, batch))

    def take(self, number: int, findings: Iterable[LogFinding]) -> None:
        """Take findings of a source, except those that the file holds. Nothing is written yet."""
        for finding in findings:
            self._keep(number, self._thinning.take(number, finding))

    def end(self, number: int) -> None:
        """Take what waits of a source whose log is complete. Nothing is written yet."""
        self._keep(number, self._thinning.end(number))

    def _keep(self, number: int, findings: Iterable[LogFinding]) -> None:
        for finding in findings:
            line = line_of_finding(number, finding)
            known = _identity(line)
            if self._known.get(known):
                self._known[known] -= 1
                if not self._known[known]:
                    del self._known[known]
            else:
                self._introduce(number)
                self._waiting.append(_ENCODER.encode(line) + b"\n")
                self._counts[number] += 1

    def count_of(self, number: int) -> int:
        """Return the number of findings that were read in a log."""
        return self._counts[number]

    def flush(self) -> None:
        """Write the findings taken so far.

        Raises:
            OSError: The disk is full; they are kept for the next call.
        """
        if self._waiting:
            self._file.append(b"".join(self._waiting))
            self._waiting = []

    def count(self, number: int, progress: TrainingProgress) -> None:
        """Write progress that was counted, not read in the log.

        Raises:
            OSError: The disk is full.
        """
        self._introduce(number)
        self.flush()
        self._file.append(_ENCODER.encode(line_of_finding(_COUNTED - number, progress)) + b"\n")

    def sync(self) -> None:
        """Flush the findings taken so far to the disk.

        Raises:
            OSError: The disk refuses it.
        """
        self.flush()
        self._file.sync()

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def _identity(line: PointLine | ProgressLine) -> int:
    """Return a key that is equal for the same finding, whatever lines were read before it."""
    if isinstance(line, PointLine):
        return hash((line.number, line.metric, line.step, str(line.value), line.key if line.step is None else ""))
    return hash((line.number, line.label, line.done, line.total, str(line.elapsed_seconds)))


class DeviceBook:
    """A stage's accelerators over time: samples are joined into spans, and a span is written when it is long enough.

    A crash costs the open span of each pod.

    Args:
        path: Created with the first sample.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: AppendOnly | None = None
        self._began: float | None = None
        self._open: dict[str, SpanCollector] = {}

    def take(self, pod: str, sample: AcceleratorSample) -> None:
        """Take a sample; one that has no device in it is left out.

        Raises:
            OSError: The disk is full; the samples so far are written with the next one.
        """
        reading = read_devices(sample.text)
        if not reading.devices:
            return
        if self._began is None:
            self._began = self._first_moment() or sample.at
        span = self._open.setdefault(pod, SpanCollector(pod, sample.node))
        span.add(sample.at, reading)
        if span.is_due(self._began):
            self._write(span)

    def close(self) -> None:
        """Write the open spans, and close the file.

        Raises:
            OSError: The disk is full; the open spans are lost.
        """
        try:
            for span in self._open.values():
                self._write(span)
        finally:
            self._open = {}
            if self._file is not None:
                self._file.close()
            self._file = None

    def _write(self, span: SpanCollector) -> None:
        record = span.record()
        if record is not None:
            self._file = self._file or AppendOnly(self._path)
            self._file.append(_ENCODER.encode(record) + b"\n")
            span.begin_anew()

    def _first_moment(self) -> float | None:
        """Return the begin of the first span that an earlier runner has written."""
        raws, _ = whole_lines(self._path, limit_bytes=1)
        return next((record.since for record in map(span_record_in, raws) if record is not None), None)

"""The writer of one stage's spool: log lines and the findings in them, neither lost nor doubled by a crash.

Each batch of lines is one write. The place where a container's log continues follows from the lines themselves, and so
do the findings: those that a crash or a full disk has cost are added later. Damage is repaired when it is opened.
"""

from __future__ import annotations

import errno
import threading
from collections.abc import Iterable, Sequence
from pathlib import Path

import msgspec
from msgspec.structs import replace

from actions.base.clock import Clock, SystemClock
from actions.base.errors import ConfigError
from actions.base.files import private_directory, write_private
from actions.cluster.logs.batch import LogBatch, batches_of, marker_of, tag_of
from actions.cluster.logs.lines import STAMP_BYTES, LogLine
from actions.run.journal.folder import logs_path, series_path
from actions.run.spool.files import AppendOnly, DeviceBook, PointsBook
from actions.run.spool.format import (
    ALL_SOURCES,
    WHOLE_STAGE,
    AcceleratorSample,
    EndLine,
    GapLine,
    SourceLine,
    accelerators_file,
    devices_file,
    file_record,
    introduction,
    lines_file,
    losses_of,
    points_file,
    sources_file,
)
from actions.run.spool.recovery import CUT, KeptRanges, Loader, SpooledSource, key_of
from actions.telemetry.points import TrainingProgress

__all__ = ["MAX_LINES_BYTES", "SpoolWriter", "SpooledSource"]

MAX_LINES_BYTES = 4 << 30
"""Size after which lines are counted instead of kept: the journal needs the disk, too."""

_ENCODER = msgspec.json.Encoder()


class SpoolWriter:
    """The single writer of a stage's spool. Used from the runner's loop.

    The first call opens and repairs it; every call may raise `OSError` until that has worked. A full disk costs lines,
    never the run: they are read again as long as the pod exists.

    Args:
        folder: The run's.
        stage: Id of the stage.
        clock: Dates the mark of a gap in a log without a line.
    """

    def __init__(self, folder: Path, stage: str, *, clock: Clock | None = None) -> None:
        self.repairs: tuple[str, ...] = ()
        """The parts that were repaired when it was opened, one sentence each."""
        self._folder = folder
        self._stage = stage
        self._clock = clock or SystemClock()
        self._accelerators = accelerators_file(folder, stage)
        self._samples: dict[str, AcceleratorSample] = {}
        self._devices = DeviceBook(devices_file(folder, stage))
        self._opening = threading.Lock()
        self._loaded: Loader | None = None
        self._points: PointsBook | None = None
        self._unclaimed: dict[bytes, SpooledSource] = {}
        self._gaps: dict[str, GapLine] = {}
        self._unwritten: list[tuple[GapLine, bytes]] = []

    def open(self) -> None:
        """Read the spool, and repair it. May be called in a thread: the log of a day takes a minute.

        Raises:
            OSError: It cannot be read or written at present.
        """
        self._open()

    def source(self, namespace: str, pod: str, container: str, uid: str, *, rank: int = 0) -> SpooledSource:
        """Return the container's source in the spool, created if it is new.

        Raises:
            OSError: It cannot be written.
        """
        loaded, _ = self._open()
        known = loaded.by_key.get((uid, container))
        if known is not None:
            return known
        number = len(loaded.by_number)
        while number in loaded.by_number:
            number += 1
        line = SourceLine(number, namespace, pod, container, uid, rank)
        loaded.sources_file.append(_ENCODER.encode(line) + b"\n")
        loaded.sources_file.sync()  # before any line that refers to it
        made = loaded.name(line)
        made.is_fresh = True
        return made

    def sources(self) -> tuple[SpooledSource, ...]:
        """Return all containers so far, in the order of appearance.

        Raises:
            OSError: It cannot be opened.
        """
        return tuple(self._open()[0].by_key.values())

    def write(self, source: SpooledSource, batch: LogBatch) -> None:
        """Append lines of one container, in order, with their findings. Lines that the spool holds are dropped.

        Raises:
            OSError: The disk is full; nothing of these lines is kept.
        """
        self._open()[1].flush()  # waiting findings first, so that those of these lines have space, too
        if source.is_fresh and self._unclaimed and not batch.is_marker:
            self._claim(source, batch.lines)
        ranges = source.ranges.copy()
        fresh = ranges.missing(batch)
        if fresh is not None:
            self._append(source, fresh, fresh.tagged(tag_of(source.line.number, is_marker=fresh.is_marker)))
        source.ranges = ranges
        source.cursor = batch.passed_by(source.cursor)
        source.passed_count += len(batch)
        self._end()

    def write_lines(self, source: SpooledSource, lines: Iterable[LogLine]) -> None:
        """Append lines that come one by one; see `write`.

        Raises:
            OSError: The disk is full; the cursor stands behind the lines that are kept.
        """
        for batch in batches_of(lines):
            self.write(source, batch)

    def write_file_lines(self, source: SpooledSource, lines: Sequence[tuple[LogLine, int]]) -> None:
        """Append lines of a file, in order, each with the offset of its end, and their findings.

        Raises:
            OSError: The disk is full; nothing of these lines is kept.
        """
        self._open()[1].flush()  # waiting findings first, so that those of these lines have space, too
        if source.is_fresh and self._unclaimed:
            self._claim(source, [key_of(line.text.encode("utf-8", "replace"), end) for line, end in lines])
        ranges = source.ranges.copy()
        fresh = ranges.missing_lines(lines)
        if fresh:
            (batch,) = batches_of(LogLine(line.at_ns, line.text) for line, _ in fresh)
            number, ends = source.line.number, (end for _, end in fresh)
            records = (file_record(number, line, end) + b"\n" for line, end in zip(batch.lines, ends, strict=True))
            self._append(source, batch, b"".join(records))
            source.cursor = batch.passed_by(source.cursor)
        source.ranges = ranges
        source.offset = lines[-1][1]
        source.passed_count += len(lines)
        self._end()

    def write_progress(self, source: SpooledSource, progress: TrainingProgress) -> None:
        """Append progress that was counted, not read in the log.

        Raises:
            OSError: The disk is full.
        """
        self._open()[1].count(source.line.number, progress)

    def write_end(self, source: SpooledSource, exit_code: int | None, reason: str) -> None:
        """Record that a container has ended and its log is complete.

        Raises:
            OSError: The disk is full; call it again.
        """
        loaded, points = self._open()
        self._close_limit(source)
        points.take(source.line.number, source.reader.flush())
        points.end(source.line.number)
        loaded.lines_file.sync()
        points.sync()
        number = source.line.number
        end = EndLine(number, exit_code, reason, source.line_count, points.count_of(number))
        loaded.sources_file.append(_ENCODER.encode(end) + b"\n")
        loaded.sources_file.sync()
        source.is_ended = True
        if loaded.to_read_again and all(again.is_ended and again.is_of_pod for again in loaded.to_read_again):
            loaded.to_read_again = []
            for key in loaded.opened_gaps:
                self.close_gap(key)
        self._end()

    def write_sample(self, pod: str, sample: AcceleratorSample) -> None:
        """Replace the newest sample of a pod, and add it to the history of its accelerators.

        Raises:
            OSError: The disk is full.
        """
        self._open()
        self._samples[pod] = sample
        write_private(self._accelerators, _ENCODER.encode(self._samples), is_synced=False)
        self._devices.take(pod, sample)

    def open_gap(
        self, source: SpooledSource | None, key: str, why: str, *, mark: str | None = None, until_ns: int = 0
    ) -> None:
        """Record a gap, and mark it in the log. Once for each key; never raises.

        Args:
            source: The source that lines are missing of; `None` for all of the stage.
            key: Identifies the gap.
            why: The reason, as the end of a sentence.
            mark: The marker in the log, if not `why`; empty for none.
            until_ns: End of the gap, if that is known.
        """
        known = self._gaps.get(key)
        if known is not None and not known.is_closed and known.why == why:
            return
        number = source.line.number if source is not None else ALL_SOURCES
        since_ns = known.since_ns if known is not None and not known.is_closed else _now_of(source)
        self._note(GapLine(key, number, why, since_ns, until_ns), why if mark is None else mark, source)

    def close_gap(self, key: str, text: str = "", source: SpooledSource | None = None) -> None:
        """Close a gap, as its lines have been read after all.

        Args:
            key: Of the gap; nothing is done if there is none.
            text: The marker in the log; empty for none.
            source: The source whose log gets the marker.
        """
        known = self._gaps.get(key)
        if known is not None and not known.is_closed:
            self._note(replace(known, is_closed=True, until_ns=_now_of(source)), text, source)

    def has_gap(self, key: str) -> bool:
        """Return whether there is a gap of this key that is not closed. Known once the spool is open."""
        known = self._gaps.get(key)
        return known is not None and not known.is_closed

    def losses(self) -> tuple[str, ...]:
        """Return the missing parts of the stage's logs, one sentence each."""
        sources = self._loaded.by_number if self._loaded is not None else {}
        return losses_of(self._gaps.values(), {number: source.line.pod for number, source in sources.items()})

    def close(self) -> None:
        """Close the files."""
        try:
            if self._loaded is not None:
                gap = self._gaps.get(CUT)
                if CUT in self._loaded.opened_gaps and gap is not None and not gap.is_closed:
                    self._note(gap, gap.why, None)  # the lost end could not be read again
                self._end()
            self._devices.close()
        finally:
            self._shut()

    def _open(self) -> tuple[Loader, PointsBook]:
        with self._opening:
            if self._loaded is None or self._points is None:
                self._loaded, self._points = self._load()
            return self._loaded, self._points

    def _load(self) -> tuple[Loader, PointsBook]:
        for folder in (logs_path(self._folder, self._stage), series_path(self._folder, self._stage)):
            try:
                private_directory(folder)
            except ConfigError as error:
                raise OSError(errno.EACCES, error.message, str(folder)) from error
        files: list[AppendOnly] = []
        try:
            for path in (sources_file, lines_file, points_file):
                files.append(AppendOnly(path(self._folder, self._stage)))
            points = PointsBook(files[2])
            loaded = Loader(files[0], files[1], points)
            files = []
            try:
                loaded.load()
            except BaseException:
                for file in (loaded.sources_file, loaded.lines_file, points):
                    file.close()
                raise
        finally:
            for file in files:
                file.close()
        self.repairs = (*self.repairs, *loaded.repairs)
        has_lines = any(source.line_count for source in loaded.by_number.values())
        for source in loaded.by_number.values():
            source.is_from_elsewhere = not has_lines
        self._unclaimed = loaded.unclaimed()
        self._gaps = loaded.gaps | self._gaps
        return loaded, points

    def _shut(self) -> None:
        if self._loaded is not None and self._points is not None:
            self._loaded.sources_file.close()
            self._loaded.lines_file.close()
            self._points.close()
        self._loaded = self._points = None

    def _end(self) -> None:
        """Write findings and gaps after lines were taken, or leave them for the next call."""
        loaded, points = self._open()
        try:
            points.flush()
            while self._unwritten:
                gap, record = self._unwritten[0]
                if record:
                    loaded.lines_file.append(record)
                    self._unwritten[0] = (gap, b"")
                loaded.sources_file.append(_ENCODER.encode(gap) + b"\n")
                self._unwritten.pop(0)
        except OSError:
            return

    def _append(self, source: SpooledSource, batch: LogBatch, data: bytes) -> None:
        """Append lines, or count them if there are too many already; then read them."""
        loaded, points = self._open()
        is_again = not source.ranges.is_passed and not batch.is_marker
        if loaded.lines_file.size >= MAX_LINES_BYTES:
            self._count(source, batch)
        else:
            number, first = source.line.number, b""
            if not source.is_introduced:
                first = introduction(source.line, batch.data[:STAMP_BYTES]) + b"\n"
            if is_again and not source.is_read_again:
                first += marker_of("-- lines that were lost, read again --", number, batch.first_ns) + b"\n"
            loaded.lines_file.append(first + data)
            source.is_introduced, source.is_read_again = True, source.is_read_again or is_again
            source.line_count += 0 if batch.is_marker else len(batch)
        points.read(source.line.number, source.second_reader if is_again else source.reader, batch)

    def _count(self, source: SpooledSource, batch: LogBatch) -> None:
        """Count lines beyond the size limit; the log gets a marker once, and their number at its end."""
        if not batch.is_marker:
            source.uncounted += len(batch)
            self.open_gap(source, f"limit-{source.line.number}", f"{MAX_LINES_BYTES:,} bytes are kept, and no more")

    def _close_limit(self, source: SpooledSource) -> None:
        key = f"limit-{source.line.number}"
        if source.uncounted and key in self._gaps:
            why = f"{MAX_LINES_BYTES:,} bytes are kept; {source.uncounted:,} lines behind them are not"
            self.open_gap(source, key, why, until_ns=source.cursor.at_ns)

    def _claim(self, source: SpooledSource, keys: Sequence[bytes]) -> None:
        """Give a log without a name to the container that prints its first line."""
        loaded, _ = self._open()
        key = next((key for key in keys if key in self._unclaimed), None)
        if key is None:
            return
        unnamed = self._unclaimed[key]
        line = replace(source.line, number=unnamed.line.number)
        loaded.sources_file.append(_ENCODER.encode(line) + b"\n")
        del self._unclaimed[key]
        loaded.by_number[unnamed.line.number] = source
        self._open()[1].name(line)
        source.line_count += unnamed.line_count
        source.ranges = KeptRanges(unnamed.found)

    def _note(self, gap: GapLine, text: str, source: SpooledSource | None) -> None:
        self._gaps[gap.key] = gap
        line = source.line if source is not None else WHOLE_STAGE
        at_ns = _now_of(source) if source is not None else _latest_ns(self._loaded, self._clock)
        record = marker_of(f"-- {text} --", line.number, at_ns) + b"\n" if text else b""
        self._unwritten.append((gap, record))
        if self._loaded is not None:
            self._end()


def _latest_ns(loaded: Loader | None, clock: Clock) -> int:
    """Return the time of the newest line of the stage; without one the present."""
    sources = loaded.by_number.values() if loaded is not None else ()
    newest = max((source.cursor.at_ns for source in sources), default=0)
    return newest or int(clock.now().timestamp() * 1e9)


def _now_of(source: SpooledSource | None) -> int:
    return source.cursor.at_ns if source is not None else 0

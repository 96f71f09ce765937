"""The writer of one stage's output: log lines and the log values in them, neither lost nor doubled by a crash.

Each batch of lines is one write. The place where a container's log continues follows from the lines themselves, and so
do the values: those that a crash or a full disk has cost are added later.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
from pathlib import Path

import msgspec
from msgspec.structs import replace

from actions.base.clock import Clock, SystemClock
from actions.cluster.logs.batch import LogBatch, batches_of, marker_of, stamp_in, tag_of
from actions.cluster.logs.lines import LogLine
from actions.run.output.segments import StreamReader, StreamWriter
from actions.run.output.sources import Loader, OutputSource
from actions.run.output.streams import (
    ALL_SOURCES,
    DEVICES,
    LINES,
    POINTS,
    SAMPLES,
    SOURCES,
    WHOLE_STAGE,
    AcceleratorSample,
    EndLine,
    GapLine,
    SourceLine,
    file_record,
    introduction,
    losses_of,
    stream_path,
)
from actions.run.output.values import SampleWriter, ValueWriter
from actions.telemetry.points import TrainingProgress

__all__ = ["MAX_LINES_BYTES", "OutputSource", "OutputWriter"]

MAX_LINES_BYTES = 4 << 30
"""Size, before compression, after which lines are counted instead of kept: the journal needs the disk, too."""
KEPT_SAMPLES = 8
"""Segments of samples as the tools print them: minutes of many pods."""
_DAMAGED = "damaged"
"""The key of the gap of segments that cannot be read."""

_ENCODER = msgspec.json.Encoder()


class _Streams:
    """The open streams of a stage, and what an earlier writer has left in them.

    Args:
        folder: The run's.
        stage: Id of the stage.

    Raises:
        OSError: They cannot be opened.
    """

    def __init__(self, folder: Path, stage: str) -> None:
        self._open: list[StreamWriter] = []
        try:
            self.sources = self._opened(stream_path(folder, stage, SOURCES))
            self.lines = self._opened(stream_path(folder, stage, LINES))
            self.points = ValueWriter(self._opened(stream_path(folder, stage, POINTS)))
            samples = self._opened(stream_path(folder, stage, SAMPLES), keeps=KEPT_SAMPLES)
            self.devices = SampleWriter(samples, self._opened(stream_path(folder, stage, DEVICES)))
            self.loaded = Loader(StreamReader(self.sources.folder), StreamReader(self.lines.folder), self.points)
            self.loaded.load()
            if self.loaded.damaged_bytes:
                self.lines.seal()  # so that what comes is not lost with what is damaged in the open end
        except BaseException:
            self.close()
            raise

    def _opened(self, folder: Path, *, keeps: int = 0) -> StreamWriter:
        self._open.append(StreamWriter(folder, keeps=keeps))
        return self._open[-1]

    def close(self) -> None:
        """Close all of them."""
        for stream in self._open:
            stream.close()


class OutputWriter:
    """The single writer of a stage's output. Used from the runner's loop.

    The first call opens it; every call may raise `OSError` until that has worked. A full disk costs lines, never the
    run: they are read again as long as the pod exists.

    Args:
        folder: The run's.
        stage: Id of the stage.
        clock: Dates the mark of a gap in a log without a line.
    """

    def __init__(self, folder: Path, stage: str, *, clock: Clock | None = None) -> None:
        self._folder = folder
        self._stage = stage
        self._clock = clock or SystemClock()
        self._opening = threading.Lock()
        self._streams: _Streams | None = None
        self._gaps: dict[str, GapLine] = {}
        self._unwritten: list[tuple[GapLine, bytes, OutputSource | None]] = []
        """Gaps with the marker in the log, which is empty once it is written, and the source of that."""

    def open(self) -> None:
        """Read the output. May be called in a thread: the log of a day takes a minute.

        Raises:
            OSError: It cannot be read or written at present.
        """
        self._open()

    def source(self, namespace: str, pod: str, container: str, uid: str, *, rank: int = 0) -> OutputSource:
        """Return the container's source in the output, created if it is new.

        Raises:
            OSError: It cannot be written.
        """
        streams = self._open()
        known = streams.loaded.by_key.get((uid, container))
        if known is not None:
            return known
        line = SourceLine(streams.loaded.next_number, namespace, pod, container, uid, rank)
        streams.sources.append(_ENCODER.encode(line) + b"\n")
        streams.sources.sync()  # before any line that refers to it
        made = streams.loaded.name(line)
        made.is_fresh = True
        return made

    def sources(self) -> tuple[OutputSource, ...]:
        """Return all containers so far, in the order of appearance.

        Raises:
            OSError: It cannot be opened.
        """
        return tuple(self._open().loaded.by_key.values())

    def write(self, source: OutputSource, batch: LogBatch) -> None:
        """Append lines of one container, in order, behind its cursor, with their values.

        Raises:
            OSError: The disk is full; nothing of these lines is kept.
        """
        self._open().points.flush()  # waiting values first, so that those of these lines have space, too
        self._append(source, batch, batch.tagged(tag_of(source.line.number, is_marker=batch.is_marker)))
        source.cursor = batch.passed_by(source.cursor)
        source.passed_count += len(batch)
        self._end()

    def write_lines(self, source: OutputSource, lines: Iterable[LogLine]) -> None:
        """Append lines that come one by one; see `write`.

        Raises:
            OSError: The disk is full; the cursor stands behind the lines that are kept.
        """
        for batch in batches_of(lines):
            self.write(source, batch)

    def write_file_lines(self, source: OutputSource, lines: Sequence[tuple[LogLine, int]]) -> None:
        """Append lines of a file, in order, each with the offset of its end, and their values.

        Raises:
            OSError: The disk is full; nothing of these lines is kept.
        """
        self._open().points.flush()  # waiting values first, so that those of these lines have space, too
        (batch,) = batches_of(LogLine(line.at_ns, line.text) for line, _ in lines)
        number, ends = source.line.number, (end for _, end in lines)
        records = (file_record(number, line, end) + b"\n" for line, end in zip(batch.lines, ends, strict=True))
        self._append(source, batch, b"".join(records))
        source.cursor = batch.passed_by(source.cursor)
        source.offset = lines[-1][1]
        source.passed_count += len(lines)
        self._end()

    def write_progress(self, source: OutputSource, progress: TrainingProgress) -> None:
        """Append progress that was counted, not read in the log.

        Raises:
            OSError: The disk is full.
        """
        self._open().points.count(source.line.number, progress)

    def write_end(self, source: OutputSource, exit_code: int | None, reason: str) -> None:
        """Record that a container has ended and its log is complete.

        Raises:
            OSError: The disk is full; call it again.
        """
        streams = self._open()
        self._close_limit(source)
        streams.points.take(source.line.number, source.reader.flush())
        streams.lines.sync()
        streams.points.sync()
        streams.sources.append(_ENCODER.encode(EndLine(source.line.number, exit_code, reason)) + b"\n")
        streams.sources.sync()
        source.is_ended = True
        self._end()

    def write_sample(self, pod: str, sample: AcceleratorSample) -> None:
        """Append a sample of a pod's accelerators.

        Raises:
            OSError: The disk is full.
        """
        self._open().devices.take(pod, sample)

    def open_gap(
        self, source: OutputSource | None, key: str, why: str, *, mark: str | None = None, until_ns: int = 0
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

    def close_gap(self, key: str, text: str = "", source: OutputSource | None = None) -> None:
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
        """Return whether there is a gap of this key that is not closed. Known once the output is open."""
        known = self._gaps.get(key)
        return known is not None and not known.is_closed

    def losses(self) -> tuple[str, ...]:
        """Return the missing parts of the stage's logs, one sentence each."""
        sources = self._streams.loaded.by_key.values() if self._streams is not None else ()
        return losses_of(self._gaps.values(), {source.line.number: source.line.pod for source in sources})

    def close(self) -> None:
        """Close the streams.

        Raises:
            OSError: The disk is full; the last values are read again from the lines.
        """
        if self._streams is None:
            return
        try:
            self._end()
            self._streams.devices.end()
        finally:
            self._streams.close()
            self._streams = None

    def _open(self) -> _Streams:
        with self._opening:
            if self._streams is None:
                self._streams = self._load()
                loaded = self._streams.loaded
                self._gaps = loaded.gaps | self._gaps
                if loaded.damaged_bytes:
                    self._note_damage(loaded.damaged_bytes)
            return self._streams

    def _load(self) -> _Streams:
        return _Streams(self._folder, self._stage)

    def _note_damage(self, size_bytes: int) -> None:
        """Record that lines are missing; readers mark the place."""
        gap = GapLine(_DAMAGED, ALL_SOURCES, f"{size_bytes} bytes of it are damaged")
        if self._gaps.get(_DAMAGED) != gap:
            self._gaps[_DAMAGED] = gap
            self._unwritten.append((gap, b"", None))

    def _end(self) -> None:
        """Write values and gaps after lines were taken, or leave them for the next call."""
        streams = self._open()
        try:
            streams.points.flush()
            while self._unwritten:
                gap, record, source = self._unwritten[0]
                if record:
                    self._append_named(source, record)
                    self._unwritten[0] = (gap, b"", None)
                streams.sources.append(_ENCODER.encode(gap) + b"\n")
                self._unwritten.pop(0)
        except OSError:
            return

    def _append(self, source: OutputSource, batch: LogBatch, data: bytes) -> None:
        """Append lines, or count them if there are too many already; then read them."""
        streams = self._open()
        if streams.lines.end >= MAX_LINES_BYTES:
            self._count(source, batch)
        else:
            self._append_named(source, data)
            source.line_count += 0 if batch.is_marker else len(batch)
        streams.points.read(source.line.number, source.reader, batch)

    def _append_named(self, source: OutputSource | None, data: bytes) -> None:
        """Append records of one source, behind its name if their segment has not got that yet."""
        lines = self._open().lines
        place = lines.place
        if source is None or source.named_at == place:
            lines.append(data)
        else:
            lines.append(introduction(source.line, stamp_in(data)) + b"\n" + data)
            source.named_at = place

    def _count(self, source: OutputSource, batch: LogBatch) -> None:
        """Count lines beyond the size limit; the log gets a marker once, and their number at its end."""
        if not batch.is_marker:
            source.uncounted += len(batch)
            self.open_gap(source, f"limit-{source.line.number}", f"{MAX_LINES_BYTES:,} bytes are kept, and no more")

    def _close_limit(self, source: OutputSource) -> None:
        key = f"limit-{source.line.number}"
        if source.uncounted and key in self._gaps:
            why = f"{MAX_LINES_BYTES:,} bytes are kept; {source.uncounted:,} lines behind them are not"
            self.open_gap(source, key, why, until_ns=source.cursor.at_ns)

    def _note(self, gap: GapLine, text: str, source: OutputSource | None) -> None:
        self._gaps[gap.key] = gap
        line = source.line if source is not None else WHOLE_STAGE
        at_ns = _now_of(source) if source is not None else self._latest_ns()
        record = marker_of(f"-- {text} --", line.number, at_ns) + b"\n" if text else b""
        self._unwritten.append((gap, record, source))
        if self._streams is not None:
            self._end()

    def _latest_ns(self) -> int:
        """Return the time of the newest line of the stage; without one the present."""
        sources = self._streams.loaded.by_key.values() if self._streams is not None else ()
        newest = max((source.cursor.at_ns for source in sources), default=0)
        return newest or int(self._clock.now().timestamp() * 1e9)


def _now_of(source: OutputSource | None) -> int:
    return source.cursor.at_ns if source is not None else 0

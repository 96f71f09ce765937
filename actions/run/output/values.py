"""The log values of a stage and the samples of its accelerators, as they go into their streams.

Values are derived from the lines. After a crash the lines are read again, and values that the stream has already
are skipped. What cannot be written now is written before the next line is taken.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

import msgspec

from actions.cluster.logs.batch import LogBatch
from actions.run.output.segments import StreamReader, StreamWriter
from actions.run.output.streams import (
    AcceleratorSample,
    PointLine,
    ProgressLine,
    SampleLine,
    SourceLine,
    line_of_value,
    number_of_value,
    pieces_of,
    points_line_in,
    raws_in,
    span_record_in,
)
from actions.telemetry.log_reader import LogReader, log_prefilter, read_batch
from actions.telemetry.points import LogValue, TrainingProgress
from actions.telemetry.tools.device_history import SpanCollector
from actions.telemetry.tools.devices import read_devices

_COUNTED = -1
"""Counted progress of source N has the number -1 - N, which distinguishes it from progress read in its log."""
_AT_ONCE = 2_000
"""Values of one write: where all are lost, all of them wait."""
_ENCODER = msgspec.json.Encoder()


class ValueWriter:
    """The log values of one stage: points and progress, with the source of each number.

    A source is written in one step with its first value of each segment. So no order in which files reach a disk or a
    store, and no loss in between, gives a value to another container.

    Args:
        stream: The stream `points`.
    """

    def __init__(self, stream: StreamWriter) -> None:
        self._stream = stream
        self._prefilter = log_prefilter()
        self._stored = self._stored_lines(StreamReader(stream.folder))
        self._known: Counter[int] = Counter()
        """The values in the stream that have been read there, and not yet again in the lines."""
        self._waiting: list[tuple[int, bytes]] = []
        """Values with their numbers."""
        self._named_at: dict[int, int] = {}
        """The place of the segment in which each number was named last."""
        self._names: dict[int, SourceLine] = {}
        self.numbers: set[int] = set()
        """Of the sources of all values in the stream, once `load_rest` was called."""
        self.sources: dict[int, SourceLine] = {}
        """The sources that the stream names, likewise."""

    def name(self, line: SourceLine) -> None:
        """Name the source of a number."""
        self._names[line.number] = line

    def read(self, number: int, reader: LogReader, batch: LogBatch) -> None:
        """Take the values of a batch of lines."""
        if not batch.is_marker:
            self.take(number, read_batch(reader, self._prefilter, batch))

    def take(self, number: int, values: Iterable[LogValue]) -> None:
        """Take values of a source, except those that the stream holds. Nothing is written yet."""
        for value in values:
            line = line_of_value(number, value)
            if not self._is_known(_identity(line)):
                self._waiting.append((number, _ENCODER.encode(line) + b"\n"))

    def _is_known(self, key: int) -> bool:
        """Return whether the stream holds a value, once for each time that it does.

        It has the values in about the order of the lines, so that few of them are in memory.
        """
        while not self._known[key]:
            if next(self._stored, None) is None:
                del self._known[key]
                return False
        self._known[key] -= 1
        if not self._known[key]:
            del self._known[key]
        return True

    def load_rest(self) -> None:
        """Read the stream to its end.

        Raises:
            OSError: It cannot be read.
        """
        for _ in self._stored:
            pass

    def _stored_lines(self, stream: StreamReader) -> Iterator[bool]:
        """Read the stream, and yield after each value."""
        for piece in pieces_of(stream):
            for line in map(points_line_in, raws_in(piece)):
                if isinstance(line, SourceLine):
                    self.sources[line.number] = line
                elif line is not None:
                    self.numbers.add(number_of_value(line))
                    if line.number >= 0:
                        self._known[_identity(line)] += 1
                        yield True

    def flush(self) -> None:
        """Write the values taken so far.

        Raises:
            OSError: The disk is full; they are kept for the next call.
        """
        while self._waiting:
            self._append(self._waiting[:_AT_ONCE])
            del self._waiting[:_AT_ONCE]

    def count(self, number: int, progress: TrainingProgress) -> None:
        """Write progress that was counted, not read in the log.

        Raises:
            OSError: The disk is full.
        """
        self.flush()
        self._append([(number, _ENCODER.encode(line_of_value(_COUNTED - number, progress)) + b"\n")])

    def _append(self, values: list[tuple[int, bytes]]) -> None:
        parts, place = list[bytes](), self._stream.place
        fresh = {number for number, _ in values if self._named_at.get(number) != place} & self._names.keys()
        parts += [_ENCODER.encode(self._names[number]) + b"\n" for number in sorted(fresh)]
        parts += [data for _, data in values]
        self._stream.append(b"".join(parts))
        self._named_at.update(dict.fromkeys(fresh, place))

    def sync(self) -> None:
        """Flush the values taken so far to the disk.

        Raises:
            OSError: The disk refuses it.
        """
        self.flush()
        self._stream.sync()


def _identity(line: PointLine | ProgressLine) -> int:
    """Return a key that is equal for the same value, whatever lines were read before it."""
    if isinstance(line, PointLine):
        return hash((line.number, line.metric, line.step, str(line.value), line.key if line.step is None else ""))
    return hash((line.number, line.label, line.done, line.total, str(line.elapsed_seconds)))


class SampleWriter:
    """A stage's accelerators: the last samples as they are, and all of them joined into spans.

    A crash costs the open span of each pod.

    Args:
        samples: The stream `samples`.
        devices: The stream `devices`.
    """

    def __init__(self, samples: StreamWriter, devices: StreamWriter) -> None:
        self._samples = samples
        self._devices = devices
        self._began: float | None = None
        self._open: dict[str, SpanCollector] = {}

    def take(self, pod: str, sample: AcceleratorSample) -> None:
        """Take a sample. One that has no device in it is in no span.

        Raises:
            OSError: The disk is full; the samples so far are written with the next one.
        """
        self._samples.append(_ENCODER.encode(SampleLine(pod, sample)) + b"\n")
        reading = read_devices(sample.text)
        if not reading.devices:
            return
        if self._began is None:
            self._began = self._first_moment() or sample.at
        span = self._open.setdefault(pod, SpanCollector(pod, sample.node))
        span.add(sample.at, reading)
        if span.is_due(self._began):
            self._write(span)

    def end(self) -> None:
        """Write the open spans.

        Raises:
            OSError: The disk is full; the open spans are lost.
        """
        spans, self._open = self._open, {}
        for span in spans.values():
            self._write(span)

    def _write(self, span: SpanCollector) -> None:
        record = span.record()
        if record is not None:
            self._devices.append(_ENCODER.encode(record) + b"\n")
            span.begin_anew()

    def _first_moment(self) -> float | None:
        """Return the begin of the first span that an earlier runner has written."""
        stretches = StreamReader(self._devices.folder).stretches(0, 1)
        raws = [raw for stretch in stretches for raw in raws_in(stretch)]
        return next((record.since for record in map(span_record_in, raws) if record is not None), None)

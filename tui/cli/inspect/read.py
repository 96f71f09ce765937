"""`eksml-tui read`: the output of a tool or trainer as a table, JSON or plot."""

from __future__ import annotations

import json
import sys
from argparse import Namespace
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import BinaryIO, Protocol, TypeVar

import msgspec

from actions.base.errors import FormatError, UnreadableError, reading
from actions.base.files import open_file
from actions.base.untrusted import one_line, redact
from actions.base.wording import counted, listed
from actions.telemetry.curves import Curves
from actions.telemetry.log_reader import LogStream
from actions.telemetry.points import Point
from actions.telemetry.readings.documents import (
    efa_document,
    nccl_document,
    neuron_document,
    point_document,
    smi_document,
    topology_document,
)
from actions.telemetry.readings.readers import (
    EfaFileReader,
    NcclFileReader,
    NeuronFileReader,
    Reading,
    SmiFileReader,
    TopologyFileReader,
    is_recognized,
)
from actions.telemetry.readings.source import text_pieces, without_margin
from tui.cli.tables.output import formatted
from tui.cli.tables.plots import curves_of, efa_plot, log_plot, nccl_plot, neuron_plot, smi_plot
from tui.present import readings as saved

_STDIN = "-"
_LOSS = "train_loss"
_MOST_NAMED = 12
"""Metrics named in a sentence."""
_POINT_FIELDS = ("step", "metric", "value", "raw", "key", "rank")
_ROWS = {"nccl": "rows", "nvidia-smi": "gpus", "topo": "devices", "neuron": "devices", "efa": "adapters"}
"""The key of each kind's document whose rows make CSV and the wide table."""
Reading_co = TypeVar("Reading_co", bound=Reading, covariant=True)
_UNRECOGNISED = {
    "nccl": "Nothing in it is recognised as output of nccl-tests or nccom-test.",
    "nvidia-smi": "Nothing in it is recognised as output of nvidia-smi.",
    "topo": "Nothing in it is recognised as the matrix of nvidia-smi topo -m.",
    "neuron": "Nothing in it is recognised as output of neuron-ls, neuron-top or neuron-monitor.",
    "efa": "Nothing in it is recognised as output of fi_info, or as a described node.",
}


class _OutputReader(Protocol[Reading_co]):
    """A reader of a tool's output, fed piece by piece."""

    def feed(self, piece: bytes) -> None: ...

    def reading(self) -> Reading_co: ...


def run(options: Namespace) -> int:
    """Read the file, or stdin, to its end.

    Returns:
        0; 1 if nothing in it was recognised.

    Raises:
        UnreadableError: It cannot be read.
    """
    try:
        with reading(), _opened(options.file) as stream:
            missing = _READERS[options.kind](without_margin(text_pieces(stream)), options)
    except FormatError as error:
        raise UnreadableError(error.message, file=options.file) from error
    if missing:
        sys.stderr.write(f"eksml-tui: {missing}\n")
    return 1 if missing else 0


@contextmanager
def _opened(name: str) -> Iterator[BinaryIO]:
    if name == _STDIN:
        yield sys.stdin.buffer
        return
    try:
        with open_file(name, may_be_pipe=True, waits=True) as file:
            file.peek(1)  # a folder opens, and fails here
            yield file
    except BrokenPipeError:
        raise
    except OSError as error:
        raise UnreadableError(f"It cannot be read: {error.strerror or error}.", file=name) from error


def _log(pieces: Iterable[bytes], options: Namespace) -> str:
    stream, seen = LogStream(), set[str]()
    points = _noted(stream, pieces, seen)
    match options.output:
        case "json":
            _print_points(point for point in points if point.raw)
        case "plot":
            _plot_points(points, options.metric)
        case "table":
            _tabulate(points)
        case form:
            documents = [point_document(point) for point in points if point.raw]
            sys.stdout.write(formatted(form, json.dumps(documents, ensure_ascii=False), fields=_POINT_FIELDS))
    for notice in (*sorted(stream.reader.notices), *_unread(stream, seen)):
        sys.stderr.write(f"eksml-tui: {notice}\n")
    return "" if seen else "Nothing in it is recognised as a report of a training."


def _unread(stream: LogStream, seen: set[str]) -> Iterator[str]:
    """Say what looks like a loss and is not among the points, and that there is none where that is certain."""
    count, examples = stream.reader.unread.count, stream.reader.unread.examples
    if count:
        quoted = "; ".join(f"“{one_line(redact(example), limit=160)}”" for example in examples)
        yield f"A loss seems to stand in {counted(count, 'line')} that no reader recognises: {quoted}."
    if seen and _LOSS not in seen:
        yield f"No training loss is recognised; there is {listed(sorted(seen), _MOST_NAMED)}."


def _noted(stream: LogStream, pieces: Iterable[bytes], seen: set[str]) -> Iterator[Point]:
    """Yield the points of a log; note their metrics."""
    for found in _findings(stream, pieces):
        for finding in found:
            if isinstance(finding, Point):
                seen.add(finding.metric)
                yield finding


def _findings(stream: LogStream, pieces: Iterable[bytes]) -> Iterator[list[object]]:
    for piece in pieces:
        yield [*stream.feed(piece)]
        sys.stdout.flush()  # the log may still grow, and be followed
    yield [*stream.finish()]


def _print_points(points: Iterable[Point]) -> None:
    """Print a JSON list of points, each as soon as it is read."""
    opening = "["
    for point in points:
        sys.stdout.write(f"{opening}\n {json.dumps(point_document(point), ensure_ascii=False)}")
        opening = ","
    sys.stdout.write("\n]\n" if opening == "," else "[]\n")


def _tabulate(points: Iterable[Point]) -> None:
    record: list[Point] = []
    for point in points:
        if record and not saved.is_same_record(record[-1], point):
            _print_record(record)
        if not record:
            sys.stdout.write(f"{saved.point_head()}\n")
        record = [*record, point] if record and saved.is_same_record(record[-1], point) else [point]
    if record:
        _print_record(record)


def _print_record(record: list[Point]) -> None:
    sys.stdout.write(f"{saved.point_line(record)}\n")


def _plot_points(points: Iterable[Point], metrics: list[str]) -> None:
    curves = Curves()
    for point in points:
        curves.add(point)
    chosen = curves_of(curves, metrics)
    _print_lines(log_plot(chosen))
    if not chosen and curves.metrics():
        _print_lines([f"This log has: {', '.join(curves.metrics())}."])


def _nccl(pieces: Iterable[bytes], options: Namespace) -> str:
    return _print_reading(
        NcclFileReader(), pieces, options, document=nccl_document, plot=nccl_plot, lines=saved.nccl_lines
    )


def _smi(pieces: Iterable[bytes], options: Namespace) -> str:
    reader = SmiFileReader()
    return _print_reading(
        reader,
        pieces,
        options,
        document=lambda reading: smi_document(reading, answers=reader.answers),
        plot=lambda reading: smi_plot(reading, reader.utilization),
        lines=saved.smi_lines,
    )


def _neuron(pieces: Iterable[bytes], options: Namespace) -> str:
    reader = NeuronFileReader()
    return _print_reading(
        reader,
        pieces,
        options,
        document=lambda reading: neuron_document(reading, records=reader.records),
        plot=lambda reading: neuron_plot(reading, reader.utilization),
        lines=saved.neuron_lines,
    )


def _efa(pieces: Iterable[bytes], options: Namespace) -> str:
    return _print_reading(EfaFileReader(), pieces, options, document=efa_document, plot=efa_plot, lines=saved.efa_lines)


def _print_reading(
    reader: _OutputReader[Reading_co],
    pieces: Iterable[bytes],
    options: Namespace,
    *,
    document: Callable[[Reading_co], dict[str, object]],
    plot: Callable[[Reading_co], Iterable[str]],
    lines: Callable[[Reading_co], Iterable[str]],
) -> str:
    """Read all of it, then print it in the requested form; return a sentence if there is nothing to print."""
    for piece in pieces:
        reader.feed(piece)
    reading = reader.reading()
    if not is_recognized(reading):
        return _UNRECOGNISED[options.kind]
    match options.output:
        case "json":
            _print_document(document(reading))
        case "plot":
            _print_lines(plot(reading))
        case "table":
            _print_lines(lines(reading))
        case form:
            encoded = msgspec.json.encode(document(reading)).decode()
            sys.stdout.write(formatted(form, encoded, rows=_ROWS[options.kind]))
    return ""


def _print_document(document: dict[str, object]) -> None:
    sys.stdout.write(msgspec.json.format(msgspec.json.encode(document), indent=1).decode() + "\n")


def _print_lines(lines: Iterable[str]) -> None:
    for line in lines:
        sys.stdout.write(f"{line}\n")


def _topology(pieces: Iterable[bytes], options: Namespace) -> str:
    return _print_reading(
        TopologyFileReader(),
        pieces,
        options,
        document=topology_document,
        plot=saved.topology_lines,
        lines=saved.topology_lines,
    )


_READERS = {"log": _log, "nccl": _nccl, "nvidia-smi": _smi, "topo": _topology, "neuron": _neuron, "efa": _efa}

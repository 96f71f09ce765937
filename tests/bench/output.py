"""The cost of a stage's output on disk: `python -m tests.bench.output`.

54 MiB of lines of forty pods, in batches as followers give them: appended and sealed, read as bytes, at 300 random
places, from their end, and as lines; 46 MiB of points: the whole curve. Beside each the same bytes written to one file,
or read from one, by nothing but the calls of the kernel. Processor time, the least of three rounds.
"""

from __future__ import annotations

import json
import os
import random
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from actions.cluster.logs.batch import tag_of
from actions.cluster.logs.lines import stamp_of
from actions.run.output.curve_reader import StageCurves
from actions.run.output.reader import OutputReader
from actions.run.output.segments import StreamReader, StreamWriter
from actions.run.output.streams import LINES, POINTS, SOURCES, stream_path
from tests.bench.loglines import log_line
from tui.feeds.output import NEWEST_BYTES, OutputLogFeed

_STAGE = "train"
_PODS = 40
_BATCH = 250
_LINES_BYTES = 54 << 20
_POINTS_BYTES = 46 << 20
_PLACES = 300
_ROUNDS = 3
_BEGAN_NS = 1_764_000_000_000_000_000
_PIECE = 1 << 20


def _batches() -> list[bytes]:
    texts = [log_line(number)[1].encode() for number in range(10_000)]
    found: list[bytes] = []
    size = number = 0
    while size < _LINES_BYTES:
        tag = tag_of(len(found) % _PODS)
        lines = (
            b"%s%s %s\n" % (tag, stamp_of(_BEGAN_NS + at * 1_000_000), texts[at % 10_000])
            for at in range(number, number + _BATCH)
        )
        found.append(b"".join(lines))
        size, number = size + len(found[-1]), number + _BATCH
    return found


def _points() -> list[bytes]:
    found: list[bytes] = []
    size = step = 0
    while size < _POINTS_BYTES:
        found.append(
            b"".join(
                b'{"type":"point","number":0,"metric":"%s","step":%d,"value":%.6f,"at":%.3f}\n'
                % (metric, at, 9.0 / (1 + at / 1000), 1_764_000_000 + at)
                for at in range(step, step + 100)
                for metric in (b"train_loss", b"learning_rate", b"throughput")
            )
        )
        size, step = size + len(found[-1]), step + 100
    return found


def _write(folder: Path, batches: list[bytes]) -> None:
    writer = StreamWriter(folder)
    for batch in batches:
        writer.append(batch)
    writer.close()


def _write_bare(file: Path, batches: list[bytes]) -> None:
    with file.open("wb", buffering=0) as opened:
        for batch in batches:
            opened.write(batch)


def _read(folder: Path) -> None:
    reader, offset = StreamReader(folder), 0
    while parts := reader.stretches(offset, _PIECE):
        offset = parts[-1].end


def _read_bare(file: Path) -> None:
    with file.open("rb", buffering=0) as opened:
        while opened.read(_PIECE):
            pass


def _read_places(folder: Path) -> None:
    reader, chosen = StreamReader(folder), random.Random(1)
    end = reader.end()
    for _ in range(_PLACES):
        reader.stretches(reader.record_at(chosen.randrange(end)), 8192)


def _read_places_bare(file: Path) -> None:
    chosen, end = random.Random(1), file.stat().st_size
    descriptor = os.open(file, os.O_RDONLY)
    for _ in range(_PLACES):
        os.pread(descriptor, 8192, chosen.randrange(end))
    os.close(descriptor)


def _read_lines(folder: Path) -> None:
    reader, offset, following = OutputReader(folder, _STAGE), -1, 0
    while following != offset:
        offset = following
        _, following = reader.tagged_lines(offset)


def _newest_lines(folder: Path) -> None:
    feed = OutputLogFeed(folder, _STAGE, newest_bytes=NEWEST_BYTES)
    while not feed.take(1000):
        pass


def _curve(folder: Path) -> None:
    StageCurves(folder, _STAGE).read_all()


def measure_output(folder: Path) -> dict[str, object]:
    """Measure each way.

    Args:
        folder: For its files.
    """
    lines, points = _batches(), _points()
    count = sum(batch.count(b"\n") for batch in lines)
    found: dict[str, object] = {"lines": count, "points": sum(batch.count(b"\n") for batch in points)}
    places = (folder / str(number) for number in range(1000))
    written, bare = _least(lambda: _write(next(places), lines)), _least(lambda: _write_bare(folder / "bare", lines))
    found["append_and_seal_us_a_line"] = round(written / count * 1e6, 2)
    found["bare_write_us_a_line"] = round(bare / count * 1e6, 2)
    run = folder / "run"
    _write(stream_path(run, _STAGE, LINES), lines)
    _write(stream_path(run, _STAGE, POINTS), points)
    _write(stream_path(run, _STAGE, SOURCES), [_source(number) for number in range(_PODS)])
    stream = stream_path(run, _STAGE, LINES)
    found["on_disk_mib"] = round(sum(path.stat().st_size for path in stream.iterdir()) / 2**20, 1)
    ways: dict[str, Callable[[], None]] = {
        "all_as_bytes": lambda: _read(stream),
        "bare_all": lambda: _read_bare(folder / "bare"),
        "places": lambda: _read_places(stream),
        "bare_places": lambda: _read_places_bare(folder / "bare"),
        "all_as_lines": lambda: _read_lines(run),
        "newest_lines": lambda: _newest_lines(run),
        "whole_curve": lambda: _curve(run),
    }
    found |= {f"{name}_seconds": round(_least(way), 4) for name, way in ways.items()}
    return found


def _source(number: int) -> bytes:
    return b'{"type":"source","number":%d,"namespace":"n","pod":"pod-%d","container":"c","uid":"%d"}\n' % (
        (number,) * 3
    )


def _least(way: Callable[[], None]) -> float:
    took = []
    for _ in range(_ROUNDS):
        began = time.process_time()
        way()
        took.append(time.process_time() - began)
    return min(took)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(prefix="eksml-bench-output-") as name:
        assert OutputReader(Path(name), _STAGE).lines()[0] == []
        sys.stdout.write(json.dumps(measure_output(Path(name)), indent=2) + "\n")

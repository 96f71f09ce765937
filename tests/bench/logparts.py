"""The cost of each part of the way of a log line, without a server: `python -m tests.bench.logparts [PART…]`.

The same lines as in `tests.bench.logs`, cut where a kubelet cuts. `bare` is what any client has to do with them: cut
them, and take the timestamp off. Processor time in microseconds a line, the best of three rounds. With the names of
parts, these alone are done, once and untimed: for a profiler that counts instructions.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from actions.base.line_cutter import LineCutter
from actions.cluster.logs.batch import LogBatch, read_lines
from actions.cluster.logs.lines import KUBELET_LOG
from actions.run.output.reader import OutputReader
from actions.run.output.writer import OutputWriter
from actions.telemetry.log_reader import LogReader, log_prefilter, read_batch
from tests.bench.loglines import LINES, NAMESPACE, log_line
from tui.feeds.output import OutputLogFeed
from tui.widgets.log_buffer import LogBuffer

_LOGS = 8
_CHUNK_BYTES = 4082
_ROUNDS = 3
_STAGE = "train"
_TAKEN = 5_000


class Parts:
    """One log of some chunks, taken several times over, and what becomes of it on the way."""

    def __init__(self, folder: Path) -> None:
        log = "".join(f"{stamp} {text}\n" for stamp, text in map(log_line, range(LINES))).encode()
        self._chunks = [log[at : at + _CHUNK_BYTES] for at in range(0, len(log), _CHUNK_BYTES)]
        self._batches = [self._batches_of_log() for _ in range(_LOGS)]
        self._folder = folder
        self._rounds = 0
        self.store()

    def bare(self) -> None:
        """Do the work of the bare client."""
        for _ in range(_LOGS):
            rest = b""
            for chunk in self._chunks:
                *lines, rest = (rest + chunk).split(b"\n")
                [line.partition(b" ") for line in lines]

    def filter(self) -> None:
        """Cut, look at stamps, clean."""
        for _ in range(_LOGS):
            self._batches_of_log()

    def curves(self) -> None:
        """Find points and progress."""
        prefilter = log_prefilter()
        for log in self._batches:
            reader = LogReader()
            for batch in log:
                read_batch(reader, prefilter, batch)

    def sieve(self) -> None:
        """Of that, only find the lines that are worth a look."""
        prefilter = log_prefilter()
        for log in self._batches:
            for batch in log:
                prefilter.pick(batch.data)

    def store(self) -> None:
        """Write to disk, with what is found in the lines."""
        self._rounds += 1
        writer = OutputWriter(self._place, _STAGE)
        logs = [
            (writer.source(NAMESPACE, f"pod-{number}", "main", str(number)), self._batches[number])
            for number in range(_LOGS)
        ]
        for at in range(len(self._batches[0])):
            for source, batches in logs:
                writer.write(source, batches[at])
        writer.close()

    def read_back(self) -> None:
        """From disk, as lines of one sequence."""
        reader, offset = OutputReader(self._place, _STAGE), -1
        following = 0
        while following != offset:
            offset = following
            _, following = reader.tagged_lines(offset)

    def merge(self) -> None:
        """From disk, in the order of time."""
        feed = OutputLogFeed(self._place, _STAGE)
        while feed.has_more:
            feed.take(_TAKEN)

    def show(self) -> None:
        """From disk, in the order of time, into what the log pane keeps."""
        feed, buffer = OutputLogFeed(self._place, _STAGE), LogBuffer()
        while feed.has_more:
            buffer.extend_tagged(feed.take(_TAKEN), feed.source_of)

    @property
    def _place(self) -> Path:
        return self._folder / str(self._rounds)

    def _batches_of_log(self) -> list[LogBatch]:
        cutter = LineCutter(KUBELET_LOG)
        return [batch for chunk in self._chunks for batch in read_lines(cutter.feed(chunk), previous_ns=0)]


def measure_log_parts(folder: Path) -> dict[str, float]:
    """Microseconds of processor time a line, by part.

    Args:
        folder: For its files.
    """
    parts = Parts(folder)
    ways = (parts.bare, parts.filter, parts.sieve, parts.curves, parts.store, parts.read_back, parts.merge, parts.show)
    return {way.__name__: round(_best(way), 3) for way in ways}


def _best(way: Callable[[], None]) -> float:
    took = []
    for _ in range(_ROUNDS):
        began = time.process_time()
        way()
        took.append(time.process_time() - began)
    return min(took) / (LINES * _LOGS) * 1e6


def main(names: list[str]) -> None:
    """Print the figures, or only do what was named."""
    with tempfile.TemporaryDirectory(prefix="eksml-bench-parts-") as name:
        if not names:
            sys.stdout.write(json.dumps(measure_log_parts(Path(name))) + "\n")
            return
        parts = Parts(Path(name))
        for each in names:
            getattr(parts, each)()


if __name__ == "__main__":
    main(sys.argv[1:])

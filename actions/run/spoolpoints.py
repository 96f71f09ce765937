"""The findings in a stage's lines, on their way into `points.jsonl`: each finding once, and none lost on a full disk.

Findings follow from the lines. After a crash, or when the file was damaged, the lines are read again and what the file
holds already is skipped. What cannot be written now is written before the next line is taken.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import msgspec

from actions.cluster.logs.batch import LogBatch
from actions.run.spoolfile import AppendOnly, replace_damaged
from actions.run.spoolformat import Finding, PointLine, ProgressLine, finding_line_in, line_of_finding, whole_lines
from actions.telemetry.log_reader import LogReader, log_sieve, read_batch
from actions.telemetry.points import Progress

_COUNTED = -1
"""Counted progress has the number -1 - N, so that it is told from what was read in the log of source N."""
_ENCODER = msgspec.json.Encoder()


class PointsBook:
    """The findings of one stage.

    Args:
        file: `points.jsonl`.
    """

    def __init__(self, file: AppendOnly) -> None:
        self._file = file
        self._sieve = log_sieve()
        self._known: Counter[int] = Counter()
        self._waiting: list[bytes] = []

    def load(self) -> int:
        """Look through the file; what is damaged is left out of it from now on.

        Returns:
            How many of its lines were damaged.

        Raises:
            OSError: There is no room to mend it.
        """
        offset, damaged, good = 0, 0, list[tuple[int, int]]()
        while True:
            raws, end = whole_lines(self._file.path, offset, 1 << 20)
            if end == offset:
                break
            for raw in raws:
                line = finding_line_in(raw)
                if line is None:
                    damaged += 1
                else:
                    good.append((offset, offset + len(raw) + 1))
                    if line.number >= 0:
                        self._known[_identity(line)] += 1
                offset += len(raw) + 1
        if damaged:
            replace_damaged(self._file.path, good)
            self._file.close()
            self._file = AppendOnly(self._file.path)
        return damaged

    def read(self, number: int, reader: LogReader, batch: LogBatch) -> None:
        """Take what a batch of lines says."""
        if not batch.is_marker:
            self.take(number, read_batch(reader, self._sieve, batch))

    def take(self, number: int, findings: Iterable[Finding]) -> None:
        """Take findings of a source, but those that the file holds. Nothing is written yet."""
        for finding in findings:
            line = line_of_finding(number, finding)
            known = _identity(line)
            if self._known.get(known):
                self._known[known] -= 1
                if not self._known[known]:
                    del self._known[known]
            else:
                self._waiting.append(_ENCODER.encode(line) + b"\n")

    def flush(self) -> None:
        """Write what was taken.

        Raises:
            OSError: There is no room; all of it waits.
        """
        if self._waiting:
            self._file.append(b"".join(self._waiting))
            self._waiting = []

    def count(self, number: int, progress: Progress) -> None:
        """Write a progress that was counted, not read in the log.

        Raises:
            OSError: There is no room.
        """
        self.flush()
        self._file.append(_ENCODER.encode(line_of_finding(_COUNTED - number, progress)) + b"\n")

    def sync(self) -> None:
        """Have on disk what was taken.

        Raises:
            OSError: It cannot be.
        """
        self.flush()
        self._file.sync()

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def _identity(line: PointLine | ProgressLine) -> int:
    """The same for what is the same finding, also when the lines before it were read another time."""
    if isinstance(line, PointLine):
        return hash((line.number, line.metric, line.step, str(line.value), line.key if line.step is None else ""))
    return hash((line.number, line.label, line.done, line.total, str(line.elapsed_seconds)))

"""The feeds of a run's output: the log, curves and progress of a stage, also of deleted pods."""

from __future__ import annotations

from itertools import compress, count, pairwise
from operator import ne
from pathlib import Path
from typing import NamedTuple

from actions.cluster.logs.batch import stamp_in, tag_in
from actions.run.output.reader import OutputReader
from actions.run.state.view import RunView, StageState
from actions.telemetry.curves import Curves
from actions.telemetry.points import TrainingProgress
from tui.feeds.logs import TimeOrder

CHUNK_BYTES = 256 * 1024
"""Bytes read at once: some milliseconds of the loop."""
AT_WORK = (StageState.RUNNING, StageState.UNKNOWN)


def watched_stage(view: RunView, folder: Path) -> str | None:
    """Return the stage whose log to show: the one at work, else the last one that printed anything."""
    printed = [stage for stage in view.stages if _has_printed(_reader_of(folder, stage.id))]
    at_work = [stage for stage in printed if stage.state in AT_WORK]
    chosen = at_work or printed
    return chosen[-1].id if chosen else None


def _has_printed(reader: OutputReader) -> bool:
    return reader.has_lines() or reader.has_findings()


def sampled_stage(view: RunView, folder: Path) -> str | None:
    """Return the last stage whose accelerators were kept over time."""
    kept = (stage.id for stage in reversed(view.stages) if _reader_of(folder, stage.id).device_bytes())
    return next(kept, None)


def place_of(view: RunView, stage: str) -> str:
    """Name a stage for titles: `RUN/STAGE`, and the name of its workload once that is made: `RUN/train · esm1nv`."""
    from actions.cluster.kinds import JOB_NAMES

    jobs = [item.name for item in view.owned if item.stage == stage and item.kind in JOB_NAMES]
    return f"{view.id}/{stage} · {jobs[-1]}" if jobs else f"{view.id}/{stage}"


class OutputLogFeed:
    """The log lines of one stage, from the first one on, in the order of their timestamps.

    Lines are stored as they arrive, and those of one container may be late. So existing lines are sorted as a whole,
    and the newest second of live ones is held back until newer lines, or none, have come. A later line stays where it
    arrived.

    Args:
        folder: The run's folder.
        stage: Id of the stage.
    """

    def __init__(self, folder: Path, stage: str) -> None:
        self.folder = folder
        self.stage = stage
        self.title = f"{folder.name}/{stage}"
        self.has_more = True
        self._reader = _reader_of(folder, stage)
        self._backlog: Backlog | None = _backlog_of(self._reader)
        self._offset = 0
        self._order = TimeOrder()

    def take(self, limit: int) -> list[bytes]:
        """Return the next lines in order.

        Raises:
            JournalError: The output cannot be read.
        """
        if self._backlog is not None:
            taken = self._backlog.take(limit)
            if self._backlog.is_taken:
                self._offset = self._backlog.offset
                self._backlog = None
                self.has_more = False
            return taken
        return self._take_live(limit)

    def _take_live(self, limit: int) -> list[bytes]:
        taken = self._order.take(limit, is_quiet=False)
        self.has_more = len(taken) == limit
        if self.has_more:
            return taken
        records, offset = self._reader.tagged_lines(self._offset, limit_bytes=CHUNK_BYTES)
        was, self._offset = self._offset, offset
        self._order.put(records)
        taken += self._order.take(limit - len(taken), is_quiet=not records)
        self.has_more = len(taken) == limit or offset - was >= CHUNK_BYTES // 2
        return taken

    @property
    def holds_back(self) -> bool:
        """True if the newest lines wait for older ones."""
        return len(self._order) > 0

    def source_of(self, number: int) -> str:
        """Return the pod."""
        return self._reader.pod_of(number)


class OutputCurves:
    """The curves and progress of one stage.

    Args:
        folder: The run's folder.
        stage: Id of the stage.
    """

    def __init__(self, folder: Path, stage: str) -> None:
        self.title = stage
        self.folder = folder
        self.stage = stage
        self.curves = Curves()
        self.progress: dict[tuple[str, str], TrainingProgress] = {}
        """Newest state by pod and label; the one that moved last is at the end."""
        self.revision = 0
        self._reader = _reader_of(folder, stage)
        self._offset = 0

    def read_on(self) -> bool:
        """Read what has been written since.

        Returns:
            Whether more may be waiting.

        Raises:
            JournalError: The output cannot be read.
        """
        findings, offset = self._reader.findings(self._offset, limit_bytes=CHUNK_BYTES)
        was, self._offset = self._offset, offset
        for item in findings:
            if isinstance(item.finding, TrainingProgress):
                key = item.pod, item.finding.label
                self.progress.pop(key, None)
                self.progress[key] = item.finding
            else:
                self.curves.add(item.finding)
        if findings:
            self.revision += 1
        return offset - was >= CHUNK_BYTES // 2


class OwnProgress:
    """The time that a stage still takes by what its pods print: newer and nearer than what its blueprint expects.

    Args:
        folder: The run's folder.
        stage: Id of the stage.
    """

    def __init__(self, folder: Path, stage: str) -> None:
        self.folder = folder
        self.stage = stage
        self._reader = _reader_of(folder, stage)
        self._offset = self._reader.findings_tail(CHUNK_BYTES)
        self._newest: dict[str, TrainingProgress] = {}

    def left_seconds(self) -> float | None:
        """Read on, and return the longest time that a pod's newest bar gives; `None` while none gives any.

        Raises:
            JournalError: The output cannot be read.
        """
        findings, self._offset = self._reader.findings(self._offset, limit_bytes=CHUNK_BYTES)
        for item in findings:
            if isinstance(item.finding, TrainingProgress):
                self._newest[item.pod] = item.finding
        known = [state for state in self._newest.values() if state.total and 0 < state.done < state.total]
        return max((state.remaining_seconds for state in known if state.remaining_seconds is not None), default=None)


def _reader_of(folder: Path, stage: str) -> OutputReader:
    from actions.run.output.reader import OutputReader  # imports the log readers: after the first frame

    return OutputReader(folder, stage)


def _backlog_of(reader: OutputReader) -> Backlog:

    return Backlog(reader)


_SCAN_BYTES = 256 * 1024
_RUN_LINES = 256
_RUNS = 48


class _SortedRun(NamedTuple):
    """Consecutive lines of one log, with their byte range `[place, end)` in the file."""

    first_stamp: bytes
    place: int
    end: int


class Backlog:
    """A reader of existing lines in order: it scans the output once for runs of lines, then reads these by time.

    Each log is in order by itself. So, with runs sorted by their first lines, no later run has a line older than the
    first line of the next one; only the lines of a few runs are held at a time.

    Args:
        reader: Reader of the output.
    """

    def __init__(self, reader: OutputReader) -> None:
        self.offset = 0
        """Offset up to which the output has been scanned."""
        self._reader = reader
        self._runs: list[_SortedRun] = []
        self._order = TimeOrder()
        self._is_scanned = False

    @property
    def is_taken(self) -> bool:
        """True if all lines up to `offset` have been taken."""
        return self._is_scanned and not self._runs and not len(self._order)

    def take(self, limit: int) -> list[bytes]:
        """Take about `limit` next lines at most; none during the scan.

        Raises:
            JournalError: The output cannot be read.
        """
        if not self._is_scanned:
            self._scan()
            return []
        taken = self._take(limit)
        while not taken and self._runs:
            self._read_on()
            taken = self._take(limit)
        return taken

    def _take(self, limit: int) -> list[bytes]:
        before = self._runs[-1].first_stamp if self._runs else None
        return self._order.take_before(before, limit)

    def _scan(self) -> None:
        """Scan the next piece."""
        records, begins, reached = self._reader.placed_lines(self.offset, limit_bytes=_SCAN_BYTES)
        tags = list(map(tag_in, records))
        places = [*begins, reached]
        cuts = [0, *compress(count(1), map(ne, tags, tags[1:])), len(records)]
        for first, behind in pairwise(cuts):
            for begin in range(first, behind, _RUN_LINES):
                end = min(begin + _RUN_LINES, behind)
                self._runs.append(_SortedRun(stamp_in(records[begin]), places[begin], places[end]))
        self._is_scanned = reached - self.offset < _SCAN_BYTES // 2
        self.offset = reached
        if self._is_scanned:
            self._runs.sort(reverse=True)  # the next one is at the end; among equals, the first in the file

    def _read_on(self) -> None:
        """Read the runs that are next."""
        runs = [self._runs.pop() for _ in range(min(_RUNS, len(self._runs)))]
        self._order.put(self._reader.tagged_lines_at((run.place, run.end) for run in runs))

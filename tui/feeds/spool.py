"""The feeds of a run's spool: the log, curves and progress of a stage, also of deleted pods."""

from __future__ import annotations

from itertools import compress, count, pairwise
from operator import ne
from pathlib import Path
from typing import NamedTuple

from actions.cluster.logs.batch import stamp_in, tag_in
from actions.run.spool.reader import SpoolReader
from actions.run.state.view import RunView, StageState
from actions.telemetry.curves import Curves
from actions.telemetry.points import TrainingProgress
from tui.feeds.logs import TimeOrder

CHUNK_BYTES = 256 * 1024
"""Read at once: some milliseconds of the loop."""
_AT_WORK = (StageState.RUNNING, StageState.UNKNOWN)


def watched_stage(view: RunView, folder: Path) -> str | None:
    """The stage whose log somebody wants to see: the one at work, else the last one that printed anything."""
    printed = [stage for stage in view.stages if _reader_of(folder, stage.id).has_lines()]
    at_work = [stage for stage in printed if stage.state in _AT_WORK]
    chosen = at_work or printed
    return chosen[-1].id if chosen else None


class SpoolLogFeed:
    """The log lines of one stage, from the first one on, in the order of their timestamps.

    Containers are spooled as they arrive, and one may arrive late. So what is there already is sorted as a whole, and
    of what comes live the newest second is held back until something newer, or nothing, has come. What is later than
    that stands where it arrived.

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
        """The next lines whose turn it is.

        Raises:
            JournalError: The disk does not give it.
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
        records, offset = self._reader.records(self._offset, limit_bytes=CHUNK_BYTES)
        was, self._offset = self._offset, offset
        self._order.put(records)
        taken += self._order.take(limit - len(taken), is_quiet=not records)
        self.has_more = len(taken) == limit or offset - was >= CHUNK_BYTES // 2
        return taken

    @property
    def holds_back(self) -> bool:
        """Whether the newest lines wait for what is older."""
        return len(self._order) > 0

    def source_of(self, number: int) -> str:
        """The pod."""
        return self._reader.pod_of(number)


class SpoolCurves:
    """Curves and progress of one stage.

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
        """The newest state by pod and label, what moved last at the end."""
        self.revision = 0
        self._reader = _reader_of(folder, stage)
        self._offset = 0

    def read_on(self) -> bool:
        """Take up what has been written since.

        Returns:
            Whether more may be waiting.

        Raises:
            JournalError: The disk does not give it.
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
        return offset - was >= CHUNK_BYTES


def _reader_of(folder: Path, stage: str) -> SpoolReader:
    from actions.run.spool.reader import SpoolReader  # brings the log readers along: after the first frame

    return SpoolReader(folder, stage)


def _backlog_of(reader: SpoolReader) -> Backlog:

    return Backlog(reader)


_SCAN_BYTES = 256 * 1024
_RUN_LINES = 256
_RUNS = 48


class _SortedRun(NamedTuple):
    """Consecutive lines of one log. `place` and `end` are where in the file they stand."""

    first_stamp: bytes
    place: int
    end: int


class Backlog:
    """Looks through the spool once for where which lines stand, then reads them in their order.

    A log is in order by itself. So nothing that comes later in the list of its runs, sorted by their first lines, is
    older than the first line of the next run; only the lines of a few runs are held at a time.

    Args:
        reader: Of the spool.
    """

    def __init__(self, reader: SpoolReader) -> None:
        self.offset = 0
        """Up to where it has been looked through."""
        self._reader = reader
        self._runs: list[_SortedRun] = []
        self._order = TimeOrder()
        self._is_scanned = False

    @property
    def is_taken(self) -> bool:
        """Whether everything up to `offset` has been taken."""
        return self._is_scanned and not self._runs and not len(self._order)

    def take(self, limit: int) -> list[bytes]:
        """The next lines, about `limit` at most; none while it is being looked through.

        Raises:
            JournalError: The disk does not give it.
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
        """Look through the next piece."""
        records, begins, reached = self._reader.raw_records(self.offset, limit_bytes=_SCAN_BYTES)
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
            self._runs.sort(reverse=True)  # the next one is at the end, and of equal ones the first in the file

    def _read_on(self) -> None:
        """Read the runs whose turn it is."""
        runs = [self._runs.pop() for _ in range(min(_RUNS, len(self._runs)))]
        self._order.put(self._reader.records_at((run.place, run.end) for run in runs))

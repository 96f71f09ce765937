"""The feeds of a run's output: the log, curves and progress of a stage, also of deleted pods."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from itertools import compress, count, pairwise
from operator import ne
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from actions.base.executors import NamedExecutor
from actions.base.wording import counted
from actions.cluster.logs.batch import stamp_in, tag_in
from actions.run.state.view import RunView, StageState
from actions.telemetry.points import TrainingProgress
from tui.feeds.logs import TimeOrder

if TYPE_CHECKING:
    from actions.run.output.curve_reader import StageCurves
    from actions.run.output.reader import OutputReader

CHUNK_BYTES = 256 * 1024
"""Bytes read at once: some milliseconds of the loop."""
NEWEST_BYTES = 512 * 1024
"""Bytes of the newest lines, which are shown before all others."""
_MOST_CURVES = 16
"""Stages whose curves stay in memory after nothing asks for them any more."""
AT_WORK = (StageState.RUNNING, StageState.UNKNOWN)


def watched_stage(view: RunView, folder: Path) -> str | None:
    """Return the stage whose log to show: the one at work, else the last one that printed anything."""
    printed = [stage for stage in view.stages if _has_printed(_reader_of(folder, stage.id))]
    at_work = [stage for stage in printed if stage.state in AT_WORK]
    chosen = at_work or printed
    return chosen[-1].id if chosen else None


def _has_printed(reader: OutputReader) -> bool:
    return reader.has_lines() or reader.has_values()


def sampled_stage(view: RunView, folder: Path) -> str | None:
    """Return the last stage whose accelerators were kept over time."""
    kept = (stage.id for stage in reversed(view.stages) if _reader_of(folder, stage.id).device_bytes())
    return next(kept, None)


def lost_text(count: int) -> str:
    """Return the words for a border that damaged segments were passed over; empty for none."""
    return f" · {counted(count, 'damaged segment')} skipped" if count else ""


def place_of(view: RunView, stage: str) -> str:
    """Name a stage for titles: `RUN/STAGE`, and the name of its workload once that is made: `RUN/train · esm1nv`."""
    from actions.cluster.kinds import JOB_NAMES

    jobs = [item.name for item in view.owned if item.stage == stage and item.kind in JOB_NAMES]
    return f"{view.id}/{stage} · {jobs[-1]}" if jobs else f"{view.id}/{stage}"


class OutputLogFeed:
    """The log lines of one stage in the order of their timestamps, from the first one on or the newest ones alone.

    Lines are stored as they arrive, and those of one container may be late. So existing lines are sorted as a whole,
    and the newest second of live ones is held back until newer lines, or none, have come. A later line stays where it
    arrived.

    Args:
        folder: The run's folder.
        stage: Id of the stage.
        newest_bytes: Begin so many bytes before the end, sorted among themselves; 0 for all lines.
    """

    def __init__(self, folder: Path, stage: str, *, newest_bytes: int = 0) -> None:
        self.folder = folder
        self.stage = stage
        self.title = f"{folder.name}/{stage}"
        self.has_more = True
        self._reader = _reader_of(folder, stage)
        self._backlog = None if newest_bytes else Backlog(self._reader)
        self._offset = self._reader.tail_offset(newest_bytes) if newest_bytes else 0
        self._piece_bytes = newest_bytes or CHUNK_BYTES
        self._order = TimeOrder()

    @property
    def offset(self) -> int:
        """The place up to which lines have been read; -1 while the past is sorted."""
        return self._offset if self._backlog is None else -1

    @property
    def share(self) -> float:
        """The share of the lines that there were which has been taken, from 0 to 1."""
        return self._backlog.share if self._backlog is not None else 1.0

    @property
    def lost(self) -> int:
        """The number of damaged or missing segments that were passed over."""
        return self._reader.lost_lines

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
        records, offset = self._reader.tagged_lines(self._offset, limit_bytes=self._piece_bytes)
        was, self._offset = self._offset, offset
        self._order.put(records)
        taken += self._order.take(limit - len(taken), is_quiet=not records)
        self.has_more = len(taken) == limit or offset - was >= self._piece_bytes // 2
        return taken

    @property
    def holds_back(self) -> bool:
        """True if the newest lines wait for older ones."""
        return len(self._order) > 0

    def source_of(self, number: int) -> str:
        """Return the pod."""
        return self._reader.pod_of(number)


class CurveFeed:
    """The one reader of curves: panes share what it has read. Used on the loop only.

    What is long is read to its end in a thread, once. From then on whoever asks for the curves reads what is new.

    Args:
        changed: Called when curves have become complete.
    """

    def __init__(self, changed: Callable[[], None]) -> None:
        self._changed = changed
        self._known: dict[tuple[Path, str], StageCurves] = {}
        self._reading: dict[tuple[Path, str], asyncio.Future[None]] = {}
        self._disk: NamedExecutor | None = None

    def of(self, folder: Path, stage: str) -> StageCurves:
        """Return the curves of a stage, read on if they are complete; else they become so in the background.

        Raises:
            JournalError: The output cannot be read; the next call tries again.
        """
        key = folder, stage
        if (reading := self._reading.get(key)) is not None:
            if not reading.done():
                return self._known[key]
            del self._reading[key]
            reading.result()
        curves = self._known.pop(key, None) or _curves_of(folder, stage)
        self._known[key] = curves  # the ones that were asked for last are at the end
        if curves.read_on() and not curves.is_complete:
            self._reading[key] = asyncio.ensure_future(self._read(curves))
        for old in [old for old in self._known if old not in self._reading][:-_MOST_CURVES]:
            del self._known[old]
        return curves

    async def _read(self, curves: StageCurves) -> None:
        self._disk = self._disk or NamedExecutor("curves")
        try:
            await self._disk.call(curves.read_all)
        finally:
            self._changed()

    def close(self) -> None:
        """Start nothing more."""
        for reading in self._reading.values():
            reading.cancel()
        if self._disk is not None:
            self._disk.close()


class OwnProgress:
    """The time that a stage still takes by what its pods print: newer and nearer than what its blueprint expects.

    Args:
        folder: The run's folder.
        stage: Id of the stage.
        attempt: The number of its attempt.
        only_new: Take nothing that is stored already: it is of an attempt before.
    """

    def __init__(self, folder: Path, stage: str, attempt: int, *, only_new: bool) -> None:
        self.folder = folder
        self.stage = stage
        self.attempt = attempt
        self._reader = _reader_of(folder, stage)
        self._offset = self._reader.values_end() if only_new else self._reader.values_tail(CHUNK_BYTES)
        self._newest: dict[str, TrainingProgress] = {}

    def left_seconds(self) -> float | None:
        """Read on, and return the longest time that a pod's newest bar gives; `None` while none gives any.

        Raises:
            JournalError: The output cannot be read.
        """
        values, self._offset = self._reader.values(self._offset, limit_bytes=CHUNK_BYTES)
        for item in values:
            if isinstance(item.value, TrainingProgress):
                self._newest[item.pod] = item.value
        known = [state for state in self._newest.values() if state.total and 0 < state.done < state.total]
        return max((state.remaining_seconds for state in known if state.remaining_seconds is not None), default=None)


def _curves_of(folder: Path, stage: str) -> StageCurves:
    from actions.run.output.curve_reader import StageCurves  # likewise

    return StageCurves(folder, stage)


def _reader_of(folder: Path, stage: str) -> OutputReader:
    from actions.run.output.reader import OutputReader  # imports the log readers: after the first frame

    return OutputReader(folder, stage)


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
        self._count = 0
        """The number of runs of lines."""

    @property
    def share(self) -> float:
        """The share of the lines that has been taken, from 0 to 1."""
        return 1 - len(self._runs) / self._count if self._is_scanned and self._count else 0.0

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
            self._count = len(self._runs)
            self._runs.sort(reverse=True)  # the next one is at the end; among equals, the first in the file

    def _read_on(self) -> None:
        """Read the runs that are next."""
        runs = [self._runs.pop() for _ in range(min(_RUNS, len(self._runs)))]
        self._order.put(self._reader.tagged_lines_at((run.place, run.end) for run in runs))

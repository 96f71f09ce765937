"""What the runner spooled of a stage: its log, its curves, its progress, also of pods that are gone."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from actions.run.state.view import RunView, StageState
from actions.telemetry.curves import Curves
from actions.telemetry.points import Progress
from tui.live.time_order import TimeOrder

if TYPE_CHECKING:
    from actions.run.spool.reader import SpoolReader
    from tui.live.backlog import Backlog

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
        self.progress: dict[tuple[str, str], Progress] = {}
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
            if isinstance(item.finding, Progress):
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
    from tui.live.backlog import Backlog

    return Backlog(reader)

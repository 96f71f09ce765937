"""What the runner spooled of a stage: its log, its curves, its progress, also of pods that are gone."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from actions.run.view import RunView, StageState
from actions.telemetry.curves import Curves
from actions.telemetry.points import Progress
from tui.live.log_feeds import Gathered

if TYPE_CHECKING:
    from actions.run.spoolreader import SpoolReader

CHUNK_BYTES = 256 * 1024
"""Read at once: a few milliseconds of the loop."""
_AT_WORK = (StageState.RUNNING, StageState.UNKNOWN)


def watched_stage(view: RunView, folder: Path) -> str | None:
    """The stage whose log somebody wants to see: the one at work, else the last one that printed anything."""
    printed = [stage for stage in view.stages if _reader_of(folder, stage.id).has_lines()]
    at_work = [stage for stage in printed if stage.state in _AT_WORK]
    chosen = at_work or printed
    return chosen[-1].id if chosen else None


class SpoolLogFeed:
    """The log lines of one stage, from the first one on.

    Args:
        folder: The run's folder.
        stage: Id of the stage.
    """

    def __init__(self, folder: Path, stage: str) -> None:
        self.folder = folder
        self.stage = stage
        self.title = f"{folder.name}/{stage}"
        self._reader = _reader_of(folder, stage)
        self._offset = 0
        self._waiting: list[Gathered] = []

    def take(self, limit: int) -> Sequence[Gathered]:
        """The next lines, those of one chunk of the spool in the order of their timestamps.

        Raises:
            FormatError: The spool is damaged.
        """
        if not self._waiting:
            lines, self._offset = self._reader.lines(self._offset, limit_bytes=CHUNK_BYTES)
            lines.sort(key=lambda line: line.at_ns)
            self._waiting = [Gathered(line.text, line.pod, line.at_ns, line.is_marker) for line in lines]
        taken, self._waiting = self._waiting[:limit], self._waiting[limit:]
        return taken


class SpoolCurves:
    """Curves and progress of one stage.

    Args:
        folder: The run's folder.
        stage: Id of the stage.
    """

    def __init__(self, folder: Path, stage: str) -> None:
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
            FormatError: The spool is damaged.
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
    from actions.run.spoolreader import SpoolReader  # brings the log readers along: after the first frame

    return SpoolReader(folder, stage)

"""The curves of one stage, read on from its output while that grows: by panes, alarms, comparisons and commands."""

from __future__ import annotations

from pathlib import Path

from actions.run.output.reader import OutputReader
from actions.telemetry.curves import Curves
from actions.telemetry.points import TrainingProgress

PIECE_BYTES = 256 * 1024
"""Bytes read at once: some milliseconds."""
CAPACITY = 2048
"""Samples that a screen has room for."""


class StageCurves:
    """The curves and progress of one stage. Used by one thread at a time.

    Before `is_complete` they are those of the past: no value in them is the present one, and no alarm is due.

    Args:
        folder: The run's folder.
        stage: Id of the stage.
        capacity: Samples kept of each metric.
    """

    def __init__(self, folder: Path, stage: str, *, capacity: int = CAPACITY) -> None:
        self.title = stage
        self.folder = folder
        self.stage = stage
        self.curves = Curves(capacity)
        self.progress: dict[tuple[str, str], TrainingProgress] = {}
        """Newest state by pod and label; the one that moved last is at the end."""
        self.moved_at: dict[tuple[str, str], float] = {}
        """The time of the newest point that the pod had printed before each state of `progress`, where it has one."""
        self.revision = 0
        """Rises with every piece that has values."""
        self.is_complete = False
        """All that there was has been read; it stays so."""
        self.read_bytes = 0
        self.size_bytes = 0
        """The length of the output at the first look; known from then on."""
        self._printed_at: dict[str, float] = {}
        self._reader = OutputReader(folder, stage)

    @property
    def lost(self) -> int:
        """The number of damaged or missing segments that were passed over."""
        return self._reader.lost_values

    def read_on(self) -> bool:
        """Read a piece of what has been written since.

        Returns:
            Whether more may be waiting.

        Raises:
            JournalError: The output cannot be read.
        """
        if not self.is_complete:
            self.size_bytes = self.size_bytes or self._reader.values_end()
        values, end = self._reader.values(self.read_bytes, limit_bytes=PIECE_BYTES)
        was, self.read_bytes = self.read_bytes, end
        for item in values:
            if isinstance(item.value, TrainingProgress):
                key = item.pod, item.value.label
                self.progress.pop(key, None)
                self.progress[key] = item.value
                if item.pod in self._printed_at:
                    self.moved_at[key] = self._printed_at[item.pod]
            else:
                self.curves.add(item.value)
                if item.value.at is not None:
                    self._printed_at[item.pod] = item.value.at
        if values:
            self.revision += 1
        has_more = end - was >= PIECE_BYTES // 2
        self.is_complete = self.is_complete or not has_more
        return has_more

    def read_all(self) -> None:
        """Read to the end. Blocking.

        Raises:
            JournalError: The output cannot be read.
        """
        while self.read_on():
            pass

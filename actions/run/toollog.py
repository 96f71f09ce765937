"""What a program that a stage runs has written, in the stage's spool; its newest line is the stage's note."""

from __future__ import annotations

from types import TracebackType
from typing import Self

from actions.base.untrusted import clean_text, one_line
from actions.cluster.loglines import LogLine
from actions.run.spool import SpooledSource, SpoolWriter
from actions.run.work import StageWork


class ToolLog:
    """Open while the program runs.

    Args:
        work: The stage.
        program: Stands where a pod's name would.
        operation: Stands where a container's name would.
    """

    def __init__(self, work: StageWork, program: str, operation: str) -> None:
        self._work = work
        self._program = program
        self._operation = operation
        self._writer: SpoolWriter | None = None
        self._source: SpooledSource | None = None

    def take(self, text: str) -> None:
        """One line of the program's output."""
        line = clean_text(text)
        if line.strip():
            self._work.journal.note(one_line(line))
        if self._writer is not None and self._source is not None:
            now = int(self._work.clock.now().timestamp() * 1e9)
            self._writer.write_lines(self._source, [LogLine(now, line)])

    def __enter__(self) -> Self:
        writer = self._writer = SpoolWriter(self._work.folder, self._work.stage.id)
        earlier = sum(source.line.container == self._operation for source in writer.sources())
        self._source = writer.source("", self._program, self._operation, f"{self._operation}-{earlier}")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._writer is not None:
            self._writer.close()

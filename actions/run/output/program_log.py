"""The log of a program that a stage runs, in the stage's output; its newest line is the stage's progress message."""

from __future__ import annotations

from types import TracebackType
from typing import Self

from actions.base.untrusted import clean_text, one_line
from actions.cluster.logs.lines import LogLine
from actions.run.context.stage_context import StageContext
from actions.run.output.writer import OutputSource, OutputWriter

MOST_WAITING_BYTES = 1 << 20
"""Limit of the output that is kept in memory while the disk is full; further lines are only counted."""
_PAUSE_SECONDS = 2.0


class ProgramLog:
    """The log of one program, which cannot be read again. Failures to keep it do not reach the stage.

    Lines that the disk refuses wait, up to a limit, and are written with the next ones, or at the end.

    Args:
        context: The stage.
        program: In the place of a pod's name.
        operation: In the place of a container's name.
        is_adopted: An earlier runner started the program, and its output is read from the beginning: lines that are
            in the output are skipped.
    """

    def __init__(self, context: StageContext, program: str, operation: str, *, is_adopted: bool = False) -> None:
        self._context = context
        self._program = program
        self._operation = operation
        self._is_adopted = is_adopted
        self._writer = OutputWriter(context.folder, context.stage.id, clock=context.clock)
        self._source: OutputSource | None = None
        self._to_skip = 0
        self._waiting: list[LogLine] = []
        self._waiting_bytes = 0
        self._dropped = 0
        self._is_failing = False
        self._again_at = 0.0

    def take(self, text: str) -> None:
        """Take one line, without control characters."""
        size = len(text)
        if self._waiting_bytes + size > MOST_WAITING_BYTES:
            self._dropped += 1
        else:
            self._waiting.append(LogLine(int(self._context.clock.now().timestamp() * 1e9), text))
            self._waiting_bytes += size
        if self._context.clock.monotonic() >= self._again_at:
            self._write()

    def close(self) -> None:
        """Write the waiting lines, if the disk has space, and close the output."""
        self._write()
        lost = self._dropped + len(self._waiting)
        if lost and self._source is not None:
            self._writer.open_gap(
                self._source, f"full-{self._source.line.number}", f"{lost} lines did not fit on the disk"
            )
        try:
            self._writer.close()
        except OSError:
            return

    def _write(self) -> None:
        try:
            source = self._source or self._opened()
            skipped = min(self._to_skip, len(self._waiting))
            if skipped < len(self._waiting):
                self._writer.write_lines(source, self._waiting[skipped:])
        except OSError as error:
            self._is_failing, self._again_at = True, self._context.clock.monotonic() + _PAUSE_SECONDS
            self._context.journal.warn(f"Its log cannot be kept: {error.strerror or error}.")
            return
        self._to_skip -= skipped
        self._waiting, self._waiting_bytes = [], 0
        if self._dropped:
            self._writer.open_gap(
                source, f"full-{source.line.number}", f"{self._dropped} lines did not fit on the disk"
            )
        if self._is_failing:
            self._is_failing = False
            self._context.journal.warn("")

    def _opened(self) -> OutputSource:
        earlier = [source for source in self._writer.sources() if source.line.container == self._operation]
        if self._is_adopted and earlier:
            self._source, self._to_skip = earlier[-1], earlier[-1].line_count
        else:
            self._source = self._writer.source("", self._program, self._operation, f"{self._operation}-{len(earlier)}")
        return self._source


class ToolLog:
    """The log of a tool, open while it runs.

    Args:
        context: The stage.
        program: In the place of a pod's name.
        operation: In the place of a container's name.
    """

    def __init__(self, context: StageContext, program: str, operation: str) -> None:
        self._context = context
        self._log = ProgramLog(context, program, operation)

    def take(self, text: str) -> None:
        """Take one line of the program's output."""
        line = clean_text(text)
        if line.strip():
            self._context.journal.note(one_line(line))
        self._log.take(line)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._log.close()

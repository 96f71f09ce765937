"""The run on the console's screen, as a script reads it: from its folder, and by the console's diagnoses."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path

from actions.base.clock import Clock
from actions.base.patterns import Pattern
from actions.cluster.diagnose.codes import Finding
from actions.run.journal.reader import RunReader
from actions.run.output.reader import OutputReader
from actions.run.state.view import RunView
from actions.script.driver import ConsoleDriver
from actions.telemetry.points import Point

WHY_SECONDS = 1.0
"""Between two diagnoses of a stage: each reads all objects of the cluster."""


class RunObserver:
    """A reader of the run on screen, which may change between calls. Closed by its maker.

    Args:
        driver: Names the run's folder, and diagnoses its stages.
        clock: Limits how often a stage is diagnosed.
    """

    def __init__(self, driver: ConsoleDriver, clock: Clock) -> None:
        self._driver = driver
        self._clock = clock
        self._findings: dict[str, Sequence[Finding]] = {}
        self._diagnosed_at: dict[str, float] = {}
        self._folder: Path | None = None
        self._reader: RunReader | None = None
        self._view: RunView | None = None
        self._outputs: dict[str, _StageOutput] = {}

    @property
    def newest(self) -> RunView | None:
        """The result of the last `view`."""
        return self._view

    def view(self) -> RunView | None:
        """Read the journal; return the run as it is now, `None` if no run is on screen."""
        folder = self._driver.run_folder()
        if folder != self._folder:
            self.close()
            self._folder, self._view, self._outputs = folder, None, {}
        if folder is not None and self._reader is None:
            self._reader = RunReader(folder)
        if self._reader is not None:
            self._view = self._reader.poll() or self._view
        return self._view

    def points(self, metric: str, stage: str) -> Sequence[Point]:
        """Return the points of a metric, oldest first; of all stages if `stage` is empty."""
        found: list[Point] = []
        for output in self._stage_outputs(stage):
            output.read_points()
            found += output.points.get(metric, [])
        return found

    def has_line(self, pattern: Pattern, stage: str) -> bool:
        """Return whether a stored log line, or a mark between them, matches; of all stages if `stage` is empty."""
        return any(output.has_line(pattern) for output in self._stage_outputs(stage))

    async def diagnose(self, stage: str) -> None:
        """Diagnose a stage, at most once in `WHY_SECONDS`.

        Raises:
            ConsoleError: There is no run, or it has no such stage.
        """
        now = self._clock.monotonic()
        if now - self._diagnosed_at.get(stage, -WHY_SECONDS) < WHY_SECONDS:
            return
        self._diagnosed_at[stage] = now
        self._findings[stage] = await self._driver.explain(stage)

    def findings(self, stage: str) -> Sequence[Finding]:
        """Return the latest diagnosis of a stage, causes first; empty before the first."""
        return self._findings.get(stage, ())

    def close(self) -> None:
        """Close the run's journal."""
        if self._reader is not None:
            self._reader.close()
            self._reader = None

    def _stage_outputs(self, stage: str) -> Iterator[_StageOutput]:
        view = self.newest
        if view is None or self._folder is None:
            return
        for known in view.stages:
            if not stage or known.id == stage:
                yield self._outputs.setdefault(known.id, _StageOutput(self._folder, known.id))


class _StageOutput:
    """The points read from one stage's output so far, and for each pattern the offset up to which it was searched."""

    def __init__(self, folder: Path, stage: str) -> None:
        self._reader = OutputReader(folder, stage)
        self._points_offset = 0
        self._searched: dict[str, int] = {}
        self._found: set[str] = set()
        self.points: dict[str, list[Point]] = defaultdict(list)

    def read_points(self) -> None:
        while True:
            values, offset = self._reader.values(self._points_offset)
            for item in values:
                if isinstance(item.value, Point):
                    self.points[item.value.metric].append(item.value)
            if offset == self._points_offset:
                return
            self._points_offset = offset

    def has_line(self, pattern: Pattern) -> bool:
        """Return whether a line matches; each line is searched once per pattern."""
        while pattern.pattern not in self._found:
            start = self._searched.get(pattern.pattern, 0)
            lines, end = self._reader.lines(start)
            if any(pattern.search(line.text) for line in lines):
                self._found.add(pattern.pattern)
            if end == start:
                break
            self._searched[pattern.pattern] = end
        return pattern.pattern in self._found

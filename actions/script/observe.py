"""The world of a script: the run's folder, read as any console reads it, and what its host shows."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path

from actions.base.clock import Clock
from actions.base.patterns import Pattern
from actions.cluster.diagnose.finding import Finding
from actions.cluster.state import ClusterSnapshot
from actions.fleet.cost import CostModel
from actions.run.reader import RunReader
from actions.run.spoolreader import SpoolReader
from actions.run.view import RunView
from actions.script.artifacts import Artifacts
from actions.script.host import Host
from actions.script.model import Script
from actions.script.play import Player, Tell
from actions.telemetry.points import Point

WHY_SECONDS = 1.0
"""Between two diagnoses of a stage: each asks the cluster for everything."""


class _StageSpool:
    """What has been read of one stage so far, and what a pattern has already been looked for in."""

    def __init__(self, folder: Path, stage: str) -> None:
        self._reader = SpoolReader(folder, stage)
        self._points_offset = 0
        self._searched: dict[str, int] = {}
        self._found: set[str] = set()
        self.points: dict[str, list[Point]] = defaultdict(list)

    def read_points(self) -> None:
        while True:
            findings, offset = self._reader.findings(self._points_offset)
            for item in findings:
                if isinstance(item.finding, Point):
                    self.points[item.finding.metric].append(item.finding)
            if offset == self._points_offset:
                return
            self._points_offset = offset

    def has_line(self, pattern: Pattern) -> bool:
        """Whether a line matches; each line is looked at once per pattern."""
        while pattern.pattern not in self._found:
            start = self._searched.get(pattern.pattern, 0)
            lines, end = self._reader.lines(start)
            if any(not line.is_marker and pattern.search(line.text) for line in lines):
                self._found.add(pattern.pattern)
            if end == start:
                break
            self._searched[pattern.pattern] = end
        return pattern.pattern in self._found


class HostWorld:
    """See `actions.script.judge.World`. Closed by its maker."""

    def __init__(self, host: Host, clock: Clock) -> None:
        self._host = host
        self._clock = clock
        self._findings: dict[str, Sequence[Finding]] = {}
        self._asked_at: dict[str, float] = {}
        self._costs: CostModel | None = None
        self._folder: Path | None = None
        self._reader: RunReader | None = None
        self._view: RunView | None = None
        self._spools: dict[str, _StageSpool] = {}

    def run(self) -> RunView | None:
        folder = self._host.run_folder()
        if folder != self._folder:
            self.close()
            self._folder, self._view, self._spools = folder, None, {}
        if folder is not None and self._reader is None:
            self._reader = RunReader(folder)
        if self._reader is not None:
            self._view = self._reader.poll() or self._view
        return self._view

    def points(self, metric: str, stage: str) -> Sequence[Point]:
        found: list[Point] = []
        for spool in self._stages(stage):
            spool.read_points()
            found += spool.points.get(metric, [])
        return found

    def has_line(self, pattern: Pattern, stage: str) -> bool:
        return any(spool.has_line(pattern) for spool in self._stages(stage))

    def findings(self, stage: str) -> Sequence[Finding] | None:
        return self._findings.get(stage)

    async def ask_why(self, stage: str) -> None:
        now = self._clock.monotonic()
        if now - self._asked_at.get(stage, -WHY_SECONDS) < WHY_SECONDS:
            return
        self._asked_at[stage] = now
        self._findings[stage] = await self._host.explain(stage)

    def snapshot(self) -> ClusterSnapshot | None:
        return self._host.snapshot()

    def costs(self) -> CostModel:
        if self._costs is None:
            self._costs = CostModel.load(region=self.identity().get("region", ""))
        return self._costs

    def screen_text(self) -> str:
        return self._host.screen_text()

    def identity(self) -> dict[str, str]:
        return self._host.identity()

    def close(self) -> None:
        """Close the run's journal."""
        if self._reader is not None:
            self._reader.close()
            self._reader = None

    def _stages(self, stage: str) -> Iterator[_StageSpool]:
        view = self.run()
        if view is None or self._folder is None:
            return
        for known in view.stages:
            if not stage or known.id == stage:
                yield self._spools.setdefault(known.id, _StageSpool(self._folder, known.id))


def player_of(script: Script, host: Host, *, clock: Clock, tell: Tell, artifacts: Artifacts) -> Player:
    """A player whose conditions look at what `host` shows."""
    return Player(script, host, HostWorld(host, clock), clock=clock, tell=tell, artifacts=artifacts)

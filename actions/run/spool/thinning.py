"""The points of a run of weeks, in a file that grows by the logarithm of their number.

Of each series the first `WHOLE` findings are kept. Behind them a group of findings is joined: its first one is kept at
once, its least and its greatest when the group is over, in the order in which they came. A group has four findings, and
twice as many whenever the number of findings has doubled. A curve on screen keeps 2048 samples and the extremes between
them, so it is the same as without.

What is kept follows from the findings and their order alone: a log that is read again gives the same ones.
"""

from __future__ import annotations

import math

from actions.telemetry.points import Point, TrainingProgress

WHOLE = 50_000
"""Findings of a series that are all kept: a point a second, for fourteen hours."""
FIRST_GROUP = 4

LogFinding = Point | TrainingProgress
SeriesKey = tuple[int, str, int]
"""Number of the source, metric or label of the bar, rank."""


class _Group:
    """The findings of one series, counted, with the open group."""

    def __init__(self) -> None:
        self.count = 0
        self._left = 0
        self._least: tuple[float, int, Point] | None = None
        self._greatest: tuple[float, int, Point] | None = None
        self._last: TrainingProgress | None = None
        self._has_odd = False

    def take(self, finding: LogFinding) -> list[LogFinding]:
        """Return the findings that are kept, now that this one has come."""
        self.count += 1
        if self.count <= WHOLE:
            return [finding]
        if not self._left:
            kept = self.end()
            doublings = (self.count // WHOLE).bit_length() - 1
            self._left = (FIRST_GROUP << doublings) - 1
            self._has_odd = _is_odd(finding)
            return [*kept, finding]
        self._left -= 1
        kept = self._add(finding)
        return [*kept, *self.end()] if not self._left else kept

    def end(self) -> list[LogFinding]:
        """End the open group, and return what is kept of it and was not yet returned."""
        self._left = 0
        return self._extremes()

    def _extremes(self) -> list[LogFinding]:
        found = sorted({one[1]: one[2] for one in (self._least, self._greatest) if one is not None}.items())
        kept: list[LogFinding] = [point for _, point in found]
        if self._last is not None:
            kept.append(self._last)
        self._least = self._greatest = self._last = None
        return kept

    def _add(self, finding: LogFinding) -> list[LogFinding]:
        """Add a finding to the open group; return what cannot wait for the group's end, in the order it came."""
        if isinstance(finding, TrainingProgress):
            self._last = finding
            return []
        if _is_odd(finding):
            is_known, self._has_odd = self._has_odd, True
            return [] if is_known else [*self._extremes(), finding]
        entry = (finding.value, self.count, finding)
        if self._least is None or finding.value < self._least[0]:
            self._least = entry
        if self._greatest is None or finding.value > self._greatest[0]:
            self._greatest = entry
        return []


def _is_odd(finding: LogFinding) -> bool:
    """Return whether it is a point without a finite value: the first one of a group is kept at once."""
    return isinstance(finding, Point) and not math.isfinite(finding.value)


class Thinning:
    """The choice of findings of one stage that are kept."""

    def __init__(self) -> None:
        self._groups: dict[SeriesKey, _Group] = {}

    def take(self, number: int, finding: LogFinding) -> list[LogFinding]:
        """Return the findings of a source that are kept, now that this one has come; mostly itself, or none."""
        name = finding.label if isinstance(finding, TrainingProgress) else finding.metric
        return self._groups.setdefault((number, name, finding.rank), _Group()).take(finding)

    def end(self, number: int) -> list[LogFinding]:
        """Return what is kept of the open groups of a source, whose log is complete."""
        return [kept for key, group in self._groups.items() if key[0] == number for kept in group.end()]

"""Training that goes on although its loss is no number any more."""

from __future__ import annotations

import math
from collections.abc import Iterator

from actions.cluster.diagnose.case import Case, Log
from actions.cluster.diagnose.finding import Finding, finding
from actions.cluster.diagnose.vocabulary import Code
from actions.telemetry.curves import Curves, Divergence, divergence_of
from actions.telemetry.log_reader import LogReader
from actions.telemetry.points import Point

WAY_OUT = "Stop it, and go on from a checkpoint before that, with a lower learning rate or a higher precision."


def find_diverged_training(evidence: Case) -> Iterator[Finding]:
    """The first log whose loss is no number; the other ranks say the same."""
    for log in evidence.logs:
        reader, curves = LogReader(), Curves()
        quotes: dict[bool, str] = {}
        for line in log.text.splitlines():
            for point in reader.feed(line):
                if isinstance(point, Point):
                    curves.add(point)
                    if point.metric.endswith("_loss"):
                        quotes[math.isfinite(point.value)] = line
        found = divergence_of(curves)
        if found is not None:
            yield _told(found, log, [quotes[kind] for kind in (True, False) if kind in quotes])
            return


def _told(found: Divergence, log: Log, quotes: list[str]) -> Finding:
    whose = f" of {log.pod}" if log.pod else ""
    before = "" if found.last_good is None else f"; the last number was {found.last_good.y:.4g}"
    return finding(Code.LOSS_DIVERGED, f"{found.metric}{whose} is {found.word}{before}", quotes, WAY_OUT)

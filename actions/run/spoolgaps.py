"""The missing parts of a stage's logs, in sentences."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from actions.base.clock import time_of_day
from actions.run.spoolformat import GapLine, SourceLine, source_line_in, sources_file, whole_lines

ALL_SOURCES = -1
"""The number in a gap that is not of one source."""


def losses_of(gaps: Iterable[GapLine], pods: Mapping[int, str]) -> tuple[str, ...]:
    """One sentence for each reason.

    Args:
        gaps: The newest of each key; those that are closed do not count.
        pods: The pods' names, by the number of the source.
    """
    named: dict[str, list[str]] = {}
    for gap in gaps:
        if not gap.is_closed:
            named.setdefault(gap.why + _span(gap), []).append(pods.get(gap.number, ""))
    return tuple(_sentence(why, names) for why, names in named.items())


def spooled_losses(folder: Path, stage: str) -> tuple[str, ...]:
    """Read from a stage's spool what is missing of it; nothing if it cannot be read."""
    try:
        raws, _ = whole_lines(sources_file(folder, stage))
    except OSError:
        return ()
    lines = [line for line in map(source_line_in, raws) if line is not None]
    gaps = {line.key: line for line in lines if isinstance(line, GapLine)}
    return losses_of(gaps.values(), {line.number: line.pod for line in lines if isinstance(line, SourceLine)})


def _span(gap: GapLine) -> str:
    if not gap.since_ns:
        return ""
    until = f" to {_time(gap.until_ns)}" if gap.until_ns else ""
    return f", from {_time(gap.since_ns)}{until} UTC"


def _time(at_ns: int) -> str:
    return time_of_day(at_ns // 1_000_000_000)


def _sentence(why: str, pods: Sequence[str]) -> str:
    known = sorted({pod for pod in pods if pod})
    if not known:
        return f"Log incomplete: {why}."
    if len(known) == 1:
        return f"Log of pod {known[0]}: incomplete, {why}."
    return f"Logs of {len(known)} pods ({known[0]}, …): incomplete, {why}."

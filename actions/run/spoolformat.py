"""The spool's files: one record a line, appended only, readable up to the last whole line.

`logs/STAGE/sources.jsonl`  which container a number stands for, and how it ended
`logs/STAGE/lines.log`      `L` or `M` (marker), time in ns, TAB, source number, TAB, text; for a line of a file, the
                            time is followed by `+` and where in the file the line ends
`series/STAGE/points.jsonl` what was read in those lines
`series/STAGE/accelerators.json` the newest sample of each pod
"""

from __future__ import annotations

import math
from pathlib import Path

import msgspec

from actions.run.folder import logs_path, series_path
from actions.telemetry.points import Point, Progress

Finding = Point | Progress


class SourceLine(msgspec.Struct, frozen=True, tag="source", omit_defaults=True):
    """A container, numbered in the order of appearance."""

    number: int
    namespace: str
    pod: str
    container: str
    uid: str
    rank: int = 0


class EndLine(msgspec.Struct, frozen=True, tag="end"):
    """A container has ended for good, and all that it wrote is in the spool."""

    number: int
    exit_code: int | None
    reason: str


class PointLine(msgspec.Struct, frozen=True, tag="point", omit_defaults=True):
    """A `Point`. JSON knows no NaN: `value` is then a text."""

    number: int
    metric: str
    step: int | None
    value: float | str
    rank: int = 0
    epoch: float | None = None
    key: str = ""
    at: float | None = None


class ProgressLine(msgspec.Struct, frozen=True, tag="progress", omit_defaults=True):
    """A `Progress`."""

    number: int
    label: str
    done: int
    total: int | None
    elapsed_seconds: float | None = None
    remaining_seconds: float | None = None
    per_second: float | None = None
    rank: int = 0


class AcceleratorSample(msgspec.Struct, frozen=True):
    """What a pod's accelerator tool printed."""

    at: float
    """Seconds since the epoch."""
    text: str
    """Cleaned."""


def sources_file(folder: Path, stage: str) -> Path:
    """Of a run's folder."""
    return logs_path(folder, stage) / "sources.jsonl"


def lines_file(folder: Path, stage: str) -> Path:
    """Of a run's folder."""
    return logs_path(folder, stage) / "lines.log"


def points_file(folder: Path, stage: str) -> Path:
    """Of a run's folder."""
    return series_path(folder, stage) / "points.jsonl"


def accelerators_file(folder: Path, stage: str) -> Path:
    """Of a run's folder."""
    return series_path(folder, stage) / "accelerators.json"


def whole_lines(path: Path, offset: int = 0, limit_bytes: int = -1) -> tuple[list[bytes], int]:
    """The whole lines from `offset` on, and the offset behind them. A torn tail is left for later.

    A file that is not there has no lines. A line longer than `limit_bytes` is read whole.
    """
    try:
        with path.open("rb") as file:
            file.seek(offset)
            data = file.read(limit_bytes)
            if limit_bytes >= 0 and b"\n" not in data and len(data) == limit_bytes:
                data += file.readline()
    except FileNotFoundError:
        return [], offset
    end = data.rfind(b"\n") + 1
    return (data[: end - 1].split(b"\n"), offset + end) if end else ([], offset)


def line_of_finding(number: int, finding: Finding) -> PointLine | ProgressLine:
    """How a finding is written."""
    if isinstance(finding, Progress):
        return ProgressLine(number, **msgspec.structs.asdict(finding))
    value = finding.value if math.isfinite(finding.value) else repr(finding.value)
    fields = msgspec.structs.asdict(finding) | {"value": value}
    del fields["raw"]  # it stands in the line itself
    return PointLine(number, **fields)


def finding_of_line(line: PointLine | ProgressLine) -> Finding:
    """The reverse of `line_of_finding`."""
    values = msgspec.structs.asdict(line)
    del values["number"]
    if isinstance(line, ProgressLine):
        return Progress(**values)
    return Point(**(values | {"value": float(line.value)}))

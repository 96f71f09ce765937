"""The spool's files: one record a line, appended only, readable up to the last whole line.

`logs/STAGE/sources.jsonl`  which container a number stands for, and how it ended
`logs/STAGE/lines.log`      the lines, as `actions.cluster.logrecords` has them; a line of a file has the letter `F`,
                            and before its text where in the file it ends, and a TAB
`series/STAGE/points.jsonl` what was read in those lines
`series/STAGE/accelerators.json` the newest sample of each pod
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from operator import itemgetter
from pathlib import Path

import msgspec

from actions.base.errors import FormatError
from actions.cluster.logrecords import TEXT_AT, number_in, tag_in
from actions.cluster.logstamps import DIGITS_TO_ZERO, SHAPE
from actions.run.folder import logs_path, series_path
from actions.telemetry.points import Point, Progress

Finding = Point | Progress

_head_in = itemgetter(slice(TEXT_AT))
_letter_in = itemgetter(0)
_OF_FILE = ord("F")
_HEAD = b"L000000\t" + SHAPE + b" "
_TO_HEAD = DIGITS_TO_ZERO.translate(bytes.maketrans(b"MF", b"LL"))
"""What a record begins with becomes `_HEAD` by it."""


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


def check_records(records: Sequence[bytes], path: Path) -> None:
    """Make sure of the form of records.

    Raises:
        FormatError: One has another.
    """
    if b"".join(map(_head_in, records)).translate(_TO_HEAD) != _HEAD * len(records):
        raise FormatError(f"{path} holds a line that is none of the spool's.")


def file_record(number: int, stamped: bytes, end: int) -> bytes:
    """The record of a line of a file.

    Args:
        number: Of its source.
        stamped: Stamp, blank, text.
        end: Where in the file the line ends.
    """
    stamp, _, text = stamped.partition(b" ")
    return b"F%06d\t%s %d\t%s" % (number, stamp, end, text)


def without_place(record: bytes) -> tuple[bytes, int]:
    """A record of a file's line as one of any log, and where in the file the line ends; 0 for other records."""
    if record[:1] != b"F":
        return record, 0
    end, _, text = record[TEXT_AT:].partition(b"\t")
    return b"L" + record[1:TEXT_AT] + text, int(end) if end.isdigit() else 0


def without_places(records: list[bytes]) -> list[bytes]:
    """Records of whatever lines as those of any log."""
    if _OF_FILE in map(_letter_in, records):
        return [without_place(record)[0] for record in records]
    return records


def source_in(record: bytes) -> int:
    """The number of a record's source."""
    return number_in(tag_in(record))


def line_of_finding(number: int, finding: Finding) -> PointLine | ProgressLine:
    """How a finding is written. The number as it was printed stands in the line itself."""
    if isinstance(finding, Progress):
        return ProgressLine(number, **msgspec.structs.asdict(finding))
    value = finding.value if math.isfinite(finding.value) else repr(finding.value)
    return PointLine(
        number, finding.metric, finding.step, value, finding.rank, finding.epoch, finding.key, at=finding.at
    )


def finding_of_line(line: PointLine | ProgressLine) -> Finding:
    """The reverse of `line_of_finding`."""
    if isinstance(line, ProgressLine):
        values = msgspec.structs.asdict(line)
        del values["number"]
        return Progress(**values)
    return Point(line.metric, line.step, float(line.value), line.rank, line.epoch, line.key, line.at)

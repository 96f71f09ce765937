"""The records of a stage's output: what its containers have printed, points in it, and samples of accelerators.

`output/STAGE/lines`    tagged lines, as in `actions.cluster.logs.batch`; a line of a file has the letter `F`, and
                        before its text the offset of its end in the file, and a TAB; the first line of a number in each
                        segment follows a record with the letter `S`, which names its source in JSON; the last number
                        that there is has the markers of gaps in all logs of the stage
`output/STAGE/points`   points and progress read in those lines, in JSON; before the first of a number in each segment,
                        a line that names its source
`output/STAGE/sources`  the container behind each number, how it ended, and the gaps in its log
`output/STAGE/devices`  spans of accelerator samples: `SpanRecord`s of `actions.telemetry.tools.device_history`
`output/STAGE/samples`  the last samples as the tools print them, of which the newest segments are kept

Each is a stream of segments (`actions.run.output.segments`), of which any one is read by itself.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import accumulate
from operator import itemgetter
from pathlib import Path

import msgspec

from actions.base.clock import time_of_day
from actions.base.decoding import decode_json, json_decoder
from actions.cluster.logs.batch import MOST_LOGS, TEXT_AT, marker_of, number_in, stamp_in, tag_in
from actions.cluster.logs.lines import DIGITS_TO_ZERO, STAMP_OUTLINE, ns_of
from actions.run.journal.folder import output_path
from actions.run.output.segments import StreamReader, Stretch
from actions.telemetry.points import LogValue, Point, TrainingProgress, sound
from actions.telemetry.tools.device_history import SpanRecord

LINES, POINTS, SOURCES, DEVICES, SAMPLES = ("lines", "points", "sources", "devices", "samples")
"""The streams of a stage."""
COPIED = (SOURCES, DEVICES, POINTS, LINES)
"""The streams that leave this machine, each one after those that mention what is in it."""
PIECE_BYTES = 1 << 20
"""Size of the pieces in which a long stream is read."""

_head_in = itemgetter(slice(TEXT_AT))
_letter_in = itemgetter(0)
_OF_FILE = ord("F")
_OF_SOURCE = ord("S")
_UNUSUAL = frozenset({_OF_FILE, _OF_SOURCE})
_HEAD = b"L000000\t" + STAMP_OUTLINE + b" "
_TO_HEAD = DIGITS_TO_ZERO.translate(bytes.maketrans(b"MFS", b"LLL"))
"""The translation by which the first bytes of any record become `_HEAD`."""
_PLACE = re.compile(rb"\d{1,18}\t")
_NO_STAMP = b"1970-01-01T00:00:00.000000000Z"
_ENCODER = msgspec.json.Encoder()


class SourceLine(msgspec.Struct, frozen=True, tag="source", omit_defaults=True):
    """A container, numbered in the order of appearance."""

    number: int
    namespace: str
    pod: str
    container: str
    uid: str
    rank: int = 0


class EndLine(msgspec.Struct, frozen=True, tag="end"):
    """The final end of a container whose whole log is in the output."""

    number: int
    exit_code: int | None
    reason: str


class GapLine(msgspec.Struct, frozen=True, tag="gap", omit_defaults=True):
    """A gap: lines that are missing, or could not be read yet. A later one of the same key replaces it."""

    key: str
    number: int
    """Number of the source; -1 for all of them."""
    why: str
    since_ns: int = 0
    until_ns: int = 0
    """Nanoseconds since the epoch; 0 if unknown."""
    is_closed: bool = False
    """The lines have been read after all."""


class PointLine(msgspec.Struct, frozen=True, gc=False, tag="point", omit_defaults=True):
    """A `Point`. JSON has no NaN or infinity: `value` is then a text."""

    number: int
    metric: str
    step: int | None
    value: float | str
    rank: int = 0
    epoch: float | None = None
    key: str = ""
    at: float | None = None


class ProgressLine(msgspec.Struct, frozen=True, tag="progress", omit_defaults=True):
    """A `TrainingProgress`."""

    number: int
    label: str
    done: int
    total: int | None
    elapsed_seconds: float | None = None
    remaining_seconds: float | None = None
    per_second: float | None = None
    rank: int = 0


_PointsLine = PointLine | ProgressLine | SourceLine


class AcceleratorSample(msgspec.Struct, frozen=True):
    """The output of a pod's accelerator tool."""

    at: float
    """Seconds since the epoch."""
    text: str
    """Without control characters."""
    node: str = ""
    """Name of the pod's node."""


class SampleLine(msgspec.Struct, frozen=True):
    """The sample of a pod."""

    pod: str
    sample: AcceleratorSample


def stream_path(folder: Path, stage: str, stream: str) -> Path:
    """Return the folder of one of a stage's streams, in a run's folder."""
    return output_path(folder, stage) / stream


def stages_with_output(folder: Path) -> list[str]:
    """Return the stages of a run that have any output, sorted.

    Raises:
        OSError: The folder cannot be read.
    """
    try:
        return sorted(entry.name for entry in os.scandir(output_path(folder, "x").parent) if entry.is_dir())
    except FileNotFoundError:
        return []


def pieces_of(stream: StreamReader, *, limit_bytes: int = PIECE_BYTES) -> Iterator[Stretch]:
    """Yield all of a stream, about `limit_bytes` at a time.

    Raises:
        OSError: It cannot be read.
    """
    offset = 0
    while stretches := stream.stretches(offset, limit_bytes):
        yield from stretches
        offset = stretches[-1].end


def raws_in(stretch: Stretch) -> list[bytes]:
    """Return the records of a stretch, without their newlines; none if it is lost."""
    return stretch.data[:-1].split(b"\n") if stretch.data else []


def readable(stretches: Sequence[Stretch]) -> tuple[list[bytes], list[int]]:
    """Return the records of lines in some stretches, and where each begins.

    In the place of one that is lost, or has a line that is none of them, is a marker.
    """
    records, begins = list[bytes](), list[int]()
    whole = [raws if are_records(raws) else [] for raws in map(raws_in, stretches)]
    near = next((raws[0] for raws in whole if raws), b"")
    for part, raws in zip(stretches, whole, strict=True):
        near = raws[-1] if raws else near
        shown = raws or [damage_marker(near, part.end - part.begin)]
        begins += accumulate(map((1).__add__, map(len, shown[:-1])), initial=part.begin)
        records += shown
    return records, begins


def damage_marker(near: bytes, size_bytes: int) -> bytes:
    """Return the record that marks damaged bytes.

    Args:
        near: A record close to them; empty if there is none.
        size_bytes: Their number.
    """
    number, stamp = (source_in(near), stamp_in(near)) if near else (0, _NO_STAMP)
    return marker_of(f"-- {size_bytes} bytes of this log are damaged: lines are missing here --", number, ns_of(stamp))


def is_record(raw: bytes) -> bool:
    """Return whether a line of the stream has the form of a record."""
    if raw[:TEXT_AT].translate(_TO_HEAD) != _HEAD or b"\0" in raw:
        return False
    try:
        raw.decode()
    except UnicodeDecodeError:
        return False
    if raw[0] == _OF_FILE:
        return _PLACE.match(raw, TEXT_AT) is not None
    return raw[0] != _OF_SOURCE or introduced_in(raw) is not None


def are_records(raws: Sequence[bytes]) -> bool:
    """Return whether all of some lines are records, by tests over all of them at once."""
    if b"".join(map(_head_in, raws)).translate(_TO_HEAD) != _HEAD * len(raws):
        return False
    data = b"\n".join(raws)
    if b"\0" in data or not (data.isascii() or _is_utf8(data)):
        return False
    unusual = _UNUSUAL.intersection(map(_letter_in, raws))
    return not unusual or all(is_record(raw) for raw in raws if raw[0] in unusual)


def _is_utf8(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def letters_in(records: Sequence[bytes]) -> frozenset[bytes]:
    """Return the letters that some records begin with."""
    return frozenset(bytes((letter,)) for letter in set(map(_letter_in, records)))


def introduction(line: SourceLine, stamp: bytes) -> bytes:
    """Return the record that precedes the first line of a source."""
    return b"S%06d\t%s %s" % (line.number, stamp, _ENCODER.encode(line))


def introduced_in(record: bytes) -> SourceLine | None:
    """Return the source that a record with the letter `S` introduces; `None` for any other record."""
    if record[:1] != b"S":
        return None
    try:
        line = decode_json(record[TEXT_AT:], SourceLine)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None
    return line if line.number == source_in(record) else None


def source_line_in(raw: bytes) -> SourceLine | EndLine | GapLine | None:
    """Decode a line of the stream `sources`; `None` if it is damaged."""
    try:
        line = decode_json(raw, SourceLine | EndLine | GapLine)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None
    least = -1 if isinstance(line, GapLine) else 0
    return line if least <= line.number < MOST_LOGS else None


def value_line_in(raw: bytes) -> PointLine | ProgressLine | None:
    """Decode a value of the stream `points`; `None` if it is damaged, or names a source."""
    line = points_line_in(raw)
    return None if isinstance(line, SourceLine) else line


def points_line_in(raw: bytes) -> PointLine | ProgressLine | SourceLine | None:
    """Decode a line of the stream `points`; `None` if it is damaged."""
    try:
        line = decode_json(raw, _PointsLine)
        if isinstance(line, SourceLine):
            return line if 0 <= line.number < MOST_LOGS else None
        found = value_of_line(line)
        kept = sound(found)
    except (msgspec.MsgspecError, UnicodeDecodeError, ValueError):
        return None
    if kept is None or abs(line.number) > MOST_LOGS:
        return None
    return line if kept is found else line_of_value(line.number, kept)


def points_in(data: bytes) -> Iterator[SourceLine | tuple[int, LogValue]]:
    """Decode lines of the stream `points`, many at once: sources, and values with their source's number.

    Damaged ones are left out.
    """
    try:
        lines = json_decoder(_PointsLine).decode_lines(data)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        lines = [line for line in map(points_line_in, data[:-1].split(b"\n")) if line is not None]
    for line in lines:
        if abs(line.number) > MOST_LOGS:
            continue
        if isinstance(line, SourceLine):
            yield line
            continue
        try:
            found = sound(value_of_line(line))
        except ValueError:
            continue
        if found is not None:
            yield number_of_value(line), found


def number_of_value(line: PointLine | ProgressLine) -> int:
    """Return the number of a value's source. Counted progress of source N has the number -1 - N."""
    return line.number if line.number >= 0 else -1 - line.number


def sample_in(raw: bytes) -> SampleLine | None:
    """Decode a line of the stream `samples`; `None` if it is damaged."""
    try:
        return decode_json(raw, SampleLine)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None


def span_record_in(raw: bytes) -> SpanRecord | None:
    """Decode a line of the stream `devices`; `None` if it is damaged."""
    try:
        return decode_json(raw, SpanRecord)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None


def file_record(number: int, stamped: bytes, end: int) -> bytes:
    """Return the record of a line of a file.

    Args:
        number: Of its source.
        stamped: Stamp, blank, text.
        end: Offset of the line's end in the file.
    """
    stamp, _, text = stamped.partition(b" ")
    return b"F%06d\t%s %d\t%s" % (number, stamp, end, text)


def without_place(record: bytes) -> tuple[bytes, int]:
    """Return a record of a file's line as one of any log, with the offset of its end; 0 for other records."""
    if record[:1] != b"F":
        return record, 0
    end, _, text = record[TEXT_AT:].partition(b"\t")
    return b"L" + record[1:TEXT_AT] + text, int(end) if end.isdigit() else 0


def without_places(records: list[bytes]) -> list[bytes]:
    """Return records in the form of those of any log, without introductions."""
    if _UNUSUAL.isdisjoint(map(_letter_in, records)):
        return records
    return [without_place(record)[0] for record in records if record[0] != _OF_SOURCE]


def source_in(record: bytes) -> int:
    """Return the number of a record's source."""
    return number_in(tag_in(record))


def line_of_value(number: int, found: LogValue) -> PointLine | ProgressLine:
    """Return the line of the stream `points` for a log value. Numbers as printed are in the log line itself."""
    if isinstance(found, TrainingProgress):
        return ProgressLine(number, **msgspec.structs.asdict(found))
    value = found.value if math.isfinite(found.value) else repr(found.value)
    return PointLine(number, found.metric, found.step, value, found.rank, found.epoch, found.key, at=found.at)


def value_of_line(line: PointLine | ProgressLine) -> LogValue:
    """Return the log value of a line: the reverse of `line_of_value`."""
    if isinstance(line, ProgressLine):
        return TrainingProgress(*msgspec.structs.astuple(line)[1:])
    return Point(line.metric, line.step, float(line.value), line.rank, line.epoch, line.key, line.at)


ALL_SOURCES = -1
"""The number of a gap that concerns all sources."""
WHOLE_STAGE = SourceLine(MOST_LOGS - 1, "", "all pods", "", "")
"""The source of the markers of such gaps: it has a number that no container gets, and no record of its own."""


def losses_of(gaps: Iterable[GapLine], pods: Mapping[int, str]) -> tuple[str, ...]:
    """Return one sentence for each reason of gaps.

    Args:
        gaps: The newest of each key; closed ones are skipped.
        pods: The pods' names, by the number of the source.
    """
    named: dict[str, list[str]] = {}
    for gap in gaps:
        if not gap.is_closed:
            named.setdefault(gap.why + _span(gap), []).append(pods.get(gap.number, ""))
    return tuple(_sentence(why, names) for why, names in named.items())


def stored_losses(folder: Path, stage: str) -> tuple[str, ...]:
    """Return the gaps in a stage's output, one sentence each; none if it cannot be read."""
    try:
        pieces = list(pieces_of(StreamReader(stream_path(folder, stage, SOURCES))))
    except OSError:
        return ()
    lines = [line for piece in pieces for line in map(source_line_in, raws_in(piece)) if line is not None]
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

"""The reader of one stage's spool while it grows: lines and findings by offset."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import msgspec

from actions.base.decoding import decode_json
from actions.base.errors import JournalError
from actions.base.files import read_file
from actions.cluster.logs.batch import line_in, marker_of, stamp_in
from actions.cluster.logs.lines import LogLine, ns_of
from actions.run.spool.compacted import compacted_path, line_from, opened, stored_size
from actions.run.spool.format import (
    PIECE_BYTES,
    WHOLE_STAGE,
    AcceleratorSample,
    EndLine,
    LogFinding,
    PointLine,
    SourceLine,
    accelerators_file,
    are_records,
    devices_file,
    finding_line_in,
    finding_of_line,
    introduced_in,
    is_record,
    lines_file,
    number_of_finding,
    pieces_of,
    points_file,
    points_line_in,
    readable,
    scan,
    source_in,
    source_line_in,
    sources_file,
    span_record_in,
    whole_lines,
    without_places,
)
from actions.telemetry.tools.device_history import SpanRecord

_REPAIRED = "-- this log was repaired: it is shown again from its beginning --"


class SpooledLine(LogLine, frozen=True, gc=False, kw_only=True):
    """A log line with the container that printed it."""

    pod: str
    container: str


class SpooledFinding(msgspec.Struct, frozen=True):
    """A point of a curve or a state of progress, with the pod that printed it."""

    pod: str
    finding: LogFinding


class _FilePiece(NamedTuple):
    """Whole lines of a file. `is_anew`: another file has replaced it, and they are its first."""

    raws: list[bytes]
    begin: int
    end: int
    is_anew: bool


class SpoolReader:
    """A reader of one stage's spool. Cheap while nothing grows; there may be any number.

    It reads past damage, which is shown as one marker. It writes nothing, and needs no right to. A spool that is
    repaired meanwhile is read again from its beginning. Every call but `accelerators`, `device_bytes`,
    `exit_codes`, `has_findings`, `has_lines` and `has_printed_lines` may raise `JournalError`: the disk cannot be read.

    Args:
        folder: The run's.
        stage: Id of the stage, which may not have begun yet.
    """

    def __init__(self, folder: Path, stage: str) -> None:
        self._folder = folder
        self._stage = stage
        self._sources: dict[int, SourceLine] = {WHOLE_STAGE.number: WHOLE_STAGE}
        self._of_points: dict[int, SourceLine] = {}
        """As the points name them, which may be of another machine than the list of containers."""
        self._ends: dict[int, EndLine] = {}
        self._sources_offset = 0
        self._identities: dict[Path, tuple[str, int]] = {}

    def lines(self, from_offset: int = 0, *, limit_bytes: int = PIECE_BYTES) -> tuple[list[SpooledLine], int]:
        """Return about `limit_bytes` of lines from `from_offset` on, and the offset behind them.

        Lines of one container are in order, except for lost ones that were read again; containers are interleaved as
        they arrived.
        """
        records, end = self.tagged_lines(from_offset, limit_bytes=limit_bytes)
        return [self._line_of(record) for record in records], end

    def tagged_lines(self, from_offset: int = 0, *, limit_bytes: int = PIECE_BYTES) -> tuple[list[bytes], int]:
        """Return lines like `lines`, as tagged lines (`actions.cluster.logs.batch`), the form for many at once."""
        piece = self._read(lines_file(self._folder, self._stage), from_offset, limit_bytes)
        records = piece.raws if are_records(piece.raws) else readable(scan(piece.raws, piece.begin, piece.end))
        if piece.is_anew and records:
            at_ns = ns_of(stamp_in(records[0]))
            records = [marker_of(_REPAIRED, source_in(records[0]), at_ns), *records]
        return self._plain(records), piece.end

    def tagged_lines_at(self, places: Iterable[tuple[int, int]]) -> list[bytes]:
        """Return the tagged lines at known places.

        Args:
            places: Begin and end offset of each.
        """
        path = lines_file(self._folder, self._stage)
        try:
            with opened(path) as file:
                data = b"".join([file.read(begin, end - begin) for begin, end in places])
        except OSError as error:
            raise _unreadable(path, error) from error
        raws = data[:-1].split(b"\n")
        return self._plain(raws if are_records(raws) else readable(scan(raws, 0, len(data))))

    def placed_lines(self, from_offset: int, *, limit_bytes: int) -> tuple[list[bytes], list[int], int]:
        """Return tagged lines as `tagged_lines_at` does, where each begins, and where the last one ends."""
        piece = self._read(lines_file(self._folder, self._stage), from_offset, limit_bytes)
        found = scan(piece.raws, piece.begin, piece.end)
        return readable(found), found.begins, piece.end

    def pod_of(self, number: int) -> str:
        """Return the pod of a source, by the number in its records' tag."""
        return self._source(number).pod

    def tail_offset(self, size_bytes: int) -> int:
        """Return an offset for `lines`, at most `size_bytes` before the end, at the beginning of a line."""
        return self._tail_of(lines_file(self._folder, self._stage), size_bytes)

    def findings_tail(self, size_bytes: int) -> int:
        """Return an offset for `findings`, at most `size_bytes` before the end, at the beginning of a line."""
        return self._tail_of(points_file(self._folder, self._stage), size_bytes)

    def _tail_of(self, path: Path, size_bytes: int) -> int:
        try:
            with opened(path) as file:
                start = max(file.size - size_bytes, 0)
                if start:
                    start += len(line_from(file, start - 1)) - 1
        except FileNotFoundError:
            return 0
        except OSError as error:
            raise _unreadable(path, error) from error
        return start

    def findings(self, from_offset: int = 0, *, limit_bytes: int = PIECE_BYTES) -> tuple[list[SpooledFinding], int]:
        """Return points and progress from `from_offset` on, and the offset behind them. Damaged ones are left out."""
        piece = self._read(points_file(self._folder, self._stage), from_offset, limit_bytes)
        found = []
        for line in map(points_line_in, piece.raws):
            if isinstance(line, SourceLine):
                self._of_points[line.number] = line
            elif line is not None:
                number = number_of_finding(line)
                source = self._of_points.get(number) or self._source(number)
                found.append(SpooledFinding(source.pod, finding_of_line(line)))
        return found, piece.end

    def accelerators(self) -> dict[str, AcceleratorSample]:
        """Return the newest sample of each pod; empty if there are none."""
        try:
            data = read_file(accelerators_file(self._folder, self._stage))
        except OSError:
            return {}
        try:
            return decode_json(data, dict[str, AcceleratorSample])
        except (msgspec.MsgspecError, UnicodeDecodeError):
            return {}  # damaged: the next sample replaces it

    def device_spans(self, from_offset: int = 0, *, limit_bytes: int = PIECE_BYTES) -> tuple[list[SpanRecord], int]:
        """Return accelerators over time from `from_offset` on, and the offset behind them, without damaged ones."""
        piece = self._read(devices_file(self._folder, self._stage), from_offset, limit_bytes)
        return [record for record in map(span_record_in, piece.raws) if record is not None], piece.end

    def device_bytes(self) -> int:
        """Return the size of what is kept of accelerators over time; 0 if there is nothing."""
        return stored_size(devices_file(self._folder, self._stage))

    def exit_codes(self) -> dict[str, int | None]:
        """Return exit codes of containers with a complete log, by `pod/container`; `None` if unknown."""
        try:
            self._read_sources()
        except JournalError:
            return {}
        found = {}
        for number, end in self._ends.items():
            source = self._sources.get(number)
            if source is not None:
                found[f"{source.pod}/{source.container}"] = end.exit_code
        return found

    def has_lines(self) -> bool:
        """Return whether there is any line, if only a marker."""
        return stored_size(lines_file(self._folder, self._stage)) > 0

    def has_printed_lines(self) -> bool:
        """Return whether any container has printed a line."""
        pieces = pieces_of(lines_file(self._folder, self._stage))
        try:
            return any(raw[:1] in (b"L", b"F") and is_record(raw) for piece in pieces for raw in piece.raws)
        except OSError:
            return False

    def has_findings(self) -> bool:
        """Return whether any point or progress was read from its lines; a copy from a store has only these."""
        return stored_size(points_file(self._folder, self._stage)) > 0

    def _line_of(self, record: bytes) -> SpooledLine:
        source, line = self._source(source_in(record)), line_in(record)
        return SpooledLine(line.at_ns, line.text, line.is_marker, pod=source.pod, container=source.container)

    def _plain(self, records: list[bytes]) -> list[bytes]:
        """Return the records of lines alone; take note of those that name a source."""
        plain = without_places(records)
        if len(plain) != len(records):
            for introduced in filter(None, map(introduced_in, records)):
                self._sources.setdefault(introduced.number, introduced)
        return plain

    def _source(self, number: int) -> SourceLine:
        if number not in self._sources:
            self._read_sources()
        return self._sources.get(number) or SourceLine(number, "", f"container {number}", "unknown", "")

    def _read_sources(self) -> None:
        piece = self._read(sources_file(self._folder, self._stage), self._sources_offset, -1)
        self._sources_offset = piece.end
        for line in map(source_line_in, piece.raws):
            if isinstance(line, SourceLine):
                self._sources[line.number] = line
            elif isinstance(line, EndLine):
                self._ends[line.number] = line

    def _read(self, path: Path, offset: int, limit_bytes: int) -> _FilePiece:
        """Read whole lines of a file; its first ones if the file was replaced since the last call."""
        try:
            with opened(path) as file:
                size, identity = file.size, file.identity
            was = self._identities.get(path, identity)
            self._identities[path] = identity
            is_replaced = was != identity and was[0] == identity[0]  # a compaction changes no byte of it
            is_anew = bool(offset) and (is_replaced or size < offset)
            begin = 0 if is_anew else offset
            raws, end = whole_lines(path, begin, limit_bytes)
        except FileNotFoundError:
            return _FilePiece([], offset, offset, is_anew=False)
        except OSError as error:
            raise _unreadable(path, error) from error
        return _FilePiece(raws, begin, end, is_anew)


def _unreadable(path: Path, error: OSError) -> JournalError:
    return JournalError(f"{path} cannot be read: {error.strerror}.", hint="Check the folder's rights and the disk.")


_TAIL_BYTES = 1 << 16


def last_loss(folder: Path) -> float | None:
    """Return the newest training loss among the points of a run; `None` if its log has none.

    Args:
        folder: The run's.
    """
    found = (_loss_at_end(file, size) for _, size, file in sorted(_points_files(folder), reverse=True))
    return next((loss for loss in found if loss is not None), None)


def _points_files(folder: Path) -> Iterator[tuple[int, int, Path]]:
    """Yield the files of points of a run: time of the last change, size on disk, and path before any compaction."""
    try:
        for stage in (folder / "series").iterdir():
            path = stage / "points.jsonl"
            for file in (path, compacted_path(path)):
                if file.exists():
                    yield file.stat().st_mtime_ns, file.stat().st_size, path
                    break
    except OSError:
        return


@lru_cache(maxsize=256)
def _loss_at_end(file: Path, size: int) -> float | None:
    """Return the last training loss in the last part of a file that has that size on disk."""
    del size  # of the cache
    try:
        with opened(file) as points:
            raws = points.read(max(0, points.size - _TAIL_BYTES), _TAIL_BYTES).split(b"\n")
    except OSError:
        return None
    found = (finding_line_in(raw) for raw in reversed(raws) if _LOSS_MARK in raw)
    return next((float(point.value) for point in found if isinstance(point, PointLine) and point.metric == _LOSS), None)


_LOSS = "train_loss"
_LOSS_MARK = b'"train_loss"'

"""The recovery of a spool left by an earlier writer, repaired where it is damaged.

Whole records are kept. Logs that may have lost lines are read again from before the loss, as far as the pods still have
them; lines behind it that the spool holds are not taken twice.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby, pairwise

import msgspec

from actions.cluster.logs.batch import LogBatch, batch_of, stamp_in, tag_in
from actions.cluster.logs.lines import STAMP_BYTES, START, LogCursor, LogLine, ns_of, stamp_of
from actions.run.spool.files import AppendOnly, PointsBook, replace_damaged
from actions.run.spool.format import (
    ALL_SOURCES,
    EndLine,
    GapLine,
    SourceLine,
    damage_marker,
    introduced_in,
    letters_in,
    pieces_of,
    scan,
    source_in,
    source_line_in,
    whole_lines,
    without_place,
)
from actions.telemetry.log_reader import LogReader

PlacedLine = tuple[LogLine, int]
"""A line of a file, and the offset of its end."""


class KeptRange(msgspec.Struct):
    """Consecutive lines of one log, all of which are in the spool.

    `first` identifies the first one by its stamp and text, in a file by `key_of`. `begin` and `end` are the offsets in
    the file at which the first and the last one end.
    """

    first: bytes
    last: LogCursor = START
    begin: int = 0
    end: int = 0


def key_of(text: bytes, end: int) -> bytes:
    """Return the key that identifies a line of a file."""
    return b"%d\t%s" % (end, text)


class KeptRanges:
    """The ranges of one log, in order.

    Args:
        ranges: All of them.
    """

    def __init__(self, ranges: Sequence[KeptRange]) -> None:
        self._ranges = list(ranges)
        self._is_inside = False
        self._left = 0

    @property
    def is_passed(self) -> bool:
        """True if reading has passed all of them."""
        return not self._ranges

    def copy(self) -> KeptRanges:
        """Return a copy that moves on independently."""
        other = KeptRanges(self._ranges)
        other._is_inside, other._left = self._is_inside, self._left
        return other

    def missing(self, batch: LogBatch) -> LogBatch | None:
        """Return the lines that are in none of the ranges; `None` if there are none."""
        if batch.is_marker or not self._ranges:
            return batch
        lines = [line for line in batch.lines if self._is_missing(line)]
        return LogBatch(b"\n".join(lines) + b"\n") if lines else None

    def missing_lines(self, lines: Sequence[PlacedLine]) -> list[PlacedLine]:
        """Return the lines of a file that are in none of the ranges."""
        return [placed for placed in lines if self._is_missing_at(placed[1])]

    def _is_missing(self, line: bytes) -> bool:
        stamp = line[:STAMP_BYTES]
        while self._ranges:
            kept = self._ranges[0]
            first, last = kept.first[:STAMP_BYTES], stamp_of(kept.last.at_ns)
            if not self._is_inside:
                if stamp < first or (stamp == first and line != kept.first):
                    return True
                self._is_inside, self._left = True, kept.last.seen
            if stamp < last:
                return False
            if stamp == last and self._left:
                self._left -= 1
                return False
            self._ranges.pop(0)
            self._is_inside = False
        return True

    def _is_missing_at(self, end: int) -> bool:
        if end == 0:  # the file begins anew
            self._ranges.clear()
        while self._ranges:
            kept = self._ranges[0]
            if end <= kept.end:
                return end < kept.begin
            self._ranges.pop(0)
        return True


_REPLAY_BYTES = 4 << 20
_LATEST_SECONDS = 86_400
"""Limit by which a line may be younger than its file: the clocks of nodes differ by less."""
_ENCODER = msgspec.json.Encoder()

CUT = "cut"
"""The key of the gap of logs that have fewer lines than were recorded."""
SourceKey = tuple[str, str]
"""Uid of the pod, name of the container."""


class SpooledSource:
    """One container of the spool: its number, and the place where its log continues."""

    def __init__(self, line: SourceLine) -> None:
        self.line = line
        self.cursor: LogCursor = START
        """The place up to which its log has been read; lines behind it may be in the spool already."""
        self.offset = 0
        """The same place in bytes, for a file."""
        self.is_ended = False
        self.is_introduced = False
        """True if the file of lines holds its introduction."""
        self.is_fresh = False
        """The spool had no such source when it was opened."""
        self.is_from_elsewhere = False
        """The spool had the source when it was opened, and no lines: those stay on the machine that has read them."""
        self.is_unnamed = False
        """The record that names its container is lost."""
        self.reader = LogReader(line.rank)
        self.ranges = KeptRanges(())
        self.second_reader = LogReader(line.rank)
        """The reader of lost lines that are read again."""
        self.is_read_again = False
        """True if there are such lines."""
        self.line_count = 0
        """Number of its lines in the spool."""
        self.passed_count = 0
        """Number of its lines that were read, whether the spool held them or not."""
        self.found: list[KeptRange] = []
        """The kept ranges behind the first loss, while the spool is loaded."""
        self.is_broken = False
        self.uncounted = 0
        """Number of its lines that are not kept, because of the size limit."""

    @property
    def is_of_pod(self) -> bool:
        """True if the log is that of a container, which may be read again."""
        return bool(self.line.namespace)


class Loader:
    """The loader of one spool, used once.

    Args:
        sources: `sources.jsonl`.
        lines: `lines.log`.
        points: The findings in the lines.
    """

    def __init__(self, sources: AppendOnly, lines: AppendOnly, points: PointsBook) -> None:
        self.sources_file = sources
        self.lines_file = lines
        self.by_number: dict[int, SpooledSource] = {}
        self.by_key: dict[SourceKey, SpooledSource] = {}
        self.gaps: dict[str, GapLine] = {}
        self.repairs: list[str] = []
        """The repaired parts, one sentence each."""
        self.to_read_again: list[SpooledSource] = []
        self.opened_gaps: list[str] = []
        """Keys of gaps that close when all of these have been read again."""
        self._points = points
        self._ends: dict[int, EndLine] = {}
        self._recovered: list[SourceLine] = []
        self._damage: list[tuple[int, int, bytes]] = []
        self._latest = b""

    def load(self) -> None:
        """Load and repair the spool.

        Raises:
            OSError: The disk has no space for the repair.
        """
        lost_points = self._points.load()
        if lost_points:
            self.repairs.append(f"{lost_points} damaged points were removed; they are read from the log again.")
        self._load_sources()
        self._name_by_points()
        self._load_lines()
        for number in sorted(self._points.numbers - self.by_number.keys()):
            self._unnamed_source(number)  # no other container gets this number
        for source in self.by_number.values():
            source.ranges = KeptRanges(source.found)
        self._mend()
        self._find_cut_logs()
        for source in self.by_number.values():
            if source.is_ended:
                self._points.take(source.line.number, source.reader.flush())
                self._points.end(source.line.number)

    def unclaimed(self) -> dict[bytes, SpooledSource]:
        """Return the sources without a name, by the key of their first kept line."""
        unnamed = (source for source in self.by_number.values() if source.is_unnamed and source.found)
        return {source.found[0].first: source for source in unnamed}

    def _load_sources(self) -> None:
        good, damaged, offset = list[tuple[int, int]](), 0, 0
        for raw in whole_lines(self.sources_file.path)[0]:
            place, offset = (offset, offset + len(raw) + 1), offset + len(raw) + 1
            if self._take_source_line(raw):
                good.append(place)
            else:
                damaged += 1
        if damaged:
            replace_damaged(self.sources_file.path, good)
            self.sources_file.close()
            self.sources_file = AppendOnly(self.sources_file.path)
            self.repairs.append(f"{damaged} damaged lines of the list of containers were removed.")

    def _name_by_points(self) -> None:
        """Take the sources that the points name, and the list of containers has lost."""
        for number, line in self._points.sources.items():
            if number not in self.by_number or self.by_number[number].is_unnamed:
                self.name(line)
                self._recovered.append(line)

    def _take_source_line(self, raw: bytes) -> bool:
        line = source_line_in(raw)
        match line:
            case SourceLine() if line.number not in self.by_number or self.by_number[line.number].is_unnamed:
                self.name(line)
            case EndLine() if line.number in self.by_number:
                self._ends[line.number] = line
                self.by_number[line.number].is_ended = True
            case GapLine():
                self.gaps[line.key] = line
            case _:
                return False
        return True

    def name(self, line: SourceLine) -> SpooledSource:
        """Assign a container to a number. Two numbers may have the same container: then they are one log."""
        source = self.by_key.get((line.uid, line.container)) or SpooledSource(line)
        if line.uid == _unknown(line.number):
            source.is_unnamed = source.is_broken = True
        else:
            self.by_key[(line.uid, line.container)] = source
            self._points.name(line)
        self.by_number[line.number] = source
        return source

    def _load_lines(self) -> None:
        latest = max(int((self.lines_file.modified_at + _LATEST_SECONDS) * 1e9), 0)
        self._latest = stamp_of(latest)
        near = b""
        for piece in pieces_of(self.lines_file.path, limit_bytes=_REPLAY_BYTES):
            found = scan(piece.raws, piece.begin, piece.end, latest=self._latest)
            if found.is_whole:
                near = self._replay(piece.raws)
                continue
            places = zip(found.records, pairwise([*found.begins, found.end]), strict=True)
            for is_whole, group in groupby(places, key=lambda placed: placed[0] is not None):
                if is_whole:
                    near = self._replay([record for record, _ in group if record is not None])
                else:
                    for _, (begin, behind) in group:
                        self._break(begin, behind, near)

    def _replay(self, records: list[bytes]) -> bytes:
        for number, group in groupby(records, key=source_in):
            self._replay_one(number, list(group))
        return records[-1]

    def _replay_one(self, number: int, records: list[bytes]) -> None:
        letters = letters_in(records)
        if b"S" in letters:
            for introduced in filter(None, map(introduced_in, records)):
                if number not in self.by_number:
                    self.name(introduced)
                    self._recovered.append(introduced)
                self.by_number[number].is_introduced = True
            records = [record for record in records if record[:1] != b"S"]
        if not records or (letters == {b"M"} and number not in self.by_number):
            return  # a marker of damage without a record close to it: it belongs to no container
        source = self.by_number.get(number) or self._unnamed_source(number)
        if b"F" in letters:
            self._take_file(source, number, records)
        else:
            for _, group in groupby(records, key=tag_in):
                self._take(source, number, batch_of(group))

    def _unnamed_source(self, number: int) -> SpooledSource:
        line = SourceLine(number, "", f"container {number}", "unknown", _unknown(number))
        self._recovered.append(line)
        self.repairs.append(f"The name of container {number} is lost.")
        return self.name(line)

    def _take_file(self, source: SpooledSource, number: int, records: Iterable[bytes]) -> None:
        for _, group in groupby(map(without_place, records), key=lambda placed: tag_in(placed[0])):
            placed = list(group)
            batch = batch_of([record for record, _ in placed])
            self._take(source, number, batch, begin=placed[0][1], end=placed[-1][1])

    def _take(self, source: SpooledSource, number: int, batch: LogBatch, *, begin: int = 0, end: int = 0) -> None:
        """Take kept lines; for a file, `begin` and `end` are the offsets at which the first and the last one end."""
        self._points.read(number, source.reader, batch)
        if not batch.is_marker:
            source.line_count += len(batch)
            self._place(source, batch, begin=begin, end=end)

    def _place(self, source: SpooledSource, batch: LogBatch, *, begin: int, end: int) -> None:
        """Move the place where reading continues; behind a loss it stays, and kept lines become a range."""
        if source.is_broken and begin >= source.offset:
            line = batch.lines[0]
            source.found.append(KeptRange(key_of(line[STAMP_BYTES + 1 :], begin) if begin else line, begin=begin))
        source.is_broken = False
        if source.found and end >= source.found[-1].end:
            source.found[-1].last, source.found[-1].end = batch.passed_by(source.found[-1].last), end
        else:
            source.found.clear()  # nothing was lost, or the file has begun again since
            source.cursor, source.offset = batch.passed_by(source.cursor), end

    def _break(self, begin: int, end: int, near: bytes) -> None:
        """Record damage: any log may have lost lines there."""
        self._damage.append((begin, end, near))
        for source in self.by_number.values():
            source.is_broken = True

    def _mend(self) -> None:
        if self._recovered:
            self.sources_file.append(b"".join(_ENCODER.encode(line) + b"\n" for line in self._recovered))
            self.repairs.append(f"{len(self._recovered)} containers were missing in the list of containers.")
        if not self._damage:
            return
        size = sum(end - begin for begin, end, _ in self._damage)
        nearest = [ns_of(stamp_in(near)) for _, _, near in self._damage if near]
        self._lose(f"damage-{self._damage[0][0]}-{size}", f"{size} bytes of it were damaged", min(nearest, default=0))
        aside = replace_damaged(self.lines_file.path, self._pieces())
        self.lines_file.close()
        self.lines_file = AppendOnly(self.lines_file.path)
        self.repairs.append(f"{size} damaged bytes of the log were removed; the damaged file is kept as {aside.name}.")

    def _pieces(self) -> Iterator[bytes | tuple[int, int]]:
        """Yield the repaired file: the whole records, and a marker for each damaged stretch."""
        offset = 0
        for begin, end, near in self._damage:
            yield (offset, begin)
            yield damage_marker(near, end - begin) + b"\n"
            offset = end
        yield (offset, self.lines_file.size)

    def _find_cut_logs(self) -> None:
        """Mark logs to be read again that have fewer lines than were recorded."""
        cut = [
            source
            for number, end in self._ends.items()
            if (source := self.by_number[number]).line_count < end.lines or (end.lines < 0 and self.lines_file.is_new)
        ]
        is_known = any(gap.number == ALL_SOURCES and not gap.is_closed for gap in self.gaps.values())
        if cut and not is_known:
            self._lose(CUT, "lines at its end were lost", 0)
            self.repairs.append(f"{len(cut)} logs have fewer lines than they had.")
        again = {id(source): source for source in (*cut, *(self.by_key.values() if self._damage else ()))}
        self.to_read_again = list(again.values())
        for source in self.to_read_again:
            source.is_ended = source.is_ended and not source.is_of_pod

    def _lose(self, key: str, why: str, since_ns: int) -> None:
        """Record that lines of any log may be missing."""
        known = self.gaps.get(key)
        if known is None or known.is_closed:
            gap = self.gaps[key] = GapLine(key, ALL_SOURCES, why, since_ns)
            self.sources_file.append(_ENCODER.encode(gap) + b"\n")
        self.opened_gaps.append(key)


def _unknown(number: int) -> str:
    """Return the uid of a container whose name is lost, so that all of its log counts as behind a loss."""
    return f"unknown-{number}"

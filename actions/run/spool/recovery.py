"""The recovery of a spool left by an earlier writer, mended where it is damaged.

What is whole is kept. Logs that may have lost lines are read again from before the loss, as far as the pods still have
them; what the spool holds behind it is not taken twice.
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
    scan,
    source_in,
    source_line_in,
    whole_lines,
    without_place,
)
from actions.telemetry.log_reader import LogReader

PlacedLine = tuple[LogLine, int]
"""A line of a file, and where in the file it ends."""


class KeptRange(msgspec.Struct):
    """Consecutive lines of one log, all of which are in the spool.

    `first` tells the first one: its stamp and text; of a line of a file, see `key_of`. `begin` and `end` are where in
    the file the first and the last one end.
    """

    first: bytes
    last: LogCursor = START
    begin: int = 0
    end: int = 0


def key_of(text: bytes, end: int) -> bytes:
    """The key that tells a line of a file from others."""
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
        """True if what is read now stands behind all of them."""
        return not self._ranges

    def copy(self) -> KeptRanges:
        """The same, to be gone on with separately."""
        other = KeptRanges(self._ranges)
        other._is_inside, other._left = self._is_inside, self._left
        return other

    def missing(self, batch: LogBatch) -> LogBatch | None:
        """The lines that are in none of the ranges; `None` if there are none."""
        if batch.is_marker or not self._ranges:
            return batch
        lines = [line for line in batch.lines if self._is_missing(line)]
        return LogBatch(b"\n".join(lines) + b"\n") if lines else None

    def missing_lines(self, lines: Sequence[PlacedLine]) -> list[PlacedLine]:
        """The same of lines of a file."""
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
"""No line is younger than its file by more: the clocks of nodes differ, but not so much."""
_ENCODER = msgspec.json.Encoder()

SourceKey = tuple[str, str]
"""Uid of the pod, name of the container."""


class SpooledSource:
    """One container: its number, and where its log is to be taken up."""

    def __init__(self, line: SourceLine) -> None:
        self.line = line
        self.cursor: LogCursor = START
        """Up to where its log has been read; behind it there may be lines that are in the spool already."""
        self.offset = 0
        """Of a source that is a file: the same in bytes."""
        self.is_ended = False
        self.is_introduced = False
        """True if its first line, and with it its name, stands in the file of lines."""
        self.is_fresh = False
        """The spool had no such source when it was opened."""
        self.is_unnamed = False
        """Nothing says whose lines these are."""
        self.reader = LogReader(line.rank)
        self.ranges = KeptRanges(())
        self.second_reader = LogReader(line.rank)
        """Of lines that were lost and are read again."""
        self.is_read_again = False
        """True if there are such lines."""
        self.line_count = 0
        """Its lines in the spool."""
        self.passed_count = 0
        """Its lines that came, whether they were in the spool already or not."""
        self.found: list[KeptRange] = []
        """The whole ranges behind the first loss, while the spool is loaded."""
        self.is_broken = False
        self.uncounted = 0
        """Its lines that are not kept, because there are too many."""

    @property
    def is_of_pod(self) -> bool:
        """True if there is, or was, a container that could be asked again."""
        return bool(self.line.namespace)


class Loader:
    """Loads one spool, once.

    Args:
        sources: `sources.jsonl`.
        lines: `lines.log`.
        points: What is read in the lines.
    """

    def __init__(self, sources: AppendOnly, lines: AppendOnly, points: PointsBook) -> None:
        self.sources_file = sources
        self.lines_file = lines
        self.by_number: dict[int, SpooledSource] = {}
        self.by_key: dict[SourceKey, SpooledSource] = {}
        self.gaps: dict[str, GapLine] = {}
        self.repairs: list[str] = []
        """The mended parts, one sentence each."""
        self.to_read_again: list[SpooledSource] = []
        self.opened_gaps: list[str] = []
        """Those that close when all of these have been read again."""
        self._points = points
        self._ends: dict[int, EndLine] = {}
        self._recovered: list[SourceLine] = []
        self._damage: list[tuple[int, int, bytes]] = []
        self._latest = b""

    def load(self) -> None:
        """Load it.

        Raises:
            OSError: There is no room to mend what is damaged.
        """
        lost_points = self._points.load()
        if lost_points:
            self.repairs.append(f"{lost_points} damaged lines of the points were left out; they are made from the log.")
        self._load_sources()
        self._load_lines()
        for source in self.by_number.values():
            source.ranges = KeptRanges(source.found)
        self._mend()
        self._find_cut_logs()
        for source in self.by_number.values():
            if source.is_ended:
                self._points.take(source.line.number, source.reader.flush())

    def unclaimed(self) -> dict[bytes, SpooledSource]:
        """Sources that nothing names, by what tells the first line of theirs that is kept."""
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
            self.repairs.append(f"{damaged} damaged lines of the list of containers were left out.")

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
        """Give a number its container. Two numbers may be one container's: then they are one log."""
        source = self.by_key.get((line.uid, line.container)) or SpooledSource(line)
        if line.uid == _unknown(line.number):
            source.is_unnamed = source.is_broken = True
        else:
            self.by_key[(line.uid, line.container)] = source
        self.by_number[line.number] = source
        return source

    def _load_lines(self) -> None:
        path, offset = self.lines_file.path, 0
        latest = max(int((self.lines_file.modified_at + _LATEST_SECONDS) * 1e9), 0)
        self._latest = stamp_of(latest)
        near = b""
        while True:
            raws, end = whole_lines(path, offset, _REPLAY_BYTES)
            if end == offset:
                return
            found = scan(raws, offset, end, latest=self._latest)
            offset = end
            if found.is_whole:
                near = self._replay(raws)
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
            return  # a remark of ours on damage close to nothing: it is of no container
        source = self.by_number.get(number) or self._unnamed_source(number)
        if b"F" in letters:
            self._take_file(source, number, records)
        else:
            for _, group in groupby(records, key=tag_in):
                self._take(source, number, batch_of(group))

    def _unnamed_source(self, number: int) -> SpooledSource:
        line = SourceLine(number, "", f"container {number}", "unknown", _unknown(number))
        self._recovered.append(line)
        self.repairs.append(f"Nothing says whose the lines of container {number} are.")
        return self.name(line)

    def _take_file(self, source: SpooledSource, number: int, records: Iterable[bytes]) -> None:
        for _, group in groupby(map(without_place, records), key=lambda placed: tag_in(placed[0])):
            placed = list(group)
            batch = batch_of([record for record, _ in placed])
            self._take(source, number, batch, begin=placed[0][1], end=placed[-1][1])

    def _take(self, source: SpooledSource, number: int, batch: LogBatch, *, begin: int = 0, end: int = 0) -> None:
        """Take lines that are kept; of a file, `begin` and `end` are where in it the first and the last one end."""
        self._points.read(number, source.reader, batch)
        if not batch.is_marker:
            source.line_count += len(batch)
            self._place(source, batch, begin=begin, end=end)

    def _place(self, source: SpooledSource, batch: LogBatch, *, begin: int, end: int) -> None:
        """Move the place where reading goes on; behind a loss it stays, and what is kept becomes a range."""
        if source.is_broken and begin >= source.offset:
            line = batch.lines[0]
            source.found.append(KeptRange(key_of(line[STAMP_BYTES + 1 :], begin) if begin else line, begin=begin))
        source.is_broken = False
        if source.found and end >= source.found[-1].end:
            source.found[-1].last, source.found[-1].end = batch.passed_by(source.found[-1].last), end
        else:
            source.found.clear()  # nothing was lost, or the file has begun anew since
            source.cursor, source.offset = batch.passed_by(source.cursor), end

    def _break(self, begin: int, end: int, near: bytes) -> None:
        """Note damage: any log may have lost lines there."""
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
        self.repairs.append(f"{size} damaged bytes of the log were left out; the file is kept as {aside.name}.")

    def _pieces(self) -> Iterator[bytes | tuple[int, int]]:
        """The mended file: what is whole, and a marker for each stretch that is not."""
        offset = 0
        for begin, end, near in self._damage:
            yield (offset, begin)
            yield damage_marker(near, end - begin) + b"\n"
            offset = end
        yield (offset, self.lines_file.size)

    def _find_cut_logs(self) -> None:
        """Have logs read again that are known to have had more lines than there are."""
        cut = [
            source
            for number, end in self._ends.items()
            if (source := self.by_number[number]).line_count < end.lines or (end.lines < 0 and self.lines_file.is_new)
        ]
        is_told = any(gap.number == ALL_SOURCES and not gap.is_closed for gap in self.gaps.values())
        if cut and not is_told:
            self._lose("cut", "lines at its end were lost", 0)
            self.repairs.append(f"{len(cut)} logs have fewer lines than they had.")
        again = {id(source): source for source in (*cut, *(self.by_key.values() if self._damage else ()))}
        self.to_read_again = list(again.values())
        for source in self.to_read_again:
            source.is_ended = source.is_ended and not source.is_of_pod

    def _lose(self, key: str, why: str, since_ns: int) -> None:
        """Note that lines of any log may be missing."""
        known = self.gaps.get(key)
        if known is None or known.is_closed:
            gap = self.gaps[key] = GapLine(key, ALL_SOURCES, why, since_ns)
            self.sources_file.append(_ENCODER.encode(gap) + b"\n")
        self.opened_gaps.append(key)


def _unknown(number: int) -> str:
    """The uid of a container that nothing names: all of its log is behind a loss, that of its name."""
    return f"unknown-{number}"

"""The buffer of log lines in memory: appended at one end, evicted at the other, found by number or pattern."""

from __future__ import annotations

import re
import zlib
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from itertools import accumulate
from typing import NamedTuple

from actions.base.clock import processor_seconds
from actions.base.patterns import SearchPattern
from actions.cluster.logs.batch import TEXT_AT, number_in, stamp_in, tag_in
from actions.cluster.logs.lines import STAMP_BYTES, ns_of, stamp_of

CHUNK_BYTES = 256 * 1024
LINE_CHARACTERS = 8 * 1024
INFLATED_CHUNKS = 8
SLICE_LINES = 1_000
SLICE_SECONDS = 0.005
"""Time of the loop after which a search lets it go, at the end of a chunk."""
MOST_ORIGINS = 0xFFFF


class BufferedLine(NamedTuple):
    """A line, cleaned by `actions.base.untrusted.clean_text`: SGR and `\\r` may be in it, `\\n` may not."""

    text: str
    source: str = ""
    """Name of the source, e.g. a pod."""
    at_ns: int = 0
    """Nanoseconds since the epoch; 0 if unknown."""
    is_marker: bool = False
    """A marker of the console between the lines: reconnected, restarted, skipped."""


class _Origin(NamedTuple):
    """A source, of lines or of markers."""

    source: str
    is_marker: bool


class _Chunk:
    """Lines that are compressed, and evicted, together."""

    __slots__ = ("ends", "first", "origins", "packed", "stamps", "text")

    def __init__(self, first: int) -> None:
        self.first = first
        self.ends = array("I")
        """End of each line in the text."""
        self.origins = array("H")
        self.stamps = bytearray()
        self.text = bytearray()
        self.packed: bytes | None = None
        """Stamps and text, compressed, once the chunk is sealed."""

    @property
    def end(self) -> int:
        return self.first + len(self.ends)

    @property
    def kept_bytes(self) -> int:
        data = len(self.text) + len(self.stamps) if self.packed is None else len(self.packed)
        return data + 6 * len(self.ends)

    def append(self, texts: Sequence[bytes], stamps: Iterable[bytes], origins: Iterable[int]) -> None:
        """Append lines, at least one."""
        start = len(self.text)
        ends = accumulate((len(text) + 1 for text in texts), initial=start - 1)
        next(ends)
        self.ends.extend(ends)
        self.text += b"\n".join(texts) + b"\n"
        self.stamps += b"".join(stamps)
        self.origins.extend(origins)

    def seal(self) -> None:
        """Compress a full chunk, which does not change any more."""
        self.packed = zlib.compress(self.stamps + self.text, 1)
        self.stamps, self.text = bytearray(), bytearray()

    def unpacked(self) -> tuple[bytes, bytes]:
        """Return stamps and text of a sealed chunk."""
        data = zlib.decompress(self.packed or b"")
        size = STAMP_BYTES * len(self.ends)
        return data[:size], data[size:]


class LogBuffer:
    """A bounded, append-only store of lines with absolute numbers that never change.

    Lines `[start, end)` are held. Full chunks are compressed; the oldest chunks are evicted when either cap is passed,
    and counted in `evicted`. A million lines of training logs take about 50 MB. Use it on one thread.

    Args:
        max_lines: Maximum number of lines.
        max_bytes: Maximum number of bytes, as stored.
    """

    def __init__(self, *, max_lines: int = 1_000_000, max_bytes: int = 64 * 1024 * 1024) -> None:
        self._max_lines = max_lines
        self._max_bytes = max_bytes
        self._chunks = [_Chunk(0)]
        self._firsts = [0]
        self._sealed_bytes = 0
        self._inflated: dict[int, tuple[bytes, bytes]] = {}
        self._sources: dict[str, int] = {}
        self._origin_ids: dict[_Origin, int] = {}
        self._origins: list[_Origin] = []
        self._origin_of_tag: dict[bytes, int] = {}

    @property
    def start(self) -> int:
        """The number of the oldest line held."""
        return self._chunks[0].first

    @property
    def end(self) -> int:
        """The number of the next line."""
        return self._chunks[-1].end

    @property
    def evicted(self) -> int:
        """The number of evicted lines."""
        return self.start

    @property
    def kept_bytes(self) -> int:
        """The number of bytes held, as stored."""
        return self._sealed_bytes + self._chunks[-1].kept_bytes

    @property
    def sources(self) -> Sequence[str]:
        """All sources so far, in order of appearance."""
        return tuple(self._sources)

    def extend(self, lines: Iterable[BufferedLine]) -> None:
        """Append lines. Lines over 8 Ki characters are cut, with a note of the missing length."""
        for text, source, at_ns, is_marker in lines:
            origin = self._origin(source, is_marker=is_marker)
            self._append([_line_of(text).encode("utf-8", "replace")], [stamp_of(at_ns)], [origin])

    def extend_tagged(self, records: Sequence[bytes], source_of: Callable[[int], str]) -> None:
        """Append many lines at once; long ones are cut likewise.

        Args:
            records: Lines in the form of `actions.cluster.logs.batch`, all of one feed.
            source_of: Returns the source name of a source number.
        """
        for start in range(0, len(records), SLICE_LINES):
            part = records[start : start + SLICE_LINES]
            texts = [record[TEXT_AT:] for record in part]
            if len(max(texts, key=len)) > LINE_CHARACTERS:
                texts = [_line_of(text.decode("utf-8", "replace")).encode() for text in texts]
            tags = list(map(tag_in, part))
            for tag in dict.fromkeys(tags):  # in order of appearance: it decides on colours
                if tag not in self._origin_of_tag:
                    origin = self._origin(source_of(number_in(tag)), is_marker=tag[:1] == b"M")
                    self._origin_of_tag[tag] = origin
            self._append(texts, map(stamp_in, part), map(self._origin_of_tag.__getitem__, tags))

    def line(self, number: int) -> BufferedLine:
        """Return the line with that number.

        Raises:
            IndexError: It is not held, or not any more.
        """
        chunk = self._chunk_of(number)
        index = number - chunk.first
        stamps, text = self._data_of(chunk)
        origin = self._origins[chunk.origins[index]]
        return BufferedLine(
            text[_begin(chunk, index) : chunk.ends[index]].decode("utf-8", "replace"),
            origin.source,
            ns_of(bytes(stamps[index * STAMP_BYTES : (index + 1) * STAMP_BYTES])),
            origin.is_marker,
        )

    def line_at(self, at_ns: int) -> int:
        """Return the number of the first line that is not older than `at_ns`; `end` if all are. Lines are in order."""
        return bisect_left(range(self.end), at_ns, lo=self.start, key=lambda number: self.line(number).at_ns)

    def source_id(self, source: str) -> int:
        """Return the index of a source in `sources`."""
        return self._sources.get(source, 0)

    def of_sources(self, numbers: array[int], sources: Collection[str]) -> array[int]:
        """Return those of some lines of one block (see `blocks_from`) that are of one of `sources`."""
        if not numbers:
            return numbers
        wanted = {number for number, origin in enumerate(self._origins) if origin.source in sources}
        chunk = self._chunk_of(numbers[0])
        return array("Q", (number for number in numbers if chunk.origins[number - chunk.first] in wanted))

    def blocks_from(self, number: int) -> Iterator[tuple[int, bytes]]:
        """Iterate over lines from `number` (or `start`, if later) on, in large pieces for a search.

        Yields:
            Number of the first line, and the lines as UTF-8, each ended by a newline.
        """
        number = max(number, self.start)
        for chunk in self._chunks[max(0, bisect_right(self._firsts, number) - 1) :]:
            index = max(0, number - chunk.first)
            if index < len(chunk.ends):
                yield chunk.first + index, bytes(self._data_of(chunk)[1][_begin(chunk, index) :])

    def _append(self, texts: Sequence[bytes], stamps: Iterable[bytes], origins: Iterable[int]) -> None:
        chunk = self._chunks[-1]
        chunk.append(texts, stamps, origins)
        if len(chunk.text) >= CHUNK_BYTES:
            self._seal(chunk)

    def _origin(self, source: str, *, is_marker: bool) -> int:
        """Return the number of a source and kind of line; beyond 65,535 of them, all share the last number."""
        origin = _Origin(source, is_marker)
        known = self._origin_ids.get(origin)
        if known is None:
            self._sources.setdefault(source, len(self._sources))
            known = self._origin_ids[origin] = min(len(self._origins), MOST_ORIGINS)
            self._origins.append(origin)
        return known

    def _chunk_of(self, number: int) -> _Chunk:
        if not self.start <= number < self.end:
            message = f"line {number} is not among {self.start}…{self.end}"
            raise IndexError(message)
        return self._chunks[bisect_right(self._firsts, number) - 1]

    def _data_of(self, chunk: _Chunk) -> tuple[bytes | bytearray, bytes | bytearray]:
        """Return stamps and text of a chunk."""
        if chunk.packed is None:
            return chunk.stamps, chunk.text
        data = self._inflated.get(chunk.first)
        if data is None:
            data = chunk.unpacked()
            while len(self._inflated) >= INFLATED_CHUNKS:
                del self._inflated[next(iter(self._inflated))]
            self._inflated[chunk.first] = data
        return data

    def _seal(self, chunk: _Chunk) -> None:
        chunk.seal()
        self._sealed_bytes += chunk.kept_bytes
        fresh = _Chunk(chunk.end)
        self._chunks.append(fresh)
        self._firsts.append(fresh.first)
        while len(self._chunks) > 2 and self._is_over():
            self._forget_oldest()

    def _is_over(self) -> bool:
        return self.end - self._chunks[1].first >= self._max_lines or self._sealed_bytes > self._max_bytes

    def _forget_oldest(self) -> None:
        oldest = self._chunks.pop(0)
        self._firsts.pop(0)
        self._sealed_bytes -= oldest.kept_bytes
        self._inflated.pop(oldest.first, None)


def _begin(chunk: _Chunk, index: int) -> int:
    return chunk.ends[index - 1] + 1 if index else 0


def _line_of(text: str) -> str:
    if "\n" in text:
        text = text.replace("\n", " ")
    if len(text) <= LINE_CHARACTERS:
        return text
    if "\r" in text:
        text = text.rstrip("\r").rpartition("\r")[2]
    missing = len(text) - LINE_CHARACTERS
    return text if missing <= 0 else f"{text[:LINE_CHARACTERS]}… ({missing:,} characters more)"


_INVISIBLE = re.compile(rb"\x1b\[[0-9;:]*m|^[^\n]*\r(?=[^\r\n])|\r+$", re.MULTILINE)


class LineSearch:
    """The numbers of matching lines, oldest first; complete up to line `scanned`.

    It searches the visible text: without colours, and with only the last state of a progress bar. New lines are
    scanned by further calls of `advance`; evicted ones are dropped by `forget_before`.

    Args:
        buffer: The lines.
        pattern: See `SearchPattern`; with a leading `!` the lines that do *not* match; all lines if empty.
        only: Sources whose lines count; all if empty.
    """

    def __init__(self, buffer: LogBuffer, pattern: str, only: Collection[str] = ()) -> None:
        self.pattern = pattern
        self.only = frozenset(only)
        self.is_inverse = pattern.startswith("!") and len(pattern) > 1
        self._regex = SearchPattern(pattern[1:] if self.is_inverse else pattern)
        self.matches = array("Q")
        self.scanned = buffer.start
        self._buffer = buffer

    @property
    def is_complete(self) -> bool:
        """True if every line held has been scanned."""
        return self.scanned >= self._buffer.end

    def advance(self, *, seconds: float = SLICE_SECONDS) -> bool:
        """Scan on for about so long; return `True` when complete."""
        self.forget_before(self._buffer.start)
        until = processor_seconds() + seconds
        for first, data in self._buffer.blocks_from(self.scanned):
            self.scanned = self._scan(first, data)
            if processor_seconds() >= until:
                break
        return self.is_complete

    def forget_before(self, number: int) -> None:
        """Drop matches among evicted lines."""
        if self.matches and self.matches[0] < number:
            del self.matches[: bisect_left(self.matches, number)]

    def after(self, number: int) -> int | None:
        """Return the first match after line `number`."""
        index = bisect_right(self.matches, number)
        return self.matches[index] if index < len(self.matches) else None

    def before(self, number: int) -> int | None:
        """Return the last match before line `number`."""
        index = bisect_left(self.matches, number)
        return self.matches[index - 1] if index else None

    def rank(self, number: int) -> int:
        """Return the number of matches before line `number`."""
        return bisect_left(self.matches, number)

    def spans(self, visible: str) -> list[tuple[int, int]]:
        """Return the matches within a visible text: non-empty `(start, end)` in characters."""
        return [] if self.is_inverse else self._regex.spans(visible)

    def _scan(self, first: int, data: bytes) -> int:
        if b"\x1b" in data or b"\r" in data:
            data = _INVISIBLE.sub(b"", data)
        found, line, at = array("Q"), first, 0
        for begin, end in self._regex.runs(data):
            here = line + data.count(b"\n", at, begin)
            behind = here + data.count(b"\n", begin, end)
            found.extend(range(line, here) if self.is_inverse else range(here, behind))
            line, at = behind, end
        rest = line + data.count(b"\n", at)
        if self.is_inverse:
            found.extend(range(line, rest))
        self.matches.extend(self._buffer.of_sources(found, self.only) if self.only else found)
        return rest


class Finds(NamedTuple):
    """The searches of a log view; `None` where there is none."""

    search: LineSearch | None = None
    narrowed: LineSearch | None = None
    errors: LineSearch | None = None

    @property
    def pending(self) -> list[LineSearch]:
        """The searches that have not scanned every line."""
        return [search for search in self if search is not None and not search.is_complete]


def common_line(first: LineSearch, second: LineSearch | None, at: int, *, down: bool) -> int | None:
    """Return the next line after `at`, or the last one before it, that both have found; `None` if there is none."""
    step = LineSearch.after if down else LineSearch.before
    line = step(first, at)
    while second is not None and line is not None:
        other = step(second, line - 1 if down else line + 1)
        if other is None or other == line:
            return other
        line = step(first, other - 1 if down else other + 1)
    return line


class LineMarks:
    """The marks that the operator has set on lines, in their order."""

    def __init__(self) -> None:
        self.numbers: list[int] = []
        self.at: int | None = None
        """The mark that was set or reached last: what is copied begins there."""

    def toggle(self, number: int) -> None:
        """Set a mark on a line, or drop it; then the one before it is the one that was reached."""
        index = bisect_left(self.numbers, number)
        if number in self.numbers[index : index + 1]:
            del self.numbers[index]
            self.at = self.numbers[max(0, index - 1)] if self.numbers else None
        else:
            self.numbers.insert(index, number)
            self.at = number

    def clear(self) -> None:
        """Drop all marks."""
        self.numbers.clear()
        self.at = None

    def reach(self, line: int, *, down: bool, is_shown: Callable[[int], bool]) -> int | None:
        """Go to the next mark after a line, or the one before it, and round at the ends; `None` if there is none.

        Args:
            line: Number of the line.
            down: The direction.
            is_shown: Whether a line passes the filter.
        """
        shown = [number for number in self.numbers if is_shown(number)]
        if not shown:
            return None
        index = bisect_right(shown, line) if down else bisect_left(shown, line) - 1
        self.at = shown[index % len(shown)]
        return self.at

    def forget_before(self, number: int) -> None:
        """Drop the marks of evicted lines."""
        if self.numbers and self.numbers[0] < number:
            self.numbers = self.numbers[bisect_left(self.numbers, number) :]
            if self.at is not None and self.at < number:
                self.at = self.numbers[0] if self.numbers else None

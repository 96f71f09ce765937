"""Lines of logs in memory: appended at one end, dropped at the other, found by number or by pattern."""

from __future__ import annotations

import re
import zlib
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import accumulate
from typing import NamedTuple

from actions.base.patterns import SearchPattern
from actions.cluster.logs.batch import TEXT_AT, number_in, stamp_in, tag_in
from actions.cluster.logs.lines import STAMP_BYTES, ns_of, stamp_of

CHUNK_BYTES = 256 * 1024
LINE_CHARACTERS = 8 * 1024
INFLATED_CHUNKS = 8
SLICE_LINES = 1_000
MOST_SPEAKERS = 0xFFFF


class BufferedLine(NamedTuple):
    """One line, cleaned by `actions.base.untrusted.clean_text`: SGR and `\\r` may be in it, `\\n` may not."""

    text: str
    source: str = ""
    """Who said it, e.g. a pod's name."""
    at_ns: int = 0
    """Nanoseconds since the epoch; 0 if unknown."""
    is_marker: bool = False
    """A remark of ours between the lines: reconnected, restarted, skipped."""


class _Speaker(NamedTuple):
    """Whoever says a line, and how."""

    source: str
    is_marker: bool


class _Chunk:
    """Lines that are sealed, and forgotten, together."""

    __slots__ = ("ends", "first", "packed", "speakers", "stamps", "text")

    def __init__(self, first: int) -> None:
        self.first = first
        self.ends = array("I")
        """Where each line ends in the text."""
        self.speakers = array("H")
        self.stamps = bytearray()
        self.text = bytearray()
        self.packed: bytes | None = None
        """Stamps and text once it is sealed."""

    @property
    def end(self) -> int:
        return self.first + len(self.ends)

    @property
    def kept_bytes(self) -> int:
        data = len(self.text) + len(self.stamps) if self.packed is None else len(self.packed)
        return data + 6 * len(self.ends)

    def append(self, texts: Sequence[bytes], stamps: Iterable[bytes], speakers: Iterable[int]) -> None:
        """Take lines, at least one."""
        start = len(self.text)
        ends = accumulate((len(text) + 1 for text in texts), initial=start - 1)
        next(ends)
        self.ends.extend(ends)
        self.text += b"\n".join(texts) + b"\n"
        self.stamps += b"".join(stamps)
        self.speakers.extend(speakers)

    def seal(self) -> None:
        """Pack what will not change any more."""
        self.packed = zlib.compress(self.stamps + self.text, 1)
        self.stamps, self.text = bytearray(), bytearray()

    def unpacked(self) -> tuple[bytes, bytes]:
        """Stamps and text of a sealed one."""
        data = zlib.decompress(self.packed or b"")
        size = STAMP_BYTES * len(self.ends)
        return data[:size], data[size:]


class LogBuffer:
    """A bounded, append-only store of lines with absolute numbers that never change.

    Lines `[start, end)` are held. Full chunks are compressed; whole oldest chunks go when either cap is passed, and
    are counted in `evicted`. A million lines of training logs take about 50 MB. Use it on one thread.

    Args:
        max_lines: Most lines held.
        max_bytes: Most bytes held, as stored.
    """

    def __init__(self, *, max_lines: int = 1_000_000, max_bytes: int = 64 * 1024 * 1024) -> None:
        self._max_lines = max_lines
        self._max_bytes = max_bytes
        self._chunks = [_Chunk(0)]
        self._firsts = [0]
        self._sealed_bytes = 0
        self._inflated: dict[int, tuple[bytes, bytes]] = {}
        self._sources: dict[str, int] = {}
        self._speaker_ids: dict[_Speaker, int] = {}
        self._speakers: list[_Speaker] = []
        self._speaker_of_tag: dict[bytes, int] = {}

    @property
    def start(self) -> int:
        """Number of the oldest line held."""
        return self._chunks[0].first

    @property
    def end(self) -> int:
        """Number that the next line will get."""
        return self._chunks[-1].end

    @property
    def evicted(self) -> int:
        """How many lines were forgotten."""
        return self.start

    @property
    def kept_bytes(self) -> int:
        """Bytes held, as stored."""
        return self._sealed_bytes + self._chunks[-1].kept_bytes

    @property
    def sources(self) -> Sequence[str]:
        """Everybody who ever said something, in order of appearance."""
        return tuple(self._sources)

    def extend(self, lines: Iterable[BufferedLine]) -> None:
        """Append lines. Longer ones than 8 Ki characters are cut, with a note of how much."""
        for text, source, at_ns, is_marker in lines:
            speaker = self._speaker(source, is_marker=is_marker)
            self._append([_line_of(text).encode("utf-8", "replace")], [stamp_of(at_ns)], [speaker])

    def extend_records(self, records: Sequence[bytes], source_of: Callable[[int], str]) -> None:
        """Append many lines at once; long ones are cut likewise.

        Args:
            records: In the form of `actions.cluster.logs.batch`; all of one feed.
            source_of: Who says the lines with that number.
        """
        for start in range(0, len(records), SLICE_LINES):
            part = records[start : start + SLICE_LINES]
            texts = [record[TEXT_AT:] for record in part]
            if len(max(texts, key=len)) > LINE_CHARACTERS:
                texts = [_line_of(text.decode("utf-8", "replace")).encode() for text in texts]
            tags = list(map(tag_in, part))
            for tag in set(tags) - self._speaker_of_tag.keys():
                speaker = self._speaker(source_of(number_in(tag)), is_marker=tag[:1] == b"M")
                self._speaker_of_tag[tag] = speaker
            self._append(texts, map(stamp_in, part), map(self._speaker_of_tag.__getitem__, tags))

    def line(self, number: int) -> BufferedLine:
        """The line with that number.

        Raises:
            IndexError: It is not held (any more).
        """
        chunk = self._chunk_of(number)
        index = number - chunk.first
        stamps, text = self._data_of(chunk)
        speaker = self._speakers[chunk.speakers[index]]
        return BufferedLine(
            text[_begin(chunk, index) : chunk.ends[index]].decode("utf-8", "replace"),
            speaker.source,
            ns_of(bytes(stamps[index * STAMP_BYTES : (index + 1) * STAMP_BYTES])),
            speaker.is_marker,
        )

    def source_id(self, source: str) -> int:
        """A small number for a source: its place in `sources`."""
        return self._sources.get(source, 0)

    def blocks_from(self, number: int) -> Iterator[tuple[int, bytes]]:
        """Lines from `number` (or from `start`, if later) on, in large pieces for a search.

        Yields:
            Number of the first line, and the lines as UTF-8, each ended by a newline.
        """
        number = max(number, self.start)
        for chunk in self._chunks[max(0, bisect_right(self._firsts, number) - 1) :]:
            index = max(0, number - chunk.first)
            if index < len(chunk.ends):
                yield chunk.first + index, bytes(self._data_of(chunk)[1][_begin(chunk, index) :])

    def _append(self, texts: Sequence[bytes], stamps: Iterable[bytes], speakers: Iterable[int]) -> None:
        chunk = self._chunks[-1]
        chunk.append(texts, stamps, speakers)
        if len(chunk.text) >= CHUNK_BYTES:
            self._seal(chunk)

    def _speaker(self, source: str, *, is_marker: bool) -> int:
        """The number of a speaker; beyond 65,535 of them, all are the last one."""
        speaker = _Speaker(source, is_marker)
        known = self._speaker_ids.get(speaker)
        if known is None:
            self._sources.setdefault(source, len(self._sources))
            known = self._speaker_ids[speaker] = min(len(self._speakers), MOST_SPEAKERS)
            self._speakers.append(speaker)
        return known

    def _chunk_of(self, number: int) -> _Chunk:
        if not self.start <= number < self.end:
            message = f"line {number} is not among {self.start}…{self.end}"
            raise IndexError(message)
        return self._chunks[bisect_right(self._firsts, number) - 1]

    def _data_of(self, chunk: _Chunk) -> tuple[bytes | bytearray, bytes | bytearray]:
        """Stamps and text."""
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

    It looks at what is visible: colours are no part of the text, and of a progress bar only its last state is.
    New lines are taken up by further calls of `advance`; forgotten ones by `forget_before`.

    Args:
        buffer: Where to look.
        pattern: See `SearchPattern`; with a leading `!` the lines that do *not* match.
    """

    def __init__(self, buffer: LogBuffer, pattern: str) -> None:
        self.pattern = pattern
        self.is_inverse = pattern.startswith("!") and len(pattern) > 1
        self._regex = SearchPattern(pattern[1:] if self.is_inverse else pattern)
        self.matches = array("Q")
        self.scanned = buffer.start
        self._buffer = buffer

    @property
    def is_complete(self) -> bool:
        """Whether every line held has been looked at."""
        return self.scanned >= self._buffer.end

    def advance(self, *, slice_bytes: int = 1024 * 1024) -> bool:
        """Look at about `slice_bytes` more (a few milliseconds a megabyte); `True` when complete."""
        self.forget_before(self._buffer.start)
        for first, data in self._buffer.blocks_from(self.scanned):
            self.scanned = self._scan(first, data)
            slice_bytes -= len(data)
            if slice_bytes <= 0:
                break
        return self.is_complete

    def forget_before(self, number: int) -> None:
        """Drop matches among lines that the buffer forgot."""
        if self.matches and self.matches[0] < number:
            del self.matches[: bisect_left(self.matches, number)]

    def after(self, number: int) -> int | None:
        """The first match after line `number`."""
        index = bisect_right(self.matches, number)
        return self.matches[index] if index < len(self.matches) else None

    def before(self, number: int) -> int | None:
        """The last match before line `number`."""
        index = bisect_left(self.matches, number)
        return self.matches[index - 1] if index else None

    def rank(self, number: int) -> int:
        """How many matches come before line `number`."""
        return bisect_left(self.matches, number)

    def spans(self, visible: str) -> list[tuple[int, int]]:
        """Where the pattern stands in a visible text: non-empty `(start, end)` in characters."""
        return [] if self.is_inverse else self._regex.spans(visible)

    def _scan(self, first: int, data: bytes) -> int:
        if b"\x1b" in data or b"\r" in data:
            data = _INVISIBLE.sub(b"", data)
        ends = list(accumulate(len(line) + 1 for line in data.split(b"\n")[:-1]))
        found = array("Q")
        at, start_in = 0, self._regex.start_in
        while at < len(data) and (start := start_in(data, at)) is not None:
            index = bisect_right(ends, start)
            if index >= len(ends):
                break
            found.append(first + index)
            at = ends[index]
        self.matches.extend(_complement(found, first, len(ends)) if self.is_inverse else found)
        return first + len(ends)


def _complement(found: array[int], first: int, count: int) -> array[int]:
    hit = set(found)
    return array("Q", (number for number in range(first, first + count) if number not in hit))

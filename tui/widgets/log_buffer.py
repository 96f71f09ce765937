"""Lines of logs in memory: appended at one end, forgotten at the other, found by number."""

from __future__ import annotations

import zlib
from array import array
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

CHUNK_BYTES = 256 * 1024
LINE_CHARACTERS = 8 * 1024
INFLATED_CHUNKS = 8


class LogRecord(NamedTuple):
    """One line, cleaned by `actions.base.untrusted.clean_text`: SGR and `\\r` may be in it, `\\n` may not."""

    text: str
    source: str = ""
    """Who said it, e.g. a pod's name."""
    at_ns: int = 0
    """Nanoseconds since the epoch; 0 if unknown."""
    is_marker: bool = False
    """A remark of ours between the lines: reconnected, restarted, skipped."""


class _Chunk:
    """Lines that are sealed, and forgotten, together."""

    __slots__ = ("at_ns", "data", "ends", "first", "is_marker", "packed", "source_ids")

    def __init__(self, first: int) -> None:
        self.first = first
        self.ends = array("I")
        self.source_ids = array("H")
        self.at_ns = array("q")
        self.is_marker = bytearray()
        self.data = bytearray()
        self.packed: bytes | None = None

    @property
    def end(self) -> int:
        return self.first + len(self.ends)

    @property
    def kept_bytes(self) -> int:
        text = len(self.data) if self.packed is None else len(self.packed)
        return text + 15 * len(self.ends)


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
        self._inflated: dict[int, bytes] = {}
        self._source_ids: dict[str, int] = {}
        self._sources: list[str] = []

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
        return self._sources

    def extend(self, records: Iterable[LogRecord]) -> None:
        """Append lines. Longer ones than 8 Ki characters are cut, with a note of how much."""
        chunk = self._chunks[-1]
        for text, source, at_ns, is_marker in records:
            chunk.data += _line_of(text).encode("utf-8", "replace")
            chunk.ends.append(len(chunk.data))
            chunk.data += b"\n"
            chunk.source_ids.append(self._id_of(source))
            chunk.at_ns.append(at_ns)
            chunk.is_marker.append(is_marker)
            if len(chunk.data) >= CHUNK_BYTES:
                chunk = self._seal(chunk)

    def line(self, number: int) -> LogRecord:
        """The line with that number.

        Raises:
            IndexError: It is not held (any more).
        """
        chunk = self._chunk_of(number)
        index = number - chunk.first
        text = self._bytes_of(chunk)[_begin(chunk, index) : chunk.ends[index]].decode("utf-8", "replace")
        source = self._sources[chunk.source_ids[index]]
        return LogRecord(text, source, chunk.at_ns[index], bool(chunk.is_marker[index]))

    def source_id(self, source: str) -> int:
        """A small number for a source: its place in `sources`."""
        return self._source_ids.get(source, 0)

    def blocks_from(self, number: int) -> Iterator[tuple[int, bytes]]:
        """Lines from `number` (or from `start`, if later) on, in large pieces for a search.

        Yields:
            Number of the first line, and the lines as UTF-8, each ended by a newline.
        """
        number = max(number, self.start)
        for chunk in self._chunks[max(0, bisect_right(self._firsts, number) - 1) :]:
            index = max(0, number - chunk.first)
            if index < len(chunk.ends):
                yield chunk.first + index, bytes(self._bytes_of(chunk)[_begin(chunk, index) :])

    def _id_of(self, source: str) -> int:
        known = self._source_ids.get(source)
        if known is None:
            known = self._source_ids[source] = min(len(self._sources), 0xFFFF)
            if known == len(self._sources):
                self._sources.append(source)
        return known

    def _chunk_of(self, number: int) -> _Chunk:
        if not self.start <= number < self.end:
            message = f"line {number} is not among {self.start}…{self.end}"
            raise IndexError(message)
        return self._chunks[bisect_right(self._firsts, number) - 1]

    def _bytes_of(self, chunk: _Chunk) -> bytes | bytearray:
        if chunk.packed is None:
            return chunk.data
        data = self._inflated.get(chunk.first)
        if data is None:
            data = zlib.decompress(chunk.packed)
            while len(self._inflated) >= INFLATED_CHUNKS:
                del self._inflated[next(iter(self._inflated))]
            self._inflated[chunk.first] = data
        return data

    def _seal(self, chunk: _Chunk) -> _Chunk:
        chunk.packed = zlib.compress(bytes(chunk.data), 1)
        chunk.data = bytearray()
        self._sealed_bytes += chunk.kept_bytes
        fresh = _Chunk(chunk.end)
        self._chunks.append(fresh)
        self._firsts.append(fresh.first)
        while len(self._chunks) > 2 and self._is_over():
            self._forget_oldest()
        return fresh

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

"""Consecutive log lines kept as bytes: of one container, or of many with a tag for each.

A tagged line is a letter (`L` a line, `M` a marker), the log's number in six digits, a tab, a stamp, a blank, the text.
So lines of many logs are sorted by time as they are, many at a time.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from itertools import groupby
from operator import attrgetter, itemgetter
from typing import overload

from actions.base.errors import RefusedError
from actions.base.untrusted import clean_lines
from actions.cluster.logs.lines import (
    DIGITS_TO_ZERO,
    STAMP_BYTES,
    STAMP_OUTLINE,
    LogCursor,
    LogLine,
    ns_of,
    split_stamp,
    stamp_of,
)

_HEAD = itemgetter(slice(STAMP_BYTES + 1))
_HEAD_OUTLINE = STAMP_OUTLINE + b" "


class LogBatch(Sequence[LogLine]):
    """At least one line; all are markers, or none is.

    Iterating yields each line by itself, which costs far more than work on the batch as a whole.

    Args:
        data: Whole lines: a stamp in the form of `lines.STAMP_OUTLINE`, a blank, cleaned text in UTF-8, a newline.
        is_marker: Whether they are markers, of ours or of the server.
        lines: The same cut into lines, if they are there already.
    """

    def __init__(self, data: bytes, *, is_marker: bool = False, lines: list[bytes] | None = None) -> None:
        self.data = data
        self.is_marker = is_marker
        if lines is not None:
            self.lines = lines

    @cached_property
    def lines(self) -> list[bytes]:
        """Return the lines with their stamps, without newlines."""
        return self.data[:-1].split(b"\n")

    @property
    def first_ns(self) -> int:
        """Return the time of the first line, in nanoseconds since the epoch."""
        return ns_of(self.data[:STAMP_BYTES])

    def at_ns(self, index: int) -> int:
        """Return the time of a line, in nanoseconds since the epoch."""
        return ns_of(self.lines[index][:STAMP_BYTES])

    def text(self, index: int) -> str:
        """Return the text of a line."""
        return self.lines[index][STAMP_BYTES + 1 :].decode()

    def tagged(self, tag: bytes) -> bytes:
        """Return the data with `tag` before every line."""
        return tag + self.data[:-1].replace(b"\n", b"\n" + tag) + b"\n"

    def passed_by(self, cursor: LogCursor) -> LogCursor:
        """Return the cursor after all of these lines. Markers do not move it."""
        if self.is_marker:
            return cursor
        newest = max(self.lines)[:STAMP_BYTES]  # lines begin with their stamps
        at_ns = ns_of(newest)
        if at_ns < cursor.at_ns:
            return cursor
        seen = self.data.count(b"\n" + newest) + self.data.startswith(newest)
        return LogCursor(at_ns, cursor.seen + seen if at_ns == cursor.at_ns else seen)

    def without_first(self, count: int) -> LogBatch | None:
        """Return the lines after the first `count`; `None` if there are none."""
        rest = self.lines[count:]
        return LogBatch(b"\n".join(rest) + b"\n", is_marker=self.is_marker) if rest else None

    def __len__(self) -> int:
        return len(self.lines)

    def __iter__(self) -> Iterator[LogLine]:
        for line in self.lines:
            yield _line_of(line, is_marker=self.is_marker)

    @overload
    def __getitem__(self, index: int) -> LogLine: ...
    @overload
    def __getitem__(self, index: slice) -> list[LogLine]: ...
    def __getitem__(self, index: int | slice) -> LogLine | list[LogLine]:
        if isinstance(index, slice):
            return [_line_of(line, is_marker=self.is_marker) for line in self.lines[index]]
        return _line_of(self.lines[index], is_marker=self.is_marker)


def batches_of(lines: Iterable[LogLine]) -> Iterator[LogBatch]:
    """Make batches of single lines."""
    for is_marker, group in groupby(lines, key=attrgetter("is_marker")):
        parts = (b"%s %s\n" % (stamp_of(line.at_ns), _bytes_of(line.text)) for line in group)
        yield LogBatch(b"".join(parts), is_marker=bool(is_marker))


def read_lines(lines: list[bytes], *, previous_ns: int) -> list[LogBatch]:
    """Read lines as a kubelet sends them, and clean them. One without a timestamp is a marker at the time before it.

    Args:
        lines: Without their newlines.
        previous_ns: The time of the line before the first.
    """
    if not lines:
        return []
    heads = b"".join(map(_HEAD, lines))
    if heads.translate(DIGITS_TO_ZERO) == _HEAD_OUTLINE * len(lines):  # nine digits in UTC: what kubelets send
        data = b"\n".join(lines) + b"\n"
        cleaned = clean_lines(data)
        return [LogBatch(cleaned, lines=lines if cleaned is data else None)]
    return _read_unusual(lines, stamp_of(previous_ns))


def _read_unusual(lines: Sequence[bytes], stamp: bytes) -> list[LogBatch]:
    read: list[tuple[bool, bytes]] = []
    for line in lines:
        stamped = split_stamp(line)
        stamp, text = (stamp, line) if stamped is None else stamped
        read.append((stamped is None, b"%s %s\n" % (stamp, text)))
    return [
        LogBatch(clean_lines(b"".join(line for _, line in group)), is_marker=is_marker)
        for is_marker, group in groupby(read, key=itemgetter(0))
    ]


def _bytes_of(text: str) -> bytes:
    return text.replace("\n", " ").encode("utf-8", "replace")


def _line_of(line: bytes, *, is_marker: bool) -> LogLine:
    return LogLine(ns_of(line[:STAMP_BYTES]), line[STAMP_BYTES + 1 :].decode(), is_marker)


TAG_BYTES = 8
MOST_LOGS = 1_000_000
TEXT_AT = TAG_BYTES + STAMP_BYTES + 1
"""The place in a tagged line where its text begins."""

tag_in = itemgetter(slice(TAG_BYTES))
"""Return the tag of a tagged line."""
stamp_in = itemgetter(slice(TAG_BYTES, TAG_BYTES + STAMP_BYTES))
"""Return the stamp of a tagged line: the key for sorting."""


def tag_of(number: int, *, is_marker: bool = False) -> bytes:
    """Return the tag of a log.

    Raises:
        RefusedError: There are too many logs.
    """
    if number >= MOST_LOGS:
        raise RefusedError(f"There are more than {MOST_LOGS:,} logs.", hint="Watch fewer pods.")
    return b"%c%06d\t" % (b"M" if is_marker else b"L", number)


def tagged_lines(batch: LogBatch, number: int) -> list[bytes]:
    """Return the lines of a batch, tagged with the number of their log."""
    return batch.tagged(tag_of(number, is_marker=batch.is_marker))[:-1].split(b"\n")


def batch_of(tagged: Iterable[bytes]) -> LogBatch:
    """Return tagged lines of one tag as a batch."""
    lines = list(tagged)
    data = b"\n".join([line[TAG_BYTES:] for line in lines]) + b"\n"
    return LogBatch(data, is_marker=lines[0][:1] == b"M")


def marker_of(text: str, number: int, at_ns: int) -> bytes:
    """Return a tagged marker: a remark of ours in a log."""
    (batch,) = batches_of([LogLine(at_ns, text, is_marker=True)])
    return tagged_lines(batch, number)[0]


def line_in(tagged: bytes) -> LogLine:
    """Return a tagged line without its tag."""
    text = tagged[TEXT_AT:].decode("utf-8", "replace")
    return LogLine(ns_of(stamp_in(tagged)), text, tagged[:1] == b"M")


def number_in(tag: bytes) -> int:
    """Return the number of the log that has a tag."""
    return int(tag[1 : TAG_BYTES - 1])

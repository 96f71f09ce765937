"""Log bytes as the API streams them with timestamps, cut into lines that can be shown, kept and resumed from."""

from __future__ import annotations

import calendar
import re
from functools import lru_cache

import msgspec

from actions.base.untrusted import clean_text

MAX_LINE_BYTES = 1 << 20
_STAMP = re.compile(rb"(\d{4})-(\d\d)-(\d\d)T(\d\d):(\d\d):(\d\d)(?:\.(\d{1,9}))?(?:Z|([+-])(\d\d):(\d\d)) ?", re.ASCII)
_NANOSECONDS = 1_000_000_000


class LogLine(msgspec.Struct, frozen=True, gc=False):
    """One line of one container.

    `at_ns` is the server's timestamp, nanoseconds since the epoch; `text` has passed `clean_text`, has no newline and
    keeps its `\\r`. A marker is a line of ours (a gap, a restart) or one that the server could not stamp.
    """

    at_ns: int
    text: str
    is_marker: bool = False


class LogCursor(msgspec.Struct, frozen=True, gc=False):
    """Up to where a log has been taken: `seen` lines with exactly the newest timestamp `at_ns`."""

    at_ns: int
    seen: int

    def after(self, line: LogLine) -> LogCursor:
        """The cursor when `line` has been taken too. Markers do not move it."""
        if line.is_marker or line.at_ns < self.at_ns:
            return self
        return LogCursor(line.at_ns, self.seen + 1 if line.at_ns == self.at_ns else 1)


START = LogCursor(0, 0)


class LineCutter:
    """Cuts chunks, which end anywhere, into whole lines of at most `MAX_LINE_BYTES`; the rest of a line is counted."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._size = 0
        self._omitted = 0

    def feed(self, chunk: bytes) -> list[bytes]:
        """The lines that `chunk` completes, without their newlines."""
        head, newline, rest = chunk.partition(b"\n")
        self._keep(head)
        if not newline:
            return []
        lines = [self._take(), *rest.split(b"\n")]
        self._keep(lines.pop())
        return lines

    def finish(self) -> list[bytes]:
        """The last line, if it has no newline: only for a log that is known to have ended."""
        return [self._take()] if self._size else []

    def _keep(self, part: bytes) -> None:
        room = MAX_LINE_BYTES - self._size
        if part and room > 0:
            self._parts.append(part[:room])
        self._size = min(self._size + len(part), MAX_LINE_BYTES)
        self._omitted += max(len(part) - max(room, 0), 0)

    def _take(self) -> bytes:
        line = b"".join(self._parts)
        if self._omitted:
            line += f" … (+{self._omitted} bytes)".encode()
        self._parts, self._size, self._omitted = [], 0, 0
        return line


def read_line(line: bytes, *, previous_ns: int) -> LogLine:
    """One line with its timestamp; without one it is a marker at `previous_ns`."""
    stamp = _STAMP.match(line)
    if stamp is None:
        return LogLine(previous_ns, _text(line), is_marker=True)
    year, month, day, hour, minute, second, fraction, sign, off_hours, off_minutes = stamp.groups()
    seconds = _day(year, month, day) + int(hour) * 3600 + int(minute) * 60 + int(second)
    if sign:
        offset = int(off_hours) * 3600 + int(off_minutes) * 60
        seconds += offset if sign == b"-" else -offset
    return LogLine(
        seconds * _NANOSECONDS + (int(fraction.ljust(9, b"0")) if fraction else 0), _text(line[stamp.end() :])
    )


def _text(line: bytes) -> str:
    return clean_text(line.decode("utf-8", "replace"))


@lru_cache(maxsize=64)
def _day(year: bytes, month: bytes, day: bytes) -> int:
    return calendar.timegm((int(year), int(month), int(day), 0, 0, 0))

"""Log bytes as the API streams them with timestamps, cut into lines that can be shown, kept and resumed from."""

from __future__ import annotations

import calendar
import re
from functools import lru_cache

import msgspec

from actions.base.untrusted import clean_text

MAX_LINE_BYTES = 1 << 20
BAR_BYTES = 4096
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
    """Cuts chunks, which end anywhere, into lines. Where it cuts depends on the log alone, never on the chunks.

    A progress bar may redraw itself for hours without a newline. So a line is cut before the first `\\r` after
    `BAR_BYTES`, and the parts carry the timestamp of their line. A part longer than `MAX_LINE_BYTES` loses the rest,
    which is counted.
    """

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._length = 0
        self._stamp = b""

    def feed(self, chunk: bytes) -> list[bytes]:
        """The lines that `chunk` completes, without their newlines."""
        *complete, tail = chunk.split(b"\n")
        lines: list[bytes] = []
        for line in complete:
            if self._length or len(line) > BAR_BYTES:
                lines += self._keep(line)
                lines.append(self._take())
            else:
                lines.append(line)
        return lines + self._keep(tail) if tail else lines

    def finish(self) -> list[bytes]:
        """The last line, if it has no newline: only for a log that is known to have ended."""
        return [self._take()] if self._length else []

    def _keep(self, part: bytes) -> list[bytes]:
        """Add to the line in hand; the parts of it that are long enough to go."""
        done: list[bytes] = []
        while (cut := part.find(b"\r", max(BAR_BYTES - self._length, 0))) >= 0:
            self._add(part[:cut])
            done.append(self._take(is_part=True))
            part = part[cut:]
        self._add(part)
        return done

    def _add(self, part: bytes) -> None:
        room = MAX_LINE_BYTES - self._length
        if part and room > 0:
            self._parts.append(part[:room])
        self._length += len(part)

    def _take(self, *, is_part: bool = False) -> bytes:
        line = self._stamp + b"".join(self._parts)
        if self._length > MAX_LINE_BYTES:
            line += f" … (+{self._length - MAX_LINE_BYTES} bytes)".encode()
        stamp = _STAMP.match(line) if is_part else None
        self._stamp = stamp[0] if stamp else b""
        self._parts, self._length = [], 0
        return line


def read_line(line: bytes, *, previous_ns: int) -> LogLine:
    """One line with its timestamp; without one it is a marker at `previous_ns`."""
    if line[29:31] == b"Z " and line[20:29].isdigit():  # the usual form, nine digits in UTC
        seconds = _second(line[:20])
        if seconds:
            return LogLine(seconds * _NANOSECONDS + int(line[20:29]), _text(line[31:]))
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


@lru_cache(maxsize=1024)
def _second(text: bytes) -> int:
    """Seconds since the epoch of `YYYY-MM-DDThh:mm:ss.`; 0 if it is none."""
    stamp = _STAMP.match(text + b"0Z")
    if stamp is None:
        return 0
    year, month, day, hour, minute, second = stamp.groups()[:6]
    return _day(year, month, day) + int(hour) * 3600 + int(minute) * 60 + int(second)


@lru_cache(maxsize=64)
def _day(year: bytes, month: bytes, day: bytes) -> int:
    return calendar.timegm((int(year), int(month), int(day), 0, 0, 0))

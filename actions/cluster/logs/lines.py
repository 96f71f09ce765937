"""Log lines: bytes cut into lines that can be shown, kept and resumed from, with sortable timestamps.

A stamp is thirty bytes of RFC 3339 in UTC, whose order as bytes is the order of time.
"""

from __future__ import annotations

import calendar
import re
import time
from functools import lru_cache

import msgspec

from actions.base.untrusted import clean_text

STAMP_BYTES = 30
SHAPE = b"0000-00-00T00:00:00.000000000Z"
"""A stamp whose digits are all zeros; see `DIGITS_TO_ZERO`."""
DIGITS_TO_ZERO = bytes(ord("0") if chr(byte).isdigit() and byte < 128 else byte for byte in range(256))
_FORM = re.compile(rb"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?(?:Z|([+-])(\d\d):(\d\d))(?: |$)", re.ASCII)
NANOSECONDS = 1_000_000_000
_LATEST_SECOND = 253_402_300_799
"""The end of the year 9999."""
_LATEST_NS = (1 << 63) - 1


def ns_of(stamp: bytes) -> int:
    """Return nanoseconds since the epoch, at most 63 bits of them; 0 for a date that does not exist."""
    return min(_second_of(stamp[:19]) * NANOSECONDS + int(stamp[20:29]), _LATEST_NS)


def stamp_of(at_ns: int) -> bytes:
    """Return the stamp of nanoseconds since the epoch, limited to the years from 1970 to 9999."""
    seconds, fraction = divmod(max(at_ns, 0), NANOSECONDS)
    return b"%s.%09dZ" % (_text_of(min(seconds, _LATEST_SECOND)), fraction)


def split_stamp(line: bytes) -> tuple[bytes, bytes] | None:
    """Return stamp and text of a line as a kubelet sends it, in any form of RFC 3339; `None` if it has no timestamp."""
    found = _FORM.match(line)
    if found is None:
        return None
    moment, fraction, sign, hours, minutes = found.groups()
    text = line[found.end() :]
    if sign:
        offset = int(hours) * 3600 + int(minutes) * 60
        seconds = _second_of(moment) + (offset if sign == b"-" else -offset)
        moment = _text_of(min(max(seconds, 0), _LATEST_SECOND))
    return b"%s.%sZ" % (moment, (fraction or b"").ljust(9, b"0")), text


@lru_cache(maxsize=1024)
def _second_of(moment: bytes) -> int:
    """Return seconds since the epoch of `YYYY-MM-DDThh:mm:ss`."""
    year, month, day = int(moment[:4]), int(moment[5:7]), int(moment[8:10])
    hour, minute, second = int(moment[11:13]), int(moment[14:16]), int(moment[17:19])
    try:
        return max(calendar.timegm((year, month, day, hour, minute, second)), 0)
    except ValueError:
        return 0


@lru_cache(maxsize=1024)
def _text_of(seconds: int) -> bytes:
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds)).encode()


MAX_LINE_BYTES = 1 << 20
BAR_BYTES = 4096


class LogLine(msgspec.Struct, frozen=True, gc=False):
    """One line of one container.

    `at_ns` is the server's timestamp, nanoseconds since the epoch; `text` has passed `clean_text`, has no newline and
    keeps its `\\r`. A marker is a line of ours (a gap, a restart) or one that the server could not stamp.
    """

    at_ns: int
    text: str
    is_marker: bool = False


class LogCursor(msgspec.Struct, frozen=True, gc=False):
    """The position up to which a log was taken: `seen` lines with exactly the newest timestamp `at_ns`."""

    at_ns: int
    seen: int


START = LogCursor(0, 0)


class LineCutter:
    """Cuts chunks, which end anywhere, into lines. The cuts depend on the log alone, never on the chunks.

    A progress bar may redraw itself for hours without a newline. So a line is cut before the first `\\r` after
    `BAR_BYTES`, and the parts carry the timestamp of their line. A part longer than `MAX_LINE_BYTES` loses the rest,
    which is counted.
    """

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._length = 0
        self._stamp = b""

    def feed(self, chunk: bytes) -> list[bytes]:
        """Return the lines that `chunk` completes, without their newlines."""
        complete = chunk.split(b"\n")
        tail = complete.pop()
        lines: list[bytes] = []
        if complete and self._length:
            lines += self._completed(complete.pop(0))
        if complete and len(max(complete, key=len)) > BAR_BYTES:
            for line in complete:
                lines += self._completed(line)
        else:
            lines += complete
        return lines + self._keep(tail) if tail else lines

    def finish(self) -> list[bytes]:
        """Return the last line, if it has no newline: only for a log that is known to have ended."""
        return [self._take()] if self._length else []

    def _completed(self, line: bytes) -> list[bytes]:
        """Return the line in hand with the rest of it."""
        return [*self._keep(line), self._take()]

    def _keep(self, part: bytes) -> list[bytes]:
        """Add to the line in hand; return the parts of it that are long enough to be cut off."""
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
        stamped = split_stamp(line) if is_part else None
        self._stamp = line[: len(line) - len(stamped[1])] if stamped else b""
        self._parts, self._length = [], 0
        return line


class FileLine(msgspec.Struct, frozen=True, gc=False):
    """One line, cleaned, without its newline.

    `end` is the offset in bytes after it, from which reading can continue.
    """

    text: str
    end: int


class FileCutter:
    """Cuts chunks, which end anywhere, into lines. The cuts depend on the file alone, never on the chunks.

    A progress bar may redraw itself for hours without a newline: a line is cut before the first `\\r` after
    `BAR_BYTES`, and in any case after `MAX_LINE_BYTES`.

    Args:
        offset: The offset of the first chunk in the file; the end of a line, or 0.
    """

    def __init__(self, offset: int = 0) -> None:
        self._offset = offset
        self._pending = b""

    @property
    def position(self) -> int:
        """Return the offset after everything that was fed."""
        return self._offset + len(self._pending)

    def feed(self, chunk: bytes) -> list[FileLine]:
        """Return the lines that `chunk` completes."""
        self._pending += chunk
        lines: list[FileLine] = []
        while (cut := _cut(self._pending)) is not None:
            end, skipped = cut
            lines.append(self._take(end, skipped))
        return lines

    def finish(self) -> list[FileLine]:
        """Return the last line, if it has no newline: only for a file that is not written to any more."""
        return [self._take(len(self._pending), 0)] if self._pending else []

    def _take(self, end: int, skipped: int) -> FileLine:
        text = clean_text(self._pending[:end].decode("utf-8", "replace"))
        self._pending = self._pending[end + skipped :]
        self._offset += end + skipped
        return FileLine(text, self._offset)


def _cut(pending: bytes) -> tuple[int, int] | None:
    """Return the end of the first line, and the number of bytes after it to drop; `None` if it is not complete."""
    newline = pending.find(b"\n")
    bar = pending.find(b"\r", BAR_BYTES, MAX_LINE_BYTES)
    if bar >= 0 and (newline < 0 or bar < newline) and pending[bar : bar + 2] != b"\r\n" and bar + 1 < len(pending):
        return bar, 0
    if 0 <= newline <= MAX_LINE_BYTES:
        return newline, 1
    return (MAX_LINE_BYTES, 0) if len(pending) > MAX_LINE_BYTES else None

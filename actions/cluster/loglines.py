"""Log bytes as the API streams them with timestamps, cut into lines that can be shown, kept and resumed from."""

from __future__ import annotations

import msgspec

from actions.cluster.logstamps import split_stamp

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
    """Up to where a log has been taken: `seen` lines with exactly the newest timestamp `at_ns`."""

    at_ns: int
    seen: int


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
        """The last line, if it has no newline: only for a log that is known to have ended."""
        return [self._take()] if self._length else []

    def _completed(self, line: bytes) -> list[bytes]:
        """What was in hand together with the rest of its line."""
        return [*self._keep(line), self._take()]

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
        stamped = split_stamp(line) if is_part else None
        self._stamp = line[: len(line) - len(stamped[1])] if stamped else b""
        self._parts, self._length = [], 0
        return line

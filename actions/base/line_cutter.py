"""Lines of a byte stream that arrives in chunks: where they end, and the bounds on what is kept of one.

The lines depend on the stream and the policy alone, never on where the chunks were cut.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import msgspec

MAX_LINE_BYTES = 1 << 20
BAR_BYTES = 4096


def _nothing(line: bytes) -> bytes:
    return b""


def _never(start: bytes) -> bool:
    return False


class CutPolicy(msgspec.Struct, frozen=True, kw_only=True):
    r"""The places where a stream is cut besides its newlines.

    A progress bar may redraw itself for hours without a newline, so `\r` ends a line too.
    """

    bars: Literal["each", "long"] = "long"
    r"""`each`: every `\r` ends a line, and is dropped. `long`: a line is cut before the first `\r` behind its first
    `BAR_BYTES`, and the `\r` begins the next part; one directly before a newline does not count."""
    keeps_bars: Callable[[bytes], bool] = _never
    r"""True for the beginning of a line that no `\r` ends; used if `bars` is `each`."""
    overflow: Literal["drop", "cut"] = "drop"
    """Behind `MAX_LINE_BYTES` of a line: `drop` the rest, and count it at the line's end; or `cut` it there, so that
    the rest is the next line."""
    keeps_ends: bool = False
    """True: lines keep their newline. With `long` and `cut` their lengths then add up to places in the stream."""
    head_of: Callable[[bytes], bytes] = _nothing
    """The beginning of a line that is repeated before each further part of it."""


PLAIN = CutPolicy()


class LineCutter:
    """Cuts chunks into lines.

    Args:
        policy: Where lines end besides their newlines.
    """

    def __init__(self, policy: CutPolicy = PLAIN) -> None:
        self._policy = policy
        self._is_each = policy.bars == "each"
        self._newline = b"\n" if policy.keeps_ends else b""
        self._head = b""
        self._parts: list[bytes] = []
        self._length = 0
        self._keeps_bars: bool | None = None
        """The answer for the line in hand; `None` before its first `\r`."""
        self._undecided = b""
        r"""A `\r` that ends the last chunk: it is not known whether a newline follows."""

    def feed(self, chunk: bytes) -> list[bytes]:
        """Return the lines that `chunk` completes."""
        complete = (self._undecided + chunk if self._undecided else chunk).split(b"\n")
        tail = complete.pop()
        self._undecided = b""
        lines: list[bytes] = []
        if complete and self._length:
            lines += self._complete(complete.pop(0))
        if complete and self._are_plain(complete, chunk):
            lines += complete
        else:
            for line in complete:
                lines += self._complete(line)
        if tail.endswith(b"\r") and not self._is_each:
            tail, self._undecided = tail[:-1], b"\r"
        return lines + self._keep(tail) if tail else lines

    def finish(self) -> list[bytes]:
        """Return the last line, if it has no newline: only for a stream that is known to have ended."""
        lines = self._keep(self._undecided, is_last=True)
        self._undecided = b""
        return [*lines, self._take()] if self._length else lines

    def _are_plain(self, lines: list[bytes], chunk: bytes) -> bool:
        """Return whether no line needs a closer look: the usual case, found out by functions in C."""
        longest = len(max(lines, key=len))
        if self._is_each:
            return longest <= MAX_LINE_BYTES and b"\r" not in chunk
        return longest <= BAR_BYTES and not self._newline

    def _complete(self, rest: bytes) -> list[bytes]:
        """Return the line in hand with the rest of it, in one part or several."""
        return [*self._keep(rest, is_last=True), self._take() + self._newline]

    def _keep(self, part: bytes, *, is_last: bool = False) -> list[bytes]:
        """Add to the line in hand; return the parts of it that end in `part`."""
        if self._length + len(part) <= BAR_BYTES and not self._is_each:  # the usual case
            if part:
                self._parts.append(part)
                self._length += len(part)
            return []
        done: list[bytes] = []
        start = 0
        while (end := self._end_in(part, start, is_last=is_last)) >= 0:
            self._add(part[start:end])
            done.append(self._take(is_part=not self._is_each))
            start = end + self._is_each
        self._add(part[start:])
        return done

    def _end_in(self, part: bytes, start: int, *, is_last: bool) -> int:
        """Return the place in `part` where the line in hand ends; -1 if it goes on."""
        if self._is_each:
            return self._bar_in(part, start)
        bar = part.find(b"\r", start + max(BAR_BYTES - self._length, 0))
        if is_last and bar == len(part) - 1:
            bar = -1
        full = start + MAX_LINE_BYTES - self._length
        if self._policy.overflow == "cut" and len(part) > full and not 0 <= bar < full:
            return full
        return bar

    def _bar_in(self, part: bytes, start: int) -> int:
        bar = part.find(b"\r", start)
        if bar >= 0 and self._keeps_bars is None:
            self._keeps_bars = self._policy.keeps_bars(b"".join((*self._parts, part[start:bar])))
        return -1 if self._keeps_bars else bar

    def _add(self, part: bytes) -> None:
        room = MAX_LINE_BYTES - self._length
        if part and room > 0:
            self._parts.append(part[:room])
        self._length += len(part)

    def _take(self, *, is_part: bool = False) -> bytes:
        line = self._head + b"".join(self._parts)
        if self._length > MAX_LINE_BYTES:
            line += f" … (+{self._length - MAX_LINE_BYTES} bytes)".encode()
        self._head = self._policy.head_of(line) if is_part else b""
        self._parts, self._length, self._keeps_bars = [], 0, None
        return line

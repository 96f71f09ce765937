"""A growing file, cut into lines that know where in the file they end: there it is taken up again."""

from __future__ import annotations

import msgspec

from actions.base.untrusted import clean_text
from actions.cluster.loglines import BAR_BYTES, MAX_LINE_BYTES


class FileLine(msgspec.Struct, frozen=True, gc=False):
    """One line, cleaned, without its newline.

    `end` is the offset in bytes behind it: what was taken up to here is not asked for again.
    """

    text: str
    end: int


class FileCutter:
    """Cuts chunks, which end anywhere, into lines. Where it cuts depends on the file alone, never on the chunks.

    A progress bar may redraw itself for hours without a newline: a line is cut before the first `\\r` after
    `BAR_BYTES`, and after `MAX_LINE_BYTES` wherever that is.

    Args:
        offset: Where in the file the first chunk begins; the end of a line, or 0.
    """

    def __init__(self, offset: int = 0) -> None:
        self._offset = offset
        self._pending = b""

    @property
    def position(self) -> int:
        """The offset behind everything that was fed."""
        return self._offset + len(self._pending)

    def feed(self, chunk: bytes) -> list[FileLine]:
        """The lines that `chunk` completes."""
        self._pending += chunk
        lines: list[FileLine] = []
        while (cut := _cut(self._pending)) is not None:
            end, skipped = cut
            lines.append(self._take(end, skipped))
        return lines

    def finish(self) -> list[FileLine]:
        """The last line, if it has no newline: only for a file that nobody writes to any more."""
        return [self._take(len(self._pending), 0)] if self._pending else []

    def _take(self, end: int, skipped: int) -> FileLine:
        text = clean_text(self._pending[:end].decode("utf-8", "replace"))
        self._pending = self._pending[end + skipped :]
        self._offset += end + skipped
        return FileLine(text, self._offset)


def _cut(pending: bytes) -> tuple[int, int] | None:
    """Where the first line ends, and how many bytes behind it are dropped; `None` if it is not complete."""
    newline = pending.find(b"\n")
    bar = pending.find(b"\r", BAR_BYTES, MAX_LINE_BYTES)
    if bar >= 0 and (newline < 0 or bar < newline) and pending[bar : bar + 2] != b"\r\n" and bar + 1 < len(pending):
        return bar, 0
    if 0 <= newline <= MAX_LINE_BYTES:
        return newline, 1
    return (MAX_LINE_BYTES, 0) if len(pending) > MAX_LINE_BYTES else None

"""Lines out of a stream of bytes that is cut anywhere."""

from __future__ import annotations

import codecs
import re

from actions.telemetry.wrapped import is_wrapped

MAX_LINE = 1 << 20
"""Characters of one line that are kept; a container format's own limit is 16 KiB."""

_END = re.compile(r"[\r\n]")


class LineAssembler:
    """Joins chunks to lines. The lines do not depend on where the chunks were cut.

    A line ends at `\\n`, or at a lone `\\r` (a progress bar), unless it is a record of a container's log file: those
    keep their `\\r` inside. Bytes that are no UTF-8 become U+FFFD.
    """

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._parts: list[str] = []
        self._length = 0
        self._is_wrapped: bool | None = None
        self.dropped = 0
        """Characters beyond `MAX_LINE` that were thrown away."""

    def feed(self, chunk: bytes) -> list[str]:
        """The lines that `chunk` completes, without their ends; empty ones are left out."""
        return self._take(self._decoder.decode(chunk))

    def flush(self) -> list[str]:
        """The last line, if the stream ended without a line end."""
        return [*self._take(self._decoder.decode(b"", final=True)), *self._finish()]

    def _take(self, text: str) -> list[str]:
        lines: list[str] = []
        start = 0
        for end in _END.finditer(text):
            at = end.start()
            self._keep(text[start:at])
            if text[at] == "\r" and self._holds_record():
                self._keep("\r")
            else:
                lines += self._finish()
            start = at + 1
        self._keep(text[start:])
        return lines

    def _holds_record(self) -> bool:
        if self._is_wrapped is None:
            self._is_wrapped = is_wrapped("".join(self._parts)[:200])
        return self._is_wrapped

    def _keep(self, piece: str) -> None:
        room = MAX_LINE - self._length
        if len(piece) > room:
            self.dropped += len(piece) - room
            piece = piece[:room]
        if piece:
            self._parts.append(piece)
            self._length += len(piece)

    def _finish(self) -> list[str]:
        line = "".join(self._parts)
        self._parts.clear()
        self._length = 0
        self._is_wrapped = None
        return [line] if line else []

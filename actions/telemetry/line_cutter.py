"""Lines of a byte stream that is cut anywhere, with the log file format of container runtimes taken off.

Source: Kubernetes CRI logging format (`TIME stdout|stderr P|F text`, containerd splits at 16 KiB); Docker json-file.
"""

from __future__ import annotations

import codecs
import json
import re

_CRI = re.compile(r"(\d{4}-\d\d-\d\dT\S{1,40}) (stdout|stderr) ([PF]) ?")
_DOCKER = '{"log":'
_MAX_PIECES = 64
"""Of one line: 1 MiB at the 16 KiB where runtimes split."""


def is_container_record(start: str) -> bool:
    """Whether a line that begins like `start` is a record of such a file."""
    return start.startswith(_DOCKER) or _CRI.match(start) is not None


class ContainerLogDecoder:
    """Takes the wrapping off, joining the pieces of lines that the runtime split. Lines without wrapping pass."""

    def __init__(self) -> None:
        self._partial: dict[str, list[str]] = {}

    def unwrap(self, line: str) -> tuple[str, str] | None:
        """The container's own line and its time.

        Args:
            line: One line of the file.

        Returns:
            Text and time stamp (empty if there is none); `None` while the line is incomplete.
        """
        record = _CRI.match(line)
        if record:
            return self._joined(record[2], line[record.end() :], is_last=record[3] == "F", at=record[1])
        if line.startswith(_DOCKER):
            return self._docker(line)
        return line, ""

    def flush(self) -> list[str]:
        """Lines whose end never came."""
        rest = ["".join(pieces) for pieces in self._partial.values()]
        self._partial.clear()
        return rest

    def _docker(self, line: str) -> tuple[str, str] | None:
        try:
            record = json.loads(line)
        except (ValueError, RecursionError):
            return line, ""
        text = record.get("log")
        if not isinstance(text, str):
            return line, ""
        stream, at = str(record.get("stream", "")), str(record.get("time", ""))
        return self._joined(stream, text.rstrip("\n"), is_last=text.endswith("\n"), at=at)

    def _joined(self, stream: str, text: str, *, is_last: bool, at: str) -> tuple[str, str] | None:
        pieces = self._partial.setdefault(stream, [])
        pieces.append(text)
        if not is_last and len(pieces) < _MAX_PIECES:
            return None
        whole = "".join(pieces)
        pieces.clear()
        return whole, at


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
            self._is_wrapped = is_container_record("".join(self._parts)[:200])
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

"""The log file format of container runtimes: where such a file ends its lines, and a line without its wrapping.

Source: Kubernetes CRI logging format (`TIME stdout|stderr P|F text`, containerd splits at 16 KiB); Docker json-file.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable

from actions.base.line_cutter import CutPolicy

_CRI = re.compile(r"(\d{4}-\d\d-\d\dT\S{1,40}) (stdout|stderr) ([PF]) ?")
_DOCKER = '{"log":'
RECORD_MARKS = (" stdout ", " stderr ", _DOCKER)
"""Texts of which one is in every record of such a file."""
_MAX_PIECES = 64
"""Pieces of one line: 1 MiB at the 16 KiB where runtimes split."""


def is_container_record(start: str) -> bool:
    """Return whether a line that begins like `start` is a record of such a file."""
    return start.startswith(_DOCKER) or _CRI.match(start) is not None


class ContainerLogDecoder:
    """Takes the wrapping off, joining the pieces of lines that the runtime split. Lines without wrapping pass."""

    def __init__(self) -> None:
        self._partial: dict[str, list[str]] = {}

    def unwrap(self, line: str) -> tuple[str, str] | None:
        """Return the container's own line and its time.

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
        """Return lines whose end never came."""
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


def _begins_record(line: bytes) -> bool:
    return is_container_record(line[:200].decode("utf-8", "replace"))


TOOL_OUTPUT = CutPolicy(bars="each", keeps_bars=_begins_record)
r"""The policy for the output of a program, or a container's log file, in a file or pipe. A progress bar ends its line
with each `\r`; records of a log file keep theirs inside."""


def decode_lines(lines: Iterable[bytes]) -> list[str]:
    """Return lines as text, but for empty ones. Bytes that are not UTF-8 become U+FFFD."""
    return [line.decode("utf-8", "replace") for line in lines if line]

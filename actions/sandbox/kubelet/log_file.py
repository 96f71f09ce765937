"""The log of one run of a container, as a container runtime keeps it: entries with a time, cut at line ends."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime

import msgspec

from actions.sandbox.model.kubelet_api import PodLogOptions

_ENTRY_BYTES = 16 * 1024
_KEPT_ENTRIES = 200_000


class LogEntry(msgspec.Struct, frozen=True):
    """A line, or a part of one that was longer than the runtime's buffer."""

    at_ns: int
    data: bytes
    """With its newline, unless the entry is only a part."""
    starts_line: bool


class LogFile:
    """The log of a process, appended to by it, read by any number of followers. Times in it rise strictly.

    Args:
        now_ns: Nanoseconds since the epoch.
        on_entry: Called with each entry, to keep the log in another place as well.
    """

    def __init__(self, now_ns: Callable[[], int], on_entry: Callable[[LogEntry], None] | None = None) -> None:
        self._now_ns = now_ns
        self._on_entry = on_entry
        self._entries: deque[LogEntry] = deque(maxlen=_KEPT_ENTRIES)
        self._count = 0
        self._pending = bytearray()
        self._starts_line = True
        self._last_ns = 0
        self._is_closed = False
        self._changed = asyncio.Event()

    def write(self, data: bytes) -> None:
        """Append the output of the process. An entry ends at a newline, or where the runtime's buffer is full."""
        self._pending += data
        while True:
            end = self._pending.find(b"\n", 0, _ENTRY_BYTES)
            if end < 0 and len(self._pending) < _ENTRY_BYTES:
                break
            size = end + 1 if end >= 0 else _ENTRY_BYTES
            self._append(bytes(self._pending[:size]), ends_line=end >= 0)
            del self._pending[:size]
        self._wake()

    def close(self) -> None:
        """Close the log: what is left becomes the last line, followers come to their end."""
        if self._pending:
            self._append(bytes(self._pending) + b"\n", ends_line=True)
            self._pending.clear()
        self._is_closed = True
        self._wake()

    def last_words(self) -> bytes:
        """Return the end of the log, as a kubelet takes it for a message: at most 80 lines and 2048 bytes."""
        return b"".join(entry.data for entry in list(self._entries)[-80:])[-2048:]

    async def read(self, request: PodLogOptions) -> AsyncIterator[bytes]:
        """Yield the selected part in chunks; with `follow`, until the log is closed."""
        position = self._first_wanted(request)
        left = request.limit_bytes
        while True:
            changed = self._changed
            chunk = self._chunk(position, request)
            position = self._count
            if left is not None:
                chunk = chunk[:left]
                left -= len(chunk)
            if chunk:
                yield chunk
            if left == 0 or not request.follow or (self._is_closed and position == self._count):
                return
            await changed.wait()

    def _chunk(self, position: int, request: PodLogOptions) -> bytes:
        skipped = max(0, position - (self._count - len(self._entries)))
        parts = []
        for index in range(skipped, len(self._entries)):
            entry = self._entries[index]
            if request.timestamps and entry.starts_line:
                parts.append(stamp(entry.at_ns))
            parts.append(entry.data)
        return b"".join(parts)

    def _first_wanted(self, request: PodLogOptions) -> int:
        entries = list(self._entries)
        first = 0
        if request.since_ns is not None:
            while first < len(entries) and entries[first].at_ns < request.since_ns:
                first += 1
        if request.tail_lines is not None:
            starts = [index for index in range(first, len(entries)) if entries[index].starts_line]
            if len(starts) > request.tail_lines:
                first = starts[-request.tail_lines] if request.tail_lines else len(entries)
        return self._count - len(entries) + first

    def _append(self, data: bytes, *, ends_line: bool) -> None:
        self._last_ns = max(self._now_ns(), self._last_ns + 1)
        entry = LogEntry(self._last_ns, data, self._starts_line)
        self._entries.append(entry)
        self._starts_line = ends_line
        self._count += 1
        if self._on_entry is not None:
            self._on_entry(entry)

    def _wake(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()


def stamp(at_ns: int) -> bytes:
    """RFC 3339 with nanoseconds, trailing zeros cut off as Go's RFC3339Nano does, and a blank."""
    seconds, fraction = divmod(at_ns, 1_000_000_000)
    digits = f"{fraction:09d}".rstrip("0")
    moment = datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S")
    return f"{moment}{'.' + digits if digits else ''}Z ".encode()

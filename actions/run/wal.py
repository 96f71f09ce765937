"""SQLite's write-ahead log, as far as reading it needs: which pages has it committed, and where do they lie.

Source: "Database File Format", sections 4.1 to 4.3 (https://sqlite.org/fileformat2.html#walformat), SQLite 3.40.
"""

from __future__ import annotations

import os
import struct

HEADER_BYTES = 32
FRAME_HEADER_BYTES = 24
_MAGIC = 0x377F0682
"""The lowest bit says that checksums are of big-endian words."""
_MASK = 0xFFFFFFFF


class WalIndex:
    """The committed frames of one log, taken up as they are appended.

    A log is only appended to between two restarts, and a restart changes its header. So an index stays right while
    `generation` is what the file begins with, and costs two small reads while nothing is committed.
    """

    def __init__(self) -> None:
        self.generation = b""
        """The header; empty if there is no log, or none that holds anything."""
        self.pages: dict[int, int] = {}
        """By page number: where the newest committed content lies in the log."""
        self.page_count = 0
        """Pages of the database after the newest commit; 0 if nothing is committed."""
        self.page_bytes = 0
        self.end = HEADER_BYTES
        """Where the next commit begins."""
        self._seed = (0, 0)
        self._next = b""

    def has_moved(self, descriptor: int | None) -> bool:
        """Return whether there may be another commit than those in the index."""
        header = header_of(descriptor)
        if header != self.generation:
            return True
        if descriptor is None or not header:
            return False
        following = os.pread(descriptor, FRAME_HEADER_BYTES, self.end)
        return following != self._next or following[8:16] == header[16:24]

    def take(self, descriptor: int | None) -> None:
        """Take up what has been committed since."""
        header = header_of(descriptor)
        if header != self.generation:
            self._restart(header)
        if descriptor is None or not header:
            return
        self._take_frames(descriptor)
        self._next = os.pread(descriptor, FRAME_HEADER_BYTES, self.end)

    def _restart(self, header: bytes) -> None:
        self.generation = header
        self.pages.clear()
        self.page_count, self.end, self._next = 0, HEADER_BYTES, b""
        if header:
            self._seed = _checksum(header[:24], (0, 0), is_big=bool(header[3] & 1))
            self.page_bytes = int.from_bytes(header[8:12], "big")

    def _take_frames(self, descriptor: int) -> None:
        """Frames count from their commit on; what follows the last one was never finished, or is older."""
        is_big = bool(self.generation[3] & 1)
        offset, seed = self.end, self._seed
        pending: dict[int, int] = {}
        while True:
            frame = os.pread(descriptor, FRAME_HEADER_BYTES + self.page_bytes, offset)
            if len(frame) < FRAME_HEADER_BYTES + self.page_bytes or frame[8:16] != self.generation[16:24]:
                return
            seed = _checksum(frame[FRAME_HEADER_BYTES:], _checksum(frame[:8], seed, is_big=is_big), is_big=is_big)
            if seed != struct.unpack(">II", frame[16:24]):
                return
            page, count = struct.unpack(">II", frame[:8])
            pending[page] = offset + FRAME_HEADER_BYTES
            offset += len(frame)
            if count:
                self.pages.update(pending)
                pending.clear()
                self.page_count, self.end, self._seed = count, offset, seed


def header_of(descriptor: int | None) -> bytes:
    """The log's header if it is a valid one, else empty."""
    header = b"" if descriptor is None else os.pread(descriptor, HEADER_BYTES, 0)
    if len(header) < HEADER_BYTES or int.from_bytes(header[:4], "big") & ~1 != _MAGIC:
        return b""
    is_valid = _checksum(header[:24], (0, 0), is_big=bool(header[3] & 1)) == struct.unpack(">II", header[24:])
    return header if is_valid else b""


def _checksum(data: bytes, seed: tuple[int, int], *, is_big: bool) -> tuple[int, int]:
    first, second = seed
    for one, other in struct.iter_unpack(">II" if is_big else "<II", data):
        first = (first + one + second) & _MASK
        second = (second + other + first) & _MASK
    return first, second

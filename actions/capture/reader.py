"""The strict reader of a capture: foreign bytes, unpacked within limits, one entry at a time.

A file that ends in the middle of an entry is one of a console that was killed: what is whole is read. Anything else
that is not as it should be is refused in one sentence.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, NoReturn

import msgspec

from actions.base.errors import UnreadableError
from actions.base.files import open_file
from actions.base.numbers import moment
from actions.capture.entries import (
    ENTRY_BYTES,
    FIRST_LINE,
    FIRST_WORD,
    LENGTH_BYTES,
    VERSION,
    AnyEntry,
    Began,
    Ticked,
    decoder,
    length_in,
)

UNPACKED_BYTES = 16 << 30
"""All entries of a capture: more is not read, however small the file."""
MOST_RATIO = 400
"""Bytes out of one byte; documents of a cluster reach 60, and the same list again and again 250."""
_FREE_BYTES = 64 << 20
"""Unpacked bytes that are allowed whatever the ratio."""
_READ_BYTES = 1 << 18
_PIECE_BYTES = 1 << 20
_GZIP = 31
_MOST_RECORDS = 200_000_000


class CaptureReader:
    """The entries of a capture. Read once, in a thread.

    Args:
        file: The capture.

    Raises:
        UnreadableError: It cannot be read.
    """

    def __init__(self, file: Path) -> None:
        self.file = file
        self.is_cut = False
        """The file ended without the end of its stream: the console was killed, or still writes."""
        self.unpacked_bytes = 0
        self.packed_bytes = 0

    def entries(self) -> Iterator[AnyEntry]:
        """Yield the entries in order.

        Raises:
            UnreadableError: It is not a capture, of another version, damaged, or too large unpacked.
        """
        buffer = bytearray()
        place = 0
        self._require_first_line(pieces := self._pieces(), buffer)
        is_first, last_at = True, 0.0
        while True:
            while len(buffer) - place < LENGTH_BYTES or len(buffer) - place < (
                needed := LENGTH_BYTES + self._length(buffer, place)
            ):
                del buffer[:place]
                place = 0
                piece = next(pieces, None)
                if piece is None:
                    if buffer and not self.is_cut:
                        self._refuse("it ends in the middle of an entry")
                    return
                buffer += piece
            entry = self._decoded(bytes(memoryview(buffer)[place + LENGTH_BYTES : place + needed]))
            place += needed
            if is_first != isinstance(entry, Began):
                self._refuse("its first entry is not the one that begins it" if is_first else "it begins twice")
            is_first = False
            if moment(entry.at) is None or (isinstance(entry, Began | Ticked) and moment(entry.wall) is None):
                self._refuse("an entry has an invalid time")
            last_at = max(last_at, entry.at)
            yield entry

    def _require_first_line(self, pieces: Iterator[bytes], buffer: bytearray) -> None:
        while len(buffer) < len(FIRST_LINE):
            piece = next(pieces, None)
            if piece is None:
                break
            buffer += piece
        if not buffer.startswith(FIRST_WORD):
            self._refuse("it is not a capture of eksml-tui")
        if not buffer.startswith(FIRST_LINE):
            version = bytes(buffer[len(FIRST_WORD) :]).split(b"\n")[0][:12].decode("ascii", "replace")
            self._refuse(f"it has version {version!r}, and this program reads {VERSION}")
        del buffer[: len(FIRST_LINE)]

    def _length(self, buffer: bytearray, place: int) -> int:
        length = length_in(bytes(buffer[place : place + LENGTH_BYTES]))
        if not 0 < length <= ENTRY_BYTES:
            self._refuse(f"an entry has {length:,} bytes, and none may have more than {ENTRY_BYTES:,}")
        return length

    def _decoded(self, data: bytes) -> AnyEntry:
        try:
            return decoder.decode(data)
        except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as error:
            reason = str(error).partition(" - ")[0].rstrip(".")
            self._refuse(f"an entry cannot be read ({reason[:120]})", cause=error)

    def _pieces(self) -> Iterator[bytes]:
        try:
            with open_file(self.file) as source:
                yield from self._unpacked(source)
        except OSError as error:
            self._refuse(error.strerror or str(error), cause=error)

    def _unpacked(self, source: BinaryIO) -> Iterator[bytes]:
        unpacker = zlib.decompressobj(_GZIP)
        while data := source.read(_READ_BYTES):
            self.packed_bytes += len(data)
            while data and not unpacker.eof:
                try:
                    piece = unpacker.decompress(data, _PIECE_BYTES)
                except zlib.error as error:
                    self._refuse(
                        "it is not packed by gzip" if not self.unpacked_bytes else "it is damaged", cause=error
                    )
                data = unpacker.unconsumed_tail
                self._count(len(piece))
                yield piece
            if unpacker.eof and (unpacker.unused_data or source.read(1)):
                self._refuse("something follows its end")
        self.is_cut = not unpacker.eof

    def _count(self, size: int) -> None:
        self.unpacked_bytes += size
        if self.unpacked_bytes > UNPACKED_BYTES:
            self._refuse(f"it unpacks to more than {UNPACKED_BYTES >> 30} GiB")
        if self.unpacked_bytes > max(_FREE_BYTES, self.packed_bytes * MOST_RATIO):
            self._refuse(f"it unpacks to more than {MOST_RATIO} times its size, which no capture does")

    def _refuse(self, reason: str, *, cause: BaseException | None = None) -> NoReturn:
        raise UnreadableError(f"{reason}.", file=str(self.file), hint="Name a file that --capture wrote.") from cause

"""The reader of a journal that takes no lock and writes no byte: no index, no empty file, no new time stamp.

SQLite itself cannot do that: to read a database in WAL mode it makes `-wal` and `-shm` beside it, which a full disk or
a read-only file system refuses, and `immutable=1` ignores the log. So the database file is read as bytes, the committed
pages of the log replace the file's, and SQLite gets the result in memory.

The result is consistent even while the journal is written. A checkpoint copies into the database only pages of the
present log, which is read after the database and is only appended to until it is restarted, which changes its header.
Without a log, a writer in between is detected by reading twice.

Source: "Database File Format", sections 4.1 to 4.3 (https://sqlite.org/fileformat2.html#walformat), SQLite 3.40.
"""

from __future__ import annotations

import os
import sqlite3
import stat
import struct
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from actions.base.errors import JournalError
from actions.run.journal.schema import damaged
from actions.run.journal.store import RecordRow, descriptor_of, translated

HEADER_BYTES = 32
FRAME_HEADER_BYTES = 24
_MAGIC = 0x377F0682
"""The lowest bit is set if checksums are of big-endian words."""
_MASK = 0xFFFFFFFF


class WalIndex:
    """The committed frames of one log, read as they are appended.

    A log is only appended to between two restarts, and a restart changes its header. So an index stays valid while
    the file begins with `generation`, and costs two small reads while nothing is committed.
    """

    def __init__(self) -> None:
        self.generation = b""
        """The header; empty if there is no log, or an empty one."""
        self.pages: dict[int, int] = {}
        """Offset in the log of the newest committed content, by page number."""
        self.page_count = 0
        """Pages of the database after the newest commit; 0 if nothing is committed."""
        self.page_bytes = 0
        self.end = HEADER_BYTES
        """Offset of the next commit."""
        self._seed = (0, 0)
        self._next = b""

    def has_moved(self, descriptor: int | None) -> bool:
        """Return whether there may be a commit that is not in the index."""
        header = header_of(descriptor)
        if header != self.generation:
            return True
        if descriptor is None or not header:
            return False
        following = os.pread(descriptor, FRAME_HEADER_BYTES, self.end)
        return following != self._next or following[8:16] == header[16:24]

    def take(self, descriptor: int | None) -> None:
        """Add the commits since the last call to the index."""
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
        """Index frames up to the last commit; frames behind it are unfinished, or older."""
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
    """Return the log's header if it is valid, else empty."""
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


MAX_BYTES = 64 << 20
"""More than any journal reaches, below 1 MB after a month; a larger file is not a journal."""
MOST_SECONDS = 10.0
"""The longest that SQLite may compute on one: what is in the file may have been made to have no end."""
_OPERATIONS = 100_000
"""Of SQLite's virtual machine, some milliseconds, between two looks at the time."""
_TRIES = 100
_HEADER_BYTES = 100
_CHUNK_BYTES = 1 << 20


class SnapshotReader:
    """The polling reader of one journal. One thread may use it; keeps no file open.

    Args:
        path: The database file.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._log_path = path.with_name(f"{path.name}-wal")
        self._index = WalIndex()
        self._bare = b""
        """The content of the database file when it was last read without a log."""

    def connect(self, *, only_news: bool = False) -> sqlite3.Connection | None:
        """Return the journal's content as an in-memory database, to be read at once; the caller closes it.

        Args:
            only_news: Return `None` if it has not changed since the last call.

        Raises:
            JournalError: It does not exist, cannot be read, or is not a file; or it is written without a pause.
        """
        try:
            image = self._image(only_news=only_news)
        except FileNotFoundError as error:
            raise JournalError(f"{self._path} does not exist.", hint="Name an existing run.") from error
        except OSError as error:
            reason = error.strerror or str(error)
            raise JournalError(f"{self._path} cannot be read: {reason}.", hint="Check its rights.") from error
        if image is None:
            return None
        connection = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
        try:
            connection.deserialize(image)
            connection.execute("PRAGMA trusted_schema = OFF")
            until = time.monotonic() + MOST_SECONDS
            connection.set_progress_handler(lambda: time.monotonic() > until, _OPERATIONS)
        except BaseException:
            connection.close()
            raise
        return connection

    def _image(self, *, only_news: bool) -> bytes | None:
        _require_file(self._path)
        for _ in range(_TRIES):
            with _log(self._log_path) as log:
                begun_with = header_of(log)
                if only_news and begun_with and not self._index.has_moved(log):
                    return None
                image = self._whole(log)
                is_same = header_of(log) == begun_with == self._index.generation
            with _log(self._log_path) as again:  # the log that has this name now: another one if it was made again
                is_same = is_same and header_of(again) == begun_with
            if is_same and (begun_with or image == _content(self._path)):
                return self._unless_known(image, begun_with, only_news=only_news)
        raise JournalError(f"{self._path} changes too fast to be read.", hint="Try again.")

    def _unless_known(self, image: bytes, log: bytes, *, only_news: bool) -> bytes | None:
        known, self._bare = self._bare, b"" if log else image
        if only_news and not log and known == image:
            return None
        return _out_of_wal_mode(image, self._path)

    def _whole(self, log: int | None) -> bytes:
        """Return the database with the log's pages in place. The database is read first, see the module's docstring."""
        image = bytearray(_content(self._path))
        self._index.take(log)
        index = self._index
        if log is None or not index.page_count:
            return bytes(image)
        size = index.page_count * index.page_bytes
        image[size:] = bytes(max(0, size - len(image)))
        for page, offset in index.pages.items():
            start = (page - 1) * index.page_bytes
            if start < size:
                image[start : start + index.page_bytes] = os.pread(log, index.page_bytes, offset)
        return bytes(image)


def _require_file(path: Path) -> None:
    status = path.stat()
    if not stat.S_ISREG(status.st_mode):
        raise JournalError(f"{path} is not a file.", hint="Move it away.")
    if status.st_size > MAX_BYTES:
        raise JournalError(f"{path} has {status.st_size} bytes: it is not a journal.", hint="Move it away.")


def _content(path: Path) -> bytes:
    with descriptor_of(path) as descriptor:
        parts: list[bytes] = []
        size = 0
        while part := os.pread(descriptor, _CHUNK_BYTES, size):
            parts.append(part)
            size += len(part)
            if size > MAX_BYTES:
                raise JournalError(
                    f"{path} has more than {MAX_BYTES} bytes: it is not a journal.", hint="Move it away."
                )
    return b"".join(parts)


@contextmanager
def _log(path: Path) -> Iterator[int | None]:
    """Open the log, if there is one. SQLite locks no byte of it, so closing it drops no lock."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        yield None
        return
    try:
        yield descriptor if stat.S_ISREG(os.fstat(descriptor).st_mode) else None
    finally:
        os.close(descriptor)


def _out_of_wal_mode(image: bytes, path: Path) -> bytes:
    """Mark the image as a database without a log: SQLite refuses one in WAL mode in memory."""
    if not image:
        raise damaged(path, "it is empty")
    return image[:18] + b"\x01\x01" + image[20:] if len(image) >= _HEADER_BYTES else image


def read_stored(path: Path) -> list[RecordRow]:
    """Return all records of a journal, oldest first, with their bodies as stored. Takes no lock.

    Raises:
        JournalError: It cannot be read.
    """
    connection = SnapshotReader(path).connect()
    if connection is None:
        raise JournalError(f"{path} cannot be read.")
    with closing(connection), translated(path):
        found = connection.execute("SELECT seq, at, writer, kind, stage, attempt, json FROM record ORDER BY seq")
        return [RecordRow(*row) for row in found]

"""Streams of records in write-once segments, whose names are the index.

A stream is a folder. Its bytes are whole records, one a line, at places that are counted from 0:

`PLACE-LENGTH-CHECKSUM.gz`  a sealed segment: gzip of the LENGTH bytes from PLACE on. CHECKSUM is the CRC-32 of the
                            digits of PLACE and the bytes of the file
`PLACE.tail`                the open end: the bytes from PLACE on, as they are
`.*.tmp`                    a segment that is being written

A sealed segment is never changed. It gets its name when all of it is on the disk, and then the tail that it replaces
is removed; so a tail whose place lies in a segment is one that a kill has left, and is not a part of the stream. What
does not match its name, or is missing between two others, is a lost stretch: readers count it and go on behind it.
"""

from __future__ import annotations

import errno
import os
import re
import time
import zlib
from bisect import bisect_right
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple, TypeVar

from actions.base.errors import ConfigError
from actions.base.files import PRIVATE_FILE, private_directory, read_file

_T = TypeVar("_T")

SEAL_BYTES = 256 << 10
"""Length from which on a tail is sealed."""
MOST_LENGTH = 64 << 20
"""Limit of a segment's length: far more than any tail gets."""
_LEVEL = 1
_SEGMENT = re.compile(r"(\d{15})-(\d{1,8})-([0-9a-f]{8})\.gz", re.ASCII)
_TAIL = re.compile(r"(\d{15})\.tail", re.ASCII)
_GZIP = 16 + zlib.MAX_WBITS
_KEPT = 8
"""Segments that a reader keeps in memory."""
_TRIES = 8
_SETTLED_NS = 2_000_000_000
"""Age from which on a folder's time of change tells it from a later change."""
_BLOCK_BYTES = 64 << 10


class SealedSegment(NamedTuple):
    """A sealed segment, as its name describes it."""

    place: int
    length: int
    checksum: int

    @property
    def name(self) -> str:
        """The name of its file."""
        return f"{self.place:015}-{self.length}-{self.checksum:08x}.gz"

    @property
    def end(self) -> int:
        """The place behind its last byte."""
        return self.place + self.length


class StreamListing(NamedTuple):
    """The parts of a stream in its folder."""

    segments: tuple[SealedSegment, ...]
    """In order; no two have a place in common."""
    tail: int | None
    """Place of the open end; `None` if there is none."""

    @property
    def sealed_end(self) -> int:
        """The place behind the last segment."""
        return self.segments[-1].end if self.segments else 0


class Stretch(NamedTuple):
    """Consecutive whole records of a stream, or a lost part of it."""

    begin: int
    end: int
    data: bytes | None
    """`None` if it is lost."""


def segment_in(name: str) -> SealedSegment | None:
    """Return the segment that has this name; `None` if none can have it."""
    found = _SEGMENT.fullmatch(name)
    if found is None or not 0 < int(found[2]) <= MOST_LENGTH:
        return None
    segment = SealedSegment(int(found[1]), int(found[2]), int(found[3], 16))
    return segment if segment.name == name else None


def tail_in(name: str) -> int | None:
    """Return the place of the tail that has this name; `None` if none can have it."""
    found = _TAIL.fullmatch(name)
    return int(found[1]) if found else None


def tail_name(place: int) -> str:
    """Return the name of the tail that begins at a place."""
    return f"{place:015}.tail"


def listing_of(names: Iterator[str] | list[str]) -> StreamListing:
    """Return the parts of a stream among some names; others are skipped."""
    segments: list[SealedSegment] = []
    tails: list[int] = []
    for name in names:
        if (segment := segment_in(name)) is not None:
            segments.append(segment)
        elif (place := tail_in(name)) is not None:
            tails.append(place)
    begins = {segment.place for segment in segments} | set(tails)
    chosen: list[SealedSegment] = []
    # of two with one place, which two machines may have written, the one that the next one joins
    for segment in sorted(segments, key=lambda one: (one.place, one.end not in begins, one.length)):
        if chosen and segment.place < chosen[-1].end:
            if chosen[-1].place == (chosen[-2].end if len(chosen) > 1 else 0):
                continue  # the one before it joins what is before that: this one has a wrong name
            chosen.pop()
        chosen.append(segment)
    while chosen and any(chosen[-1].place < place < chosen[-1].end for place in tails):
        chosen.pop()  # likewise: a tail that a segment has replaced has its place
    end = chosen[-1].end if chosen else 0
    return StreamListing(tuple(chosen), max((place for place in tails if place >= end), default=None))


def list_stream(folder: Path) -> StreamListing:
    """Return what a stream's folder has; nothing if there is none.

    Raises:
        OSError: It cannot be read.
    """
    try:
        return listing_of(os.listdir(folder))
    except FileNotFoundError:
        return StreamListing((), None)


def sealed(place: int, plain: bytes) -> tuple[SealedSegment, bytes]:
    """Return the segment of some bytes of a stream, and the content of its file."""
    packer = zlib.compressobj(_LEVEL, zlib.DEFLATED, _GZIP)
    data = packer.compress(plain) + packer.flush()
    return SealedSegment(place, len(plain), _checksum(place, data)), data


def plain_of(segment: SealedSegment, data: bytes) -> bytes | None:
    """Return the bytes of a segment from the content of its file; `None` if that does not match its name."""
    if _checksum(segment.place, data) != segment.checksum:
        return None
    unpacker = zlib.decompressobj(_GZIP)
    try:
        plain = unpacker.decompress(data, segment.length + 1)
    except zlib.error:
        return None
    return plain if len(plain) == segment.length and unpacker.eof and plain.endswith(b"\n") else None


def moved_segment(segment: SealedSegment, data: bytes, place: int) -> SealedSegment:
    """Return the name of a segment whose content goes to another place of a stream."""
    return SealedSegment(place, segment.length, _checksum(place, data))


def _checksum(place: int, data: bytes) -> int:
    return zlib.crc32(data, zlib.crc32(b"%d" % place))


class StreamReader:
    """A reader of one stream, which may grow meanwhile. It writes nothing. Used by one thread at a time.

    Args:
        folder: The stream's, which may not exist yet.
        kept: Number of unpacked segments that are kept in memory.
    """

    def __init__(self, folder: Path, *, kept: int = _KEPT) -> None:
        self.folder = folder
        self.lost: set[int] = set()
        """The end of each stretch that was found to be lost."""
        self._kept_most = kept
        self._kept: dict[SealedSegment, bytes | None] = {}
        self._listing = StreamListing((), None)
        self._listed_at = 0
        """The folder's time of change when it was listed; 0 if that may not tell the next change."""

    def listing(self) -> StreamListing:
        """Return what the folder has now; one `stat` while it has not changed.

        Raises:
            OSError: It cannot be read.
        """
        try:
            changed_at = os.stat(self.folder).st_mtime_ns
        except FileNotFoundError:
            self._listed_at = 0
            return StreamListing((), None)
        if changed_at != self._listed_at:
            self._listing = list_stream(self.folder)
            self._listed_at = changed_at if time.time_ns() - changed_at > _SETTLED_NS else 0
        return self._listing

    def has_any(self) -> bool:
        """Return whether the stream has a byte. Cheap, however long it is.

        Raises:
            OSError: The folder cannot be read.
        """
        try:
            with os.scandir(self.folder) as entries:
                return any(
                    segment_in(entry.name) is not None or (tail_in(entry.name) is not None and entry.stat().st_size > 0)
                    for entry in entries
                )
        except FileNotFoundError:
            return False

    def changed_ns(self) -> int:
        """Return when a stream that has any byte was written last, in nanoseconds since the epoch.

        Raises:
            OSError: The folder cannot be read.
        """
        return self._settled(self._changed_ns)

    def begin(self) -> int:
        """Return the place of the first byte that is kept.

        Raises:
            OSError: The folder cannot be read.
        """
        listing = self.listing()
        return listing.segments[0].place if listing.segments else listing.tail or 0

    def end(self) -> int:
        """Return the place behind the last byte, which may be within a record.

        Raises:
            OSError: The folder cannot be read.
        """
        return self._settled(self._end)

    def stretches(self, offset: int, limit_bytes: int = -1) -> list[Stretch]:
        """Return the stream from `offset` on, in order and without gaps between the stretches.

        Args:
            offset: Of a record.
            limit_bytes: About so much at most, but at least one record or lost stretch; negative for all.

        Raises:
            OSError: It cannot be read.
        """
        end = offset + limit_bytes if limit_bytes >= 0 else None
        return self._settled(lambda listing: self._stretches(listing, offset, limit_bytes), end)

    def record_at(self, offset: int) -> int:
        """Return the place of the first record at or behind `offset`.

        Raises:
            OSError: It cannot be read.
        """
        return self._settled(lambda listing: self._record_at(listing, offset), offset)

    def _settled(self, look: Callable[[StreamListing], _T], end: int | None = None) -> _T:
        """Look at a listing, again if a file of it was sealed meanwhile. What is sealed up to `end` does not change."""
        if end is not None and end < self._listing.sealed_end:
            with suppress(FileNotFoundError):
                return look(self._listing)
        for _ in range(_TRIES):
            with suppress(FileNotFoundError):
                return look(self.listing())
            self._listed_at = 0
        raise FileNotFoundError(2, os.strerror(2), str(self.folder))

    def _changed_ns(self, listing: StreamListing) -> int:
        path = self.folder if listing.tail is None else self.folder / tail_name(listing.tail)
        return path.stat().st_mtime_ns

    def _end(self, listing: StreamListing) -> int:
        if listing.tail is None:
            return listing.sealed_end
        return listing.tail + (self.folder / tail_name(listing.tail)).stat().st_size

    def _record_at(self, listing: StreamListing, offset: int) -> int:
        if offset <= 0:
            return 0
        for segment in listing.segments[_first_behind(listing, offset - 1) :]:
            if offset <= segment.place:
                return segment.place
            data = self._plain(segment)
            return segment.end if data is None else segment.place + data.find(b"\n", offset - 1 - segment.place) + 1
        if listing.tail is None or offset <= listing.tail:
            return max(offset, listing.sealed_end) if listing.tail is None else listing.tail
        data = self._read_tail(listing.tail, offset - 1, 1)
        return offset - 1 + len(data) if data else self._end(listing)

    def _stretches(self, listing: StreamListing, offset: int, limit: int) -> list[Stretch]:
        found: list[Stretch] = []
        left = limit
        for segment in listing.segments[_first_behind(listing, offset) :]:
            if found and limit >= 0 and left <= 0:
                return found
            if offset < segment.place:
                found.append(self._lose(offset, segment.place))
                offset = segment.place
            plain = self._plain(segment)
            if plain is None:
                found.append(self._lose(offset, segment.end))
                offset = segment.end
                continue
            data = _cut(plain, offset - segment.place, left)
            found.append(Stretch(offset, offset + len(data), data))
            offset, left = offset + len(data), left - len(data)
            if offset < segment.end:
                return found
        if listing.tail is None or (found and limit >= 0 and left <= 0):
            return found
        if offset < listing.tail:
            found.append(self._lose(offset, listing.tail))
            offset = listing.tail
        data = self._read_tail(listing.tail, offset, left)
        return [*found, Stretch(offset, offset + len(data), data)] if data else found

    def _lose(self, begin: int, end: int) -> Stretch:
        self.lost.add(end)
        return Stretch(begin, end, None)

    def _plain(self, segment: SealedSegment) -> bytes | None:
        """Return the bytes of a segment; `None` if it is damaged."""
        if segment in self._kept:
            return self._kept[segment]
        descriptor = os.open(self.folder / segment.name, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
        try:
            data = _pread(descriptor, 0, segment.length + _BLOCK_BYTES)
        finally:
            os.close(descriptor)
        plain = plain_of(segment, data)
        while len(self._kept) >= self._kept_most:
            del self._kept[next(iter(self._kept))]
        self._kept[segment] = plain
        return plain

    def _read_tail(self, place: int, offset: int, limit: int) -> bytes:
        """Return whole records of the tail, about `limit` bytes of them, at least one if there is one."""
        path = self.folder / tail_name(place)
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
        try:
            at = offset - place
            data = _pread(descriptor, at, MOST_LENGTH if limit < 0 else limit)
            while b"\n" not in data and (more := _pread(descriptor, at + len(data), _BLOCK_BYTES)):
                data += more[: more.find(b"\n") + 1 or None]
        finally:
            os.close(descriptor)
        return data[: data.rfind(b"\n") + 1]


def _first_behind(listing: StreamListing, offset: int) -> int:
    """Return the number of the first segment that ends behind `offset`."""
    return bisect_right(listing.segments, offset, key=lambda segment: segment.end)


def _cut(plain: bytes, begin: int, limit: int) -> bytes:
    """Return whole records from `begin` on, about `limit` bytes of them, at least one; all if it is negative."""
    if limit < 0 or len(plain) - begin <= limit:
        return plain[begin:]
    end = plain.rfind(b"\n", begin, begin + limit) + 1
    return plain[begin : end or plain.find(b"\n", begin) + 1]


def _pread(descriptor: int, offset: int, length: int) -> bytes:
    parts: list[bytes] = []
    while length > 0 and (data := os.pread(descriptor, length, offset)):
        parts.append(data)
        offset, length = offset + len(data), length - len(data)
    return b"".join(parts)


class StreamWriter:
    """The single writer of a stream. It begins where the last whole record ends; a torn one behind it is cut off.

    Args:
        folder: The stream's; made with the first record if it does not exist.
        keeps: Number of the newest segments that are kept; 0 for all.

    Raises:
        OSError: The disk refuses it.
    """

    def __init__(self, folder: Path, *, keeps: int = 0) -> None:
        self.folder = folder
        self._keeps = keeps
        self._descriptor = -1
        self._size = 0
        self._seal_from = SEAL_BYTES
        listing = list_stream(folder)
        self.place = listing.sealed_end if listing.tail is None else listing.tail
        """The place of the present tail."""
        self._segments = list(listing.segments)
        self._remove_left(listing)
        if listing.tail is not None:
            self._take_up()

    @property
    def end(self) -> int:
        """The place of the next record."""
        return self.place + self._size

    def append(self, data: bytes) -> None:
        """Append whole records.

        Raises:
            OSError: The disk is full; nothing was appended.
        """
        if self._descriptor >= 0 and self._size + len(data) > MOST_LENGTH:
            self._seal()  # so far the disk has taken more of the tail, and no segment
        if len(data) > MOST_LENGTH:
            raise OSError(errno.EFBIG, os.strerror(errno.EFBIG), str(self.folder))
        if self._descriptor < 0:
            self._make_tail()
        written = 0
        try:
            while written < len(data):
                written += os.pwrite(self._descriptor, data[written:], self._size + written)
        except OSError:
            os.ftruncate(self._descriptor, self._size)
            raise
        self._size += written
        if self._size >= self._seal_from:
            self._seal_if_possible()

    def sync(self) -> None:
        """Flush what was appended to the disk.

        Raises:
            OSError: The disk refuses it.
        """
        if self._descriptor >= 0:
            os.fdatasync(self._descriptor)
            sync_folder(self.folder)

    def seal(self) -> None:
        """Seal the tail, if it has any record.

        Raises:
            OSError: The disk refuses it.
        """
        if self._size:
            self._seal()

    def close(self) -> None:
        """Close the tail, which stays as it is."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
        self._descriptor = -1

    @property
    def _tail(self) -> Path:
        return self.folder / tail_name(self.place)

    def _make_tail(self) -> None:
        if not self.folder.is_dir():
            self._make_folder()
        self._descriptor = os.open(self._tail, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, PRIVATE_FILE)
        self._size, self._seal_from = 0, SEAL_BYTES
        os.ftruncate(self._descriptor, 0)

    def _make_folder(self) -> None:
        try:
            private_directory(self.folder)
        except ConfigError as error:
            cause = error.__cause__
            raise cause if isinstance(cause, OSError) else OSError(errno.EACCES, error.message) from error
        for folder in (self.folder.parent, self.folder.parent.parent):
            sync_folder(folder)

    def _take_up(self) -> None:
        """Open the tail of an earlier writer."""
        self._descriptor = os.open(self._tail, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            size = os.fstat(self._descriptor).st_size
            self._size = _end_of_last_record(self._descriptor, size)
            if self._size < size:
                os.ftruncate(self._descriptor, self._size)
        except OSError:
            self.close()
            raise

    def _remove_left(self, listing: StreamListing) -> None:
        """Remove what a kill has left: unfinished segments, and tails that were sealed."""
        whole = {segment.place: segment for segment in listing.segments}
        for name in os.listdir(self.folder) if listing.segments or listing.tail is not None else ():
            place = tail_in(name)
            if (name.startswith(".") and name.endswith(".tmp")) or (place in whole and self._is_whole(whole[place])):
                (self.folder / name).unlink(missing_ok=True)

    def _is_whole(self, segment: SealedSegment) -> bool:
        return plain_of(segment, read_file(self.folder / segment.name)) is not None

    def _seal_if_possible(self) -> None:
        """Seal the tail; on a full disk it goes on growing, and is sealed later."""
        try:
            self._seal()
        except OSError:
            self._seal_from = self._size + SEAL_BYTES

    def _seal(self) -> None:
        segment, data = sealed(self.place, _pread(self._descriptor, 0, self._size))
        scratch = self.folder / f".{segment.name}.tmp"
        try:
            descriptor = os.open(scratch, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, PRIVATE_FILE)
            with os.fdopen(descriptor, "wb") as file:
                file.write(data)
                file.flush()
                os.fdatasync(descriptor)
            scratch.rename(self.folder / segment.name)
        except OSError:
            with suppress(OSError):
                scratch.unlink()
            raise
        sealed_tail = self._tail
        self.close()
        self.place, self._size, self._seal_from = segment.end, 0, SEAL_BYTES
        self._segments.append(segment)
        sync_folder(self.folder)  # the tail goes only when the segment has its name for good
        sealed_tail.unlink()
        while self._keeps and len(self._segments) > self._keeps:
            (self.folder / self._segments.pop(0).name).unlink(missing_ok=True)


def sync_folder(folder: Path) -> None:
    """Flush the names in a folder to the disk.

    Raises:
        OSError: The disk refuses it.
    """
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _end_of_last_record(descriptor: int, size: int) -> int:
    """Return where the whole records of a tail end: no record has a zero, and a block that was never written has."""
    return _pread(descriptor, 0, size).partition(b"\0")[0].rfind(b"\n") + 1

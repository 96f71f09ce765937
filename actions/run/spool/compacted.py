"""Compacted files of a spool: gzip members, in which a reader finds any offset of the file that they replace.

`NAME.gz` stands for `NAME`: offsets, whole lines and damage are those of the file that was compacted, byte for byte.
Every member holds the next `BLOCK_BYTES` of it. The extra field of its header has where these begin and how long the
member is, so the index of a file is read without decompressing it, and `zcat` prints the file.

Where both exist, the plain file counts: it is complete at every moment, and only it grows. What cannot be decompressed
reads as zeros, which is damage that every reader of a spool handles.

Source: RFC 1952, sections 2.3 and 2.3.1.1; the idea is that of BGZF ("Sequence Alignment/Map Format", section 4.1).
"""

from __future__ import annotations

import os
import struct
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple, Protocol

from actions.base.files import PRIVATE_FILE, open_file

BLOCK_BYTES = 128 << 10
_LEVEL = 6
_FORMAT = 1
_GZIP = struct.Struct("<2sBBIBBHBBH")
"""Magic, method, flags, time, extra flags, system, length of all extra fields; id and length of ours."""
_FIELD = struct.Struct("<BBIQI")
"""Format, 1 in the last member, its length, offset and number of the bytes in it. A CRC-32 of these follows."""
_CRC = struct.Struct("<I")
_TRAILER = struct.Struct("<II")
_HEADER_BYTES = _GZIP.size + _FIELD.size + _CRC.size
_MAGIC = b"\x1f\x8b\x08\x04"
_BEST_RATIO = 1100
"""More than what deflate reaches: a gap between members is not longer than what is lost could have held."""
_SEARCH_BYTES = 1 << 20


class _Member(NamedTuple):
    """One member: its place in the compacted file, the stretch of the plain one that it holds."""

    place: int
    length: int
    offset: int
    size: int
    is_last: bool


class _Index(NamedTuple):
    """The members of a file by rising offset, and whether none is missing."""

    members: tuple[_Member, ...]
    is_whole: bool

    @property
    def size(self) -> int:
        return self.members[-1].offset + self.members[-1].size if self.members else 0


class SpoolFile(Protocol):
    """A file of a spool, plain or compacted, open for reading."""

    size: int
    """Of the plain file."""
    identity: tuple[str, int]
    """Changes when another file has replaced it. The first part is the form: compaction changes it, not the content."""

    def read(self, offset: int, length: int) -> bytes:
        """Return up to `length` bytes from `offset` on; all of them with a negative length.

        Raises:
            OSError: The disk cannot be read.
        """
        ...

    def is_whole(self) -> bool:
        """Return whether all of it can be decompressed; always true for a plain file. Reads all of it."""
        ...


def compacted_path(path: Path) -> Path:
    """Return the name of a file after its compaction."""
    return path.with_name(f"{path.name}.gz")


@contextmanager
def opened(path: Path) -> Iterator[SpoolFile]:
    """Open a file of a spool, plain or compacted.

    Raises:
        FileNotFoundError: There is neither.
        OSError: It cannot be read.
    """
    descriptor, is_compacted = _descriptor(path)
    try:
        yield _Compacted(descriptor) if is_compacted else _Plain(descriptor)
    finally:
        os.close(descriptor)


def stored_size(path: Path) -> int:
    """Return the size of a file of a spool before any compaction; 0 without one, or if it cannot be read."""
    try:
        with opened(path) as file:
            return file.size
    except OSError:
        return 0


def line_from(file: SpoolFile, offset: int) -> bytes:
    """Return the rest of the line at an offset with its newline; up to the end of the file without one."""
    parts: list[bytes] = []
    while part := file.read(offset, 1 << 16):
        newline = part.find(b"\n")
        if newline >= 0:
            return b"".join((*parts, part[: newline + 1]))
        parts.append(part)
        offset += len(part)
    return b"".join(parts)


def _descriptor(path: Path) -> tuple[int, bool]:
    """Open the plain file or the compacted one; either may take the other's place in between."""
    flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK
    for _ in range(2):
        for name, is_compacted in ((path, False), (compacted_path(path), True)):
            try:
                return os.open(name, flags), is_compacted
            except FileNotFoundError:
                continue
    raise FileNotFoundError(2, os.strerror(2), str(path))


class _Plain:
    def __init__(self, descriptor: int) -> None:
        status = os.fstat(descriptor)
        self.size = status.st_size
        self.identity = ("plain", status.st_ino)
        self._descriptor = descriptor

    def read(self, offset: int, length: int) -> bytes:
        return _pread(self._descriptor, offset, max(0, self.size - offset) if length < 0 else length)

    def is_whole(self) -> bool:
        return True


class _Compacted:
    def __init__(self, descriptor: int) -> None:
        status = os.fstat(descriptor)
        self._key = (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)
        self._descriptor = descriptor
        self.index = _cached_index(self._key, descriptor)
        self.size = self.index.size
        self.identity = ("gz", status.st_ino)

    def read(self, offset: int, length: int) -> bytes:
        end = self.size if length < 0 else min(self.size, offset + length)
        parts: list[bytes] = []
        place = _first_at(self.index.members, offset)
        while offset < end:
            member = self.index.members[place]
            if offset < member.offset:  # lost
                parts.append(bytes(min(end, member.offset) - offset))
                offset = min(end, member.offset)
                continue
            data = _block(self._key, self._descriptor, member) or bytes(member.size)
            parts.append(data[offset - member.offset : end - member.offset])
            offset += len(parts[-1])
            place += 1
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def is_whole(self) -> bool:
        blocks = (_block(self._key, self._descriptor, member) for member in self.index.members)
        return self.index.is_whole and all(blocks)


_Key = tuple[int, int, int, int]


class _ByKey:
    """A descriptor that is equal to any other one: it is not a part of what a cache is keyed by."""

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor

    def __hash__(self) -> int:
        return 0

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _ByKey)


def _cached_index(key: _Key, descriptor: int) -> _Index:
    return _index(key, _ByKey(descriptor))


@lru_cache(maxsize=32)
def _index(key: _Key, file: _ByKey) -> _Index:
    """Read the headers of all members."""
    found: list[_Member] = []
    place, end, is_whole = 0, 0, True
    while place < key[2]:
        member = _member_at(file.descriptor, place)
        lost = place - (found[-1].place + found[-1].length if found else 0)
        if member is None or not end <= member.offset <= end + lost * _BEST_RATIO:
            is_whole, place = False, _next_header(file.descriptor, place + 1, key[2])
            continue
        is_whole = is_whole and member.offset == end
        found.append(member)
        place, end = place + member.length, member.offset + member.size
    return _Index(tuple(found), is_whole and bool(found) and found[-1].is_last)


def _block(key: _Key, descriptor: int, member: _Member) -> bytes:
    return _decompressed(key, member, _ByKey(descriptor))


@lru_cache(maxsize=16)
def _decompressed(key: _Key, member: _Member, file: _ByKey) -> bytes:
    """Return the bytes of a member; empty if it is damaged."""
    del key  # of the cache
    data = os.pread(file.descriptor, member.length - _HEADER_BYTES, member.place + _HEADER_BYTES)
    if len(data) < member.length - _HEADER_BYTES:
        return b""
    try:
        plain = zlib.decompressobj(-zlib.MAX_WBITS).decompress(data[: -_TRAILER.size], member.size + 1)
    except zlib.error:
        return b""
    checksum, size = _TRAILER.unpack(data[-_TRAILER.size :])
    return plain if len(plain) == size == member.size and zlib.crc32(plain) == checksum else b""


def _member_at(descriptor: int, place: int) -> _Member | None:
    data = os.pread(descriptor, _HEADER_BYTES, place)
    if len(data) < _HEADER_BYTES or data[:4] != _MAGIC:
        return None
    field = data[_GZIP.size : -_CRC.size]
    form, is_last, length, offset, size = _FIELD.unpack(field)
    is_known = form == _FORMAT and _CRC.unpack(data[-_CRC.size :])[0] == zlib.crc32(field)
    if not is_known or not _HEADER_BYTES + _TRAILER.size < length < 2 * BLOCK_BYTES or not 0 < size <= BLOCK_BYTES:
        return None
    return _Member(place, length, offset, size, bool(is_last))


def _next_header(descriptor: int, place: int, end: int) -> int:
    """Return the place of the next header at or behind `place`; `end` if there is none."""
    while place < end:
        data = os.pread(descriptor, _SEARCH_BYTES + len(_MAGIC), place)
        found = data.find(_MAGIC)
        if found >= 0:
            return place + found
        place += _SEARCH_BYTES
    return end


def _first_at(members: tuple[_Member, ...], offset: int) -> int:
    """Return the number of the first member that ends behind `offset`."""
    low, high = 0, len(members)
    while low < high:
        middle = (low + high) // 2
        if members[middle].offset + members[middle].size <= offset:
            low = middle + 1
        else:
            high = middle
    return low


def _pread(descriptor: int, offset: int, length: int) -> bytes:
    data = os.pread(descriptor, length, offset)
    if len(data) == length or not data:
        return data
    parts = [data]
    read = len(data)
    while read < length and (data := os.pread(descriptor, length - read, offset + read)):
        parts.append(data)
        read += len(data)
    return b"".join(parts)


class Compaction(NamedTuple):
    """A compacted copy beside the plain file, complete and on disk, that has not replaced it yet."""

    path: Path
    scratch: Path
    status: os.stat_result
    """Of the plain file when it was read."""

    @property
    def saved_bytes(self) -> int:
        """The bytes that its replacement frees."""
        return self.status.st_size - self.scratch.stat().st_size

    def replace(self) -> bool:
        """Put the copy in the plain file's place. Nothing else may write the plain file meanwhile.

        Returns:
            Whether it was: the plain file has not changed since it was read.

        Raises:
            OSError: The disk refuses it; one of the two is complete.
        """
        now = self.path.stat()
        if _version_of(now) != _version_of(self.status):
            self.discard()
            return False
        self.scratch.replace(compacted_path(self.path))
        sync_folder(self.path.parent)
        self.path.unlink()
        sync_folder(self.path.parent)
        return True

    def discard(self) -> None:
        """Remove the copy."""
        self.scratch.unlink(missing_ok=True)


def compact(path: Path) -> Compaction:
    """Write a compacted copy of a file beside it, and compare it with the file.

    Raises:
        OSError: The disk is full, or what was written cannot be read back; nothing is left of it.
    """
    scratch = path.with_name(f".{path.name}.gz.tmp")
    try:
        with open_file(path) as source:
            status = os.fstat(source.fileno())
            descriptor = os.open(scratch, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, PRIVATE_FILE)
            with os.fdopen(descriptor, "w+b") as file:
                offset = 0
                while offset < status.st_size:
                    block = source.read(min(BLOCK_BYTES, status.st_size - offset))
                    if not block:
                        raise OSError(5, "It became shorter while it was read", str(path))
                    file.write(_compressed(block, offset, is_last=offset + len(block) == status.st_size))
                    offset += len(block)
                file.flush()
                os.fsync(descriptor)
                _require_equal(descriptor, path)
                os.utime(descriptor, ns=(status.st_atime_ns, status.st_mtime_ns))
    except BaseException:
        scratch.unlink(missing_ok=True)
        raise
    return Compaction(path, scratch, status)


def expand(path: Path) -> bool:
    """Put the plain file in the place of its compacted form, if that is all there is.

    Returns:
        Whether the compacted file may go: it was whole. A damaged one is still there, beside the plain one.

    Raises:
        OSError: The disk is full; nothing was changed.
    """
    other = compacted_path(path)
    if path.exists() or not other.exists():
        return True
    scratch = path.with_name(f".{path.name}.tmp")
    try:
        with opened(path) as file:
            descriptor = os.open(scratch, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, PRIVATE_FILE)
            with os.fdopen(descriptor, "wb") as target:
                offset = 0
                while block := file.read(offset, BLOCK_BYTES):
                    target.write(block)
                    offset += len(block)
                target.flush()
                os.fsync(descriptor)
                status = other.stat()
                os.utime(descriptor, ns=(status.st_atime_ns, status.st_mtime_ns))
            is_whole = file.is_whole()
        scratch.replace(path)
        sync_folder(path.parent)
    except BaseException:
        scratch.unlink(missing_ok=True)
        raise
    return is_whole


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


def _compressed(block: bytes, offset: int, *, is_last: bool) -> bytes:
    packer = zlib.compressobj(_LEVEL, zlib.DEFLATED, -zlib.MAX_WBITS)
    data = packer.compress(block) + packer.flush()
    length = _HEADER_BYTES + len(data) + _TRAILER.size
    field = _FIELD.pack(_FORMAT, is_last, length, offset, len(block))
    extra = _FIELD.size + _CRC.size
    head = _GZIP.pack(_MAGIC[:2], 8, 4, 0, 0, 255, extra + 4, ord("E"), ord("K"), extra)
    return b"".join((head, field, _CRC.pack(zlib.crc32(field)), data, _TRAILER.pack(zlib.crc32(block), len(block))))


def _require_equal(descriptor: int, path: Path) -> None:
    """Compare what was written with the plain file."""
    written = _Compacted(descriptor)
    with open_file(path) as source:
        offset = 0
        while block := written.read(offset, BLOCK_BYTES):
            if source.read(len(block)) != block:
                raise OSError(5, "Its compacted copy is not equal to it", str(path))
            offset += len(block)
    if not written.is_whole():
        raise OSError(5, "Its compacted copy is not whole", str(path))


def _version_of(status: os.stat_result) -> tuple[int, int, int, int]:
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns

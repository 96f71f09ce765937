"""A small file that is overwritten in place: never torn for its reader, and written on a full disk too.

A temporary file that is renamed, or a longer log, needs room. This needs none: all of it was allocated when the file
was made. A length and a checksum in front of the content tell a reader that the writer was in the middle of it.
"""

from __future__ import annotations

import os
import struct
import zlib
from contextlib import suppress
from pathlib import Path

from actions.base.files import PRIVATE_FILE

BLOCK_BYTES = 16 << 10
_HEADER = struct.Struct(">4sII")
_MAGIC = b"EKB1"
_TRIES = 20


def make_block(path: Path) -> None:
    """Make the file with all the room it will ever need, empty; one that is there is left as it is.

    Raises:
        OSError: It cannot be made.
    """
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, PRIVATE_FILE)
    try:
        os.posix_fallocate(descriptor, 0, BLOCK_BYTES)
    finally:
        os.close(descriptor)


def write_block(path: Path, content: bytes) -> bool:
    """Replace the content. A file that is not there is made, if there is room.

    Returns:
        Whether it was written: it fits, and the disk takes it.
    """
    data = _HEADER.pack(_MAGIC, len(content), zlib.crc32(content)) + content
    if len(data) > BLOCK_BYTES:
        return False
    with suppress(OSError):
        if not path.exists():
            make_block(path)
        descriptor = os.open(path, os.O_WRONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            return os.pwrite(descriptor, data, 0) == len(data)
        finally:
            os.close(descriptor)
    return False


def read_block(path: Path) -> bytes:
    """The content; empty if there is none, or it cannot be read."""
    for _ in range(_TRIES):
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError:
            return b""
        try:
            data = os.pread(descriptor, BLOCK_BYTES, 0)
        except OSError:
            return b""
        finally:
            os.close(descriptor)
        if len(data) < _HEADER.size:
            return b""
        magic, length, checksum = _HEADER.unpack_from(data)
        content = data[_HEADER.size : _HEADER.size + length]
        if magic != _MAGIC:
            return b""
        if zlib.crc32(content) == checksum:
            return content
    return b""

"""A file, or a stream, in pieces of UTF-8: unpacked if it is gzip, recoded if it begins with a mark of UTF-16.

Of a text that was copied out of a document `without_margin` leaves what the program printed.
"""

from __future__ import annotations

import codecs
import re
import zlib
from collections.abc import Iterator
from itertools import chain
from typing import BinaryIO

from actions.base.errors import FormatError

CHUNK_BYTES = 1 << 16
_GZIP = b"\x1f\x8b"
_MARKS = {codecs.BOM_UTF16_LE: "utf-16-le", codecs.BOM_UTF16_BE: "utf-16-be"}


def text_pieces(stream: BinaryIO) -> Iterator[bytes]:
    """Yield the content of a stream, each piece as soon as it is there.

    Raises:
        FormatError: It begins like gzip and is damaged.
        OSError: It cannot be read.
    """
    first = _read(stream)
    while 0 < len(first) < len(_GZIP) and (more := _read(stream)):
        first += more
    if first.startswith(_GZIP):
        yield from _recoded(_unpacked(_all_of(first, stream)))
    else:
        yield from _recoded(_all_of(first, stream))


def _read(stream: BinaryIO) -> bytes:
    """Return what is there, at least a byte; empty at the end. A pipe does not have to fill the piece."""
    read1 = getattr(stream, "read1", None)
    piece: bytes = read1(CHUNK_BYTES) if read1 is not None else stream.read(CHUNK_BYTES)
    return piece


def _all_of(first: bytes, stream: BinaryIO) -> Iterator[bytes]:
    piece = first
    while piece:
        yield piece
        piece = _read(stream)


def _unpacked(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """Unpack all members, in pieces of bounded size: a small file may unpack to a huge one."""
    packer = zlib.decompressobj(wbits=31)
    try:
        for piece in pieces:
            rest = piece
            while rest:
                yield packer.decompress(rest, CHUNK_BYTES)
                rest = packer.unconsumed_tail or packer.unused_data
                if packer.eof:
                    packer = zlib.decompressobj(wbits=31)
        yield packer.flush()
    except zlib.error as error:
        message = f"The gzip data is damaged: {error}."
        raise FormatError(message) from error


def _recoded(pieces: Iterator[bytes]) -> Iterator[bytes]:
    first = next(pieces, b"")
    encoding = next((name for mark, name in _MARKS.items() if first.startswith(mark)), "")
    if not encoding:
        yield first.removeprefix(codecs.BOM_UTF8)
        yield from pieces
        return
    decoder = codecs.getincrementaldecoder(encoding)("replace")
    yield decoder.decode(first[2:]).encode()
    for piece in pieces:
        yield decoder.decode(piece).encode()


_MARGIN = re.compile(rb"[ \t]{0,8}(?:> ?){1,4}|[ \t]{0,40}")
_FENCE = re.compile(rb"[ \t]{0,40}(?:```|~~~)[\w-]{0,20}\s{0,8}")
_LONGEST_HEAD = 1 << 16


def without_margin(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """Yield the text without the indentation or the marks of a quotation that its first line has, and without fences.

    A text whose first line has none of that is passed on as it comes.
    """
    head = b""
    for piece in pieces:
        head += piece
        first = next((line for line in head.split(b"\n")[:-1] if line.strip() and not _FENCE.fullmatch(line)), None)
        if first is not None or len(head) > _LONGEST_HEAD:
            break
    else:
        first = next((line for line in head.split(b"\n") if line.strip() and not _FENCE.fullmatch(line)), b"")
    margin = _margin_of(first or b"")
    if not margin and not _FENCE.match(head.lstrip()):
        yield head
        yield from pieces
        return
    rest = b""
    for piece in chain([head], pieces):
        *lines, rest = (rest + piece).split(b"\n")
        kept = (line.removeprefix(margin) for line in lines)
        yield b"".join(
            b"\n" if line == margin.rstrip() else line + b"\n" for line in kept if not _FENCE.fullmatch(line)
        )
    if not _FENCE.fullmatch(rest.removeprefix(margin)):
        yield rest.removeprefix(margin)


def _margin_of(line: bytes) -> bytes:
    found = _MARGIN.match(line)
    return found[0] if found else b""

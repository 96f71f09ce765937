"""One HTTP/1.1 response out of bytes that are cut anywhere.

Source: RFC 9112, sections 4 to 7.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from actions.base.errors import FormatError

_LINE_END = b"\r\n"
_HEAD_END = b"\r\n\r\n"
_LONGEST_HEAD = 1 << 16
_LONGEST_SIZE_LINE = 1 << 12
_INFORMATIONAL = range(100, 200)


@dataclass(frozen=True, slots=True)
class ResponseHead:
    """What comes before the body. Names of headers are written `Like-This`; of equal ones the last counts."""

    status: int
    headers: Mapping[str, str]

    @property
    def content_type(self) -> str:
        """Without its parameters, in small letters."""
        return self.headers.get("Content-Type", "").partition(";")[0].strip().lower()


class HttpResponse:
    """Takes bytes as they arrive and gives the body in them. For one response of a connection that is not used again.

    `head` is there once it has come whole; `is_complete` tells whether the body has.
    """

    def __init__(self) -> None:
        self.head: ResponseHead | None = None
        self._start = b""
        self._body: _Chunks | _Measured | _UntilEnd | None = None

    @property
    def is_complete(self) -> bool:
        """Whether the body has come whole; one of unknown length never has."""
        return self._body is not None and self._body.is_complete

    @property
    def may_end(self) -> bool:
        """Whether the connection may end here without a loss."""
        return self._body is not None and self._body.may_end

    def feed(self, data: bytes) -> bytes:
        """Take what arrived.

        Returns:
            The part of the body in it; empty if there is none.

        Raises:
            FormatError: It is no HTTP.
        """
        if self._body is not None:
            return self._body.feed(data)
        self._start += data
        while (end := self._start.find(_HEAD_END)) >= 0:
            head, self._start = _read_head(self._start[:end]), self._start[end + len(_HEAD_END) :]
            if head.status not in _INFORMATIONAL:
                self.head, self._body = head, _body_of(head)
                return self._body.feed(self._start)
        if len(self._start) > _LONGEST_HEAD:
            raise FormatError("The answer's head does not end.")
        return b""


class _UntilEnd:
    """A body that lasts as long as the connection."""

    is_complete = False
    may_end = True

    def feed(self, data: bytes) -> bytes:
        return data


class _Measured:
    """A body of known length."""

    def __init__(self, length: int) -> None:
        self._left = length

    @property
    def is_complete(self) -> bool:
        return not self._left

    @property
    def may_end(self) -> bool:
        return self.is_complete

    def feed(self, data: bytes) -> bytes:
        part = data[: self._left]
        self._left -= len(part)
        return part


class _Chunks:
    """A body in chunks, each behind its size; an empty one ends it. What comes behind that is not looked at."""

    def __init__(self) -> None:
        self.is_complete = False
        self._rest = b""
        """The beginning of a size line."""
        self._left = 0
        """What is missing of the current chunk."""
        self._gap = 0
        """Length of the line end between a chunk and the next size."""

    @property
    def may_end(self) -> bool:
        return self.is_complete

    def feed(self, data: bytes) -> bytes:
        data = self._rest + data if self._rest else data
        parts = [data[: self._left]]
        at = len(parts[0])
        self._left -= at
        while not self._left and (line_end := data.find(_LINE_END, at + self._gap)) >= 0:
            size = _size_in(data[at + self._gap : line_end])
            if not size:
                self.is_complete = True
                break
            begin = line_end + len(_LINE_END)
            at = begin + size
            parts.append(data[begin:at])
            self._gap = len(_LINE_END)
            self._left = max(0, at - len(data))
        self._rest = data[at:]
        if len(self._rest) > _LONGEST_SIZE_LINE and not self.is_complete:
            raise FormatError("A chunk of the answer has no size.")
        return b"".join(parts)


def _read_head(data: bytes) -> ResponseHead:
    first, *lines = data.decode("latin-1").split("\r\n")
    version, _, rest = first.partition(" ")
    status = rest[:3]
    if not version.startswith("HTTP/1.") or not status.isdecimal():
        raise FormatError("What answers does not speak HTTP.")
    fields = (line.partition(":") for line in lines)
    return ResponseHead(int(status), {name.strip().title(): value.strip() for name, _, value in fields})


def _body_of(head: ResponseHead) -> _Chunks | _Measured | _UntilEnd:
    if head.headers.get("Transfer-Encoding", "").lower() == "chunked":
        return _Chunks()
    length = head.headers.get("Content-Length", "")
    return _Measured(int(length)) if length.isdecimal() else _UntilEnd()


def _size_in(line: bytes) -> int:
    """The size that begins a chunk; extensions behind it are not looked at."""
    try:
        size = int(line.partition(b";")[0], 16)
    except ValueError:
        size = -1
    if size < 0:
        raise FormatError("A chunk of the answer has no size.")
    return size

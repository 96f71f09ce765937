"""SPDY/3.1, as much of it as `kubectl port-forward` speaks inside a websocket: streams that the client opens.

There is no flow control, as its client has none. Source: draft-mbelshe-httpbis-spdy-00 (frames, dictionary).
"""

from __future__ import annotations

import asyncio
import struct
import zlib
from collections.abc import Awaitable, Callable, Mapping

_SYN_REPLY, _PING = 2, 6
_CONTROL = 0x8003
_FIN = 1
_HEAD_BYTES = 8
_LARGEST_DATA = 1 << 16
_WORDS = (
    "options head post put delete trace accept accept-charset accept-encoding accept-language accept-ranges age allow "
    "authorization cache-control connection content-base content-encoding content-language content-length "
    "content-location content-md5 content-range content-type date etag expect expires from host if-match "
    "if-modified-since if-none-match if-range if-unmodified-since last-modified location max-forwards pragma "
    "proxy-authenticate proxy-authorization range referer retry-after server te trailer transfer-encoding upgrade "
    "user-agent vary via warning www-authenticate method get status 200_OK version HTTP/1.1 url public set-cookie "
    "keep-alive origin"
)
_REST = (
    b"100101201202205206300302303304305306307402405406407408409410411412413414415416417502504505"
    b"203 Non-Authoritative Information204 No Content301 Moved Permanently400 Bad Request401 Unauthorized"
    b"403 Forbidden404 Not Found500 Internal Server Error501 Not Implemented503 Service Unavailable"
    b"Jan Feb Mar Apr May Jun Jul Aug Sept Oct Nov Dec 00:00:00 Mon, Tue, Wed, Thu, Fri, Sat, Sun, GMT"
    b"chunked,text/html,image/png,image/jpg,image/gif,application/xml,application/xhtml+xml,text/plain,"
    b"text/javascript,publicprivatemax-age=gzip,deflate,sdchcharset=utf-8charset=iso-8859-1,utf-,*,enq=0."
)
DICTIONARY = b"".join(
    struct.pack(">I", len(word)) + word.replace("_", " ").encode() for word in _WORDS.split()
) + _REST  # fmt: skip
"""What header blocks are compressed with."""

Send = Callable[[bytes], Awaitable[None]]


class BrokenSpdy(Exception):
    """The peer does not speak SPDY/3.1."""


class SpdyStream:
    """One stream that the client has opened.

    Args:
        connection: Whose it is.
        number: Of the stream.
        headers: With which it was opened.
    """

    def __init__(self, connection: SpdyConnection, number: int, headers: Mapping[str, str]) -> None:
        self.number = number
        self.headers = headers
        self._connection = connection
        self._input: asyncio.Queue[bytes] = asyncio.Queue()
        self._is_ended = False

    async def read(self) -> bytes:
        """The next bytes; `b""` once the client has closed its end."""
        if self._is_ended:
            return b""
        data = await self._input.get()
        self._is_ended = not data
        return data

    async def write(self, data: bytes) -> None:
        """Send bytes."""
        for start in range(0, len(data), _LARGEST_DATA):
            await self._connection.send_data(self.number, data[start : start + _LARGEST_DATA])

    async def close(self) -> None:
        """Close our end."""
        await self._connection.send_data(self.number, b"", is_end=True)

    def feed(self, data: bytes, *, is_end: bool) -> None:
        """Take what the client has sent."""
        if data:
            self._input.put_nowait(data)
        if is_end:
            self._input.put_nowait(b"")


class SpdyConnection:
    """The server's side of one connection.

    Args:
        send: Takes bytes for the client.
        opened: Told of each stream that the client opens, after it has been accepted.
    """

    def __init__(self, send: Send, opened: Callable[[SpdyStream], None]) -> None:
        self._send = send
        self._opened = opened
        self._buffer = bytearray()
        self._streams: dict[int, SpdyStream] = {}
        self._inflate = zlib.decompressobj(zdict=DICTIONARY)
        self._deflate = zlib.compressobj(zdict=DICTIONARY)

    async def feed(self, data: bytes) -> None:
        """Take bytes from the client, cut anywhere.

        Raises:
            BrokenSpdy: They are no frames.
        """
        self._buffer += data
        while len(self._buffer) >= _HEAD_BYTES:
            size = int.from_bytes(self._buffer[5:8], "big")
            if len(self._buffer) < _HEAD_BYTES + size:
                return
            head = bytes(self._buffer[:_HEAD_BYTES])
            payload = bytes(self._buffer[_HEAD_BYTES : _HEAD_BYTES + size])
            del self._buffer[: _HEAD_BYTES + size]
            try:
                await self._take(head, payload)
            except (struct.error, zlib.error, UnicodeDecodeError) as error:
                raise BrokenSpdy(str(error)) from error

    def end(self) -> None:
        """The client is gone: every stream ends."""
        for stream in self._streams.values():
            stream.feed(b"", is_end=True)

    async def send_data(self, number: int, data: bytes, *, is_end: bool = False) -> None:
        """Send a data frame."""
        await self._send(struct.pack(">II", number, is_end << 24 | len(data)) + data)

    async def _take(self, head: bytes, payload: bytes) -> None:
        if not head[0] & 0x80:
            stream = self._streams.get(int.from_bytes(head[:4], "big"))
            if stream is not None:
                stream.feed(payload, is_end=bool(head[4] & _FIN))
            return
        version, kind = struct.unpack(">HH", head[:4])
        if version != _CONTROL:
            raise BrokenSpdy(f"version {version & 0x7FFF}")
        match kind:
            case 1:  # SYN_STREAM
                await self._open(payload, is_end=bool(head[4] & _FIN))
            case 3:  # RST_STREAM
                stream = self._streams.pop(int.from_bytes(payload[:4], "big"), None)
                if stream is not None:
                    stream.feed(b"", is_end=True)
            case 6:  # PING
                await self._send_control(_PING, payload)
            case 7:  # GOAWAY
                self.end()

    async def _open(self, payload: bytes, *, is_end: bool) -> None:
        (number,) = struct.unpack(">I", payload[:4])
        stream = SpdyStream(self, number, _read_headers(self._inflate.decompress(payload[10:])))
        self._streams[number] = stream
        no_headers = self._deflate.compress(struct.pack(">I", 0)) + self._deflate.flush(zlib.Z_SYNC_FLUSH)
        await self._send_control(_SYN_REPLY, struct.pack(">I", number) + no_headers)
        if is_end:
            stream.feed(b"", is_end=True)
        self._opened(stream)

    async def _send_control(self, kind: int, payload: bytes) -> None:
        await self._send(struct.pack(">HHI", _CONTROL, kind, len(payload)) + payload)


def _read_headers(block: bytes) -> dict[str, str]:
    (count,) = struct.unpack(">I", block[:4])
    texts: list[str] = []
    place = 4
    for _ in range(2 * count):
        (size,) = struct.unpack(">I", block[place : place + 4])
        texts.append(block[place + 4 : place + 4 + size].decode())
        place += 4 + size
    return dict(zip(texts[::2], texts[1::2], strict=True))

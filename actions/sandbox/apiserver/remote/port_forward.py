"""Connections to ports of a pod over a websocket: `…/pods/NAME/portforward`.

Two protocols are served: the channels of `v4.channel.k8s.io` (two for each port of the query, data and error, each
beginning with the port's number), and SPDY/3.1 inside the websocket, which is all that `kubectl` offers since 1.31. Of
SPDY there are streams that the client opens, without flow control, as its client has none.

Source: k8s.io/kubelet `portforward` (websocket.go, httpstream.go), k8s.io/apimachinery `portforward` constants;
draft-mbelshe-httpbis-spdy-00 (frames, dictionary).
"""

from __future__ import annotations

import asyncio
import struct
import zlib
from collections.abc import Awaitable, Callable, Mapping, Sequence

from aiohttp import WSMsgType, web

from actions.sandbox.apiserver.requests.context import ServerContext
from actions.sandbox.apiserver.requests.request_info import RequestTarget
from actions.sandbox.apiserver.storage.codec import dig
from actions.sandbox.apiserver.storage.errors import bad_request
from actions.sandbox.model.kubelet_api import ClientInput, ContainerNotRunning, PortStream

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
"""The dictionary with which header blocks are compressed."""

Send = Callable[[bytes], Awaitable[None]]


class BrokenSpdy(Exception):
    """The peer does not follow SPDY/3.1."""


class SpdyStream:
    """A stream that the client has opened.

    Args:
        connection: The one that it is part of.
        number: Of the stream.
        headers: Those with which it was opened.
    """

    def __init__(self, connection: SpdyConnection, number: int, headers: Mapping[str, str]) -> None:
        self.number = number
        self.headers = headers
        self._connection = connection
        self._input = ClientInput()

    async def read(self) -> bytes:
        """Return the next bytes; `b""` once the client has closed its end."""
        return await self._input.read()

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
            self._input.feed(data)
        if is_end:
            self._input.end()


class SpdyConnection:
    """The server's side of a SPDY connection.

    Args:
        send: Sends bytes to the client.
        opened: Called with each stream that the client opens, after it has been accepted.
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
            BrokenSpdy: They are not frames.
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
        """End every stream, as the client is gone."""
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


_CHANNELS, _TUNNEL = "v4.channel.k8s.io", "SPDY/3.1+portforward.k8s.io"
_SILENCE_SECONDS = 30.0


class _Channel:
    """A forwarded port on a websocket whose frames begin with a channel number."""

    def __init__(self, socket: web.WebSocketResponse, index: int) -> None:
        self._socket = socket
        self._index = index
        self.input = ClientInput()

    async def begin(self, port: int) -> None:
        """Begin both channels with the port's number."""
        for channel in (2 * self._index, 2 * self._index + 1):
            await self._socket.send_bytes(bytes([channel]) + struct.pack("<H", port))

    async def read(self) -> bytes:
        return await self.input.read()

    async def write(self, data: bytes) -> None:
        await self._socket.send_bytes(bytes([2 * self._index]) + data)

    async def fail(self, message: str) -> None:
        await self._socket.send_bytes(bytes([2 * self._index + 1]) + message.encode())


class _Forwarding:
    """All connections of one websocket."""

    def __init__(self, context: ServerContext, target: RequestTarget) -> None:
        self._context = context
        self._target = target
        self._tasks: set[asyncio.Task[None]] = set()

    async def connect(self, port: int, stream: PortStream) -> str:
        """Connect a port until either side closes. Return the error, or an empty text."""
        place = (self._target.namespace, self._target.name)
        try:
            await self._context.kubelet.forward(*place, port, stream)
        except ContainerNotRunning as error:
            return f"error forwarding port {port} to pod {place[1]}: {error}"
        return ""

    def start(self, running: asyncio.Task[None]) -> None:
        """Keep a connection's task."""
        self._tasks.add(running)
        running.add_done_callback(self._tasks.discard)

    async def finish(self) -> None:
        """End all connections."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def serve_forward(context: ServerContext, request: web.Request, target: RequestTarget) -> web.StreamResponse:
    """Upgrade and connect ports until the client goes away.

    Raises:
        StatusError: 400, 404 before the upgrade.
    """
    pod = context.writer.find(target.resource, target.namespace, target.name)
    if dig(pod.body, "status", "phase") != "Running":
        raise bad_request(f"pod {pod.name} is not running")
    offered = {name.strip() for name in request.headers.get("Sec-WebSocket-Protocol", "").split(",")}
    ports = [int(text) for some in request.query.getall("ports", []) for text in some.split(",") if text.isdigit()]
    if not offered & {_CHANNELS, _TUNNEL}:
        why = "only websockets with v4.channel.k8s.io or SPDY/3.1+portforward.k8s.io are served"
        raise bad_request(f"unable to upgrade: {why}")
    if _TUNNEL not in offered and not ports:
        raise bad_request('query parameter "ports" is required')
    socket = web.WebSocketResponse(protocols=(_TUNNEL, _CHANNELS), heartbeat=_SILENCE_SECONDS)
    await socket.prepare(request)
    forwarding = _Forwarding(context, target)
    try:
        if socket.ws_protocol == _TUNNEL:
            await _serve_tunnel(socket, forwarding)
        else:
            await _serve_channels(socket, forwarding, ports)
    finally:
        await forwarding.finish()
    await socket.close()
    return socket


async def _serve_channels(socket: web.WebSocketResponse, forwarding: _Forwarding, ports: Sequence[int]) -> None:
    channels = [_Channel(socket, index) for index in range(len(ports))]

    async def run(channel: _Channel, port: int) -> None:
        trouble = await forwarding.connect(port, channel)
        if trouble:
            await channel.fail(trouble)
        if len(ports) == 1:
            await socket.close()

    for channel, port in zip(channels, ports, strict=True):
        await channel.begin(port)
        forwarding.start(asyncio.create_task(run(channel, port)))
    async for message in socket:
        if message.type is WSMsgType.BINARY and message.data and message.data[0] // 2 < len(channels):
            channels[message.data[0] // 2].input.feed(message.data[1:])


async def _serve_tunnel(socket: web.WebSocketResponse, forwarding: _Forwarding) -> None:
    errors: dict[str, SpdyStream] = {}

    async def run(data: SpdyStream, error: SpdyStream, port: int) -> None:
        trouble = await forwarding.connect(port, data)
        if trouble:
            await error.write(trouble.encode())
        await error.close()
        await data.close()

    def opened(stream: SpdyStream) -> None:
        """Keep an error stream; with the data stream of the same request id, which follows, connect the port."""
        kind, request_id = stream.headers.get("streamtype", ""), stream.headers.get("requestid", "")
        if kind == "error":
            errors[request_id] = stream
        elif kind == "data" and request_id in errors:
            port = int(stream.headers.get("port", "0"))
            forwarding.start(asyncio.create_task(run(stream, errors.pop(request_id), port)))

    connection = SpdyConnection(socket.send_bytes, opened)
    async for message in socket:
        if message.type is WSMsgType.BINARY:
            try:
                await connection.feed(message.data)
            except BrokenSpdy:
                return
    connection.end()

"""Connections to ports of a pod over a websocket: `…/pods/NAME/portforward`.

Two protocols are served: the channels of `v4.channel.k8s.io` (two for each port of the query, data and error, each
beginning with the port's number), and SPDY inside the websocket, which is all that `kubectl` offers since 1.31.

Source: k8s.io/kubelet `portforward` (websocket.go, httpstream.go), k8s.io/apimachinery `portforward` constants.
"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Sequence

from aiohttp import WSMsgType, web

from actions.sandbox.api.codec import dig
from actions.sandbox.api.services import Services
from actions.sandbox.api.spdy import BrokenSpdy, SpdyConnection, SpdyStream
from actions.sandbox.api.status import bad_request
from actions.sandbox.api.target import Target
from actions.sandbox.ports import NoProcess, PortStream

_CHANNELS, _TUNNEL = "v4.channel.k8s.io", "SPDY/3.1+portforward.k8s.io"
_SILENCE_SECONDS = 30.0


class _Channel:
    """One port of a websocket that speaks in channels."""

    def __init__(self, socket: web.WebSocketResponse, index: int) -> None:
        self._socket = socket
        self._index = index
        self.input: asyncio.Queue[bytes] = asyncio.Queue()
        self._is_ended = False

    async def begin(self, port: int) -> None:
        """Both channels begin with the port's number."""
        for channel in (2 * self._index, 2 * self._index + 1):
            await self._socket.send_bytes(bytes([channel]) + struct.pack("<H", port))

    async def read(self) -> bytes:
        if self._is_ended:
            return b""
        data = await self.input.get()
        self._is_ended = not data
        return data

    async def write(self, data: bytes) -> None:
        await self._socket.send_bytes(bytes([2 * self._index]) + data)

    async def fail(self, message: str) -> None:
        await self._socket.send_bytes(bytes([2 * self._index + 1]) + message.encode())


class _Forwarding:
    """All connections of one websocket."""

    def __init__(self, services: Services, target: Target) -> None:
        self._services = services
        self._target = target
        self._tasks: set[asyncio.Task[None]] = set()

    async def connect(self, port: int, stream: PortStream) -> str:
        """Connect a port until either side closes. Returns what went wrong, or nothing."""
        place = (self._target.namespace, self._target.name)
        try:
            await self._services.kubelet.forward(*place, port, stream)
        except NoProcess as error:
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


async def serve_forward(services: Services, request: web.Request, target: Target) -> web.StreamResponse:
    """Upgrade and connect ports until the client goes away.

    Raises:
        ApiFault: 400, 404 before the upgrade.
    """
    pod = services.writer.find(target.resource, target.namespace, target.name)
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
    forwarding = _Forwarding(services, target)
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
            channels[message.data[0] // 2].input.put_nowait(message.data[1:])


async def _serve_tunnel(socket: web.WebSocketResponse, forwarding: _Forwarding) -> None:
    errors: dict[str, SpdyStream] = {}

    async def run(data: SpdyStream, error: SpdyStream, port: int) -> None:
        trouble = await forwarding.connect(port, data)
        if trouble:
            await error.write(trouble.encode())
        await error.close()
        await data.close()

    def opened(stream: SpdyStream) -> None:
        """A connection is an error stream, then a data stream, with one request id."""
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

"""Connections to ports of a pod over a websocket: `…/pods/NAME/portforward`.

One protocol is served: the channels of `v4.channel.k8s.io`, two for each port of the query, data and error, each
beginning with the port's number. SPDY, which is all that `kubectl` offers, is not.

Source: k8s.io/kubelet `portforward` (websocket.go), k8s.io/apimachinery `portforward` constants.
"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Sequence

from aiohttp import WSMsgType, web

from actions.sandbox.apiserver.requests.context import ServerContext
from actions.sandbox.apiserver.requests.request_info import RequestTarget
from actions.sandbox.apiserver.storage.codec import dig
from actions.sandbox.apiserver.storage.errors import bad_request
from actions.sandbox.model.kubelet_api import ClientInput, ContainerNotRunning, PortStream

_CHANNELS = "v4.channel.k8s.io"
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
    if _CHANNELS not in offered:
        raise bad_request("unable to upgrade: only websockets with v4.channel.k8s.io are served")
    if not ports:
        raise bad_request('query parameter "ports" is required')
    socket = web.WebSocketResponse(protocols=(_CHANNELS,), heartbeat=_SILENCE_SECONDS)
    await socket.prepare(request)
    forwarding = _Forwarding(context, target)
    try:
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

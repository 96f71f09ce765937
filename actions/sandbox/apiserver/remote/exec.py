"""A container's streams over a websocket: `…/pods/NAME/exec` runs a program.

Source: k8s.io/apimachinery `remotecommand` (v4 and v5 of `channel.k8s.io`), k8s.io/kubelet for the final status.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from aiohttp import WSMsgType, web

from actions.cluster.remote.exec import Channel
from actions.sandbox.apiserver.remote.logs import container_of
from actions.sandbox.apiserver.requests.context import ServerContext
from actions.sandbox.apiserver.requests.request_info import RequestTarget
from actions.sandbox.apiserver.storage.codec import Object, dig, encode
from actions.sandbox.apiserver.storage.errors import StatusError, bad_request
from actions.sandbox.model.kubelet_api import ClientInput, ContainerNotRunning

_PROTOCOLS = ("v5.channel.k8s.io", "v4.channel.k8s.io")
_SILENCE_SECONDS = 30.0


class SocketStreams:
    """The streams of one exec session, carried by a websocket.

    Args:
        socket: Open, with a protocol of `channel.k8s.io`.
        has_stdin: Whether the client sends standard input.
    """

    def __init__(self, socket: web.WebSocketResponse, *, has_stdin: bool) -> None:
        self._socket = socket
        self._input = ClientInput()
        if not has_stdin:
            self._input.end()

    async def read(self) -> bytes:
        return await self._input.read()

    async def write(self, channel: Channel, data: bytes) -> None:
        await self._socket.send_bytes(bytes([channel]) + data)

    async def pump(self) -> None:
        """Take what the client sends until it goes away."""
        async for message in self._socket:
            if message.type is WSMsgType.BINARY:
                self._take(message.data)
            elif message.type is WSMsgType.TEXT:
                self._take(message.data.encode())

    def _take(self, frame: bytes) -> None:
        """Pass on input, and its end. Sizes of the client's terminal are dropped: the programs only print."""
        if not frame:
            return
        channel, data = frame[0], frame[1:]
        if channel == Channel.STDIN and data:
            self._input.feed(data)
        elif channel == Channel.CLOSE and data[:1] == bytes([Channel.STDIN]):
            self._input.end()


async def serve_exec(context: ServerContext, request: web.Request, target: RequestTarget) -> web.StreamResponse:
    """Upgrade, run, send the exit code on the error channel, close.

    Raises:
        StatusError: 400, 404 before the upgrade.
    """
    pod = context.writer.find(target.resource, target.namespace, target.name)
    container = container_of(pod, request.query.get("container", ""))
    if not dig(pod.body, "spec", "nodeName"):
        raise bad_request(f"pod {pod.name} does not have a host assigned")
    argv = request.query.getall("command", [])
    if not argv:
        raise bad_request("you must specify at least one command")
    offered = {name.strip() for name in request.headers.get("Sec-WebSocket-Protocol", "").split(",")}
    if not offered.intersection(_PROTOCOLS):
        raise bad_request("unable to upgrade: only websockets with v5 or v4 of channel.k8s.io are served")
    socket = web.WebSocketResponse(protocols=_PROTOCOLS, heartbeat=_SILENCE_SECONDS, autoping=True)
    await socket.prepare(request)
    streams = SocketStreams(socket, has_stdin=request.query.get("stdin") in ("true", "1"))
    is_terminal = request.query.get("tty") in ("true", "1")
    outcome = await _run_while_connected(
        context, streams, (target.namespace, target.name, container), argv, tty=is_terminal
    )
    if outcome is not None and not socket.closed:
        await streams.write(Channel.ERROR, encode(outcome))
    await socket.close()
    return socket


async def _run_while_connected(
    context: ServerContext, streams: SocketStreams, place: tuple[str, str, str], argv: Sequence[str], *, tty: bool
) -> Object | None:
    """Return the final status, or `None` if the client went away first."""
    program = asyncio.ensure_future(context.kubelet.exec(*place, argv, tty=tty, streams=streams))
    pump = asyncio.ensure_future(streams.pump())
    try:
        await asyncio.wait({program, pump}, return_when=asyncio.FIRST_COMPLETED)
        if not program.done():
            return None
        return _final_status(program.result())
    except ContainerNotRunning:
        fault = StatusError(500, "InternalError", f'container not found ("{place[2]}")')
        return fault.body()
    finally:
        for task in (program, pump):
            task.cancel()
        await asyncio.gather(program, pump, return_exceptions=True)


def _final_status(exit_code: int) -> Object:
    if exit_code == 0:
        return {"metadata": {}, "status": "Success"}
    return {
        "metadata": {},
        "status": "Failure",
        "message": f"command terminated with non-zero exit code: exit status {exit_code}",
        "reason": "NonZeroExitCode",
        "details": {"causes": [{"reason": "ExitCode", "message": str(exit_code)}]},
    }

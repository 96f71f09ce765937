"""A local port that is forwarded to a pod.

Every connection gets a websocket of its own, so that none waits for another, and finds the pod again: when the pod has
been replaced, the next connection reaches its successor.

Source: kubernetes/kubernetes `pkg/kubelet/cri/streaming/portforward/websocket.go`, v1.34: two channels a port, data
and error; the first message of each is the port's number in two bytes, little end first.

Only programs of the same user can connect: 127.0.0.1 is shared by all users of the machine.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING

import msgspec

from actions.base.errors import ConsoleError, MissingError, RefusedError, UnreachableError
from actions.base.linux import user_of_peer
from actions.base.names import segment
from actions.base.untrusted import one_line
from actions.cluster.auth.session import KubeSession, RequestClass
from actions.cluster.remote.forward_gate import ClientProtocol, Gate, GateClosed, GatedRequests, client_protocol

if TYPE_CHECKING:
    import aiohttp

PROTOCOLS = ("v4.channel.k8s.io",)
_DATA, _ERROR = 0, 1
_HEAD_BYTES = 3
_CHUNK = 1 << 16
_HOST = "127.0.0.1"
_MESSAGE_LIMIT = 300
_LINGER_SECONDS = 30.0
_UNDECIDED_SECONDS = 1.0
"""The wait for the rest of a request's head. If none comes it is not HTTP: browsers send a head at once."""

FindPod = Callable[[], Awaitable[str]]
"""Returns the name of the pod to connect to; raises `MissingError` while there is none."""
OnTrouble = Callable[[ConsoleError], None]


class PortForward(msgspec.Struct, frozen=True):
    """A forwarded port. `local_port` is on 127.0.0.1 only."""

    namespace: str
    remote_port: int
    local_port: int


def pod_finder(session: KubeSession, namespace: str, label_selector: str) -> FindPod:
    """Return a function that finds a running pod with the labels, ready ones first.

    It raises `MissingError` while there is none.
    """

    async def find() -> str:
        query = {"labelSelector": label_selector, "fieldSelector": "status.phase=Running"}
        document = await session.get(f"/api/v1/namespaces/{segment(namespace)}/pods", query)
        pods = sorted(document.get("items") or (), key=lambda pod: (not _is_ready(pod), pod["metadata"]["name"]))
        alive = [pod for pod in pods if not pod["metadata"].get("deletionTimestamp")]
        if not alive:
            raise MissingError(f"No running pod in {namespace} has the labels {label_selector}.")
        return str(alive[0]["metadata"]["name"])

    return find


def _is_ready(pod: dict[str, object]) -> bool:
    status = pod.get("status")
    conditions = status.get("conditions") if isinstance(status, dict) else None
    return any(entry.get("type") == "Ready" and entry.get("status") == "True" for entry in conditions or ())


@asynccontextmanager
async def open_forward(
    session: KubeSession,
    namespace: str,
    find_pod: FindPod,
    remote_port: int,
    *,
    local_port: int = 0,
    token: str = "",
    on_trouble: OnTrouble | None = None,
) -> AsyncIterator[PortForward]:
    """Listen on 127.0.0.1 for as long as the context is open; its connections end with it.

    Connections of other users are refused.

    Args:
        session: The session; a read-only one refuses.
        namespace: The pod's namespace.
        find_pod: Finds the pod, called for every connection.
        remote_port: The port in the pod.
        local_port: The port on this machine; 0 takes a free one.
        token: Required of HTTP requests, see `actions.cluster.remote.forward_gate`; empty for a private port.
        on_trouble: Called with the error of a connection that was not made or broke; the port stays open.

    Raises:
        RefusedError: The session is read-only, or the local port is taken.
    """
    if session.readonly:
        raise RefusedError("This session is read-only: it forwards no ports.", hint="Start without --readonly.")
    tunnels: set[asyncio.Task[None]] = set()
    tell = on_trouble or _ignore

    def accepted(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            _require_own_user(writer)
        except RefusedError as error:
            writer.transport.abort()
            tell(error)
            return
        gate = Gate(writer.get_extra_info("sockname")[1], token) if token else None
        tunnel = _Tunnel(session, namespace, find_pod, remote_port, gate)
        task = asyncio.create_task(tunnel.carry(reader, writer, tell))
        tunnels.add(task)
        task.add_done_callback(tunnels.discard)

    try:
        server = await asyncio.start_server(accepted, _HOST, local_port)
    except OSError as error:
        reason = one_line(error.strerror or str(error))
        raise RefusedError(f"Port {local_port} of this machine cannot be used: {reason}.") from error
    try:
        yield PortForward(namespace, remote_port, server.sockets[0].getsockname()[1])
    finally:
        server.close()
        for task in tunnels:
            task.cancel()
        await asyncio.gather(*tunnels, return_exceptions=True)
        await server.wait_closed()


def _ignore(error: ConsoleError) -> None:
    del error


def _require_own_user(writer: asyncio.StreamWriter) -> None:
    """Refuse a connection of another user.

    Raises:
        RefusedError: It is of another user, or its user is not known.
    """
    try:
        user = user_of_peer(writer.get_extra_info("peername"), writer.get_extra_info("sockname"))
    except (OSError, TypeError) as error:  # TypeError: it has ended already
        raise RefusedError("A connection to a forwarded port was refused: its user is not known.") from error
    if user != os.geteuid():
        who = "whose user is not known" if user is None else f"of the user {user}"
        raise RefusedError(f"A connection {who} to a forwarded port was refused.")


class _Tunnel(msgspec.Struct, frozen=True):
    """One connection to a forwarded port."""

    session: KubeSession
    namespace: str
    find_pod: FindPod
    port: int
    gate: Gate | None

    async def carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, on_trouble: OnTrouble) -> None:
        """Move bytes both ways until one side ends."""
        try:
            pod = await self.find_pod()
            path = f"/api/v1/namespaces/{segment(self.namespace)}/pods/{segment(pod)}/portforward"
            ports = [("ports", str(self.port))]
            async with self.session.websocket(
                path, query=ports, protocols=PROTOCOLS, request_class=RequestClass.FORWARD
            ) as socket:
                if socket.protocol not in PROTOCOLS:
                    raise RefusedError(f"{self.session.server} does not forward ports over websockets.")
                await self._both_ways(socket, reader, writer)
        except ConsoleError as error:
            on_trouble(error)
        except ConnectionError:
            pass  # our own side has closed the connection
        finally:
            writer.close()
            with suppress(ConnectionError):
                await writer.wait_closed()

    async def _both_ways(
        self, socket: aiohttp.ClientWebSocketResponse, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        requests = GatedRequests(self.gate) if self.gate is not None else None
        upwards = asyncio.create_task(_send(reader, socket, requests, writer))
        try:
            await self._receive(socket, writer, requests)
        finally:
            upwards.cancel()
            await asyncio.gather(upwards, return_exceptions=True)

    async def _receive(
        self,
        socket: aiohttp.ClientWebSocketResponse,
        writer: asyncio.StreamWriter,
        requests: GatedRequests | None,
    ) -> None:
        import aiohttp

        heads = {_DATA, _ERROR}
        async for message in socket:
            if message.type is not aiohttp.WSMsgType.BINARY or not message.data:
                continue
            channel, payload = message.data[0], message.data[1:]
            if channel in heads and len(message.data) == _HEAD_BYTES:
                heads.discard(channel)
            elif channel == _ERROR and payload:
                reason = one_line(payload.decode("utf-8", "replace"), limit=_MESSAGE_LIMIT)
                raise UnreachableError(f"Port {self.port} in namespace {self.namespace}: {reason}.")
            elif channel == _DATA:
                if requests is not None:
                    requests.answered(payload)
                writer.write(payload)
                await writer.drain()


async def _send(
    reader: asyncio.StreamReader,
    socket: aiohttp.ClientWebSocketResponse,
    requests: GatedRequests | None,
    writer: asyncio.StreamWriter,
) -> None:
    """Send our side's bytes. After their end the other side gets time to answer: one half cannot be closed here."""
    try:
        async for data in _passing(reader, requests):
            await socket.send_bytes(bytes([_DATA]) + data)
    except GateClosed as closed:
        writer.write(closed.answer)
        await writer.drain()
    else:
        await asyncio.sleep(_LINGER_SECONDS)
    await socket.close()


async def _passing(reader: asyncio.StreamReader, requests: GatedRequests | None) -> AsyncIterator[bytes]:
    """Yield the bytes of our side that may go to the pod.

    Raises:
        GateClosed: The gate refuses the connection.
    """
    begun, speech = b"", ClientProtocol.OTHER
    if requests is not None:
        begun, speech = await _begun(reader)
    while data := begun or await reader.read(_CHUNK):
        begun = b""
        if requests is None or speech is ClientProtocol.OTHER:
            yield data
        else:
            async for piece in requests.passing(data):
                yield piece


async def _begun(reader: asyncio.StreamReader) -> tuple[bytes, ClientProtocol]:
    """Read enough bytes of our side to know its protocol."""
    begun = b""
    while (speech := client_protocol(begun)) is ClientProtocol.UNDECIDED:
        try:
            async with asyncio.timeout(_UNDECIDED_SECONDS if begun else None):
                data = await reader.read(_CHUNK)
        except TimeoutError:
            data = b""
        if not data:
            return begun, ClientProtocol.OTHER
        begun += data
    return begun, speech

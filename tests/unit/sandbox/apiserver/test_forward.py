"""Forwarded ports: channels for us, SPDY for kubectl."""

from __future__ import annotations

import struct
import zlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import aiohttp
import pytest

from actions.sandbox.apiserver.remote.port_forward import DICTIONARY
from tests.unit.sandbox.apiserver.server import PODS, Client, a_pod, an_api, create, patch

_CHANNELS = "v4.channel.k8s.io"
_TUNNEL = "SPDY/3.1+portforward.k8s.io"


@asynccontextmanager
async def a_forward(protocol: str, query: str = "") -> AsyncIterator[aiohttp.ClientWebSocketResponse]:
    async with an_api() as client:
        await _running_pod(client)
        async with client.ws_connect(f"{PODS}/web/portforward{query}", protocols=[protocol]) as socket:
            yield socket


async def _running_pod(client: Client) -> None:
    await create(client, PODS, a_pod())
    await patch(client, f"{PODS}/web/status", {"status": {"phase": "Running"}}, kind="merge")


async def test_each_port_has_a_channel_for_data_and_one_for_errors() -> None:
    async with a_forward(_CHANNELS, "?ports=8080&ports=1") as socket:
        heads = {await socket.receive_bytes() for _ in range(4)}
        assert heads == {b"\x00\x90\x1f", b"\x01\x90\x1f", b"\x02\x01\x00", b"\x03\x01\x00"}
        assert await socket.receive_bytes() == b"\x03error forwarding port 1 to pod web: connection refused"
        await socket.send_bytes(b"\x00hello")
        assert await socket.receive_bytes() == b"\x00hello"


async def test_a_pod_that_does_not_run_and_other_protocols_are_refused() -> None:
    async with an_api() as client:
        await create(client, PODS, a_pod())
        async with client.get(f"{PODS}/web/portforward?ports=80") as answer:
            assert answer.status == 400
        await patch(client, f"{PODS}/web/status", {"status": {"phase": "Running"}}, kind="merge")
        for protocol, query in (("v9.channel.k8s.io", "?ports=80"), (_CHANNELS, "")):
            with pytest.raises(aiohttp.WSServerHandshakeError):
                await client.ws_connect(f"{PODS}/web/portforward{query}", protocols=[protocol])


class Peer:
    """The client's side of a tunnel, as small as can be."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self._socket = socket
        self._deflate = zlib.compressobj(zdict=DICTIONARY)

    async def open(self, number: int, **headers: str) -> bytes:
        block = struct.pack(">I", len(headers))
        for text in (text for pair in headers.items() for text in pair):
            block += struct.pack(">I", len(text)) + text.encode()
        packed = self._deflate.compress(block) + self._deflate.flush(zlib.Z_SYNC_FLUSH)
        payload = struct.pack(">IIH", number, 0, 0) + packed
        await self.send(struct.pack(">HHI", 0x8003, 1, len(payload)) + payload)
        return await self._socket.receive_bytes()

    async def send(self, data: bytes) -> None:
        for start in range(0, len(data), 7):
            await self._socket.send_bytes(data[start : start + 7])

    async def frame(self) -> tuple[int, int, bytes]:
        data = await self._socket.receive_bytes()
        return int.from_bytes(data[:4], "big"), data[4], data[8:]


async def test_a_tunnel_carries_connections_cut_at_any_byte() -> None:
    async with a_forward(_TUNNEL) as socket:
        peer = Peer(socket)
        assert (await peer.open(1, streamtype="error", port="80", requestid="0"))[:4] == b"\x80\x03\x00\x02"
        await peer.open(3, streamtype="data", port="80", requestid="0")
        await peer.send(struct.pack(">II", 3, 5) + b"hello")
        assert await peer.frame() == (3, 0, b"hello")
        await peer.send(struct.pack(">II", 3, 1 << 24))
        assert {await peer.frame(), await peer.frame()} == {(1, 1, b""), (3, 1, b"")}


async def test_a_refused_connection_is_explained_on_its_error_stream() -> None:
    async with a_forward(_TUNNEL) as socket:
        peer = Peer(socket)
        await peer.open(1, streamtype="error", port="1", requestid="0")
        await peer.open(3, streamtype="data", port="1", requestid="0")
        assert await peer.frame() == (1, 0, b"error forwarding port 1 to pod web: connection refused")


async def test_what_is_no_spdy_ends_the_tunnel_and_a_ping_is_answered() -> None:
    ping = struct.pack(">HHII", 0x8003, 6, 4, 1)
    async with a_forward(_TUNNEL) as socket:
        await socket.send_bytes(ping)
        assert await socket.receive_bytes() == ping
        await socket.send_bytes(b"\x80\x09\x00\x01\x00\x00\x00\x00")
        assert (await socket.receive()).type is aiohttp.WSMsgType.CLOSE

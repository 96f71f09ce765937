"""Forwarded ports, by channels."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import aiohttp
import pytest

from tests.unit.sandbox.apiserver.server import PODS, Client, a_pod, an_api, create, patch

_CHANNELS = "v4.channel.k8s.io"


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

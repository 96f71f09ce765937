"""Connections of a server that ends."""

from __future__ import annotations

import asyncio
import gc
import socket
import sys
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from actions.cluster.auth.kubeconfig import ClusterTarget
from actions.cluster.auth.session import KubeSession
from actions.sandbox.kubelet.agent import Kubelet
from actions.sandbox.server import SandboxParts, serving
from tests.unit.sandbox.controllers.server import FAST

_PATIENCE_SECONDS = 60.0


async def test_a_connection_that_has_not_begun_to_speak_tls_ends_with_the_server(tmp_path: Path) -> None:
    """A server is told of a connection after its handshake, and closed none but those that it had been told of."""
    async with serving(tmp_path, FAST, SandboxParts(Kubelet(FAST))) as server:
        address = urlsplit(server.url)
        reader, writer = await asyncio.open_connection(address.hostname, address.port)
        session = await KubeSession.connect(ClusterTarget(kubeconfig=server.kubeconfig))
        await session.get("/version")  # over a later connection: the first one is accepted, too
        await session.aclose()
    async with asyncio.timeout(_PATIENCE_SECONDS):
        assert await reader.read() == b""
    writer.close()
    await writer.wait_closed()


async def test_a_connection_that_comes_in_the_servers_last_moment_is_not_forgotten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It had a socket, and neither a transport nor a reader: a warning of the collector, in whatever test that ran."""
    told: list[str] = []
    monkeypatch.setattr(sys, "unraisablehook", lambda found: told.append(str(found.exc_value)))
    async with serving(tmp_path, FAST, SandboxParts(Kubelet(FAST))) as server:
        address = urlsplit(server.url)
        with socket.create_connection((address.hostname, address.port)):
            await asyncio.sleep(0)  # the loop learns of it
            await asyncio.sleep(0)  # and accepts it after this
    gc.collect()
    assert told == []

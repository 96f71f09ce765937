"""The ports of a pod's containers: what its programs serve there, where kwok forwards a client to."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from contextlib import AsyncExitStack
from typing import Any

from actions.sandbox.clientkit.kinds import Kind
from actions.sandbox.kubelet.pod_config import PodConfig
from actions.sandbox.kubelet.remote import answer
from actions.sandbox.programs.network import HttpNetwork, pod_host

PORT_FORWARDS = Kind("kwok.x-k8s.io/v1alpha1", "PortForward", "portforwards")
_CHUNK_BYTES = 1 << 16


class _Connection:
    """One connection, as what listens in the sandbox sees it."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    async def read(self) -> bytes:
        """The next bytes of the client."""
        return await self._reader.read(_CHUNK_BYTES)

    async def write(self, data: bytes) -> None:
        """Bytes for the client."""
        self._writer.write(data)
        await self._writer.drain()


async def open_ports(stack: AsyncExitStack, pod: PodConfig, network: HttpNetwork) -> list[dict[str, Any]]:
    """Listen on the loopback address for each port of a pod until the stack is left.

    Returns:
        Which of the pod's ports lead to which of ours, as kwok's PortForward has it.
    """
    return [await _open(stack, pod, port, network) for port in sorted(set(_ports_of(pod)))]


def _ports_of(pod: PodConfig) -> Iterable[int]:
    return (port for container in pod.containers for port in container.ports)


async def _open(stack: AsyncExitStack, pod: PodConfig, port: int, network: HttpNetwork) -> dict[str, Any]:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        service = network.find(pod_host(pod.namespace, pod.name), port)
        try:
            await answer(_Connection(reader, writer), pod=pod.name, port=port, service=service)
        except ConnectionError:
            return  # the client has gone away
        finally:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    stack.callback(server.close)
    address: tuple[str, int] = server.sockets[0].getsockname()
    return {"ports": [port], "target": {"address": address[0], "port": address[1]}}

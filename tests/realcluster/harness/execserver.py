"""Commands in containers: what the gate passes on when somebody execs."""

from __future__ import annotations

import asyncio
import json
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from actions.cluster.remote.exec import Channel
from actions.sandbox.model.kubelet_api import ContainerNotRunning
from tests.realcluster.harness.containers import Containers

_HEAD = struct.Struct(">BI")
_NO_PROCESS = 126


@asynccontextmanager
async def answering_execs(containers: Containers, folder: Path) -> AsyncIterator[Path]:
    """Answer until the context is left.

    Args:
        containers: Where commands run.
        folder: For the socket; its path must be short.

    Yields:
        The socket. A session is one line of JSON (namespace, pod, container, argv or null to attach, tty), then frames:
        a channel (one byte, see `Channel`), a length (four bytes, big endian), so many bytes. The exit code is an
        ERROR frame.
    """
    path = folder / "exec.sock"

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        streams = _Streams(reader, writer)
        try:
            await streams.run(containers)
        except (ConnectionError, asyncio.IncompleteReadError):
            return  # the client has gone away
        finally:
            writer.close()

    server = await asyncio.start_unix_server(serve, path)
    async with server:
        yield path


class _Streams:
    """One session; the process side of it is an `ExecStreams`."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._input: asyncio.Queue[bytes] = asyncio.Queue()
        self._is_closed = False

    async def run(self, containers: Containers) -> None:
        """From the opening line to the exit code; ended when the client goes away."""
        opening = json.loads(await self._reader.readline())
        target = (opening["namespace"], opening["pod"], opening["container"], opening["argv"])
        command = asyncio.create_task(self._execute(containers, target, tty=opening["tty"]))
        frames = asyncio.create_task(self._take_frames())
        try:
            await asyncio.wait({command, frames}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (command, frames):
                task.cancel()
            await asyncio.gather(command, frames, return_exceptions=True)

    async def read(self) -> bytes:
        """The next bytes of standard input; nothing once it is closed."""
        if self._is_closed and self._input.empty():
            return b""
        data = await self._input.get()
        self._is_closed = self._is_closed or not data
        return data

    async def write(self, channel: Channel, data: bytes) -> None:
        """To the client."""
        self._writer.write(_HEAD.pack(channel, len(data)) + data)
        await self._writer.drain()

    async def _execute(
        self, containers: Containers, target: tuple[str, str, str, list[str] | None], *, tty: bool
    ) -> None:
        namespace, pod, container, argv = target
        try:
            if argv is None:
                await containers.attach(namespace, pod, container, self)
                code = 0
            else:
                code = await containers.exec(namespace, pod, container, argv, tty=tty, streams=self)
        except ContainerNotRunning as error:
            await self.write(Channel.STDERR, f"{error}\n".encode())
            code = _NO_PROCESS
        await self.write(Channel.ERROR, str(code).encode())

    async def _take_frames(self) -> None:
        while True:
            channel, length = _HEAD.unpack(await self._reader.readexactly(_HEAD.size))
            data = await self._reader.readexactly(length)
            match channel:
                case Channel.STDIN:
                    self._input.put_nowait(data)
                case Channel.CLOSE:
                    self._input.put_nowait(b"")

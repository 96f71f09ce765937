"""A TCP relay between a run and its API server, which can refuse and reset connections."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any, TypeVar

from actions.cluster.http.pool import UNACKNOWLEDGED_SECONDS

T = TypeVar("T")

_TURNS = 20
"""Of the loop: from an accepted connection to its handler, and from that to its closed socket, are a few."""


class Relay:
    """Hands bytes on from a free port of 127.0.0.1, in a thread of its own.

    Args:
        port: Of the API server, on 127.0.0.1.
    """

    def __init__(self, port: int) -> None:
        self._target = port
        self._open: set[asyncio.StreamWriter] = set()
        self._relays: set[asyncio.Task[Any]] = set()
        self._resets = False
        self._flows = asyncio.Event()
        self._flows.set()
        self._server: asyncio.Server | None = None
        self._holder = socket.socket()
        """Keeps the port while nobody listens on it: else another program could be given it."""
        self._holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        self._holder.bind(("127.0.0.1", 0))
        self.port = self._holder.getsockname()[1]
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self.accept()

    def accept(self) -> None:
        """Serve."""
        self._resets = False
        if self._server is None:
            self._run(self._listen())

    def refuse(self) -> None:
        """Close the port, and what is open."""
        self._run(self._close())

    def reset(self) -> None:
        """Accept connections, and reset them at once."""
        self._resets = True
        self._run(self._abort())

    def hush(self) -> None:
        """Lose what is sent from now on, in both directions, and close nothing."""
        self._loop.call_soon_threadsafe(self._flows.clear)

    def flow(self) -> None:
        """Hand on again. A connection that has lost something ends: neither side can go on with it.

        One that was begun meanwhile goes on, unless that is so long ago that the program's sockets have given up.
        """
        self._loop.call_soon_threadsafe(self._flows.set)

    def end(self) -> None:
        """End the thread, when every connection is closed."""
        self._run(self._ended())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
        self._holder.close()

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(30)

    async def _listen(self) -> None:
        self._server = await asyncio.start_server(self._relay, "127.0.0.1", self.port, limit=1 << 20, reuse_port=True)

    async def _close(self) -> None:
        if self._server is not None:
            self._server.close()
            self._server = None
        await self._abort()

    async def _ended(self) -> None:
        self._resets = True
        await self._close()
        for _ in range(_TURNS):  # connections that were just accepted begin, and are reset
            await asyncio.sleep(0)
        for relay in list(self._relays):
            relay.cancel()
        await asyncio.gather(*self._relays, return_exceptions=True)
        await self._abort()
        for _ in range(_TURNS):  # an aborted transport closes its socket in the loop's next turn
            await asyncio.sleep(0)

    async def _abort(self) -> None:
        for writer in list(self._open):
            writer.transport.abort()

    async def _relay(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._resets:
            writer.transport.abort()
            return
        self._open.add(writer)
        relay = asyncio.current_task()
        if relay is not None:
            self._relays.add(relay)
            relay.add_done_callback(self._relays.discard)
        try:
            began = asyncio.get_running_loop().time()
            await self._flows.wait()
            if asyncio.get_running_loop().time() - began > UNACKNOWLEDGED_SECONDS:
                raise TimeoutError
            far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self._target, limit=1 << 20)
        except OSError:
            writer.transport.abort()
            self._open.discard(writer)
            return
        self._open.add(far_writer)
        try:
            await asyncio.gather(self._copy(reader, far_writer), self._copy(far_reader, writer))
            for closing in (writer, far_writer):  # one that has unsent bytes stays open until they are read
                with suppress(OSError):
                    await closing.wait_closed()
        finally:
            self._open -= {writer, far_writer}

    async def _copy(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while data := await reader.read(1 << 16):
                if not self._flows.is_set():
                    await self._flows.wait()
                    writer.transport.abort()
                    return
                writer.write(data)
                await writer.drain()
        except OSError:
            pass
        finally:
            writer.transport.abort() if writer.transport.is_closing() else writer.close()

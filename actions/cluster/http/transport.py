"""HTTP to one API server: streams over connections of their own, everything else over one pooled session."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Protocol

from actions.base.errors import UnreachableError
from actions.base.executors import in_thread
from actions.cluster.http.endpoint import Endpoint
from actions.cluster.http.stream import DirectStreams

if TYPE_CHECKING:
    import aiohttp

    from actions.cluster.http.pool import PooledTransport


class ByteStream(Protocol):
    """The body of an endless answer, chunk by chunk as it arrives."""

    content_type: str

    def __aiter__(self) -> AsyncIterator[bytes]:
        """Chunks, cut anywhere.

        Raises:
            SilenceError: Nothing came for the time that a silence may last.
            UnreachableError: The connection broke.
        """
        ...


class Transport:
    """Requests, streams and websockets. It has no credentials; the caller passes headers.

    The pooled session is made, and its library imported in a thread, for the first call that needs it: loading a
    cluster needs streams only. Behind a proxy streams go through it too.
    """

    def __init__(self, endpoint: Endpoint, *, user_agent: str) -> None:
        self._endpoint = endpoint
        self._user_agent = user_agent
        self._direct = DirectStreams(endpoint, user_agent=user_agent) if not endpoint.proxy else None
        self._pool: PooledTransport | None = None
        self._importing = asyncio.Lock()
        self._is_closed = False

    @property
    def answered_at(self) -> float | None:
        """The time of the newest answer to a call by the server's clock, in seconds since the epoch.

        `None` if there was no answer yet, or none that names its time.
        """
        return self._pool.answered_at if self._pool is not None else None

    async def close(self) -> None:
        """End every connection, also the open streams."""
        self._is_closed = True
        if self._direct is not None:
            self._direct.close()
        if self._pool is not None:
            await self._pool.close()

    async def call(
        self, method: str, url: str, *, headers: Mapping[str, str], body: bytes | None, deadline_seconds: float
    ) -> bytes:
        """Send a request and return the whole body of its answer.

        Raises:
            ApiError: The server refused.
            UnreachableError: It did not answer within the deadline, or the connection broke.
            ConfigError: Its certificate is not trusted.
        """
        pool = await self._pooled()
        return await pool.call(method, url, headers=headers, body=body, deadline_seconds=deadline_seconds)

    @asynccontextmanager
    async def stream(self, url: str, *, headers: Mapping[str, str], idle_seconds: float) -> AsyncIterator[ByteStream]:
        """Open an endless GET; the connection is gone when the context is left."""
        self._refuse_if_closed()
        streams = self._direct or await self._pooled()
        async with streams.stream(url, headers=headers, idle_seconds=idle_seconds) as stream:
            yield stream

    @asynccontextmanager
    async def websocket(
        self, url: str, *, headers: Mapping[str, str], protocols: Sequence[str]
    ) -> AsyncIterator[aiohttp.ClientWebSocketResponse]:
        """Open a websocket; `protocols` in order of preference.

        Raises:
            ApiError: The server refused the upgrade.
        """
        pool = await self._pooled()
        async with pool.websocket(url, headers=headers, protocols=protocols) as socket:
            yield socket

    async def _pooled(self) -> PooledTransport:
        async with self._importing:
            self._refuse_if_closed()
            if self._pool is None:
                made = await _import_pooled()
                self._refuse_if_closed()
                self._pool = made(self._endpoint, user_agent=self._user_agent)
            return self._pool

    def _refuse_if_closed(self) -> None:
        if self._is_closed:  # the console has gone to another cluster while a request to this one was pending
            raise UnreachableError(f"The session with {self._endpoint.server} is closed.")


async def _import_pooled() -> type[PooledTransport]:
    def load() -> type[PooledTransport]:
        from actions.cluster.http.pool import PooledTransport

        return PooledTransport

    return await in_thread("http", load)

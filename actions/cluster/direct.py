"""Endless GETs over connections of their own: what a watch or a log needs of HTTP, and nothing else.

The console loads a cluster over these alone: a whole HTTP client takes longer to import than a small cluster to read.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from urllib.parse import urlsplit

from actions.cluster.connection import Connection
from actions.cluster.endpoint import CHECK_ADDRESS, CONNECT_SECONDS, Endpoint, broken, unreachable, untrusted
from actions.cluster.errors import SilenceError, error_of, status_of
from actions.cluster.httpresponse import ResponseHead

_READ_BYTES = 1 << 18
_NEXT_ADDRESS_SECONDS = 0.25
"""A host with several addresses is tried at the next one while the one before does not answer."""
_STANDARD_PORTS = {"https": 443, "http": 80}


def _is_literal(host: str | None) -> bool:
    """Whether it is an address already, which leads to one place only."""
    return host is not None and (":" in host or host.replace(".", "").isdecimal())


class DirectStream:
    """The body of an endless answer, chunk by chunk as it arrives."""

    def __init__(self, connection: Connection, head: ResponseHead, first: bytes) -> None:
        self.content_type = head.content_type
        self._connection = connection
        self._first = first

    async def __aiter__(self) -> AsyncIterator[bytes]:
        """Chunks, cut anywhere.

        Raises:
            SilenceError: Nothing came for as long as was allowed.
            UnreachableError: The connection broke.
        """
        if self._first:
            yield self._first
        while (data := await self._connection.read()) is not None:
            if data:
                yield data


class DirectStreams:
    """Opens streams of one API server, each over a connection of its own. Knows no credentials and no proxies."""

    def __init__(self, endpoint: Endpoint, *, user_agent: str) -> None:
        self._endpoint = endpoint
        self._user_agent = user_agent
        self._buffer = memoryview(bytearray(_READ_BYTES))
        self._open: set[Connection] = set()
        self._is_closed = False

    def close(self) -> None:
        """End every connection; who reads one is told that it broke."""
        self._is_closed = True
        for connection in self._open:
            connection.abort()

    @asynccontextmanager
    async def stream(self, url: str, *, headers: Mapping[str, str], idle_seconds: float) -> AsyncIterator[DirectStream]:
        """Send a GET; the connection is gone when the context is left.

        Args:
            url: Path and query, encoded, below the server's address.
            headers: Besides those of every request.
            idle_seconds: After so much silence the stream counts as dead.

        Raises:
            ApiError: The server said no.
            SilenceError: It did not answer in time.
            UnreachableError: It cannot be reached, or the connection broke.
            ConfigError: Its certificate is not trusted.
        """
        connection = await self._connect(idle_seconds)
        try:
            head, first = await connection.ask(self._request(url, headers))
            if head.status != 200:
                status = status_of(await connection.refusal(first), code=head.status, headers=head.headers)
                raise error_of(status, asked=f"GET {url.partition('?')[0]}", context=self._endpoint.context)
            yield DirectStream(connection, head, first)
        finally:
            self._open.discard(connection)
            connection.abort()

    async def _connect(self, idle_seconds: float) -> Connection:
        endpoint = self._endpoint
        address = urlsplit(endpoint.server)
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                _, connection = await asyncio.get_running_loop().create_connection(
                    lambda: Connection(endpoint, self._buffer, idle_seconds),
                    address.hostname or "",
                    address.port or _STANDARD_PORTS[address.scheme],
                    happy_eyeballs_delay=None if _is_literal(address.hostname) else _NEXT_ADDRESS_SECONDS,
                )
                if endpoint.tls is not None:
                    await connection.secure(endpoint.tls, endpoint.server_name or address.hostname)
        except TimeoutError as error:
            raise SilenceError(f"{endpoint.server} did not begin to answer.", hint=CHECK_ADDRESS) from error
        except ssl.SSLError as error:
            raise untrusted(endpoint, error) from error
        except OSError as error:
            raise unreachable(endpoint, error) from error
        if self._is_closed:
            connection.abort()
            raise broken(endpoint, EOFError("the session was closed"))
        self._open.add(connection)
        return connection

    def _request(self, url: str, headers: Mapping[str, str]) -> bytes:
        address = urlsplit(self._endpoint.server)
        every = {"Host": address.netloc, "User-Agent": self._user_agent, "Accept-Encoding": "identity"}
        lines = [
            f"GET {address.path}{url} HTTP/1.1",
            *(f"{name}: {value}" for name, value in (*(every | dict(headers)).items(), *self._endpoint.headers)),
        ]
        return "\r\n".join((*lines, "", "")).encode("latin-1")

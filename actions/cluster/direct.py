"""Endless GETs over connections of their own: what a watch or a log needs of HTTP, and nothing else.

The console loads a cluster over these alone: a whole HTTP client takes longer to import than a small cluster to read.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from typing import cast
from urllib.parse import urlsplit

from actions.base.errors import FormatError, UnreachableError
from actions.cluster.endpoint import CHECK_ADDRESS, CONNECT_SECONDS, Endpoint, broken, unreachable, untrusted
from actions.cluster.errors import SilenceError, error_of, status_of
from actions.cluster.httpresponse import HttpResponse, ResponseHead

_READ_BYTES = 1 << 18
_LONGEST_REFUSAL = 1 << 20
_NEXT_ADDRESS_SECONDS = 0.25
"""A host with several addresses is tried at the next one while the one before does not answer."""
_STANDARD_PORTS = {"https": 443, "http": 80}


def _is_literal(host: str | None) -> bool:
    """Whether it is an address already, which leads to one place only."""
    return host is not None and (":" in host or host.replace(".", "").isdecimal())


class DirectStream:
    """The body of an endless answer, chunk by chunk as it arrives."""

    def __init__(self, connection: _Connection, head: ResponseHead, first: bytes) -> None:
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
        self._writers: set[asyncio.StreamWriter] = set()
        self._is_closed = False

    def close(self) -> None:
        """End every connection; who reads one is told that it broke."""
        self._is_closed = True
        for writer in self._writers:
            writer.transport.abort()

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
            self._writers.discard(connection.writer)
            connection.writer.transport.abort()

    async def _connect(self, idle_seconds: float) -> _Connection:
        endpoint = self._endpoint
        address = urlsplit(endpoint.server)
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                reader, writer = await asyncio.open_connection(
                    address.hostname,
                    address.port or _STANDARD_PORTS[address.scheme],
                    limit=_READ_BYTES,
                    happy_eyeballs_delay=None if _is_literal(address.hostname) else _NEXT_ADDRESS_SECONDS,
                )
                socket = cast(asyncio.Transport, writer.transport)
                if endpoint.tls is not None:
                    await writer.start_tls(endpoint.tls, server_hostname=endpoint.server_name or address.hostname)
        except TimeoutError as error:
            raise SilenceError(f"{endpoint.server} did not begin to answer.", hint=CHECK_ADDRESS) from error
        except ssl.SSLError as error:
            raise untrusted(endpoint, error) from error
        except OSError as error:
            raise unreachable(endpoint, error) from error
        if self._is_closed:
            writer.transport.abort()
            raise broken(endpoint, EOFError("the session was closed"))
        self._writers.add(writer)
        return _Connection(endpoint, reader, writer, socket, idle_seconds)

    def _request(self, url: str, headers: Mapping[str, str]) -> bytes:
        address = urlsplit(self._endpoint.server)
        every = {"Host": address.netloc, "User-Agent": self._user_agent, "Accept-Encoding": "identity"}
        lines = [
            f"GET {address.path}{url} HTTP/1.1",
            *(f"{name}: {value}" for name, value in (*(every | dict(headers)).items(), *self._endpoint.headers)),
        ]
        return "\r\n".join((*lines, "", "")).encode("latin-1")


class _Connection:
    """One connection, one question, one answer.

    What comes while nobody reads stays with the kernel: many small events cost one look when somebody does.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        socket: asyncio.Transport,
        idle_seconds: float,
    ) -> None:
        self.writer = writer
        self._endpoint = endpoint
        self._reader = reader
        self._socket = socket
        self._idle_seconds = idle_seconds
        self._response = HttpResponse()

    async def ask(self, request: bytes) -> tuple[ResponseHead, bytes]:
        """Send the question. Returns the head of the answer, and what came of its body with it."""
        self.writer.write(request)
        first = b""
        while self._response.head is None:
            first = await self.read() or b""
        return self._response.head, first

    async def read(self) -> bytes | None:
        """What arrived of the body, maybe nothing yet; `None` at its end."""
        if self._response.is_complete:
            return None
        self._socket.resume_reading()
        try:
            async with asyncio.timeout(self._idle_seconds):
                data = await self._reader.read(_READ_BYTES)
            if data:
                return self._response.feed(data)
        except TimeoutError as error:
            raise SilenceError(f"{self._endpoint.server} has been silent for {self._idle_seconds:.0f} s.") from error
        except (OSError, FormatError) as error:
            raise broken(self._endpoint, error) from error
        finally:
            self._socket.pause_reading()
        if not self._response.may_end:
            raise broken(self._endpoint, EOFError("it was closed before the answer was complete"))
        return None

    async def refusal(self, first: bytes) -> bytes:
        """The body of an answer that is no stream, as far as it comes."""
        parts = [first]
        with suppress(TimeoutError, UnreachableError):
            async with asyncio.timeout(CONNECT_SECONDS):
                while sum(map(len, parts)) < _LONGEST_REFUSAL and (data := await self.read()) is not None:
                    parts.append(data)
        return b"".join(parts)

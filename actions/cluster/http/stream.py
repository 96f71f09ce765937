"""Streamed GETs over HTTP/1.1 connections of their own, for watches and logs.

Responses are parsed by llhttp (`httptools`). aiohttp is not used here: importing it takes longer than reading a small
cluster.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from typing import cast
from urllib.parse import urlsplit

import msgspec
from httptools import HttpParserError, HttpResponseParser

from actions.base.errors import FormatError, UnreachableError
from actions.cluster.bounds import HEAD_BYTES, INFORMATIONAL_ANSWERS, REFUSAL_BYTES
from actions.cluster.http.endpoint import (
    CHECK_ADDRESS,
    CONNECT_SECONDS,
    Endpoint,
    connect_error,
    connection_lost_error,
    tls_error,
)
from actions.cluster.http.errors import SilenceError, error_of, status_of

_INFORMATIONAL = range(100, 200)


class ResponseHead(msgspec.Struct, frozen=True):
    """The status and headers of an answer. Names of headers are written `Like-This`; of equal ones the last counts."""

    status: int
    headers: Mapping[str, str]

    @property
    def content_type(self) -> str:
        """The media type without its parameters, in lower case."""
        return self.headers.get("Content-Type", "").partition(";")[0].strip().lower()


class HttpResponse:
    """The parser of one response, fed with bytes as they arrive. Its connection is not used again.

    `head` is set once it is complete; `is_complete` is set once the body is.
    """

    def __init__(self) -> None:
        self.head: ResponseHead | None = None
        self.is_complete = False
        self._parser = HttpResponseParser(self)
        self._headers: dict[str, str] = {}
        self._bare_bytes = 0
        self._informational = 0
        self._body: list[bytes] = []

    @property
    def may_end(self) -> bool:
        """Return whether the connection may end here without a loss: it ends a body of unknown length."""
        return self.is_complete or (self.head is not None and not _has_length(self.head))

    def feed(self, data: bytes | memoryview) -> None:
        """Parse bytes that have arrived; `data` itself is not kept.

        Raises:
            FormatError: It is not HTTP.
        """
        try:
            self._parser.feed_data(data)
        except HttpParserError as error:
            raise FormatError(f"The answer is not HTTP: {error}.") from error
        if self._informational > INFORMATIONAL_ANSWERS:
            raise FormatError("The answer does not begin: there are only informational answers.")
        self._bare_bytes = 0 if self._body else self._bare_bytes + len(data)
        if self._bare_bytes > HEAD_BYTES:
            where = "The answer's head" if self.head is None else "The text between two chunks of the answer"
            raise FormatError(f"{where} does not end.")

    def take(self) -> bytes:
        """Return the part of the body that has come since the last call; empty if there is none."""
        body = b"".join(self._body)
        self._body.clear()
        return body

    def on_header(self, name: bytes, value: bytes) -> None:
        """Called by the parser, for trailers too."""
        self._headers[name.decode("latin-1").title()] = value.decode("latin-1").strip()

    def on_headers_complete(self) -> None:
        """Called by the parser, for informational answers too, which come before the one that counts."""
        status = self._parser.get_status_code()
        if status in _INFORMATIONAL:
            self._informational += 1
        else:
            self.head = ResponseHead(status, self._headers)
        self._headers = {}

    def on_body(self, body: bytes) -> None:
        """Called by the parser for each chunk, or part of a chunk, that has come."""
        self._body.append(body)

    def on_message_complete(self) -> None:
        """Called by the parser."""
        self.is_complete = self.head is not None


def _has_length(head: ResponseHead) -> bool:
    return "Content-Length" in head.headers or head.headers.get("Transfer-Encoding", "").lower() == "chunked"


_PROBES = (("TCP_KEEPIDLE", 5), ("TCP_KEEPINTVL", 2), ("TCP_KEEPCNT", 2))
"""Seconds of silence before the first probe, seconds between two, probes without an answer: 9 s in all."""


def keep_alive(connection: socket.socket) -> None:
    """Make the kernel end a connection whose other side does not answer its probes for 9 s."""
    with suppress(OSError):  # no TCP, as in tests
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for name, amount in _PROBES:
            option = getattr(socket, name, None)  # other systems have other names
            if option is not None:
                connection.setsockopt(socket.IPPROTO_TCP, option, amount)


class HttpConnection(asyncio.BufferedProtocol):
    """One connection for one request and its answer.

    Bytes that arrive while the answer is not read stay with the kernel: many small events cost one read.

    Args:
        endpoint: The server, for errors.
        buffer: The memory that bytes arrive in. Connections may share it: it is emptied before the loop serves another.
        idle_seconds: After so much silence the connection counts as dead.
    """

    _socket: asyncio.Transport
    _writer: asyncio.Transport
    """The socket, or the TLS on it."""

    def __init__(self, endpoint: Endpoint, buffer: memoryview, idle_seconds: float) -> None:
        self._endpoint = endpoint
        self._buffer = buffer
        self._idle_seconds = idle_seconds
        self._response = HttpResponse()
        self._news = asyncio.Event()
        self._has_ended = False
        self._failure: Exception | None = None

    async def secure(self, context: ssl.SSLContext, server_name: str | None) -> None:
        """Speak TLS from here on.

        Raises:
            OSError: The other side does not, or its certificate is not the right one (`ssl.SSLError`).
        """
        loop = asyncio.get_running_loop()
        secured = await loop.start_tls(self._socket, self, context, server_hostname=server_name)
        self._writer = cast(asyncio.Transport, secured)

    def abort(self) -> None:
        """End it at once; a pending read raises `UnreachableError`."""
        self._writer.abort()

    async def ask(self, request: bytes) -> tuple[ResponseHead, bytes]:
        """Send the request. Return the head of the answer, and the part of its body that came with it.

        Raises:
            SilenceError: The head did not come within `idle_seconds`.
            UnreachableError: The connection broke.
        """
        self._writer.write(request)
        first = b""
        try:
            async with asyncio.timeout(self._idle_seconds):
                while self._response.head is None:
                    first = await self.read() or b""
        except TimeoutError as error:
            raise SilenceError(f"{self._endpoint.server} did not begin to answer.", hint=CHECK_ADDRESS) from error
        return self._response.head, first

    async def read(self) -> bytes | None:
        """Return the part of the body that has arrived, maybe nothing yet; `None` at its end.

        Raises:
            SilenceError: Nothing came for `idle_seconds`.
            UnreachableError: The connection broke.
        """
        if not (self._has_ended or self._response.is_complete):
            await self._arrival()
        if body := self._response.take():
            return body
        if self._response.is_complete or (self._has_ended and not self._failure and self._response.may_end):
            return None
        if self._has_ended:
            reason = self._failure or EOFError("it was closed before the answer was complete")
            raise connection_lost_error(self._endpoint, reason) from self._failure
        return b""

    async def refusal(self, first: bytes) -> bytes:
        """Read the body of a refusal, as far as it comes."""
        parts = [first]
        with suppress(TimeoutError, UnreachableError):
            async with asyncio.timeout(CONNECT_SECONDS):
                while sum(map(len, parts)) < REFUSAL_BYTES and (data := await self.read()) is not None:
                    parts.append(data)
        return b"".join(parts)

    async def _arrival(self) -> None:
        self._socket.resume_reading()
        try:
            async with asyncio.timeout(self._idle_seconds):
                await self._news.wait()
        except TimeoutError as error:
            raise SilenceError(f"{self._endpoint.server} has been silent for {self._idle_seconds:.0f} s.") from error
        finally:
            self._socket.pause_reading()
        self._news.clear()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Called by the loop."""
        self._socket = self._writer = cast(asyncio.Transport, transport)
        opened = transport.get_extra_info("socket")
        if opened is not None:
            keep_alive(opened)

    def get_buffer(self, sizehint: int) -> memoryview:
        """Called by the loop."""
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        """Called by the loop."""
        try:
            self._response.feed(self._buffer[:nbytes])
        except FormatError as error:
            self._end(error)
        self._news.set()

    def eof_received(self) -> None:
        """Called by the loop."""
        self._end(None)

    def connection_lost(self, exc: Exception | None) -> None:
        """Called by the loop."""
        self._end(exc)

    def _end(self, failure: Exception | None) -> None:
        if not self._has_ended:
            self._has_ended, self._failure = True, failure
        self._news.set()


_READ_BYTES = 1 << 18
_NEXT_ADDRESS_SECONDS = 0.25
"""The wait for one address of a host before the next one is tried at the same time."""
_STANDARD_PORTS = {"https": 443, "http": 80}


def _is_literal(host: str | None) -> bool:
    """Return whether the host is an IP address already, which has no alternatives."""
    return host is not None and (":" in host or host.replace(".", "").isdecimal())


class DirectStream:
    """The body of an endless answer, chunk by chunk as it arrives."""

    def __init__(self, connection: HttpConnection, head: ResponseHead, first: bytes) -> None:
        self.content_type = head.content_type
        self._connection = connection
        self._first = first

    async def __aiter__(self) -> AsyncIterator[bytes]:
        """Chunks, cut anywhere.

        Raises:
            SilenceError: Nothing came for the time that a silence may last.
            UnreachableError: The connection broke.
        """
        if self._first:
            yield self._first
        while (data := await self._connection.read()) is not None:
            if data:
                yield data


class DirectStreams:
    """Opens streams of one API server, each over a connection of its own, without credentials and proxies."""

    def __init__(self, endpoint: Endpoint, *, user_agent: str) -> None:
        self._endpoint = endpoint
        self._user_agent = user_agent
        self._buffer = memoryview(bytearray(_READ_BYTES))
        self._open: set[HttpConnection] = set()
        self._is_closed = False

    def close(self) -> None:
        """End every connection; pending reads raise `UnreachableError`."""
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
            ApiError: The server refused.
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

    async def _connect(self, idle_seconds: float) -> HttpConnection:
        endpoint = self._endpoint
        address = urlsplit(endpoint.server)
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                _, connection = await asyncio.get_running_loop().create_connection(
                    lambda: HttpConnection(endpoint, self._buffer, idle_seconds),
                    address.hostname or "",
                    address.port or _STANDARD_PORTS[address.scheme],
                    happy_eyeballs_delay=None if _is_literal(address.hostname) else _NEXT_ADDRESS_SECONDS,
                )
                if endpoint.tls is not None:
                    await connection.secure(endpoint.tls, endpoint.server_name or address.hostname)
        except TimeoutError as error:
            raise SilenceError(f"{endpoint.server} did not begin to answer.", hint=CHECK_ADDRESS) from error
        except ssl.SSLError as error:
            raise tls_error(endpoint, error) from error
        except OSError as error:
            raise connect_error(endpoint, error) from error
        if self._is_closed:
            connection.abort()
            raise connection_lost_error(endpoint, EOFError("the session was closed"))
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

"""One connection to an API server: a question, and its answer as somebody reads it."""

from __future__ import annotations

import asyncio
import ssl
from contextlib import suppress
from typing import cast

from actions.base.errors import FormatError, UnreachableError
from actions.cluster.endpoint import CHECK_ADDRESS, CONNECT_SECONDS, Endpoint, broken
from actions.cluster.errors import SilenceError
from actions.cluster.httpresponse import HttpResponse, ResponseHead
from actions.cluster.keepalive import keep_alive
from actions.cluster.limits import REFUSAL_BYTES


class Connection(asyncio.BufferedProtocol):
    """One connection, one question, one answer.

    What comes while nobody reads stays with the kernel: many small events cost one look when somebody does.

    Args:
        endpoint: Whose, for errors.
        buffer: Where bytes arrive. Connections may share it: it is emptied before the loop looks at another one.
        idle_seconds: After so much silence it counts as dead.
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
            OSError: The other side does not, or is not who it should be (`ssl.SSLError`).
        """
        loop = asyncio.get_running_loop()
        secured = await loop.start_tls(self._socket, self, context, server_hostname=server_name)
        self._writer = cast(asyncio.Transport, secured)

    def abort(self) -> None:
        """End it at once; who reads is told that it broke."""
        self._writer.abort()

    async def ask(self, request: bytes) -> tuple[ResponseHead, bytes]:
        """Send the question. Returns the head of the answer, and what came of its body with it.

        Raises:
            SilenceError: The head did not come within the time that a silence may last.
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
        """What arrived of the body, maybe nothing yet; `None` at its end.

        Raises:
            SilenceError: Nothing came for as long as is allowed.
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
            raise broken(self._endpoint, reason) from self._failure
        return b""

    async def refusal(self, first: bytes) -> bytes:
        """The body of an answer that is no stream, as far as it comes."""
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

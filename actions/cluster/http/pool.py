"""Requests, websockets and streams over one aiohttp session, with bodies that are unpacked within limits."""

from __future__ import annotations

import asyncio
import socket
import zlib
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from io import BytesIO
from typing import NoReturn, Protocol, TypedDict

import aiohttp
from aiohttp.connector import Connection
from yarl import URL

from actions.base.errors import ConsoleError, UnreachableError
from actions.base.linux import release_free_memory
from actions.cluster.bounds import (
    BODY_BYTES,
    INFORMATIONAL_ANSWERS,
    MESSAGE_BYTES,
    MIB,
    PACKED_BYTES,
    PACKED_RATIO,
    REFUSAL_BYTES,
    SHARED_BODY_BYTES,
    OversizeError,
)
from actions.cluster.http.endpoint import (
    CHECK_ADDRESS,
    CONNECT_SECONDS,
    Endpoint,
    connect_error,
    connection_lost_error,
    proxy_error,
    tls_error,
)
from actions.cluster.http.errors import ApiError, SilenceError, error_of, read_date, status_of
from actions.fleet.quantity import size_text

ACCEPT_ENCODING = "gzip"
"""The encoding to ask for. API servers have no other, and use it for bodies of more than 128 KiB."""
_GZIP, _ZLIB, _RAW = 31, 15, -15
_METHOD, _DEFLATE = 0x0F, 8
_PIECE_BYTES = 1 << 18
_RELEASE_SECONDS = 1.0
"""From the last long body to the release of its memory: by then it is decoded."""


class _Content(Protocol):
    def iter_any(self) -> AsyncIterator[bytes]: ...


class RawResponse(Protocol):
    """The parts of an answer that are read: aiohttp's `ClientResponse`, not unpacked by it."""

    @property
    def headers(self) -> Mapping[str, str]: ...
    @property
    def content(self) -> _Content: ...


class BodyReader:
    """Reads the bodies of one server's answers, only one long body at a time."""

    def __init__(self) -> None:
        self._long = asyncio.Lock()
        self._release: asyncio.TimerHandle | None = None

    async def whole(self, answer: RawResponse, *, asked: str, limit: int = BODY_BYTES) -> bytes:
        """Read a body, unpacked.

        Args:
            answer: The answer.
            asked: Method and path, for the sentence.
            limit: In bytes, unpacked.

        Raises:
            OversizeError: It is longer, or unpacks to far more than such a body can.
            UnreachableError: It is packed in a way that was not asked for, or damaged.
        """
        with BytesIO() as body:  # its value is not a copy; and the frames of an error keep it closed, which is empty
            try:
                await self._gather(body, answer, asked, limit)
            finally:
                if body.tell() > SHARED_BODY_BYTES:
                    self._release_soon()
            return body.getvalue()

    def _release_soon(self) -> None:
        """Return the memory of long bodies to the system, once no other has come for a while."""
        if self._release is not None:
            self._release.cancel()
        self._release = asyncio.get_running_loop().call_later(_RELEASE_SECONDS, release_free_memory)

    async def _gather(self, body: BytesIO, answer: RawResponse, asked: str, limit: int) -> None:
        async with AsyncExitStack() as stack:
            async for part in _unpacked(answer, asked):
                before, size = body.tell(), body.tell() + body.write(part)
                if size > limit:
                    raise OversizeError(f"The answer to {asked} has more than {size_text(limit)}, which is the limit.")
                if size > SHARED_BODY_BYTES >= before:
                    await stack.enter_async_context(self._long)

    async def refusal(self, answer: RawResponse, *, asked: str) -> bytes:
        """Read the beginning of a refusal's body, as much as can be read of it."""
        parts: list[bytes] = []
        try:
            async for part in _unpacked(answer, asked):
                parts.append(part)
                if sum(map(len, parts)) >= REFUSAL_BYTES:
                    break
        except UnreachableError:
            pass  # the code alone has to do
        return b"".join(parts)


async def _unpacked(answer: RawResponse, asked: str) -> AsyncIterator[bytes]:
    """Yield the body in pieces; after every megabyte the event loop gets a turn."""
    encoding = answer.headers.get("Content-Encoding", "").strip().lower()
    if encoding in ("", "identity"):
        async for chunk in answer.content.iter_any():
            yield chunk
        return
    if encoding not in ("gzip", "deflate"):
        raise UnreachableError(f"The answer to {asked} is packed as {encoding!r:.40}, which was not asked for.")
    unpacker = Unpacker(is_gzip=encoding == "gzip", asked=asked)
    since = 0
    async for chunk in answer.content.iter_any():
        for piece in unpacker.feed(chunk):
            yield piece
            since += len(piece)
            if since >= MIB:
                since = 0
                await asyncio.sleep(0)
    unpacker.finish()


class Unpacker:
    """Unpacks gzip (all members) or deflate (with zlib's head or without), a bounded piece at a time.

    Args:
        is_gzip: Whether it is gzip; else it is deflate.
        asked: Method and path, for the sentence.
    """

    def __init__(self, *, is_gzip: bool, asked: str) -> None:
        self._is_gzip = is_gzip
        self._asked = asked
        self._packer: zlib._Decompress | None = None
        self._taken = self._given = 0

    def feed(self, chunk: bytes) -> Iterator[bytes]:
        """Unpack `chunk`.

        Raises:
            OversizeError: It is far more than such a body can unpack to.
            UnreachableError: It is damaged.
        """
        self._taken += len(chunk)
        while chunk:
            if self._packer is None or self._packer.eof:
                self._packer = zlib.decompressobj(wbits=self._window(chunk))
            try:
                piece = self._packer.decompress(chunk, _PIECE_BYTES)
            except zlib.error as error:
                raise UnreachableError(f"The answer to {self._asked} is packed, and damaged: {error}.") from error
            chunk = self._packer.unconsumed_tail or self._packer.unused_data
            self._given += len(piece)
            if self._given > max(PACKED_BYTES, self._taken * PACKED_RATIO):
                raise OversizeError(
                    f"The answer to {self._asked} unpacks to more than {PACKED_RATIO} times its size, "
                    "which no list of objects does."
                )
            if piece:
                yield piece

    def finish(self) -> None:
        """Check that nothing is missing; call it after the last chunk.

        Raises:
            UnreachableError: Something is missing.
        """
        if self._packer is not None and not self._packer.eof:
            raise UnreachableError(f"The answer to {self._asked} is packed, and ends too early.")

    def _window(self, chunk: bytes) -> int:
        if self._is_gzip:
            return _GZIP
        return _ZLIB if chunk[0] & _METHOD == _DEFLATE else _RAW


_READ_BUFFER = 1 << 18
_HEARTBEAT_SECONDS = 15.0
UNACKNOWLEDGED_SECONDS = 5.0
"""Time after which what the network has lost is not sent again: a request of a runner that was cut off must not arrive
when another machine has its run."""


class _Route(TypedDict, total=False):
    """The way to the server, as arguments for every kind of request, websockets too."""

    proxy: str
    server_hostname: str


class _PromptAnswer(aiohttp.ClientResponse):
    """An answer with a limit on the informational answers before it; aiohttp has none."""

    async def start(self, connection: Connection) -> aiohttp.ClientResponse:
        """Wait for the head.

        Raises:
            aiohttp.ClientError: There are too many informational answers, or the connection broke.
        """
        protocol = connection.protocol
        if protocol is None:
            raise aiohttp.ClientConnectionError("it was closed")
        read, count = protocol.read, 0

        async def counted() -> object:
            nonlocal count
            count += 1
            if count > INFORMATIONAL_ANSWERS + 1:
                raise aiohttp.ClientConnectionError("it sends informational answers and nothing else")
            return await read()

        vars(protocol)["read"] = counted
        try:
            return await super().start(connection)
        finally:
            vars(protocol).pop("read", None)


class PooledStream:
    """The body of an endless answer, chunk by chunk as it arrives."""

    def __init__(self, response: aiohttp.ClientResponse, endpoint: Endpoint, idle_seconds: float) -> None:
        self._response = response
        self._endpoint = endpoint
        self._idle_seconds = idle_seconds
        self.content_type = response.content_type

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self._chunks()

    async def _chunks(self) -> AsyncIterator[bytes]:
        """Chunks, cut anywhere.

        Raises:
            SilenceError: Nothing came for `idle_seconds`.
            UnreachableError: The connection broke.
        """
        try:
            async for chunk in self._response.content.iter_any():
                yield chunk
        except (TimeoutError, aiohttp.ServerTimeoutError) as error:
            raise SilenceError(f"{self._endpoint.server} has been silent for {self._idle_seconds:.0f} s.") from error
        except (aiohttp.ClientError, OSError) as error:
            raise failure_of(error, self._endpoint) from error


def _impatient_socket(address: aiohttp.AddrInfoType) -> socket.socket:
    family, kind, protocol, *_ = address
    made = socket.socket(family, kind, protocol)
    if _USER_TIMEOUT is not None:
        made.setsockopt(socket.IPPROTO_TCP, _USER_TIMEOUT, int(UNACKNOWLEDGED_SECONDS * 1000))
    return made


_USER_TIMEOUT: int | None = getattr(socket, "TCP_USER_TIMEOUT", None)
"""Linux has it."""


class PooledTransport:
    """Requests, streams and websockets over one session. It has no credentials; the caller passes headers."""

    def __init__(self, endpoint: Endpoint, *, user_agent: str) -> None:
        self.endpoint = endpoint
        self._route = _Route()
        if endpoint.proxy:
            self._route["proxy"] = endpoint.proxy
        if endpoint.server_name:
            self._route["server_hostname"] = endpoint.server_name
        connector = aiohttp.TCPConnector(
            limit=0, ttl_dns_cache=30, ssl=endpoint.tls or True, socket_factory=_impatient_socket
        )
        self._session = aiohttp.ClientSession(
            connector=connector,
            read_bufsize=_READ_BUFFER,
            headers=(("User-Agent", user_agent), ("Accept-Encoding", ACCEPT_ENCODING), *endpoint.headers),
            cookie_jar=aiohttp.DummyCookieJar(),
            auto_decompress=False,
            response_class=_PromptAnswer,
        )
        self._bodies = BodyReader()
        self._date = ""
        """The server's time at its newest answer, as it stands there."""

    @property
    def answered_at(self) -> float | None:
        """See `Transport.answered_at`."""
        moment = read_date(self._date)
        return None if moment is None else moment.timestamp()

    async def close(self) -> None:
        """End every connection, also the open streams."""
        await self._session.close()

    async def call(
        self, method: str, url: str, *, headers: Mapping[str, str], body: bytes | None, deadline_seconds: float
    ) -> bytes:
        """See `Transport.call`."""
        timeout = aiohttp.ClientTimeout(total=deadline_seconds, sock_connect=CONNECT_SECONDS)
        asked = f"{method} {url.partition('?')[0]}"
        try:
            async with self._session.request(
                method,
                self._url(url),
                data=body,
                headers=headers,
                timeout=timeout,
                allow_redirects=False,
                **self._route,
            ) as response:
                self._date = response.headers.get("Date", self._date)
                if response.status >= 300:
                    self._refuse(response, await self._bodies.refusal(response, asked=asked), asked=asked)
                return await self._bodies.whole(response, asked=asked)
        except TimeoutError as error:
            raise UnreachableError(
                f"{self.endpoint.server} did not answer {asked} in time.", hint=CHECK_ADDRESS
            ) from error
        except (aiohttp.ClientError, OSError) as error:
            raise failure_of(error, self.endpoint) from error

    @asynccontextmanager
    async def stream(self, url: str, *, headers: Mapping[str, str], idle_seconds: float) -> AsyncIterator[PooledStream]:
        """See `Transport.stream`."""
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_SECONDS, sock_read=idle_seconds)
        try:
            response = await self._session.get(
                self._url(url),
                headers=dict(headers) | {"Accept-Encoding": "identity"},
                timeout=timeout,
                allow_redirects=False,
                **self._route,
            )
        except TimeoutError as error:
            raise SilenceError(f"{self.endpoint.server} did not begin to answer.", hint=CHECK_ADDRESS) from error
        except (aiohttp.ClientError, OSError) as error:
            raise failure_of(error, self.endpoint) from error
        try:
            if response.status != 200:
                asked = f"GET {url.partition('?')[0]}"
                self._refuse(response, await self._error_body(response, asked), asked=asked)
            yield PooledStream(response, self.endpoint, idle_seconds)
        finally:
            response.close()

    @asynccontextmanager
    async def websocket(
        self, url: str, *, headers: Mapping[str, str], protocols: Sequence[str]
    ) -> AsyncIterator[aiohttp.ClientWebSocketResponse]:
        """See `Transport.websocket`."""
        timeout = aiohttp.ClientWSTimeout(ws_close=5.0)
        try:
            async with asyncio.timeout(CONNECT_SECONDS * 2):
                channel = await self._session.ws_connect(
                    self._url(url),
                    headers=headers,
                    protocols=tuple(protocols),
                    heartbeat=_HEARTBEAT_SECONDS,
                    timeout=timeout,
                    max_msg_size=MESSAGE_BYTES,
                    **self._route,
                )
        except aiohttp.WSServerHandshakeError as error:
            raise await self._refusal_of(error, url, headers) from error
        except (TimeoutError, aiohttp.ClientError, OSError) as error:
            raise failure_of(error, self.endpoint) from error
        try:
            yield channel
        finally:
            try:
                await channel.close()
            finally:
                _release(channel)

    async def _refusal_of(
        self, error: aiohttp.WSServerHandshakeError, url: str, headers: Mapping[str, str]
    ) -> ConsoleError:
        """Find out why an upgrade was refused: aiohttp drops the body, so request it again without an upgrade."""
        try:
            await self.call("GET", url, headers=headers, body=None, deadline_seconds=CONNECT_SECONDS)
        except ApiError as explained:
            if explained.status.code == error.status:
                return explained
        except UnreachableError:
            pass  # the first answer is all there is
        status = status_of(str(error.message).encode(), code=error.status, headers=error.headers)
        return error_of(status, asked=f"GET {url.partition('?')[0]}", context=self.endpoint.context)

    def _url(self, path_and_query: str) -> URL:
        return URL(self.endpoint.server + path_and_query, encoded=True)

    def _refuse(self, response: aiohttp.ClientResponse, data: bytes, *, asked: str) -> NoReturn:
        status = status_of(data, code=response.status, headers=response.headers)
        raise error_of(status, asked=asked, context=self.endpoint.context)

    async def _error_body(self, response: aiohttp.ClientResponse, asked: str) -> bytes:
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                return await self._bodies.refusal(response, asked=asked)
        except (TimeoutError, aiohttp.ClientError, OSError):
            return b""


def failure_of(error: BaseException, endpoint: Endpoint) -> ConsoleError:
    """Return the error for a connection that could not be made or broke."""
    if isinstance(error, aiohttp.ClientConnectorCertificateError | aiohttp.ClientConnectorSSLError):
        return tls_error(endpoint, getattr(error, "certificate_error", None) or error.__cause__ or error)
    if isinstance(error, aiohttp.ClientProxyConnectionError):
        return proxy_error(endpoint, error.os_error.strerror or error.os_error)
    if isinstance(error, aiohttp.ClientHttpProxyError):
        return proxy_error(endpoint, f"{error.status} {error.message}")
    if isinstance(error, aiohttp.ClientConnectorError):
        return connect_error(endpoint, error.os_error)
    return connection_lost_error(endpoint, error)


def _release(socket: aiohttp.ClientWebSocketResponse) -> None:
    """End the connection of a websocket that is closed, and take it from the websocket.

    Both sides have said goodbye, or one does not answer: TLS would wait half a minute to say it once more, and a loop
    that ends before leaves the connection open. aiohttp's objects of a websocket refer to each other, so they live
    until Python's collector runs; and that depends on the number of objects, not on the 400 KB that TLS keeps for each
    connection.
    """
    with suppress(AttributeError):
        writer = socket._writer  # noqa: SLF001 - it writes no more
        writer.transport.abort()
        writer.transport = None  # type: ignore[assignment]

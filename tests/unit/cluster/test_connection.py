"""A connection takes bytes when somebody reads, and tells how its answer ended."""

from __future__ import annotations

import asyncio

import pytest

from actions.base.errors import UnreachableError
from actions.cluster.http.endpoint import Endpoint
from actions.cluster.http.stream import HttpConnection

_HEAD = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"


class _Socket(asyncio.Transport):
    """A transport that nothing goes through; it knows whether it is read from."""

    def __init__(self) -> None:
        super().__init__()
        self.is_read = True
        self.written = b""

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.written += bytes(data)

    def pause_reading(self) -> None:
        self.is_read = False

    def resume_reading(self) -> None:
        self.is_read = True


class _Line:
    """A connection, its socket, and what the server sends over it."""

    def __init__(self) -> None:
        endpoint = Endpoint(server="http://here", context="here", server_name="", proxy="", tls=None)
        self.connection = HttpConnection(endpoint, memoryview(bytearray(1 << 12)), idle_seconds=30.0)
        self.socket = _Socket()
        self.connection.connection_made(self.socket)

    def send(self, data: bytes) -> None:
        self.connection.get_buffer(-1)[: len(data)] = data
        self.connection.buffer_updated(len(data))


async def test_what_comes_while_nothing_reads_stays_with_the_kernel() -> None:
    line = _Line()
    asking = asyncio.create_task(line.connection.ask(b"GET /\r\n\r\n"))
    await asyncio.sleep(0)
    assert (line.socket.written, line.socket.is_read) == (b"GET /\r\n\r\n", True)
    line.send(_HEAD + b"1\r\na\r\n")
    head, first = await asking
    assert (head.status, first, line.socket.is_read) == (200, b"a", False)
    reading = asyncio.create_task(line.connection.read())
    await asyncio.sleep(0)
    assert line.socket.is_read
    line.send(b"1\r\nb\r\n")
    line.send(b"1\r\nc\r\n")
    assert await reading == b"bc"
    assert not line.socket.is_read


async def test_what_came_before_the_connection_broke_is_given_before_that_is_told() -> None:
    line = _Line()
    line.send(_HEAD + b"1\r\na\r\n")
    line.connection.connection_lost(ConnectionResetError("reset by peer"))
    assert await line.connection.read() == b"a"
    with pytest.raises(UnreachableError, match="reset by peer"):
        await line.connection.read()


async def test_an_answer_that_came_whole_is_no_broken_one_whatever_becomes_of_its_connection() -> None:
    line = _Line()
    line.send(_HEAD + b"1\r\na\r\n0\r\n\r\n")
    line.connection.connection_lost(ConnectionResetError("reset by peer"))
    assert [await line.connection.read(), await line.connection.read()] == [b"a", None]


async def test_an_answer_that_ends_too_early_is_broken() -> None:
    line = _Line()
    line.send(_HEAD + b"9\r\na")
    line.connection.eof_received()
    assert await line.connection.read() == b"a"
    with pytest.raises(UnreachableError, match="before the answer was complete"):
        await line.connection.read()

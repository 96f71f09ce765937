"""D18, D21: what a server sends is counted after unpacking, a wish to wait is capped, a list in pages ends."""

from __future__ import annotations

import asyncio
import gzip
import zlib
from collections.abc import AsyncIterator, Mapping
from contextlib import nullcontext, suppress
from datetime import UTC, datetime
from pathlib import Path
from traceback import walk_tb

import msgspec
import pytest
from aiohttp import web

from actions.base.errors import FormatError, UnreachableError
from actions.cluster.bounds import (
    BODY_BYTES,
    EVENT_BYTES,
    INFORMATIONAL_ANSWERS,
    MESSAGE_BYTES,
    PAGES,
    RETRY_AFTER_SECONDS,
    SHORT_PAGE_SECONDS,
    OversizeError,
    PageCount,
)
from actions.cluster.http import pool
from actions.cluster.http.errors import ApiUnavailableError, read_retry_after, status_of
from actions.cluster.http.pool import BodyReader, Unpacker
from actions.cluster.http.stream import HttpResponse
from actions.cluster.objects.client import Discovery, list_objects
from actions.cluster.remote.exec import open_exec
from actions.cluster.watch import json_format as wire
from actions.cluster.watch import protobuf_format as protowire
from actions.cluster.watch.health import Health
from actions.cluster.watch.json_format import WireFormat
from tests.unit.cluster.clocks import HastyClock
from tests.unit.cluster.faults import page, refusal, stream, thing
from tests.unit.cluster.reflecting import reflecting
from tests.unit.cluster.servers import session_to

NOW = datetime(2026, 11, 22, 10, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("3", 3.0),
        (" 7 ", 7.0),
        ("0", 0.0),
        ("31536000", RETRY_AFTER_SECONDS),
        ("9" * 5000, RETRY_AFTER_SECONDS),
        ("Sun, 22 Nov 2026 10:00:30 GMT", 30.0),
        ("Sun, 22 Nov 2026 09:00:00 GMT", 0.0),
        ("Sun, 22 Nov 2099 09:00:00 GMT", RETRY_AFTER_SECONDS),
        ("\xb2", None),
        ("٣", None),
        ("-5", None),
        ("1e5", None),
        ("soon", None),
        ("", None),
        ("Sun, 99 Nov 99999999 10:00:00 GMT", None),
    ],
)
def test_a_wish_to_wait_is_read_or_left_alone(text: str, seconds: float | None) -> None:
    assert read_retry_after(text, now=NOW) == seconds


def test_a_moment_is_measured_from_the_servers_own_date() -> None:
    headers = {"Retry-After": "Sun, 22 Nov 2020 10:00:09 GMT", "Date": "Sun, 22 Nov 2020 10:00:00 GMT"}
    assert status_of(b"", code=429, headers=headers).retry_after_seconds == 9.0


@pytest.mark.parametrize("wish", [1e300, 31536000, -1])
def test_the_wish_in_a_status_is_capped_too(wish: float) -> None:
    body = msgspec.json.encode({"code": 429, "details": {"retryAfterSeconds": wish}})
    found = status_of(body, code=429).retry_after_seconds
    assert found is not None
    assert 0 <= found <= RETRY_AFTER_SECONDS


async def test_d21_one_429_with_a_year_in_it_ends_no_source(tmp_path: Path) -> None:
    async def throttled(request: web.Request) -> web.StreamResponse:
        return web.json_response({"code": 429, "message": "slow"}, status=429, headers={"Retry-After": "31536000"})

    async with reflecting(tmp_path, throttled, page([thing("one", 1, value="1")], 1), stream(then="hang")) as running:
        await running.mirror.until(lambda: running.mirror.saw(Health.LIVE))
        assert running.mirror.saw(Health.THROTTLED)
        assert max(running.clock.slept) == RETRY_AFTER_SECONDS


async def _chunks(*parts: bytes) -> AsyncIterator[bytes]:
    for part in parts:
        yield part


@pytest.mark.parametrize("of", [wire, protowire])
async def test_an_event_without_an_end_is_cut_off(of: wire.WireFormat) -> None:
    async def endless() -> AsyncIterator[bytes]:
        yield (EVENT_BYTES * 2).to_bytes(4, "big")
        while True:
            yield b"x" * (1 << 20)

    with pytest.raises(OversizeError, match="16 MiB"):
        async for _ in of.frames_of(endless()):
            pass


async def test_a_long_event_among_short_ones_is_read() -> None:
    long = b"y" * (EVENT_BYTES - 10)
    found = [line async for lines in wire.frames_of(_chunks(b"a\n", long[:99], long[99:] + b"\nb\n")) for line in lines]
    assert [len(line) for line in found] == [1, len(long), 1]


@pytest.mark.parametrize(
    "data",
    [
        b"HTTP/1.1 100 Continue\r\n\r\n" * (INFORMATIONAL_ANSWERS + 1),
        b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 20_000,
        b"HTTP/1.1 200 OK\r\nX: " + b"y" * 100_000,
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nX: " + b"y" * 200_000,
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n" + b"X: y\r\n" * 40_000,
    ],
    ids=["informational", "headers", "header", "trailer", "trailers"],
)
def test_what_surrounds_a_body_ends(data: bytes) -> None:
    def feed() -> None:
        response = HttpResponse()
        for begin in range(0, len(data), 1000):
            response.feed(data[begin : begin + 1000])
            response.take()

    with pytest.raises(FormatError):
        feed()


def test_a_stream_may_go_on_for_ever() -> None:
    response = HttpResponse()
    response.feed(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
    for _ in range(50_000):
        response.feed(b"1\r\nx\r\n")
        assert response.take() == b"x"


@pytest.mark.parametrize("encoding", ["gzip", "deflate", "raw"])
def test_what_unpacks_well_is_unpacked_whatever_its_cuts(encoding: str) -> None:
    text = b"".join(b'{"metadata":{"name":"pod-%d","uid":"%d"}}' % (number, number * 7919) for number in range(20_000))
    if encoding == "gzip":
        packed = gzip.compress(text[:500_000]) + gzip.compress(text[500_000:])
    else:
        packer = zlib.compressobj(wbits=15 if encoding == "deflate" else -15)
        packed = packer.compress(text) + packer.flush()
    unpacker = Unpacker(is_gzip=encoding == "gzip", asked="GET /x")
    found = b"".join(piece for at in range(0, len(packed), 997) for piece in unpacker.feed(packed[at : at + 997]))
    unpacker.finish()
    assert found == text


def test_what_is_damaged_or_cut_off_is_an_error() -> None:
    packed = gzip.compress(b"hello" * 1000)
    unpacker = Unpacker(is_gzip=True, asked="GET /x")
    list(unpacker.feed(packed[:-5]))
    with pytest.raises(UnreachableError, match="too early"):
        unpacker.finish()
    with pytest.raises(UnreachableError, match="damaged"):
        list(Unpacker(is_gzip=True, asked="GET /x").feed(b"not packed at all"))


async def test_a_packed_answer_is_read_and_a_bomb_is_not(tmp_path: Path) -> None:
    bodies = {"/good": gzip.compress(b'{"a":"' + b"b" * 100_000 + b'"}'), "/bomb": gzip.compress(b" " * (64 << 20))}
    seen: list[str] = []

    async def handler(request: web.Request) -> web.StreamResponse:
        seen.append(request.headers["Accept-Encoding"])
        return web.Response(body=bodies[request.path], headers={"Content-Encoding": "gzip"})

    async with session_to(handler, tmp_path) as session:
        assert len((await session.get("/good"))["a"]) == 100_000
        with pytest.raises(OversizeError, match="unpacks to more than 200 times"):
            await session.get("/bomb")
    assert seen == ["gzip", "gzip"]


async def test_an_encoding_that_was_not_asked_for_is_told(tmp_path: Path) -> None:
    async def handler(request: web.Request) -> web.StreamResponse:
        return web.Response(body=b"{}", headers={"Content-Encoding": "br"})

    async with session_to(handler, tmp_path) as session:
        with pytest.raises(UnreachableError, match="packed as 'br'"):
            await session.get("/x")


async def test_an_object_of_sixty_megabytes_is_read(tmp_path: Path) -> None:
    async def handler(request: web.Request) -> web.StreamResponse:
        return web.Response(body=b'{"a":"' + b"b" * 60_000_000 + b'"}')

    assert BODY_BYTES > 60_000_000
    async with session_to(handler, tmp_path) as session:
        assert len(await session.request("GET", "/x")) == 60_000_008


async def test_a_refusal_without_an_end_is_a_refusal(tmp_path: Path) -> None:
    async def handler(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(status=503)
        await response.prepare(request)
        while True:
            await response.write(b"x" * 65536)

    async with session_to(handler, tmp_path) as session:
        with pytest.raises(ApiUnavailableError, match="answers 503"):
            await session.get("/x")
        with pytest.raises(ApiUnavailableError, match="answers 503"):
            async with session.stream("/x"):
                pass


async def test_a_websocket_message_is_no_larger_than_allowed(tmp_path: Path) -> None:
    async def handler(request: web.Request) -> web.StreamResponse:
        socket = web.WebSocketResponse(protocols=("v5.channel.k8s.io",))
        await socket.prepare(request)
        await socket.send_bytes(b"\x01" + b"x" * (MESSAGE_BYTES + 1))
        await socket.receive()
        return socket

    async with session_to(handler, tmp_path) as session, open_exec(session, "n", "p", "c", ["cat"]) as program:
        with pytest.raises(UnreachableError, match="broke"):
            await program.read()


async def test_pages_that_repeat_themselves_end() -> None:
    pages = PageCount("/x", size=500, clock=HastyClock())
    await pages.next_page("a", held=500, known=500)
    with pytest.raises(OversizeError, match="repeat themselves"):
        await pages.next_page("a", held=500, known=1000)
    pages = PageCount("/x", size=500, clock=HastyClock())
    await pages.next_page("a", held=500, known=500)
    await pages.next_page("b", held=500, known=500)
    await pages.next_page("c", held=500, known=500)
    with pytest.raises(OversizeError, match="repeat themselves"):
        await pages.next_page("d", held=500, known=500)


async def test_full_pages_are_not_slowed_down_and_short_ones_are() -> None:
    clock = HastyClock()
    pages = PageCount("/x", size=500, clock=clock)
    for number in range(300):
        await pages.next_page(str(number), held=500, known=500 * (number + 1))
    assert clock.slept == []
    for number in range(12):
        await pages.next_page(f"s{number}", held=1, known=150_001 + number)
    assert clock.slept == [SHORT_PAGE_SECONDS] * 2


async def test_there_are_only_so_many_pages_and_objects() -> None:
    pages = PageCount("/x", size=1, most=10**9, clock=HastyClock())
    for number in range(PAGES - 1):
        await pages.next_page(str(number), held=1, known=number + 1)
    with pytest.raises(OversizeError, match="does not end"):
        await pages.next_page("last", held=1, known=PAGES)
    with pytest.raises(OversizeError, match="does not end"):
        await PageCount("/x", size=500, most=499, clock=HastyClock()).next_page("a", held=500, known=500)


async def test_a_list_of_objects_that_does_not_end_is_an_error(tmp_path: Path) -> None:
    asked: list[str] = []

    async def handler(request: web.Request) -> web.StreamResponse:
        if request.path == "/api/v1":
            return web.json_response({"resources": [{"name": "pods", "kind": "Pod", "namespaced": True}]})
        asked.append(request.path_qs)
        item = {"metadata": {"name": "a", "uid": "u"}}
        return web.json_response({"items": [item], "metadata": {"continue": f"t{len(asked)}"}})

    async with session_to(handler, tmp_path) as session:
        with pytest.raises(OversizeError, match="repeat themselves"):
            await list_objects(session, Discovery(session), "v1", "Pod")
    assert len(asked) == 4


async def test_an_event_that_is_too_long_has_the_list_asked_for_anew(tmp_path: Path) -> None:
    async def too_long(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        for _ in range(EVENT_BYTES // (1 << 20) + 2):
            await response.write(b"x" * (1 << 20))
        await response.write_eof()
        return response

    async with reflecting(
        tmp_path, page([thing("one", 1)], 1), too_long, page([thing("two", 2)], 2), stream(then="hang")
    ) as running:
        await running.mirror.until(lambda: "two" in running.mirror.values)
        shown = [told.detail for told in running.mirror.states if told.state is Health.RECONNECTING]
        assert any("event of more than 16 MiB" in detail for detail in shown)
        assert running.clock.slept


async def test_a_refused_watch_is_still_a_refusal(tmp_path: Path) -> None:
    async with session_to(refusal(503, "ServiceUnavailable", "later"), tmp_path) as session:
        with pytest.raises(ApiUnavailableError):
            async with session.stream("/x"):
                pass


async def _lost_after(chunk: bytes, count: int) -> AsyncIterator[bytes]:
    for number in range(count):
        yield chunk + b"%02d" % number  # a new object each, as from a socket
    raise UnreachableError("The connection broke.")


class _Body:
    """An answer of 10 MiB."""

    headers: Mapping[str, str] = {}

    def __init__(self, *, is_lost: bool) -> None:
        self.content = self
        self._is_lost = is_lost

    async def iter_any(self) -> AsyncIterator[bytes]:
        with nullcontext() if self._is_lost else suppress(UnreachableError):
            async for chunk in _lost_after(b"x" * (1 << 18), 40):
                yield chunk


def _bytes_held(error: BaseException) -> int:
    """Bytes that the frames of an error keep alive."""
    held = 0
    for frame, _ in walk_tb(error.__traceback__):
        for value in frame.f_locals.values():
            held += len(value) if isinstance(value, bytes) else 0
            held += sum(len(part) for part in value if isinstance(part, bytes)) if isinstance(value, list) else 0
    return held


@pytest.mark.parametrize("of", [wire, protowire])
async def test_d18_the_error_of_a_broken_stream_keeps_nothing_of_it(of: WireFormat) -> None:
    frame = (8 << 20).to_bytes(4, "big") + b"x" * (1 << 17)
    with pytest.raises(UnreachableError) as caught:
        async for _ in of.frames_of(_lost_after(frame, 40)):
            pass
    assert _bytes_held(caught.value) < 2 << 20


@pytest.mark.parametrize("is_lost", [False, True])
async def test_d18_the_memory_of_a_long_answer_goes_back_to_the_system(
    is_lost: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    released = asyncio.Event()
    monkeypatch.setattr(pool, "_RELEASE_SECONDS", 0)
    monkeypatch.setattr(pool, "release_free_memory", released.set)
    reading = BodyReader().whole(_Body(is_lost=is_lost), asked="GET /api/v1/pods")
    if is_lost:
        with pytest.raises(UnreachableError) as caught:
            await reading
        assert _bytes_held(caught.value) < 2 << 20
    else:
        assert len(await reading) > 10 << 20
    async with asyncio.timeout(60):
        await released.wait()

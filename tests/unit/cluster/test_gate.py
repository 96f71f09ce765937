"""The requests that pass the gate of a forwarded port, and the answers to those that do not."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

import pytest

from actions.cluster.remote.forward_gate import ClientProtocol, Gate, GateClosed, GatedRequests, client_protocol

PORT, TOKEN = 40_123, "the-token-of-the-session"
GATE = Gate(PORT, TOKEN)
HOST = f"Host: 127.0.0.1:{PORT}"
COOKIE = f"Cookie: {GATE.cookie}={TOKEN}"


def request(target: str, *headers: str, method: str = "GET", body: str = "") -> bytes:
    return "\r\n".join([f"{method} {target} HTTP/1.1", *headers, "", body]).encode()


async def passed(*parts: bytes, requests: GatedRequests | None = None) -> bytes:
    through = requests or GatedRequests(GATE)
    return b"".join([piece for part in parts async for piece in through.passing(part)])


async def refused(*parts: bytes) -> tuple[int, str]:
    with pytest.raises(GateClosed) as closed:
        await passed(*parts)
    answer = closed.value.answer.decode()
    return int(answer.split(" ")[1]), answer


def bytewise(data: bytes) -> Iterable[bytes]:
    return (data[at : at + 1] for at in range(len(data)))


async def test_a_request_with_the_cookie_passes_without_it() -> None:
    for host in (HOST, f"host: LOCALHOST:{PORT}"):
        sent = request("/api?a=1", host, f"Cookie: theirs=1; {GATE.cookie}={TOKEN}; more=2", "Accept: text/html")
        expected = request("/api?a=1", host, "Cookie: theirs=1; more=2", "Accept: text/html")
        assert await passed(sent) == expected
        assert await passed(*bytewise(sent)) == expected


async def test_a_bearer_of_the_token_passes_and_other_authorizations_are_the_pods() -> None:
    assert await passed(request("/", HOST, f"Authorization: Bearer {TOKEN}")) == request("/", HOST)
    theirs = request("/", HOST, "Authorization: token the-pods-own")
    assert (await refused(theirs))[0] == 401
    both = request("/", HOST, COOKIE, "Authorization: token the-pods-own")
    assert await passed(both) == request("/", HOST, "Authorization: token the-pods-own")


async def test_a_page_by_its_link_is_sent_on_with_a_cookie_and_without_the_token() -> None:
    status, answer = await refused(request(f"/lab?token={TOKEN}&a=1", HOST, "Accept: text/html,*/*"))
    assert status == 303
    assert "\r\nLocation: /lab?a=1\r\n" in answer
    assert f"\r\nSet-Cookie: {GATE.cookie}={TOKEN}; Path=/; HttpOnly; SameSite=Strict\r\n" in answer
    assert "Referrer-Policy: no-referrer" in answer


@pytest.mark.parametrize("target", ["//evil.example/", "/\\evil.example/", "///evil.example/"])
async def test_nobody_is_sent_on_to_elsewhere(target: str) -> None:
    _, answer = await refused(request(f"{target}?token={TOKEN}", HOST, "Accept: text/html"))
    assert "\r\nLocation: /evil.example/\r\n" in answer


async def test_a_program_may_say_the_token_in_the_address() -> None:
    assert await passed(request(f"/api?token={TOKEN}", HOST)) == request("/api", HOST)
    assert await passed(request(f"/api?token=theirs&token={TOKEN}", HOST)) == request("/api?token=theirs", HOST)


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ([HOST], 401), ([HOST, "Cookie: other=1"], 401), ([HOST, f"Cookie: {GATE.cookie}=guessed"], 401),
        ([COOKIE], 403), ([COOKIE, "Host: evil.example"], 403), ([COOKIE, f"Host: evil.example:{PORT}"], 403),
        ([COOKIE, "Host: 127.0.0.1"], 403), ([COOKIE, f"Host: 127.0.0.1:{PORT + 1}"], 403),
        ([COOKIE, HOST, HOST.replace("127.0.0.1", "evil.example")], 403),
        ([COOKIE, HOST, "Origin: http://evil.example"], 403), ([COOKIE, HOST, "Origin: null"], 403),
        ([COOKIE, HOST, f"Origin: http://127.0.0.1:{PORT + 1}"], 403), ([COOKIE, HOST, "Broken\x01: 1"], 400),
        ([COOKIE, HOST, "Content-Length: 1", "Transfer-Encoding: chunked"], 400),
    ],
)  # fmt: skip
async def test_others_are_refused(headers: list[str], status: int) -> None:
    assert (await refused(request("/", *headers)))[0] == status


async def test_an_origin_of_its_own_is_let_in() -> None:
    sent = request("/", HOST, f"Origin: http://localhost:{PORT}", COOKIE)
    assert await passed(sent) == request("/", HOST, f"Origin: http://localhost:{PORT}")


@pytest.mark.parametrize("target", ["http://evil.example/", "evil.example:443"])
async def test_it_is_no_proxy(target: str) -> None:
    method = "GET" if "/" in target else "CONNECT"
    assert (await refused(request(target, HOST, COOKIE, method=method)))[0] == 400


async def test_every_request_of_a_connection_is_judged() -> None:
    good = request("/", HOST, COOKIE)
    requests = GatedRequests(GATE)
    assert await passed(good, requests=requests) == request("/", HOST)
    with pytest.raises(GateClosed):
        await passed(request("/", HOST), requests=requests)
    with pytest.raises(GateClosed):
        await passed(good + request("/", HOST.replace("127.0.0.1", "evil.example"), COOKIE))


async def test_bodies_pass_by_their_length_and_in_chunks() -> None:
    sized = request("/", HOST, COOKIE, "Content-Length: 9", method="POST", body="GET / HTT")
    assert await passed(*bytewise(sized)) == sized.replace(f"{COOKIE}\r\n".encode(), b"")
    chunked = request("/", HOST, COOKIE, "Transfer-Encoding: chunked", method="PUT", body="3;x=1\r\nabc\r\n0\r\n\r\n")
    through = await passed(chunked, request("/next", HOST, COOKIE))
    assert through.endswith(b"\r\n\r\n3\r\nabc\r\n0\r\n\r\n" + request("/next", HOST))


async def test_a_head_without_an_end_is_not_kept() -> None:
    assert (await refused(request("/", HOST)[:-2], b"X: " + b"x" * 70_000))[0] == 431


async def test_after_an_upgrade_everything_passes_if_the_pod_agrees() -> None:
    upgrade = request("/ws", HOST, COOKIE, "Connection: Upgrade", "Upgrade: websocket")
    for answer, is_raw in ((b"HTTP/1.1 101 Switching", True), (b"HTTP/1.1 200 OK\r\n", False)):
        requests = GatedRequests(GATE)
        taken: asyncio.Queue[bytes] = asyncio.Queue()

        async def pass_on(requests: GatedRequests = requests, taken: asyncio.Queue[bytes] = taken) -> None:
            async for piece in requests.passing(upgrade + b"\x81\x05hello"):
                taken.put_nowait(piece)

        task = asyncio.create_task(pass_on())
        async with asyncio.timeout(60):
            assert (await taken.get()).startswith(b"GET /ws HTTP/1.1\r\n")
            requests.answered(answer[:5])
            assert not task.done()
            requests.answered(answer[5:])
            if is_raw:
                await task
                assert await taken.get() == b"\x81\x05hello"
                assert await passed(b"\x81\x01x", requests=requests) == b"\x81\x01x"
            else:
                with pytest.raises(GateClosed):
                    await task


@pytest.mark.parametrize(
    ("begun", "speech"),
    [
        (b"", ClientProtocol.UNDECIDED),
        (b"G", ClientProtocol.UNDECIDED),
        (b"GET /", ClientProtocol.UNDECIDED),
        (b"hello", ClientProtocol.UNDECIDED),
        (b"GET / HTTP/1.1\r", ClientProtocol.UNDECIDED),
        (b"GET / HTTP/1.1\r\n", ClientProtocol.HTTP),
        (b"\r\nx /y HTTP/1.0\n", ClientProtocol.HTTP),
        (b"SSH-2.0-OpenSSH_9.2\r\n", ClientProtocol.OTHER),
        (b"\x16\x03\x01\x02", ClientProtocol.OTHER),
        (b"EHLO me\r\n", ClientProtocol.OTHER),
        (b"PRI * HTTP/2.0\r\n", ClientProtocol.OTHER),
        (b"*1\r\n$4\r\n", ClientProtocol.OTHER),
        (b"a" * 70_000, ClientProtocol.OTHER),
    ],
)
def test_what_a_client_speaks_is_told_by_its_first_line(begun: bytes, speech: ClientProtocol) -> None:
    assert client_protocol(begun) is speech

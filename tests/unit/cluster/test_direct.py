"""Streams over connections of their own: what they are refused with, how they break, what goes another way."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest
from aiohttp import web

from actions.base.errors import ConfigError, MissingError, UnreachableError
from actions.cluster.auth.kubeconfig import ClusterTarget
from actions.cluster.auth.session import KubeSession
from actions.cluster.http.errors import SilenceError
from tests.unit.cluster.faults import refusal, stream
from tests.unit.cluster.servers import session_to, write_kubeconfig


async def _read(session: KubeSession, path: str = "/watch", *, idle_seconds: float = 30.0) -> bytes:
    async with session.stream(path, query={"watch": "true"}, idle_seconds=idle_seconds) as opened:
        return b"".join([chunk async for chunk in opened])


async def test_a_stream_is_asked_for_as_an_api_server_wants_it(tmp_path: Path) -> None:
    seen: list[web.Request] = []

    async def handler(request: web.Request) -> web.StreamResponse:
        seen.append(request)
        return web.Response(body=b"all of it", content_type="text/plain")

    async with session_to(handler, tmp_path, user={"token": "secret"}) as session:
        assert await _read(session) == b"all of it"
    request = seen[0]
    assert (request.path_qs, request.headers["Host"]) == ("/watch?watch=true", f"127.0.0.1:{request.url.port}")
    assert request.headers["Authorization"] == "Bearer secret"
    assert request.headers["User-Agent"] == f"eksml-tui/{os.getpid()}@{socket.gethostname()}"  # as audit logs have it


async def test_a_server_below_a_path_is_asked_below_it(tmp_path: Path) -> None:
    paths: list[str] = []

    async def handler(request: web.Request) -> web.StreamResponse:
        paths.append(request.path)
        return web.Response(body=b"x")

    async with session_to(handler, tmp_path) as session:
        below = ClusterTarget(kubeconfig=write_kubeconfig(tmp_path, f"{session.server}/k8s/clusters/c1"))
        other = await KubeSession.connect(below)
        await _read(other)
        await other.aclose()
    assert paths == ["/k8s/clusters/c1/watch"]


async def test_a_refusal_of_a_stream_says_why(tmp_path: Path) -> None:
    async with session_to(refusal(404, "NotFound", "no such thing"), tmp_path) as session:
        with pytest.raises(MissingError, match="no such thing"):
            await _read(session)


async def test_a_stream_that_is_cut_in_the_middle_is_said_to_be_broken(tmp_path: Path) -> None:
    async with session_to(stream(b"half of ", then="cut"), tmp_path) as session:
        with pytest.raises(UnreachableError, match="broke"):
            await _read(session)


async def test_a_server_that_does_not_begin_to_answer_is_silent(tmp_path: Path) -> None:
    async with session_to(stream(then="hang"), tmp_path) as session:
        with pytest.raises(SilenceError):
            await _read(session, idle_seconds=0.05)


async def test_an_address_without_a_server_is_a_sentence(tmp_path: Path) -> None:
    target = ClusterTarget(kubeconfig=write_kubeconfig(tmp_path, "http://127.0.0.1:1"))
    session = await KubeSession.connect(target)
    with pytest.raises(UnreachableError, match=r"http://127\.0\.0\.1:1 .* cannot be reached"):
        await _read(session)
    await session.aclose()


async def test_a_plain_server_behind_https_is_a_sentence(tmp_path: Path) -> None:
    async with session_to(stream(b"x"), tmp_path) as session:
        secure = session.server.replace("http:", "https:")
        other = await KubeSession.connect(ClusterTarget(kubeconfig=write_kubeconfig(tmp_path, secure)))
        with pytest.raises(ConfigError, match="TLS connection"):
            await _read(other)
        await other.aclose()


async def test_a_stream_of_a_closed_session_is_refused(tmp_path: Path) -> None:
    async with session_to(stream(b"x"), tmp_path) as session:
        await session.aclose()
        with pytest.raises(UnreachableError, match="closed"):
            await _read(session)


@pytest.mark.parametrize("place", ["the context", "the environment"])
async def test_behind_a_proxy_a_stream_goes_through_it(
    tmp_path: Path, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    async def proxy(request: web.Request) -> web.StreamResponse:
        asked.append(str(request.url))
        return web.Response(body=b"by the proxy")

    async with session_to(proxy, tmp_path) as to_proxy:
        path = write_kubeconfig(tmp_path, "http://far.invalid:6443")
        if place == "the environment":
            monkeypatch.setenv("http_proxy", to_proxy.server)
        else:
            path.write_text(path.read_text().replace("server:", f"proxy-url: {to_proxy.server}\n    server:"))
        session = await KubeSession.connect(ClusterTarget(kubeconfig=path))
        assert await _read(session) == b"by the proxy"
        await session.aclose()
    assert asked == ["http://far.invalid:6443/watch?watch=true"]


async def test_the_environments_proxy_is_not_asked_for_what_is_on_this_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def answer(request: web.Request) -> web.StreamResponse:
        del request
        return web.json_response({"own": True})

    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    async with session_to(answer, tmp_path) as session:
        assert await _read(session) == b'{"own": true}'
        assert await session.get("/x") == {"own": True}

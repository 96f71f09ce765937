"""A file comes whole or not at all, and by no way less safe than the one that was asked for."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from aiohttp import web

from actions.base.errors import ConfigError, MissingError, RefusedError, UnreachableError
from actions.cloud.download import _next, download
from tests.unit.cluster.servers import serving

BODY = b"kind: Namespace\n" * 100


async def answer(request: web.Request) -> web.StreamResponse:
    match request.path:
        case "/file":
            return web.Response(body=BODY)
        case "/moved":
            raise web.HTTPFound("/file")
        case "/round":
            raise web.HTTPFound("/round")
        case "/secret":
            return web.Response(status=403)
        case "/cut" | "/chunked":
            response = web.StreamResponse()
            if request.path == "/cut":
                response.content_length = len(BODY)
            else:
                response.enable_chunked_encoding()
            await response.prepare(request)
            await response.write(BODY[:50])
            if request.transport is not None:
                request.transport.close()  # after what was written
            return response
    return web.Response(status=404)


@pytest.fixture
async def address(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[str]:
    for name in ("http_proxy", "HTTP_PROXY", "https_proxy", "HTTPS_PROXY"):
        monkeypatch.delenv(name, raising=False)
    async with serving(answer) as address:
        yield address


@pytest.mark.parametrize("path", ["/file", "/moved"])
async def test_a_file_comes_whole_also_from_where_it_was_moved_to(address: str, path: str) -> None:
    assert await download(address + path) == BODY


@pytest.mark.parametrize(
    ("path", "error", "said"),
    [
        ("/nothing", MissingError, "HTTP 404"),
        ("/secret", RefusedError, "HTTP 403"),
        ("/round", RefusedError, "too many times"),
        ("/cut", UnreachableError, "could not be fetched"),
        ("/chunked", UnreachableError, "could not be fetched"),
    ],
)
async def test_what_does_not_come_whole_is_one_sentence(
    address: str, path: str, error: type[Exception], said: str
) -> None:
    with pytest.raises(error, match=said):
        await download(address + path)


async def test_too_much_is_refused(address: str) -> None:
    with pytest.raises(RefusedError, match="larger than"):
        await download(f"{address}/file", limit_bytes=1000)


async def test_an_endpoint_without_a_server_is_named() -> None:
    with pytest.raises(UnreachableError, match="could not be fetched"):
        await download("http://127.0.0.1:9/file")


@pytest.mark.parametrize("url", ["", "file:///etc/passwd", "https://", "manifest.yaml"])
async def test_what_is_no_address_is_refused(url: str) -> None:
    with pytest.raises(ConfigError):
        await download(url)


def test_no_redirect_leads_from_an_encrypted_place_to_another() -> None:
    with pytest.raises(RefusedError, match="not encrypted"):
        _next("https://a/x", "http://a/x")
    assert _next("http://a/x", "https://b/x") == "https://b/x"


async def test_a_proxy_of_the_environment_is_used(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", address)
    monkeypatch.setenv("no_proxy", "")
    assert await download("http://operators.invalid/file") == BODY

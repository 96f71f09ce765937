"""TLS, client certificates and proxies, for requests and for websockets."""

from __future__ import annotations

import asyncio
import base64
import json
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import yaml
from aiohttp import web

from actions.base.errors import ConfigError, UnreachableError
from actions.cluster.auth.kubeconfig import ClusterTarget, load_context
from actions.cluster.auth.session import KubeSession, library_tls
from actions.cluster.auth.tls import default_tls_context
from tests.unit.cluster.servers import serving

TLS = Path(__file__).parents[2] / "fixtures" / "tls"


async def _answer(request: web.Request) -> web.StreamResponse:
    if request.path != "/exec":
        return web.json_response({"peer": bool(request.get_extra_info("peercert"))})
    socket = web.WebSocketResponse(protocols=("v5.channel.k8s.io",))
    await socket.prepare(request)
    await socket.send_bytes(b"hello")
    await socket.close()
    return socket


@asynccontextmanager
async def _tls_server() -> AsyncIterator[str]:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=str(TLS / "ca.pem"))
    context.load_cert_chain(TLS / "server.pem", TLS / "server.key")
    context.verify_mode = ssl.CERT_REQUIRED
    async with serving(_answer, tls=context) as address:
        yield address


@asynccontextmanager
async def _session(folder: Path, cluster: dict[str, object], user: dict[str, object]) -> AsyncIterator[KubeSession]:
    path = folder / "kubeconfig"
    document = {
        "current-context": "here",
        "contexts": [{"name": "here", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": cluster}],
        "users": [{"name": "u", "user": user}],
    }
    path.write_text(yaml.safe_dump(document))
    session = await KubeSession.connect(ClusterTarget(kubeconfig=path), is_vouched_for=True)
    try:
        yield session
    finally:
        await session.aclose()


def _data(name: str) -> str:
    return base64.b64encode((TLS / name).read_bytes()).decode()


_USER: dict[str, object] = {"client-certificate": str(TLS / "client.pem"), "client-key": str(TLS / "client.key")}


async def _first_message(session: KubeSession) -> bytes:
    async with session.websocket("/exec", protocols=["v5.channel.k8s.io"]) as socket:
        return bytes((await socket.receive()).data)


async def _streamed(session: KubeSession) -> object:
    async with session.stream("/x") as stream:
        return json.loads(b"".join([chunk async for chunk in stream]))


async def test_a_client_certificate_and_a_server_name_work_for_requests_streams_and_websockets(tmp_path: Path) -> None:
    async with _tls_server() as address:
        cluster: dict[str, object] = {
            "server": address,
            "certificate-authority-data": _data("ca.pem"),
            "tls-server-name": "kubernetes.default",
        }
        user: dict[str, object] = {
            "client-certificate-data": _data("client.pem"),
            "client-key-data": _data("client.key"),
        }
        async with _session(tmp_path, cluster, user) as session:
            assert await session.get("/x") == {"peer": True}
            assert await _streamed(session) == {"peer": True}
            assert await _first_message(session) == b"hello"


async def test_a_server_of_another_authority_is_not_trusted(tmp_path: Path) -> None:
    async with _tls_server() as address, _session(tmp_path, {"server": address}, _USER) as session:
        with pytest.raises(ConfigError, match=r"TLS connection to https://127\.0\.0\.1.*fails") as caught:
            await session.get("/x")
        assert "certificate-authority" in caught.value.hint
        with pytest.raises(ConfigError, match=r"TLS connection to https://127\.0\.0\.1.*fails"):
            await _streamed(session)


async def test_a_server_of_another_name_is_not_trusted(tmp_path: Path) -> None:
    cluster: dict[str, object] = {"certificate-authority": str(TLS / "ca.pem")}
    async with _tls_server() as address, _session(tmp_path, cluster | {"server": address}, _USER) as session:
        with pytest.raises(ConfigError, match="TLS connection"):
            await session.get("/x")


async def test_a_missing_authority_file_is_named(tmp_path: Path) -> None:
    cluster: dict[str, object] = {"server": "https://127.0.0.1:1", "certificate-authority": "none.pem"}
    with pytest.raises(ConfigError, match=str(tmp_path / "none.pem")):
        async with _session(tmp_path, cluster, {}):
            pass


async def test_a_certificate_without_its_key_is_a_config_error(tmp_path: Path) -> None:
    cluster: dict[str, object] = {"server": "https://127.0.0.1:1", "certificate-authority": str(TLS / "ca.pem")}
    with pytest.raises(ConfigError, match="certificates of here cannot be used"):
        async with _session(
            tmp_path, cluster, {"client-certificate": str(TLS / "ca.pem"), "client-key": str(TLS / "client.key")}
        ):
            pass


@asynccontextmanager
async def _proxy(seen: list[bytes]) -> AsyncIterator[str]:
    """Forwards plain requests to the address in their request line."""

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        line = head.split(b"\r\n")[0]
        seen.append(line)
        host, _, port = line.split(b" ")[1].split(b"//")[-1].split(b"/")[0].partition(b":")
        up_reader, up_writer = await asyncio.open_connection(host.decode(), int(port))
        method, url, version = line.split(b" ")
        path = b"/" + url.split(b"//")[-1].partition(b"/")[2]
        if method == b"CONNECT":
            writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
        else:
            up_writer.write(head.replace(line, b" ".join((method, path, version)), 1))
        await asyncio.gather(_pump(reader, up_writer), _pump(up_reader, writer), return_exceptions=True)

    server = await asyncio.start_server(handle, "127.0.0.1", 0)
    try:
        yield "http://{}:{}".format(*server.sockets[0].getsockname()[:2])
    finally:
        server.close()


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    finally:
        writer.close()


async def test_requests_and_websockets_go_through_the_proxy(tmp_path: Path) -> None:
    seen: list[bytes] = []
    async with _tls_server() as address, _proxy(seen) as proxy:
        cluster: dict[str, object] = {
            "server": address,
            "proxy-url": proxy,
            "certificate-authority": str(TLS / "ca.pem"),
            "tls-server-name": "kubernetes.default",
        }
        async with _session(tmp_path, cluster, _USER) as session:
            assert await session.get("/x") == {"peer": True}
            assert await _streamed(session) == {"peer": True}
            assert await _first_message(session) == b"hello"
    assert {line.split(b" ")[0] for line in seen} == {b"CONNECT"}


async def test_a_proxy_that_is_down_is_named_without_its_password(tmp_path: Path) -> None:
    cluster: dict[str, object] = {"server": "http://127.0.0.1:1", "proxy-url": "http://me:secret@127.0.0.1:2"}
    async with _session(tmp_path, cluster, {}) as session:
        with pytest.raises(UnreachableError, match=r"^The proxy http://127\.0\.0\.1:2 does not connect") as caught:
            await session.get("/x")
    assert "secret" not in caught.value.sentence()


async def test_a_proxy_that_refuses_every_request_is_quoted(tmp_path: Path) -> None:
    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n")
        writer.close()

    server = await asyncio.start_server(refuse, "127.0.0.1", 0)
    proxy = "http://{}:{}".format(*server.sockets[0].getsockname()[:2])
    cluster: dict[str, object] = {"server": "https://far.invalid", "proxy-url": proxy}
    async with server, _session(tmp_path, cluster, {}) as session:
        with pytest.raises(UnreachableError, match="407 Proxy Authentication Required"):
            await session.get("/x")
        with pytest.raises(UnreachableError, match="407 Proxy Authentication Required"):
            await _streamed(session)


def _context(folder: Path, cluster: dict[str, object], user: dict[str, object]) -> ClusterTarget:
    path = folder / "kubeconfig"
    document = {
        "current-context": "here",
        "contexts": [{"name": "here", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": {"server": "https://127.0.0.1:1"} | cluster}],
        "users": [{"name": "u", "user": user}],
    }
    path.write_text(yaml.safe_dump(document))
    return ClusterTarget(kubeconfig=path)


@pytest.mark.parametrize("user", [{}, _USER])
@pytest.mark.parametrize(
    "cluster",
    [{"certificate-authority": str(TLS / "ca.pem")}, {"certificate-authority-data": _data("ca.pem")}],
)
def test_the_usual_settings_are_those_of_the_library(
    tmp_path: Path, cluster: dict[str, object], user: dict[str, object]
) -> None:
    chosen = load_context(_context(tmp_path, cluster, user))
    ours, theirs = default_tls_context(chosen), library_tls(chosen)
    assert ours is not None
    for said in ("verify_mode", "verify_flags", "check_hostname", "options", "minimum_version", "security_level"):
        assert getattr(ours, said) == getattr(theirs, said)
    assert ours.get_ca_certs() == theirs.get_ca_certs()


@pytest.mark.parametrize("cluster", [{}, {"insecure-skip-tls-verify": True}])
def test_what_is_not_usual_is_the_librarys(tmp_path: Path, cluster: dict[str, object]) -> None:
    chosen = load_context(_context(tmp_path, cluster, {}))
    assert default_tls_context(chosen) is None
    assert (library_tls(chosen).verify_mode is ssl.CERT_NONE) is bool(cluster)


async def test_a_client_certificate_of_an_exec_plugin_is_shown_and_asked_for_once(tmp_path: Path) -> None:
    status = {
        "clientCertificateData": (TLS / "client.pem").read_text(),
        "clientKeyData": (TLS / "client.key").read_text(),
    }
    (tmp_path / "credential.json").write_text(json.dumps({"kind": "ExecCredential", "status": status}))
    plugin = tmp_path / "plugin"
    plugin.write_text(f"#!/bin/sh\necho asked >> {tmp_path}/asked\ncat {tmp_path}/credential.json\n")
    plugin.chmod(0o700)
    user: dict[str, object] = {"exec": {"command": str(plugin), "apiVersion": "client.authentication.k8s.io/v1"}}
    async with _tls_server() as address:
        cluster: dict[str, object] = {
            "server": address,
            "certificate-authority": str(TLS / "ca.pem"),
            "tls-server-name": "kubernetes.default",
        }
        async with _session(tmp_path, cluster, user) as session:
            assert await session.get("/x") == {"peer": True}
            assert await _streamed(session) == {"peer": True}
            assert await _first_message(session) == b"hello"
    assert (tmp_path / "asked").read_text() == "asked\n"


async def test_a_certificate_of_a_plugin_that_is_none_is_a_config_error(tmp_path: Path) -> None:
    (tmp_path / "credential.json").write_text('{"status": {"clientCertificateData": "x", "clientKeyData": "y"}}')
    user: dict[str, object] = {"exec": {"command": "cat", "args": [str(tmp_path / "credential.json")]}}
    cluster: dict[str, object] = {"server": "https://127.0.0.1:1", "certificate-authority": str(TLS / "ca.pem")}
    async with _session(tmp_path, cluster, user) as session:
        with pytest.raises(ConfigError, match="exec plugin of here"):
            await session.get("/x")

"""A registry that refuses images in the ways in which registries do, at the address of the control plane."""

from __future__ import annotations

import datetime
import hashlib
import json
import ssl
from collections.abc import AsyncIterator, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

from aiohttp import web
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from tests.realnode.harness.network import GATEWAY

_PORT, _PLAIN, _EARLY = 5000, 5001, 5002
"""Known as one without TLS; without TLS, but not known as such; with a certificate of the future."""
_HOSTS = f"""server = "http://{GATEWAY}:{_PORT}"
[host."http://{GATEWAY}:{_PORT}"]
capabilities = ["pull", "resolve"]
"""
"""containerd 1.6 takes no file without a table of hosts, and asks the server after them."""
_INDEX = "application/vnd.oci.image.index.v1+json"
_MANIFEST = "application/vnd.oci.image.manifest.v1+json"
_STATUS = {"private": 401, "forbidden": 403, "absent": 404, "limited": 429, "broken": 503}
_LAYER = bytes(4 << 20)
"""Of the image `large`: an archive of nothing."""
_CONFIG = json.dumps(
    {"rootfs": {"type": "layers", "diff_ids": [f"sha256:{hashlib.sha256(_LAYER).hexdigest()}"]}}
).encode()
_BLOBS = {f"sha256:{hashlib.sha256(one).hexdigest()}": one for one in (_CONFIG, _LAYER)}


@asynccontextmanager
async def refusing_registry(node_folders: Iterable[Path], folder: Path) -> AsyncIterator[None]:
    """Serve until the context is left.

    Args:
        node_folders: Of the nodes, whose containerd is to know that this registry has no TLS.
        folder: For its certificate.
    """
    for node in node_folders:
        hosts = node / "registries" / f"{GATEWAY}:{_PORT}"
        hosts.mkdir(exist_ok=True)
        (hosts / "hosts.toml").write_text(_HOSTS, encoding="ascii")
    async with AsyncExitStack() as stack:
        for port, context in ((_PORT, None), (_PLAIN, None), (_EARLY, _future(folder))):
            application = web.Application()
            application.router.add_route("*", "/v2/{name}/{kind}/{what}", _answer)
            runner = web.AppRunner(application, access_log=None, shutdown_timeout=1)
            stack.push_async_callback(runner.cleanup)
            await runner.setup()
            await web.TCPSite(runner, GATEWAY, port, ssl_context=context).start()
        yield


async def _answer(request: web.Request) -> web.StreamResponse:
    name = request.match_info["name"]
    if name == "arm":
        platform = {"architecture": "arm64", "os": "linux"}
        manifest = {"mediaType": _MANIFEST, "digest": f"sha256:{'0' * 64}", "size": 2, "platform": platform}
        index = {"schemaVersion": 2, "mediaType": _INDEX, "manifests": [manifest]}
        return web.Response(body=json.dumps(index).encode(), content_type=_INDEX)
    if name == "large":
        return _large(request.match_info["what"])
    return web.Response(status=_STATUS.get(name, 404))


def _large(what: str) -> web.Response:
    """Answer for an image that has a size and nothing else."""
    if what in _BLOBS:
        return web.Response(body=_BLOBS[what], content_type="application/octet-stream")
    parts = [{"digest": digest, "size": len(content)} for digest, content in _BLOBS.items()]
    config = parts[0] | {"mediaType": "application/vnd.oci.image.config.v1+json"}
    layer = parts[1] | {"mediaType": "application/vnd.oci.image.layer.v1.tar"}
    manifest = {"schemaVersion": 2, "mediaType": _MANIFEST, "config": config, "layers": [layer]}
    return web.Response(body=json.dumps(manifest).encode(), content_type=_MANIFEST)


def _future(folder: Path) -> ssl.SSLContext:
    """A context whose certificate is valid from tomorrow on."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, GATEWAY)])
    tomorrow = datetime.datetime.now(datetime.UTC) + datetime.timedelta(days=1)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(tomorrow)
        .not_valid_after(tomorrow + datetime.timedelta(days=1))
        .sign(key, hashes.SHA256())
    )
    path = folder / "registry.pem"
    pem, plain = serialization.Encoding.PEM, serialization.NoEncryption()
    secret = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, plain)
    path.write_bytes(secret + made.public_bytes(pem))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(path)
    return context

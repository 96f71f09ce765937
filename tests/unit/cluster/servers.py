"""A web server on loopback that a test scripts, with the kubeconfig that leads to it."""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import yaml
from aiohttp import web

from actions.cluster.auth.kubeconfig import ClusterTarget
from actions.cluster.auth.session import KubeSession

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


def write_kubeconfig(folder: Path, server: str, user: dict[str, object] | None = None) -> Path:
    """A kubeconfig with one context named `here`."""
    path = folder / "kubeconfig"
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "here",
        "contexts": [{"name": "here", "context": {"cluster": "c1", "user": "me", "namespace": "work"}}],
        "clusters": [{"name": "c1", "cluster": {"server": server}}],
        "users": [{"name": "me", "user": user or {}}],
    }
    path.write_text(yaml.safe_dump(document))
    return path


@asynccontextmanager
async def serving(handler: Handler, *, tls: ssl.SSLContext | None = None) -> AsyncIterator[str]:
    """Serve every request with `handler`; gives the address."""

    async def handle(request: web.Request) -> web.StreamResponse:
        return await handler(request)

    application = web.Application(client_max_size=1 << 26)
    application.router.add_route("*", "/{tail:.*}", handle)
    runner = web.AppRunner(application, shutdown_timeout=0.1, handler_cancellation=True)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls)
    await site.start()
    try:
        host, port = runner.addresses[0][:2]
        yield f"{'https' if tls else 'http'}://{host}:{port}"
    finally:
        await runner.cleanup()


@asynccontextmanager
async def session_to(
    handler: Handler, folder: Path, *, user: dict[str, object] | None = None, readonly: bool = False
) -> AsyncIterator[KubeSession]:
    """A session with a server of its own."""
    async with serving(handler) as address:
        target = ClusterTarget(kubeconfig=write_kubeconfig(folder, address, user))
        session = await KubeSession.connect(target, readonly=readonly, is_vouched_for=True)
        try:
            yield session
        finally:
            await session.aclose()

"""The sandbox as one running server: API, controllers and AWS account, from start to end or until it is idle."""

from __future__ import annotations

import asyncio
import errno
import socket
import ssl
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import Any, TypeAlias
from weakref import WeakSet

import msgspec
from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

from actions.base.clock import Clock, SystemClock
from actions.base.errors import ConfigError
from actions.cluster.auth.kubeconfig import ClusterTarget
from actions.cluster.auth.session import KubeSession
from actions.sandbox.apiserver.app import create_app
from actions.sandbox.apiserver.requests.access import ADMINISTRATOR, User
from actions.sandbox.apiserver.requests.request_info import CONTROLLER_AGENT
from actions.sandbox.apiserver.storage.store import Store
from actions.sandbox.apiserver.writes.admission import AdmissionPlugin
from actions.sandbox.audit import AuditLog
from actions.sandbox.certificate import make_certificate
from actions.sandbox.faults.middleware import FaultMiddleware
from actions.sandbox.faults.panel import FaultPanel
from actions.sandbox.faults.routes import add_fault_routes
from actions.sandbox.model.keys import AccessKey, make_keys
from actions.sandbox.model.kubelet_api import KubeletApi
from actions.sandbox.model.options import SandboxOptions
from actions.sandbox.statefiles import (
    VIEWER,
    remove_process,
    write_credentials,
    write_kubeconfig,
    write_process,
    write_terraform,
)

_POLL_SECONDS = 5.0


class IdleTracker:
    """A counter of clients' requests; an open watch is use for as long as it is open.

    Args:
        clock: For the time since the last use.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._open = 0
        self._last_used = clock.monotonic()

    def middleware(self) -> Middleware:
        """Return the middleware that counts; it has to be the outermost of the server."""

        @web.middleware
        async def count(request: web.Request, handler: Handler) -> web.StreamResponse:
            if request.headers.get("User-Agent", "").startswith(CONTROLLER_AGENT):
                return await handler(request)
            self._open += 1
            try:
                return await handler(request)
            finally:
                self._open -= 1
                self._last_used = self._clock.monotonic()

        return count

    def idle_seconds(self) -> float:
        """Return how long no client has made a request; 0 while one is open."""
        return 0.0 if self._open else self._clock.monotonic() - self._last_used

    async def idle_for(self, seconds: float) -> None:
        """Wait until the sandbox has been idle for this long."""
        while (left := seconds - self.idle_seconds()) > 0:
            await self._clock.sleep(min(left, _POLL_SECONDS))


HOST = "127.0.0.1"
AWS_PREFIX = "/aws"
_SHUTDOWN_SECONDS = 0.5
_END_SECONDS, _NOTE_SECONDS = 5.0, 0.001
_CLOSED = -1
"""The number of a socket's file when it has none."""
_NO_FILES = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})
_LOCAL_HOSTS = frozenset({"127.0.0.1", "localhost"})

StartControllers: TypeAlias = Callable[[KubeSession], AbstractAsyncContextManager[None]]
"""Starts the controllers and the kubelet on a session; entered once the API server answers."""
StartAws: TypeAlias = Callable[[KubeSession, AccessKey, bytes], web.Application]
"""Makes the account of a session's cluster, by the key that it takes and the cluster's certificate authority in PEM."""


class SandboxParts(msgspec.Struct, frozen=True):
    """The parts that the server puts together. Without controllers nothing happens; without AWS it has no endpoint."""

    kubelet: KubeletApi
    controllers: StartControllers | None = None
    aws: StartAws | None = None
    webhooks: Sequence[AdmissionPlugin] = ()
    """The admission webhooks of operators."""
    panel: FaultPanel = msgspec.field(default_factory=lambda: FaultPanel(SystemClock()))
    """The faults; the panel's clock is the cluster's."""
    store: Store = msgspec.field(default_factory=Store)


class RunningServer(msgspec.Struct, frozen=True):
    """A server that answers. `url` (https) and `aws_endpoint_url` (http) have no trailing slash."""

    url: str
    aws_endpoint_url: str
    """Empty without AWS."""
    kubeconfig: Path
    activity: IdleTracker


@asynccontextmanager
async def serving(
    folder: Path, options: SandboxOptions, parts: SandboxParts, *, port: int = 0, clock: Clock | None = None
) -> AsyncIterator[RunningServer]:
    """Serve until the context is left. `process.json` stands in `folder` exactly while the server can be used.

    Args:
        folder: The sandbox's own, private.
        options: Names and delays.
        parts: The kubelet, and the parts that are optional.
        port: The Kubernetes API's, on 127.0.0.1; 0 for any. AWS is at any other.
        clock: Measures idleness.

    Raises:
        ConfigError: The port is taken.
    """
    time = clock or SystemClock()
    activity = IdleTracker(time)
    async with AsyncExitStack() as stack:
        listener = stack.enter_context(_bound(port))
        url = f"https://{HOST}:{listener.getsockname()[1]}"
        arn = f"arn:aws:eks:{options.region}:{options.account}:cluster/{options.cluster_name}"
        keys, certificate = make_keys(), make_certificate(time)
        kubeconfig = write_kubeconfig(folder, url=url, authority=certificate.authority, cluster=arn, keys=keys)
        write_credentials(folder, keys.access_key)
        write_terraform(folder)
        session = await KubeSession.connect(ClusterTarget(kubeconfig=kubeconfig), user_agent=CONTROLLER_AGENT)
        stack.push_async_callback(session.aclose)
        fault_middleware = FaultMiddleware(parts.panel)
        app = create_app(
            parts.store,
            parts.kubelet,
            fault_middleware,
            clock=parts.panel.clock,
            tokens={keys.administrator: ADMINISTRATOR, keys.viewer: User(VIEWER)},
            access_key=keys.access_key,
            webhooks=parts.webhooks,
        )
        add_fault_routes(app, fault_middleware)
        audit = AuditLog(folder, time)
        app.middlewares[:0] = [_only_local, activity.middleware(), audit.of_cluster()]
        await stack.enter_async_context(_answering(app, listener, certificate.tls))
        aws_endpoint_url = ""
        if parts.aws is not None:
            account = parts.aws(session, keys.access_key, certificate.authority)
            aws_endpoint_url = await stack.enter_async_context(_account(account, activity, audit))
        if parts.controllers is not None:
            await stack.enter_async_context(parts.controllers(session))
        server = RunningServer(url, aws_endpoint_url, kubeconfig, activity)
        write_process(folder, url=url, kubeconfig=kubeconfig, aws_endpoint_url=aws_endpoint_url, speed=options.speed)
        stack.callback(remove_process, folder)
        yield server


class Listener(socket.socket):
    """A listening socket that lets its loop pause when no more files can be opened, and ends what it has accepted.

    `asyncio` of Python 3.11 pauses for a second, but accepts once for every place of the backlog before that, and
    logs a traceback each time. Source: CPython `Lib/asyncio/selector_events.py`, `_accept_connection`.
    """

    def __init__(self) -> None:
        super().__init__(socket.AF_INET, socket.SOCK_STREAM)
        self._is_refused = False
        self._accepted: WeakSet[socket.socket] = WeakSet()

    def accept(self) -> tuple[socket.socket, Any]:
        if self._is_refused:
            self._is_refused = False
            raise BlockingIOError
        try:
            accepted, address = super().accept()
        except OSError as error:
            self._is_refused = error.errno in _NO_FILES
            raise
        self._accepted.add(accepted)
        return accepted, address

    async def end_accepted(self) -> None:
        """End the connections that are still open, and give the loop a moment to take note.

        A server that ends closes only those that it has been told of, and that is after the TLS handshake.
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + _END_SECONDS
        while (left := [one for one in self._accepted if one.fileno() != _CLOSED]) and loop.time() < deadline:
            for one in left:
                with suppress(OSError):  # the other end has gone
                    one.shutdown(socket.SHUT_RDWR)
            await asyncio.sleep(_NOTE_SECONDS)


def _bound(port: int) -> Listener:
    listener = Listener()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((HOST, port))
    except OSError as error:
        listener.close()
        hint = "Choose another --port, or 0 for any."
        raise ConfigError(f"Port {port} of {HOST} cannot be used: {error.strerror}.", hint=hint) from error
    return listener


@asynccontextmanager
async def _account(account: web.Application, activity: IdleTracker, audit: AuditLog) -> AsyncIterator[str]:
    """Answer for AWS, where requests are signed and so go without TLS; the address."""
    app = web.Application(middlewares=[_only_local, activity.middleware(), audit.of_account()])
    app.add_subapp(AWS_PREFIX, account)
    with _bound(0) as listener:
        async with _answering(app, listener):
            yield f"http://{HOST}:{listener.getsockname()[1]}{AWS_PREFIX}"


@asynccontextmanager
async def _answering(
    app: web.Application, listener: Listener, tls: ssl.SSLContext | None = None
) -> AsyncIterator[None]:
    """Serve the application; on the way out, open watches are cut after a moment."""
    runner = web.AppRunner(app, access_log=None, handler_cancellation=True, shutdown_timeout=_SHUTDOWN_SECONDS)
    await runner.setup()
    try:
        await web.SockSite(runner, listener, backlog=512, ssl_context=tls).start()
        yield
    finally:
        asyncio.get_running_loop().remove_reader(listener.fileno())
        await asyncio.sleep(0)  # asyncio of Python 3.11 forgets connections whose server is closed before they begin
        await runner.cleanup()
        await listener.end_accepted()


@web.middleware
async def _only_local(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Refuse a request that a web page elsewhere made a browser on this machine send (DNS rebinding)."""
    host = request.host.rpartition(":")[0] if ":" in request.host else request.host
    if host not in _LOCAL_HOSTS or "Origin" in request.headers:
        raise web.HTTPForbidden(text="this server is for programs on this machine")
    return await handler(request)

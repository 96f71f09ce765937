"""The sandbox as one running server: API, actors and cloud, from start to end."""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from pathlib import Path
from secrets import token_urlsafe
from typing import TypeAlias

import msgspec
from aiohttp import web
from aiohttp.typedefs import Handler

from actions.base.clock import Clock, SystemClock
from actions.base.errors import ConfigError
from actions.cluster.kubeconfig import ClusterTarget
from actions.cluster.session import KubeSession
from actions.sandbox.activity import ACTOR_AGENT, Activity
from actions.sandbox.api.access import User
from actions.sandbox.api.admission import Admission
from actions.sandbox.api.application import create_app
from actions.sandbox.api.store import Store
from actions.sandbox.faults.bystander import Bystander
from actions.sandbox.faults.control import add_control
from actions.sandbox.faults.panel import FaultPanel
from actions.sandbox.options import SandboxOptions
from actions.sandbox.ports import KubeletPort
from actions.sandbox.statefiles import VIEWER, remove_process, write_credentials, write_kubeconfig, write_process

HOST = "127.0.0.1"
CLOUD_PREFIX = "/aws"
_SHUTDOWN_SECONDS = 0.5
_LOCAL_HOSTS = frozenset({"127.0.0.1", "localhost"})

StartActors: TypeAlias = Callable[[KubeSession], AbstractAsyncContextManager[None]]
"""Starts the controllers and the kubelet on a session; entered once the world is there."""


class Parts(msgspec.Struct, frozen=True):
    """The rooms that the server puts together. Without actors nothing happens; without a cloud AWS answers nothing."""

    kubelet: KubeletPort
    actors: StartActors | None = None
    cloud: Callable[[KubeSession], web.Application] | None = None
    webhooks: Sequence[Admission] = ()
    """Of operators."""
    panel: FaultPanel = msgspec.field(default_factory=lambda: FaultPanel(SystemClock()))
    """What goes wrong; its clock is the cluster's."""
    store: Store = msgspec.field(default_factory=Store)


class RunningServer(msgspec.Struct, frozen=True):
    """A server that answers. `url` and `aws_endpoint_url` have no trailing slash."""

    url: str
    aws_endpoint_url: str
    kubeconfig: Path
    activity: Activity


@asynccontextmanager
async def serving(
    folder: Path, options: SandboxOptions, parts: Parts, *, port: int = 0, clock: Clock | None = None
) -> AsyncIterator[RunningServer]:
    """Serve until the context is left. `process.json` stands in `folder` exactly while the server can be used.

    Args:
        folder: Private, the sandbox's own.
        options: What the world is called, and how fast it turns.
        parts: The rooms.
        port: On 127.0.0.1; 0 for any.
        clock: For idleness.

    Raises:
        ConfigError: The port is taken.
    """
    time = clock or SystemClock()
    activity = Activity(time)
    async with AsyncExitStack() as stack:
        listener = stack.enter_context(_bound(port))
        url = f"http://{HOST}:{listener.getsockname()[1]}"
        arn = f"arn:aws:eks:{options.region}:{options.account}:cluster/{options.cluster_name}"
        viewer_token = token_urlsafe()
        kubeconfig = write_kubeconfig(folder, url=url, cluster=arn, viewer_token=viewer_token)
        write_credentials(folder)
        session = await KubeSession.connect(ClusterTarget(kubeconfig=kubeconfig), user_agent=ACTOR_AGENT)
        stack.push_async_callback(session.aclose)
        bystander = Bystander(parts.panel)
        tokens = {viewer_token: User(VIEWER)}
        app = create_app(
            parts.store, parts.kubelet, bystander, clock=parts.panel.clock, tokens=tokens, webhooks=parts.webhooks
        )
        add_control(app, bystander)
        app.middlewares[:0] = [_only_local, activity.middleware()]
        if parts.cloud is not None:
            app.add_subapp(CLOUD_PREFIX, parts.cloud(session))
        await stack.enter_async_context(_answering(app, listener))
        if parts.actors is not None:
            await stack.enter_async_context(parts.actors(session))
        server = RunningServer(url, url + CLOUD_PREFIX, kubeconfig, activity)
        write_process(
            folder, url=url, kubeconfig=kubeconfig, aws_endpoint_url=server.aws_endpoint_url, speed=options.speed
        )
        stack.callback(remove_process, folder)
        yield server


def _bound(port: int) -> socket.socket:
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((HOST, port))
    except OSError as error:
        listener.close()
        hint = "Choose another --port, or 0 for any."
        raise ConfigError(f"Port {port} of {HOST} cannot be used: {error.strerror}.", hint=hint) from error
    return listener


@asynccontextmanager
async def _answering(app: web.Application, listener: socket.socket) -> AsyncIterator[None]:
    """Serve the application; on the way out, open watches are cut after a moment."""
    runner = web.AppRunner(app, access_log=None, handler_cancellation=True, shutdown_timeout=_SHUTDOWN_SECONDS)
    await runner.setup()
    try:
        await web.SockSite(runner, listener, backlog=512).start()
        yield
    finally:
        await runner.cleanup()


@web.middleware
async def _only_local(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Refuse what a web page elsewhere made a browser on this machine ask for (DNS rebinding)."""
    host = request.host.rpartition(":")[0] if ":" in request.host else request.host
    if host not in _LOCAL_HOSTS or "Origin" in request.headers:
        raise web.HTTPForbidden(text="this server is for programs on this machine")
    return await handler(request)

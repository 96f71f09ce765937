"""`eksml-tui serve`: the console in a browser on this machine, by Textual's own server (the extra `serve`).

Each page that is opened has a console process of its own. The address holds a random token, and no request is answered
without it; nothing listens but 127.0.0.1. Other users of the machine cannot guess the token, other sites cannot make a
browser use it: host and origin of every request are compared, too, and the page loads nothing from elsewhere.

Source: textual-serve 1.1.3, `server.py` and `app_service.py`.
"""

from __future__ import annotations

import asyncio
import hmac
import secrets
import shlex
import signal
import socket
import sys
from argparse import Namespace
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import msgspec

from actions.base.errors import ConfigError
from actions.base.numbers import MOST_DIGITS, whole

if TYPE_CHECKING:
    from aiohttp import WSMessage, web

_HOST = "127.0.0.1"
_NAMES = (_HOST, "localhost")
_MOST_CONSOLES = 8
_MOST_CELLS = 1000
"""Columns, and rows, of a page."""
_SHUTDOWN_SECONDS = 3.0
_TOKEN_BYTES = 24
_MISSING = "The console in a browser needs textual-serve, which is not installed."
_HEADERS = {
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Cache-Control": "no-store",
    "Content-Security-Policy": "; ".join(
        (
            "default-src 'none'",
            "script-src 'self' 'unsafe-inline'",
            "style-src 'self' 'unsafe-inline'",
            "font-src 'self' data:",
            "img-src 'self' data:",
            "connect-src 'self' ws:",
            "frame-ancestors 'none'",
            "base-uri 'none'",
            "form-action 'none'",
        )
    ),
}
"""`unsafe-inline` is for the page's own script; without `default-src` its font would be fetched from another site."""


def run(options: Namespace) -> int:
    """Print the address, and serve until the process is interrupted.

    Raises:
        ConfigError: textual-serve is not installed, or the port is taken.
    """
    try:
        import textual_serve.server
    except ImportError as error:
        raise ConfigError(_MISSING, hint='Install it: uv tool install "eksml-tui[serve]".') from error
    del textual_serve
    listening = _bound(options.port)
    try:
        return asyncio.run(_serve(console_command(options), listening, secrets.token_urlsafe(_TOKEN_BYTES)))
    finally:
        listening.close()


def console_command(options: Namespace) -> list[str]:
    """Return the command line of a console with the same options; read-only unless changes were allowed."""
    argv = [sys.executable, "-P", "-m", "tui.cli"]
    for name in ("kubeconfig", "context", "namespace", "profile", "region", "prices", "theme", "run"):
        value = getattr(options, name)
        if value:
            argv += [f"--{name}", str(value)]
    for name, given in (("blueprints", options.blueprints), ("allow-plugin", options.allow_plugin)):
        for value in given:
            argv += [f"--{name}", str(value)]
    if options.contexts:
        argv += ["--contexts", ",".join(options.contexts)]
    if options.demo:
        argv.append("--demo")
        argv += ["--speed", str(options.speed)] if options.speed else []
    if options.readonly or not options.allow_changes:
        argv.append("--readonly")
    return argv


def _bound(port: int) -> socket.socket:
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((_HOST, port))
    except OSError as error:
        listening.close()
        raise ConfigError(
            f"Port {port} cannot be used: {error.strerror}.", hint="Omit --port for a free one."
        ) from error
    return listening


async def _serve(argv: Sequence[str], listening: socket.socket, token: str) -> int:
    from aiohttp import web

    port = listening.getsockname()[1]
    runner = web.AppRunner(await _application(argv, port, token), access_log=None, shutdown_timeout=_SHUTDOWN_SECONDS)
    ended = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        loop.add_signal_handler(number, ended.set)
    await runner.setup()
    try:
        await web.SockSite(runner, listening).start()
        sys.stdout.write(f"http://{_HOST}:{port}/{token}/\n")
        sys.stdout.flush()
        await ended.wait()
    finally:
        with suppress(TimeoutError):
            async with asyncio.timeout(2 * _SHUTDOWN_SECONDS):
                await runner.cleanup()
    return 0


async def _application(argv: Sequence[str], port: int, token: str) -> web.Application:
    """Return Textual's application below the token, behind the guard."""
    from aiohttp import web
    from textual_serve.server import Server

    class ConsoleServer(Server):  # type: ignore[misc]  # the library has no types
        """Textual's server, without its greeting, and with nothing taken that its own page does not send."""

        async def on_startup(self, app: web.Application) -> None:
            """Print nothing: stdout has the address alone."""

        async def _process_messages(self, websocket: web.WebSocketResponse, app_service: Any) -> None:
            await super()._process_messages(_SoundMessages(websocket), app_service)

    server = ConsoleServer(f"exec {shlex.join(argv)}", host=_HOST, port=port, title="eksml-tui")
    inside = await server._make_app()  # noqa: SLF001 - `serve` of the library names no address and logs to stdout
    outside = web.Application(middlewares=[_guard(port, token)])
    outside.on_response_prepare.append(_add_headers)
    outside.add_subapp(f"/{token}", inside)
    return outside


class _SoundMessages:
    """The messages of a browser, up to the first one that Textual's page does not send: that one closes it."""

    def __init__(self, websocket: web.WebSocketResponse) -> None:
        self._websocket = websocket
        self.send_json = websocket.send_json

    async def __aiter__(self) -> AsyncIterator[WSMessage]:
        from aiohttp import WSCloseCode, WSMsgType

        async for message in self._websocket:
            if message.type == WSMsgType.TEXT and not _is_sound(message.data):
                sys.stderr.write("eksml-tui: A browser has sent what no page of this console sends. It is closed.\n")
                await self._websocket.close(code=WSCloseCode.INVALID_TEXT)
                return
            yield message


def _is_sound(text: str) -> bool:
    try:
        match msgspec.json.decode(text):
            case ["stdin", str()] | ["blur" | "focus", *_] | ["ping", _]:
                return True
            case ["resize", {"width": int(width), "height": int(height)}]:
                return 0 < width <= _MOST_CELLS and 0 < height <= _MOST_CELLS
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        pass
    return False


def _guard(port: int, token: str) -> Callable[..., Awaitable[web.StreamResponse]]:
    """Return the middleware that answers nothing without the token, and nothing to pages of other sites."""
    from aiohttp import web

    hosts = {f"{name}:{port}" for name in _NAMES}
    origins = {f"http://{host}" for host in hosts}
    consoles = 0

    @web.middleware
    async def guard(
        request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
    ) -> web.StreamResponse:
        nonlocal consoles
        origin = request.headers.get("Origin", "").lower()
        if request.headers.get("Host", "").lower() not in hosts or (origin and origin not in origins):
            return _refused(403, "Only pages of this machine may use this address.\n")
        given = request.path.split("/", 2)[1]
        if not hmac.compare_digest(given.encode("utf-8", "replace"), token.encode()):
            return _refused(401, "The address needs the token that eksml-tui serve has printed.\n")
        is_console = request.path == f"/{token}/ws"
        if is_console and consoles >= _MOST_CONSOLES:
            return _refused(503, f"{_MOST_CONSOLES} consoles are open already.\n")
        if is_console and any(
            len(size) > MOST_DIGITS or (whole(size) or 0) > _MOST_CELLS for size in request.query.values()
        ):
            return _refused(400, "A console has no such size.\n")
        consoles += is_console
        try:
            return await handler(request)
        finally:
            consoles -= is_console

    return guard


async def _add_headers(_request: web.Request, response: web.StreamResponse) -> None:
    response.headers.update(_HEADERS)


def _refused(status: int, text: str) -> web.Response:
    from aiohttp import web

    return web.Response(status=status, text=text)

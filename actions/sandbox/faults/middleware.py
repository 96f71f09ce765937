"""The fault middleware: refuses, cuts, delays or spoils the answers of a running server."""

from __future__ import annotations

from collections.abc import AsyncIterator

import msgspec
from aiohttp import web
from aiohttp.typedefs import Handler

from actions.sandbox.apiserver.requests.access import rbac_forbidden
from actions.sandbox.apiserver.requests.bodies import error_response
from actions.sandbox.apiserver.requests.fault_hook import FaultHook
from actions.sandbox.apiserver.requests.request_info import CONTROLLER_AGENT, RequestInfo, request_info_of
from actions.sandbox.apiserver.storage.codec import encode
from actions.sandbox.apiserver.storage.errors import StatusError, expired
from actions.sandbox.faults.fault import DISTORTIONS, REFUSALS, Fault, FaultKind
from actions.sandbox.faults.panel import ActiveFault, FaultPanel

_PAGE = (
    "<html>\r\n<head><title>502 Bad Gateway</title></head>\r\n<body>\r\n<center><h1>502 Bad Gateway</h1></center>\r\n"
    "<hr><center>nginx</center>\r\n</body>\r\n</html>\r\n"
)


def refusal_response(fault: Fault, info: RequestInfo) -> web.Response:
    """Return the answer in the server's place."""
    if fault.kind is FaultKind.BAD_GATEWAY:
        return web.Response(text=_PAGE, status=502, content_type="text/html")
    return error_response(_status(fault, info))


def error_event(fault: Fault, info: RequestInfo) -> bytes:
    """Return the same as the last event of a watch."""
    return b'{"type":"ERROR","object":%b}\n' % encode(_status(fault, info).body())


def _status(fault: Fault, info: RequestInfo) -> StatusError:
    match fault.kind:
        case FaultKind.EXPIRED:
            return expired("The provided resource version or continue parameter is too old.")
        case FaultKind.THROTTLED:
            message = "the server has received too many requests and has asked us to try again later"
            return StatusError(429, "TooManyRequests", message, retry_after_seconds=fault.retry_after_seconds)
        case FaultKind.FORBIDDEN:
            return rbac_forbidden(info, "someone")
        case FaultKind.UNAUTHORIZED:
            return StatusError(401, "Unauthorized", "Unauthorized")
    return StatusError(500, "InternalError", "Internal error occurred: a fault of the sandbox")


_PIECE_BYTES = 16_384


class FaultMiddleware(FaultHook):
    """Applies the panel's faults to a server's answers (a `FaultHook`).

    Args:
        panel: The faults that are on.
    """

    def __init__(self, panel: FaultPanel) -> None:
        self.panel = panel
        self._calls: set[_OpenRequest] = set()

    def add(self, fault: Fault) -> ActiveFault:
        """Turn a fault on. A cut without `after_bytes` also breaks the connections that are open.

        Raises:
            InputError: Its numbers make no sense.
        """
        active = self.panel.add(fault)
        if fault.kind is FaultKind.CUT and not fault.after_bytes:
            for call in list(self._calls):
                if not active.is_spent and active.fault.matches(call.info):
                    active.hits += 1
                    _cut(call.request)
        return active

    async def wrap_request(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Answer a request, refused or spoilt by the faults that hit it."""
        call = _OpenRequest(request, _request_info(request))
        info = call.info
        self._calls.add(call)
        try:
            hit = self.panel.hit(info, REFUSALS)
            if hit is not None:
                return refusal_response(hit.fault, info)
            response = await handler(request)
            if type(response) is not web.Response:
                return response
            hit = self.panel.hit(info, DISTORTIONS)
            return response if hit is None else await self._send_distorted(request, response, hit)
        finally:
            self._calls.discard(call)

    async def wrap_stream(self, request: web.Request, chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        """Yield the chunks of a stream that are to reach the client."""
        info = _request_info(request)
        hold: _StreamFault | None = None
        async for chunk in chunks:
            refused = self.panel.hit(info, REFUSALS, in_stream=True) if info.verb == "watch" else None
            if refused is not None:
                yield error_event(refused.fault, info)
                return
            if hold is None or hold.is_over:
                hit = self.panel.hit(info, DISTORTIONS)
                hold = _StreamFault(self.panel, hit, request) if hit is not None else None
            if hold is None:
                yield chunk
                continue
            async for piece in hold.apply(chunk):
                yield piece
            if hold.is_end:
                return

    async def _send_distorted(self, request: web.Request, whole: web.Response, hit: ActiveFault) -> web.StreamResponse:
        """Send a complete answer in pieces; its announced length stays that of the whole."""
        body = whole.body if isinstance(whole.body, bytes) else b""
        response = web.StreamResponse(status=whole.status, headers=whole.headers)
        response.content_length = len(body)
        hold = _StreamFault(self.panel, hit, request)
        size = len(body) or 1 if hit.fault.kind is FaultKind.SLOW else _PIECE_BYTES
        for start in range(0, len(body), size):
            async for piece in hold.apply(body[start : start + size]):
                if not response.prepared:
                    await response.prepare(request)
                await response.write(piece)
        await response.prepare(request)
        await response.write_eof()
        return response


class _OpenRequest(msgspec.Struct, frozen=True, eq=False):
    """A request that is being answered."""

    request: web.Request
    info: RequestInfo


class _StreamFault:
    """The effect of a fault on one stream."""

    def __init__(self, panel: FaultPanel, hit: ActiveFault, request: web.Request) -> None:
        self._panel = panel
        self._hit = hit
        self._request = request
        self._room = hit.fault.after_bytes
        self.is_end = False
        """True if the stream ends here, though the server has more to send."""

    @property
    def is_over(self) -> bool:
        return self._hit.lifted.is_set()

    async def apply(self, chunk: bytes) -> AsyncIterator[bytes]:
        """Yield the part of the next chunk that is to reach the client.

        Raises:
            ConnectionResetError: The connection has been cut.
        """
        fault = self._hit.fault
        if fault.kind is FaultKind.SLOW:
            await self._panel.hold(self._hit, fault.delay_seconds)
            yield chunk
            return
        passing, held = chunk[: self._room], chunk[self._room :]
        self._room -= len(passing)
        if passing:
            yield passing
        if not held:
            return
        if fault.kind is FaultKind.SHORT_LOG:
            self.is_end = True
        elif fault.kind is FaultKind.CUT:
            _cut(self._request)
            raise ConnectionResetError(f"cut by the fault {fault.name}")
        else:
            await self._panel.hold(self._hit)
            self._panel.lift(fault.name)
            yield held


def _request_info(request: web.Request) -> RequestInfo:
    is_controller = request.headers.get("User-Agent", "").startswith(CONTROLLER_AGENT)
    return request_info_of(request.method, request.path, request.query, is_controller=is_controller)


def _cut(request: web.Request) -> None:
    """End the connection in order, as a reset might take with it what is on its way."""
    if request.transport is not None:
        request.transport.close()

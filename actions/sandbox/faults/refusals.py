"""What a server, or a proxy before it, answers when it refuses."""

from __future__ import annotations

from aiohttp import web

from actions.sandbox.api.access import forbidden
from actions.sandbox.api.codec import encode
from actions.sandbox.api.messages import fault_response
from actions.sandbox.api.question import Question
from actions.sandbox.api.status import ApiFault, expired
from actions.sandbox.faults.fault import Fault, FaultKind

_PAGE = (
    "<html>\r\n<head><title>502 Bad Gateway</title></head>\r\n<body>\r\n<center><h1>502 Bad Gateway</h1></center>\r\n"
    "<hr><center>nginx</center>\r\n</body>\r\n</html>\r\n"
)


def refusal(fault: Fault, question: Question) -> web.Response:
    """The answer in the server's place."""
    if fault.kind is FaultKind.BAD_GATEWAY:
        return web.Response(text=_PAGE, status=502, content_type="text/html")
    return fault_response(_status(fault, question))


def error_event(fault: Fault, question: Question) -> bytes:
    """The same as the last event of a watch."""
    return b'{"type":"ERROR","object":%b}\n' % encode(_status(fault, question).body())


def _status(fault: Fault, question: Question) -> ApiFault:
    match fault.kind:
        case FaultKind.EXPIRED:
            return expired("The provided resource version or continue parameter is too old.")
        case FaultKind.THROTTLED:
            message = "the server has received too many requests and has asked us to try again later"
            return ApiFault(429, "TooManyRequests", message, retry_after_seconds=fault.retry_after_seconds)
        case FaultKind.FORBIDDEN:
            return forbidden(question, "somebody")
        case FaultKind.UNAUTHORIZED:
            return ApiFault(401, "Unauthorized", "Unauthorized")
    return ApiFault(500, "InternalError", "Internal error occurred: the sandbox has been told to fail")

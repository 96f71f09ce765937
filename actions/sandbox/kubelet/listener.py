"""What answers on the ports of a container: its program, or else a page for HTTP and an echo for everything else."""

from __future__ import annotations

import re
from http import HTTPStatus

from actions.sandbox.kubelet_api import PortStream
from actions.sandbox.workloads.network import Answer, Service

_LENGTH = re.compile(rb"\r\ncontent-length: *(\d{1,9})", re.IGNORECASE)
_LONGEST_BODY = 1 << 20
_HTTP = re.compile(rb"^(?P<method>GET|HEAD|POST|PUT|DELETE|OPTIONS) (?P<path>\S+) HTTP/1\.[01]\r?$", re.MULTILINE)


async def answer(stream: PortStream, *, pod: str, port: int, service: Service | None = None) -> None:
    """Serve one connection until it is closed.

    Args:
        stream: The client.
        pod: Named in the page.
        port: Named in the page.
        service: What the container's program serves there, if it does.
    """
    while data := await stream.read():
        request = _HTTP.match(data)
        if request is None:
            await stream.write(data)
            continue
        path = request["path"].decode("latin-1")
        has_body = data[:4] != b"HEAD"
        if service is None:
            said = Answer(200, f"{pod}:{port}{path}\n".encode(), "text/plain")
        else:
            said = service.answer(request["method"].decode(), path, await _body(stream, data))
        await stream.write(_response(said, has_body=has_body))
        return


async def _body(stream: PortStream, data: bytes) -> bytes:
    """What follows the head of a request, as long as it says."""
    head, _, body = data.partition(b"\r\n\r\n")
    told = _LENGTH.search(head)
    length = min(int(told[1]), _LONGEST_BODY) if told else 0
    while len(body) < length and (more := await stream.read()):
        body += more
    return body[:length]


def _response(said: Answer, *, has_body: bool) -> bytes:
    head = (
        f"HTTP/1.1 {said.status} {HTTPStatus(said.status).phrase}\r\nContent-Type: {said.content_type}\r\n"
        f"Content-Length: {len(said.body)}\r\nConnection: close\r\n\r\n"
    )
    return head.encode() + (said.body if has_body else b"")

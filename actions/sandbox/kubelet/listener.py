"""What answers on the ports that a container declares: a page for HTTP, an echo for everything else."""

from __future__ import annotations

import re

from actions.sandbox.ports import PortStream

_HTTP = re.compile(rb"^(?:GET|HEAD|POST|PUT|DELETE|OPTIONS) (?P<path>\S+) HTTP/1\.[01]\r?$", re.MULTILINE)


async def answer(stream: PortStream, *, pod: str, port: int) -> None:
    """Serve one connection until it is closed.

    Args:
        stream: The client.
        pod: Named in the page.
        port: Named in the page.
    """
    while data := await stream.read():
        request = _HTTP.match(data)
        if request is not None:
            await stream.write(_page(pod, port, request["path"].decode("latin-1"), has_body=data[:4] != b"HEAD"))
            return
        await stream.write(data)


def _page(pod: str, port: int, path: str, *, has_body: bool) -> bytes:
    body = f"{pod}:{port}{path}\n".encode()
    head = f"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    return head.encode() + (body if has_body else b"")

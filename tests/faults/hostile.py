"""A server that a Kubernetes client should survive: it answers as it likes, over real sockets, byte by byte."""

from __future__ import annotations

import json
import re
import socket
import threading
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

BLOCK = b"x" * (1 << 18)
_NODE = {
    "apiVersion": "v1",
    "kind": "Node",
    "metadata": {"name": "node-1", "uid": "u-1", "resourceVersion": "1", "labels": {}},
    "spec": {},
    "status": {"conditions": [{"type": "Ready", "status": "True"}], "allocatable": {"cpu": "4"}},
}


class Request:
    """One request, and the socket to answer on."""

    def __init__(self, connection: socket.socket, path: str, server: Hostile) -> None:
        parts = urlsplit(path)
        self.connection = connection
        self.path = parts.path
        self.query = {name: values[0] for name, values in parse_qs(parts.query).items()}
        self.server = server

    @property
    def is_watch(self) -> bool:
        """True if it is to be a stream."""
        return self.query.get("watch") == "true"

    def send(self, data: bytes) -> None:
        """Send raw bytes."""
        self.connection.sendall(data)

    def answer(self, body: object, *, code: int = 200, headers: str = "") -> None:
        """A whole answer; text and bytes as they are, the rest as JSON."""
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        kind = "Content-Type: application/json\r\n"
        self.send(f"HTTP/1.1 {code} X\r\n{kind}Content-Length: {len(data)}\r\n{headers}\r\n".encode() + data)

    def begin(self, headers: str = "") -> None:
        """The head of a body without a length."""
        kind = "Content-Type: application/json\r\n"
        self.send(f"HTTP/1.1 200 OK\r\n{kind}Connection: close\r\n{headers}\r\n".encode())

    def hold(self) -> None:
        """Send nothing more until the other side goes, or the server ends."""
        self.connection.settimeout(0.2)
        while not self.server.is_closing.is_set():
            with suppress(TimeoutError):
                if not self.connection.recv(1024):
                    return

    def flood(self, block: bytes = BLOCK) -> None:
        """Send the same for ever."""
        while not self.server.is_closing.is_set():
            self.send(block)


Answer = Callable[[Request], None]


class Hostile:
    """Answers every request with `answer`, which a test may change; counts requests by path."""

    def __init__(self, answer: Answer) -> None:
        self.answer = answer
        self.requests: list[tuple[float, str]] = []
        self.is_closing = threading.Event()
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=64)
        self._open: set[socket.socket] = set()
        self._accepting = threading.Thread(target=self._accept, daemon=True)
        self._accepting.start()

    @property
    def url(self) -> str:
        """Its address."""
        return f"http://127.0.0.1:{self._listener.getsockname()[1]}"

    def drop_all(self) -> None:
        """Reset every connection that is open."""
        for connection in list(self._open):
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """End it."""
        self.is_closing.set()
        self._listener.close()
        self.drop_all()

    def _accept(self) -> None:
        while not self.is_closing.is_set():
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            self._open.add(connection)
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with suppress(OSError), connection:
            pending = b""
            while not self.is_closing.is_set():
                connection.settimeout(None)
                while b"\r\n\r\n" not in pending:
                    data = connection.recv(1 << 16)
                    if not data:
                        return
                    pending += data
                head, _, pending = pending.partition(b"\r\n\r\n")
                length = re.search(rb"(?im)^content-length: (\d+)", head)
                while length and len(pending) < int(length[1]):
                    pending += connection.recv(1 << 16)
                pending = pending[int(length[1]) :] if length else pending
                path = head.split(b" ")[1].decode()
                self.requests.append((time.monotonic(), path))
                request = Request(connection, path, self)
                self.answer(request)
                if request.is_watch:
                    return
        self._open.discard(connection)


def good(request: Request) -> None:
    """Answer as a small, quiet cluster does."""
    match request.path:
        case "/version":
            request.answer({"gitVersion": "v1.34.0"})
        case "/livez":
            request.answer(b"ok")
        case "/api/v1/namespaces/kube-system":
            request.answer({"metadata": {"name": "kube-system", "uid": "c-1"}})
        case _ if request.is_watch:
            watch(request)
        case _:
            items = [_NODE] if request.path == "/api/v1/nodes" else []
            request.answer({"kind": "List", "metadata": {"resourceVersion": "1"}, "items": items})


def watch(request: Request) -> None:
    """A quiet watch, with the list in front of it where that is asked for."""
    request.begin()
    if request.query.get("sendInitialEvents") == "true":
        if request.path == "/api/v1/nodes":
            request.send(json.dumps({"type": "ADDED", "object": _NODE}).encode() + b"\n")
        end = {"resourceVersion": "1", "annotations": {"k8s.io/initial-events-end": "true"}}
        request.send(json.dumps({"type": "BOOKMARK", "object": {"metadata": end}}).encode() + b"\n")
    request.hold()


def no_watches(request: Request) -> None:
    """Refuse a streamed list as a server does that has none, and every other watch as one that is broken."""
    code = 422 if "sendInitialEvents" in request.query else 500
    request.answer({"code": code, "message": "no watches here"}, code=code)


def endless_event(request: Request) -> None:
    """Watches whose event does not end."""
    if not request.is_watch:
        good(request)
        return
    request.begin()
    request.send(b'{"type":"ADDED","object":{"metadata":{"name":"')
    request.flood()


def endless_list(request: Request) -> None:
    """Lists whose body does not end; no watches."""
    if request.is_watch:
        no_watches(request)
    elif request.path.startswith("/api"):
        request.begin()
        request.send(b'{"metadata":{"resourceVersion":"1"},"items":["')
        request.flood()
    else:
        good(request)


@cache
def _packed(encoding: str, size: int) -> bytes:
    """A list of `size` bytes, packed; without the checksum behind it, which nobody may come to."""
    packer = zlib.compressobj(9, wbits=31 if encoding == "gzip" else 15)
    begin = packer.compress(b'{"metadata":{},"items":["') + packer.flush(zlib.Z_FULL_FLUSH)
    block = packer.compress(BLOCK) + packer.flush(zlib.Z_FULL_FLUSH)  # nothing in it refers to what came before
    return begin + block * (size // len(BLOCK))


def bomb(encoding: str, size: int = 600 << 20) -> Answer:
    """Lists that unpack to `size` bytes; no watches."""
    packed = _packed(encoding, size)

    def answer(request: Request) -> None:
        if request.is_watch:
            no_watches(request)
        elif request.path.startswith("/api"):
            request.answer(packed, headers=f"Content-Encoding: {encoding}\r\n")
        else:
            good(request)

    return answer


def endless_pages(*, has_news: bool) -> Answer:
    """Lists that always say that there is more; no watches."""
    count = iter(range(1 << 60))

    def answer(request: Request) -> None:
        if request.is_watch:
            no_watches(request)
        elif request.path.startswith("/api") and "limit" in request.query:
            number = next(count)
            uid = f"u-{number}" if has_news else "u-1"
            item = _NODE | {"metadata": {"name": f"node-{uid}", "uid": uid}}
            page = {"metadata": {"resourceVersion": "1", "continue": f"t-{number}"}, "items": [item]}
            request.answer(page)
        else:
            good(request)

    return answer


def endless_informational(request: Request) -> None:
    """Answers that only say that they will come."""
    request.flood(b"HTTP/1.1 100 Continue\r\n\r\n" * 100)


def endless_headers(request: Request) -> None:
    """Answers whose head does not end."""
    request.send(b"HTTP/1.1 200 OK\r\n")
    request.flood(b"".join(b"X-%d: y\r\n" % number for number in range(1000)))


def endless_trailers(request: Request) -> None:
    """Streams that end, and whose trailers do not."""
    request.send(
        b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nX-Trailer: "
    )
    request.flood()


@contextmanager
def hostile(answer: Answer) -> Iterator[Hostile]:
    """A server on a free port of 127.0.0.1."""
    server = Hostile(answer)
    try:
        yield server
    finally:
        server.close()


def memory_of(pid: int, field: str = "VmHWM") -> int:
    """MiB of a process: the peak, or `VmRSS` for now; 0 if it is gone."""
    with suppress(OSError):
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith(f"{field}:"):
                return int(line.split()[1]) >> 10
    return 0

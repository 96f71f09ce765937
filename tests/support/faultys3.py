"""S3 with faults: moto behind a proxy that refuses what a test names."""

from __future__ import annotations

import http.client
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit

Refusal = Callable[[str, str], str]
"""Gets method and path of a request; returns the status and code of its refusal, `500 InternalError`, or nothing."""


class FaultyS3:
    """The proxy's address and its way to answer."""

    def __init__(self) -> None:
        self.address = ""
        self.refuses: Refusal = lambda _method, _path: ""
        self.loses: Callable[[str, str], bool] = lambda _method, _path: False
        """Gets method and path of a request; returns whether its answer is lost: the account has got it."""
        self.seen: list[str] = []
        """Method and path of each request."""


@contextmanager
def a_faulty_s3(account: str) -> Iterator[FaultyS3]:
    """Serve on a free port of 127.0.0.1 in front of an account."""
    proxy, target = FaultyS3(), urlsplit(account)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_: Any) -> None:
            return

        def do_GET(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            proxy.seen.append(f"{self.command} {self.path}")
            status, _, code = proxy.refuses(self.command, self.path).partition(" ")
            if status:
                text = f'<?xml version="1.0"?><Error><Code>{code}</Code><Message>injected</Message></Error>'
                self._answer(int(status), {"Content-Type": "application/xml"}, text.encode())
                return
            connection = http.client.HTTPConnection(target.hostname or "", target.port or 0, timeout=120)
            try:
                connection.request(self.command, self.path, body=body, headers=dict(self.headers))
                found = connection.getresponse()
                if proxy.loses(self.command, self.path):
                    self.close_connection = True
                    return
                self._answer(found.status, dict(found.getheaders()), found.read())
            finally:
                connection.close()

        do_HEAD = do_PUT = do_POST = do_DELETE = do_GET  # noqa: N815 - names that the server looks for

        def _answer(self, status: int, headers: dict[str, str], body: bytes) -> None:
            self.send_response(status)
            for name, value in headers.items():
                if name.lower() not in ("connection", "date", "server", "transfer-encoding", "content-length"):
                    self.send_header(name, value)
            length = headers.get("Content-Length", "0") if self.command == "HEAD" else str(len(body))
            self.send_header("Content-Length", length)
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body)

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    proxy.address = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield proxy
    finally:
        server.shutdown()
        server.server_close()
        thread.join()

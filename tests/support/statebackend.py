"""A Terraform state behind HTTP, whose writes and locks a test controls."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class StateBackend:
    """The contents of the backend, and its way to answer."""

    def __init__(self) -> None:
        self.state = b""
        self.lock = b""
        self.fails_writes = False
        self.url = ""

    def addresses(self) -> list[str]:
        """Of the state's resources, without modules and keys."""
        resources = json.loads(self.state)["resources"] if self.state else []
        return [f"{item['type']}.{item['name']}" for item in resources]

    def block(self) -> str:
        """The lines that make a root use it."""
        names = ("address", "lock_address", "unlock_address")
        lines = "".join(f'    {name} = "{self.url}"\n' for name in names)
        return f'terraform {{\n  backend "http" {{\n{lines}    retry_max = 0\n  }}\n}}\n'


@contextmanager
def a_state_backend() -> Iterator[StateBackend]:
    """Serve on a free port of 127.0.0.1."""
    backend = StateBackend()

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *_: Any) -> None:
            return

        def do_GET(self) -> None:
            self._answer(200 if backend.state else 404, backend.state)

        def do_POST(self) -> None:
            body = self._body()
            if backend.fails_writes:
                self._answer(500)
                return
            backend.state = body
            self._answer(200)

        def do_LOCK(self) -> None:
            body = self._body()
            if backend.lock:
                self._answer(423, backend.lock)
                return
            backend.lock = body
            self._answer(200)

        def do_UNLOCK(self) -> None:
            self._body()
            backend.lock = b""
            self._answer(200)

        def _body(self) -> bytes:
            return self.rfile.read(int(self.headers.get("Content-Length") or 0))

        def _answer(self, status: int, body: bytes = b"") -> None:
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    backend.url = f"http://127.0.0.1:{server.server_port}/state"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield backend
    finally:
        server.shutdown()
        server.server_close()
        thread.join()

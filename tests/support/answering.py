"""A server that gives one answer to whatever it is asked, for programs that expect a Kubernetes API."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path


@contextmanager
def answering(code: int, body: str, *, content_type: str = "application/json") -> Iterator[str]:
    """Serve on a free port of 127.0.0.1; gives the address."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            data = body.encode()
            self.send_response(code)
            self.send_header("Content-Type", content_type)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, format: str, *_: object) -> None:
            return

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def status(code: int, reason: str, message: str) -> str:
    """A refusal as an API server words it."""
    return json.dumps({"kind": "Status", "status": "Failure", "code": code, "reason": reason, "message": message})


def write_kubeconfig(file: Path, server: str, *, token: str = "") -> Path:
    """A kubeconfig with one context, `here`."""
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "here",
        "clusters": [{"name": "there", "cluster": {"server": server}}],
        "contexts": [{"name": "here", "context": {"cluster": "there", "user": "me"}}],
        "users": [{"name": "me", "user": {"token": token} if token else {}}],
    }
    file.write_text(json.dumps(document))
    return file

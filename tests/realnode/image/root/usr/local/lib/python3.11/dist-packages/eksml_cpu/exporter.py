"""Exporters of a node's accelerators for a Prometheus: `/metrics` and `/health`.

They have no device of their own, and a container sees no other's processes: all their values are those of idle devices.
"""

from __future__ import annotations

import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


def serve(port: int, metrics: str, opening: str) -> None:
    """Serve until the process is ended.

    Args:
        port: On all addresses.
        metrics: The page, in Prometheus' text format.
        opening: The line on stderr when it listens.
    """

    class Page(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = {"/metrics": metrics, "/health": "OK"}.get(self.path.partition("?")[0])
            self.send_response(404 if body is None else 200)
            self.send_header("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
            self.end_headers()
            self.wfile.write((body or "Not found").encode())

        def log_message(self, *_: object) -> None:
            return

    server = ThreadingHTTPServer(("", port), Page)
    sys.stderr.write(f"{opening}\n")
    server.serve_forever()

"""A module registry on this machine: the protocol of registry.terraform.io, for modules in a folder.

Source: developer.hashicorp.com/terraform/internals/module-registry-protocol. A `host` block of the CLI configuration
leads Terraform to it, so that the roots are used with the sources and versions that they name.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

_BASE = "/v1/modules/"


@contextmanager
def module_registry(folder: Path) -> Iterator[str]:
    """Serve the modules of `folder`, laid out as NAMESPACE/NAME/PROVIDER/VERSION. Gives the service's URL."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            module = folder.joinpath(*self.path.removeprefix(_BASE).split("/")[:3])
            rest = self.path.removeprefix(_BASE).split("/")[3:]
            if not self.path.startswith(_BASE) or not module.is_dir():
                self.send_error(404)
            elif rest == ["versions"]:
                versions = [{"version": path.name} for path in sorted(module.iterdir())]
                self._answer(json.dumps({"modules": [{"versions": versions}]}).encode())
            elif len(rest) == 2 and (module / rest[0]).is_dir():
                self.send_response(204)
                self.send_header("X-Terraform-Get", f"file://{module / rest[0]}")
                self.end_headers()
            else:
                self.send_error(404)

        def _answer(self, body: bytes) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            """Keep quiet: Terraform reports what it misses."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}{_BASE}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()

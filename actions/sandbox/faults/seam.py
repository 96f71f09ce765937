"""Where the API server lets a fault happen."""

from __future__ import annotations

from typing import Protocol

from aiohttp import web


class Faults(Protocol):
    """Asked before every request."""

    async def intercept(self, request: web.Request) -> web.StreamResponse | None:
        """Answer in the server's place, or wait and return `None` to let the server answer.

        To cut a connection, close `request.transport` and return a response that nobody will read.
        """
        ...


class _NoFaults:
    async def intercept(self, request: web.Request) -> web.StreamResponse | None:
        return None


NO_FAULTS: Faults = _NoFaults()
"""Nothing goes wrong."""

"""The hook through which faults are injected into requests and streams."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Protocol

from aiohttp import web
from aiohttp.typedefs import Handler


class Faults(Protocol):
    """Stands around every request, and in every stream."""

    async def around(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Answer a request: as `handler` does, in its place, or spoilt."""
        ...

    def distort(self, request: web.Request, chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        """What reaches the client of the chunks of a stream, a watch or a log.

        Raises:
            ConnectionResetError: The connection has been cut; nothing more can be sent.
        """
        ...


class _NoFaults:
    async def around(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        return await handler(request)

    def distort(self, request: web.Request, chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        return chunks


NO_FAULTS: Faults = _NoFaults()
"""Nothing goes wrong."""

"""The hook through which faults are injected into requests and streams."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Protocol

from aiohttp import web
from aiohttp.typedefs import Handler


class FaultHook(Protocol):
    """Wraps every request, and every stream."""

    async def wrap_request(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Answer a request: as `handler` does, in its place, or spoilt."""
        ...

    def wrap_stream(self, request: web.Request, chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        """Yield the chunks of a stream (a watch or a log) that are to reach the client.

        Raises:
            ConnectionResetError: The connection has been cut; nothing more can be sent.
        """
        ...


class _NoFaults:
    async def wrap_request(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        return await handler(request)

    def wrap_stream(self, request: web.Request, chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        return chunks


NO_FAULTS: FaultHook = _NoFaults()
"""The hook that changes nothing."""

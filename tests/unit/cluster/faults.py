"""A resource whose server does what a test tells it, request by request."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Sequence

from aiohttp import web

Reply = Callable[[web.Request], Awaitable[web.StreamResponse]]
Json = dict[str, object]


def thing(name: str, version: int, *, uid: str = "", value: str = "") -> Json:
    """One object."""
    metadata: Json = {"name": name, "uid": uid or f"uid-{name}", "resourceVersion": str(version)}
    return {"metadata": metadata, "value": value}


def event(kind: str, subject: Json) -> bytes:
    """One line of a watch, as API servers write it."""
    return json.dumps({"type": kind, "object": subject}, separators=(",", ":"), ensure_ascii=False).encode() + b"\n"


def bookmark(version: int, *, ends_initial: bool = False) -> bytes:
    """A bookmark; with `ends_initial`, the mark after the last object of a streamed list."""
    metadata: Json = {"resourceVersion": str(version)}
    if ends_initial:
        metadata["annotations"] = {"k8s.io/initial-events-end": "true"}
    return event("BOOKMARK", {"kind": "Thing", "metadata": metadata})


def trouble(code: int, reason: str, message: str = "") -> bytes:
    """An error event."""
    return event("ERROR", {"kind": "Status", "code": code, "reason": reason, "message": message or reason})


def page(items: Sequence[Json], version: int, *, following: str = "") -> Reply:
    """One page of a list."""

    async def reply(request: web.Request) -> web.Response:
        metadata = {"resourceVersion": str(version)} | ({"continue": following} if following else {})
        return web.json_response({"kind": "ThingList", "metadata": metadata, "items": items})

    return reply


def refusal(code: int, reason: str, message: str = "", *, headers: dict[str, str] | None = None) -> Reply:
    """A Status instead of what was asked for."""

    async def reply(request: web.Request) -> web.Response:
        body = {"kind": "Status", "code": code, "reason": reason, "message": message or reason}
        return web.json_response(body, status=code, headers=headers)

    return reply


def text(code: int, body: str, *, content_type: str = "text/html", headers: dict[str, str] | None = None) -> Reply:
    """Return the reply of a proxy in between."""

    async def reply(request: web.Request) -> web.Response:
        return web.Response(status=code, text=body, content_type=content_type, headers=headers)

    return reply


def stream(*chunks: bytes, then: str = "end") -> Reply:
    """A watch that sends these chunks, then ends, hangs in silence, or is cut off."""

    async def reply(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        await response.prepare(request)
        for chunk in chunks:
            await response.write(chunk)
        if then == "hang":
            await asyncio.Event().wait()
        if then == "cut" and request.transport is not None:
            request.transport.abort()
        return response

    return reply


class Script:
    """Replies in order; the last one for ever. Keeps the queries."""

    def __init__(self, *replies: Reply) -> None:
        self._replies = list(replies)
        self.queries: list[dict[str, str]] = []

    async def __call__(self, request: web.Request) -> web.StreamResponse:
        self.queries.append(dict(request.query))
        reply = self._replies.pop(0) if len(self._replies) > 1 else self._replies[0]
        return await reply(request)

    @property
    def kinds(self) -> list[str]:
        """`list`, `watch` or `stream` (a streamed list), request by request."""
        return [
            "stream" if "sendInitialEvents" in query else "watch" if "watch" in query else "list"
            for query in self.queries
        ]

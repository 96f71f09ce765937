"""A server of lists and watches for the feeds, and the part of the cluster's feed that they use."""

from __future__ import annotations

import asyncio
import json
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

from actions.cluster.auth.session import KubeSession


@dataclass
class WatchServer(ABC):
    """Answers lists as its kind does, and a watch with what is put into `events`."""

    events: asyncio.Queue[dict[str, Any]] = field(default_factory=asyncio.Queue)
    asked: list[dict[str, str]] = field(default_factory=list)
    """Path and query of each request."""

    async def __call__(self, request: web.Request) -> web.StreamResponse:
        self.asked.append({"path": request.path, **request.query})
        if reason := self.refusal(request):
            return web.json_response(
                {"kind": "Status", "code": 403, "reason": "Forbidden", "message": reason}, status=403
            )
        if "watch" not in request.query:
            return web.json_response(self.listed())
        response = web.StreamResponse()
        await response.prepare(request)
        while True:
            await response.write(json.dumps(await self.events.get()).encode() + b"\n")

    @abstractmethod
    def listed(self) -> dict[str, Any]:
        """The answer to a list."""

    @abstractmethod
    def refusal(self, request: web.Request) -> str:
        """The sentence that forbids a request; empty for one that is allowed."""


@dataclass
class Connected:
    """The part of the cluster's feed that is used."""

    session: KubeSession
    namespace: str = "default"

    async def wait_connected(self) -> None:
        return

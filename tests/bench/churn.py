"""A fleet that does not rest: so many pods and nodes change a second, the pods on nodes that are on screen."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime

from aiohttp import web

from tests.bench.fleet import Document, Fleet

_TICK_SECONDS = 0.05
_VISIBLE = 40
"""Pods change on so many nodes, those at the top of the table: they are on screen."""

Put = Callable[[list[Document]], Awaitable[None]]


class Churn:
    """Changes objects at rates that can be set over HTTP: `POST /bench/churn?pods=500&nodes=20&events=5`.

    Args:
        fleet: Whose objects.
        put: Takes the changed ones, which carry a new resource version each.
        version: The last one used so far.
    """

    def __init__(self, fleet: Fleet, put: Put, *, version: int) -> None:
        self.version = version
        self._fleet = fleet
        self._put = put
        self._rates = {"pods": 0.0, "nodes": 0.0, "events": 0.0}
        self._restarts: dict[int, int] = {}
        self._visible = fleet.first_shown(_VISIBLE)
        self._dice = random.Random(1)

    async def command(self, request: web.Request) -> web.Response:
        """Set the rates."""
        self._rates = {name: float(request.query.get(name, "0")) for name in self._rates}
        return web.json_response(self._rates)

    async def run(self) -> None:
        """Change for ever."""
        loop = asyncio.get_running_loop()
        owed = dict.fromkeys(self._rates, 0.0)
        last = loop.time()
        while True:
            await asyncio.sleep(_TICK_SECONDS)
            now = loop.time()
            changed: list[Document] = []
            for name, rate in self._rates.items():
                owed[name] += rate * (now - last)
                change = {"pods": self._pod, "nodes": self._node, "events": self._event}[name]
                changed += [change() for _ in range(int(owed[name]))]
                owed[name] %= 1.0
            last = now
            if changed:
                await self._put(list({_name(one): one for one in changed}.values()))

    def _pod(self) -> Document:
        """A pod of a visible node changes what it asks for: its node's sums move."""
        fleet, node = self._fleet, self._dice.choice(self._visible)
        index = node + fleet.nodes * self._dice.randrange(max(1, fleet.pods // fleet.nodes))
        self.version += 1
        self._restarts[index] = self._restarts.get(index, 0) + 1
        document = fleet.pod(index, self.version, restarts=self._restarts[index])
        asked = {"cpu": f"{100 + self.version % 900}m", "memory": "128Mi"}
        document["spec"]["containers"][0]["resources"]["requests"] = asked
        return document

    def _node(self) -> Document:
        """A node's heart-beat: nothing that anybody shows changes."""
        self.version += 1
        return self._fleet.node(self._dice.randrange(self._fleet.nodes), self.version)

    def _event(self) -> Document:
        """Something has happened just now."""
        self.version += 1
        return self._fleet.event(self._fleet.events + self.version, self.version, at=datetime.now(UTC))


def _name(document: Document) -> str:
    return f"{document['kind']} {document['metadata']['name']}"

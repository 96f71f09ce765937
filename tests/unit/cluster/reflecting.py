"""A reflector at work against a scripted server, and a sink that keeps what it is told."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec

from actions.cluster.auth.session import KubeSession
from actions.cluster.watch.health import Health, SourceHealth
from actions.cluster.watch.reflector import Raw, Reflector
from tests.support.polling import until
from tests.unit.cluster.clocks import HastyClock
from tests.unit.cluster.faults import Reply, Script
from tests.unit.cluster.servers import session_to


class Mirror:
    """A sink that keeps what it is told."""

    def __init__(self) -> None:
        self.values: dict[str, str] = {}
        self.uids: dict[str, str] = {}
        self.states: list[SourceHealth] = []
        self.replaced: list[list[str]] = []
        self._last_health = asyncio.Event()

    async def replace(self, items: Sequence[dict[str, Any]]) -> None:
        self.values.clear()
        self.uids.clear()
        self.replaced.append([item["metadata"]["name"] for item in items])
        for item in items:
            self.upsert(item)
        self._last_health.set()

    def upsert(self, item: dict[str, Any]) -> None:
        self.values[item["metadata"]["name"]] = item["value"]
        self.uids[item["metadata"]["name"]] = item["metadata"]["uid"]
        self._last_health.set()

    def remove(self, item: dict[str, Any]) -> None:
        if self.uids.get(item["metadata"]["name"]) == item["metadata"]["uid"]:
            del self.values[item["metadata"]["name"]]
            del self.uids[item["metadata"]["name"]]
        self._last_health.set()

    def health(self, health: SourceHealth) -> None:
        self.states.append(health)
        self._last_health.set()

    async def until(self, predicate: Callable[[], object]) -> None:
        async with asyncio.timeout(60):
            while not predicate():
                self._last_health.clear()
                await self._last_health.wait()

    def saw(self, state: Health) -> bool:
        return any(entry.state is state for entry in self.states)


def _decode(raw: Raw) -> dict[str, Any]:
    document = msgspec.json.decode(raw, type=dict[str, Any])
    if document["value"] == "unreadable":
        raise ValueError("no such value")
    return document


class Running:
    """A reflector at work."""

    def __init__(self, script: Script, mirror: Mirror, clock: HastyClock, task: asyncio.Task[Any]) -> None:
        self.script, self.mirror, self.clock, self.task = script, mirror, clock, task

    async def until_requests(self, count: int) -> None:
        await until(lambda: len(self.script.queries) >= count, f"{count} requests", deadline_seconds=60)

    async def until_slept(self, count: int) -> None:
        await until(lambda: len(self.clock.slept) >= count, f"{count} pauses", deadline_seconds=60)


def reflector_of(session: KubeSession, mirror: Mirror, clock: HastyClock, **options: Any) -> Reflector[dict[str, Any]]:
    """A reflector of things, not yet at work."""
    return Reflector(
        session,
        "/apis/x/v1/things",
        decode=_decode,
        identify=lambda item: str(item["metadata"]["uid"]),
        sink=mirror,
        clock=clock,
        **options,
    )


@asynccontextmanager
async def reflecting(
    folder: Path, *replies: Reply, streamed: bool = False, idle_seconds: float = 30.0, rest_seconds: float = 0.0
) -> AsyncIterator[Running]:
    script, mirror, clock = Script(*replies), Mirror(), HastyClock()
    async with session_to(script, folder) as session:
        reflector = reflector_of(
            session, mirror, clock, idle_seconds=idle_seconds, prefers_watch_list=streamed, rest_seconds=rest_seconds
        )
        task = asyncio.create_task(reflector.run())
        try:
            yield Running(script, mirror, clock, task)
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

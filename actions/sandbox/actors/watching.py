"""The caches of all kinds that actors watch, kept current by reflectors."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import msgspec

from actions.base.clock import Clock
from actions.cluster.auth.session import KubeSession
from actions.cluster.http.retry import Backoff
from actions.cluster.watch.reflector import Raw, Reflector
from actions.sandbox.actors.cache import Cache
from actions.sandbox.actors.conditions import is_true
from actions.sandbox.actors.kinds import DEFINITIONS, NODES, NOT_A_CROWD, PODS, Document, Kind, uid_of

_LONGEST_WAIT_SECONDS = 1.0


class Caches:
    """One cache a kind; asked for by kind."""

    def __init__(self, kinds: Sequence[Kind]) -> None:
        self._caches = {kind: Cache(kind) for kind in kinds}

    def __getitem__(self, kind: Kind) -> Cache:
        return self._caches[kind]

    def all(self) -> list[Cache]:
        """Every cache."""
        return list(self._caches.values())


@asynccontextmanager
async def watching(session: KubeSession, kinds: Sequence[Kind], clock: Clock) -> AsyncIterator[Caches]:
    """Caches of `kinds`, complete when the context is entered.

    A custom kind is watched from the moment at which its CRD is established; until then it counts as complete and
    empty.
    """
    is_custom = any(kind.is_custom for kind in kinds)
    caches = Caches([*kinds, *([DEFINITIONS] if is_custom and DEFINITIONS not in kinds else [])])
    tasks = [
        asyncio.create_task(_follow(session, cache, caches, clock), name=f"watch {cache.kind.plural}")
        for cache in caches.all()
    ]
    try:
        for cache in caches.all():
            await cache.is_synced.wait()
        yield caches
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _follow(session: KubeSession, cache: Cache, caches: Caches, clock: Clock) -> None:
    if cache.kind.is_custom:
        await _established(cache, caches[DEFINITIONS])
    await _reflector(session, cache, clock).run()


async def _established(cache: Cache, definitions: Cache) -> None:
    """Wait for the CRD of a kind."""
    group = cache.kind.api_version.partition("/")[0]
    name = f"{cache.kind.plural}.{group}"
    found = asyncio.Event()

    def look(definition: Document) -> None:
        if definition["metadata"]["name"] == name and is_true(definition, "Established"):
            found.set()

    await definitions.is_synced.wait()
    definitions.listen(look)
    if not found.is_set():
        cache.is_synced.set()
    await found.wait()


def _reflector(session: KubeSession, cache: Cache, clock: Clock) -> Reflector[Document]:
    kind = cache.kind
    stamp: Document = {"apiVersion": kind.api_version, "kind": kind.kind}

    def decode(raw: Raw) -> Document:
        return stamp | msgspec.json.decode(raw, type=dict)

    return Reflector(
        session,
        kind.path(),
        decode=decode,
        identify=uid_of,
        sink=cache,
        clock=clock,
        label_selector=NOT_A_CROWD if kind in (PODS, NODES) else "",
        backoff=Backoff(clock, first_seconds=0.2, longest_seconds=_LONGEST_WAIT_SECONDS),
    )

"""The nodes and what their pods ask for, asked once: for programs that answer and exit."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from typing import TypeVar

import msgspec

from actions.base.clock import SystemClock
from actions.cluster import protopod
from actions.cluster.decode import decode_node, decode_pod
from actions.cluster.paging import PageCount
from actions.cluster.podindex import PodIndex
from actions.cluster.reading import Reading
from actions.cluster.session import KubeSession
from actions.cluster.store import HasUid
from actions.cluster.wire import Raw
from actions.fleet.facts import NodeFacts, NodeUsage

FactT = TypeVar("FactT", bound=HasUid)

PAGE = 500


class Census(msgspec.Struct, frozen=True):
    """The fleet at one moment; `usage` is by node name."""

    nodes: tuple[NodeFacts, ...]
    usage: Mapping[str, NodeUsage]


async def take_census(session: KubeSession) -> Census:
    """List nodes, and pods as protobuf where the server has it, page by page. What cannot be read is left out.

    Raises:
        ConsoleError: Nobody answers, or one of the lists is forbidden.
    """
    nodes = [node async for few in _pages(session, "/api/v1/nodes", decode_node) for node in few]
    index = PodIndex()
    async for pods in _pages(session, "/api/v1/pods", decode_pod, protopod.decode_pod):
        for pod in pods:
            index.change(pod.key, None, pod)
    index.settle()
    return Census(tuple(nodes), dict(index.usage))


async def _pages(
    session: KubeSession,
    path: str,
    decode: Callable[[Raw], FactT],
    decode_protobuf: Callable[[Raw], FactT] | None = None,
) -> AsyncIterator[list[FactT]]:
    reading = Reading(
        path, context=session.context, decode=decode, decode_protobuf=decode_protobuf, clock=SystemClock()
    )
    query = {"limit": str(PAGE)}
    pages, uids = PageCount(path, size=PAGE), set[str]()
    while True:
        page = reading.page(await session.request("GET", path, query=query, accept=reading.accept, deadline_seconds=60))
        few = [found for raw in page.items if (found := reading.decoded(raw)) is not None]
        yield few
        if not page.following:
            return
        uids.update(found.uid for found in few)
        await pages.turn(page.following, held=len(page.items), known=len(uids))
        query["continue"] = page.following

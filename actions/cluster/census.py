"""The nodes and what their pods ask for, asked once: for programs that answer and exit."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence

import msgspec

from actions.cluster import protopod, protowire, wire
from actions.cluster.decode import decode_node, decode_pod
from actions.cluster.podindex import PodIndex
from actions.cluster.session import KubeSession
from actions.cluster.wire import Raw
from actions.fleet.facts import NodeFacts, NodeUsage, PodFacts

PAGE = 500
_JSON = "application/json"


class Census(msgspec.Struct, frozen=True):
    """The fleet at one moment; `usage` is by node name."""

    nodes: tuple[NodeFacts, ...]
    usage: Mapping[str, NodeUsage]


class _Page(msgspec.Struct, frozen=True):
    """Objects of a list as the server wrote them, and how pods are read in that form."""

    items: Sequence[Raw]
    decode_pod: Callable[[Raw], PodFacts]


async def take_census(session: KubeSession) -> Census:
    """List nodes, and pods as protobuf where the server has it, page by page.

    Raises:
        ConsoleError: Nobody answers, or one of the lists is forbidden.
    """
    nodes = [decode_node(raw) async for page in _pages(session, "/api/v1/nodes", _JSON) for raw in page.items]
    index = PodIndex()
    async for page in _pages(session, "/api/v1/pods", protowire.ACCEPT):
        for pod in map(page.decode_pod, page.items):
            index.change(pod.key, None, pod)
    index.settle()
    return Census(tuple(nodes), dict(index.usage))


async def _pages(session: KubeSession, path: str, accept: str) -> AsyncIterator[_Page]:
    query = {"limit": str(PAGE)}
    while True:
        body = await session.request("GET", path, query=query, accept=accept, deadline_seconds=60)
        is_protobuf = protowire.is_enveloped(body)
        page = protowire.read_page(body) if is_protobuf else wire.read_page(body)
        yield _Page(page.items, protopod.decode_pod if is_protobuf else decode_pod)
        if not page.following:
            return
        query["continue"] = page.following

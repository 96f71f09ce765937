"""The nodes and what their pods ask for, asked once: for programs that answer and exit."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass

from actions.cluster.decode import decode_node, decode_pod
from actions.cluster.podindex import PodIndex
from actions.cluster.session import KubeSession
from actions.cluster.wire import Raw, read_page
from actions.fleet.facts import NodeFacts, NodeUsage

PAGE = 500


@dataclass(frozen=True, slots=True)
class Census:
    """The fleet at one moment; `usage` is by node name."""

    nodes: tuple[NodeFacts, ...]
    usage: Mapping[str, NodeUsage]


async def take_census(session: KubeSession) -> Census:
    """List nodes and pods, page by page.

    Raises:
        ConsoleError: Nobody answers, or one of the lists is forbidden.
    """
    nodes = [decode_node(raw) async for raw in _listed(session, "/api/v1/nodes")]
    index = PodIndex()
    async for raw in _listed(session, "/api/v1/pods"):
        pod = decode_pod(raw)
        index.change(pod.key, None, pod)
    index.settle()
    return Census(tuple(nodes), dict(index.usage))


async def _listed(session: KubeSession, path: str) -> AsyncIterator[Raw]:
    query = {"limit": str(PAGE)}
    while True:
        page = read_page(await session.request("GET", path, query=query, deadline_seconds=60))
        for raw in page.items:
            yield raw
        if not page.following:
            return
        query["continue"] = page.following

"""Nodes with the sums of the requests on them, pods and events of a cluster, listed once."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from functools import partial
from typing import TypeVar

import msgspec
from msgspec.structs import replace

from actions.base.clock import SystemClock
from actions.base.errors import ConsoleError, MissingError
from actions.base.executors import beside
from actions.cluster.auth.session import KubeSession
from actions.cluster.http.paging import PageCount
from actions.cluster.kinds import kind_of
from actions.cluster.state import pod_protobuf as protopod
from actions.cluster.state.decode import decode_event, decode_node, decode_pod
from actions.cluster.state.device_decode import decode_device_claim, decode_slice
from actions.cluster.state.device_layer import DeviceLayer
from actions.cluster.state.pod_index import PodIndex
from actions.cluster.state.store import MOST_SHOWN, HasUid, device_claim_key, newest_of, trim
from actions.cluster.watch.decoder import ResponseDecoder
from actions.cluster.watch.json_format import Raw
from actions.cluster.watch.served import served_versions
from actions.fleet.facts import DeviceClaimFacts, EventFacts, NodeFacts, NodeUsage, PodFacts, SliceFacts

FactT = TypeVar("FactT", bound=HasUid)
T = TypeVar("T")

PAGE = 500
LeftOut = Callable[[str, int], None]
"""Called with the plural of a kind and the number of its objects that cannot be read, if there are any."""


class ListedNodes(msgspec.Struct, frozen=True):
    """The fleet at one moment.

    Args:
        nodes: Each once.
        usage: By node name.
        unlisted_devices: The reason why devices of ResourceClaims are not counted; empty if they are, or the server has
            none.
    """

    nodes: tuple[NodeFacts, ...]
    usage: Mapping[str, NodeUsage]
    unlisted_devices: str = ""


async def fetch_nodes(session: KubeSession, *, left_out: LeftOut | None = None) -> ListedNodes:
    """List nodes, pods as protobuf if the server has it, and devices beside them, page by page.

    Unreadable objects are left out. Devices that may not be listed are not counted.

    Raises:
        ConsoleError: The server does not answer, or the list of nodes or pods is forbidden.
    """
    async with beside(_fetch_devices(session, left_out)) as devices:
        read = _pages(session, "/api/v1/nodes", partial(decode_node, region=session.region), left_out=left_out)
        nodes = {node.name: node async for few in read for node in few}
        index = PodIndex()
        found: dict[str, PodFacts] = {}
        layer = DeviceLayer(nodes, index.usage, found)
        async for pods in _pages(session, "/api/v1/pods", decode_pod, protopod.decode_pod, left_out=left_out):
            for pod in pods:
                index.change(pod.key, None, pod)
                found[pod.key] = pod
        index.update_totals()
        slices, claims, reason = await devices
    _count(layer, slices, claims)
    nodes |= layer.nodes
    return ListedNodes(tuple(nodes.values()), index.usage | layer.usage, reason)


async def _fetch_devices(
    session: KubeSession, left_out: LeftOut | None, namespace: str = ""
) -> tuple[list[SliceFacts], list[DeviceClaimFacts], str]:
    """List slices and claims of dynamic resource allocation, if the server has them; or else the reason why not.

    The slices are left out for a single namespace without claims.
    """
    kind, claim_kind = kind_of("ResourceSlice"), kind_of("ResourceClaim")
    try:
        versions = await served_versions(session, kind)
        if not versions:
            return [], [], ""
        path = replace(claim_kind, versions=versions).list_path(namespace)
        claims = [one async for few in _pages(session, path, decode_device_claim, left_out=left_out) for one in few]
        if namespace and not claims:
            return [], [], ""
        path = replace(kind, versions=versions).list_path()
        slices = [one async for few in _pages(session, path, decode_slice, left_out=left_out) for one in few]
        return slices, claims, ""
    except MissingError:
        return [], [], ""
    except ConsoleError as error:
        return [], [], error.message


async def fetch_pods(
    session: KubeSession,
    namespace: str = "",
    *,
    left_out: LeftOut | None = None,
    uncounted: Callable[[str], None] = lambda _: None,
) -> list[PodFacts]:
    """List the pods of a namespace, or of all, in the order of the server, with the devices of their claims.

    Args:
        session: The session with the cluster.
        namespace: Empty for all.
        left_out: Called for objects that cannot be read.
        uncounted: Called with the reason why devices of claims are not counted, or an empty one.

    Raises:
        ConsoleError: The server does not answer, or the list of pods is forbidden.
    """
    path = kind_of("Pod").list_path(namespace)
    async with beside(_fetch_devices(session, left_out, namespace)) as devices:
        pages = _pages(session, path, decode_pod, protopod.decode_pod, left_out=left_out)
        pods = {pod.key: pod async for few in pages for pod in few}
        slices, claims, reason = await devices
    uncounted(reason)
    layer = DeviceLayer({}, {}, pods)
    _count(layer, slices, claims)
    return list((pods | layer.pods).values())


def _count(layer: DeviceLayer, slices: list[SliceFacts], claims: list[DeviceClaimFacts]) -> None:
    for one in slices:
        layer.index.slice_changed(None, one)
    for claim in claims:
        layer.index.claim_changed(device_claim_key(claim), None, claim)
    layer.update(is_counted=True, is_refused=False)


async def fetch_events(
    session: KubeSession, namespace: str = "", *, most: int = MOST_SHOWN, left_out: LeftOut | None = None
) -> list[EventFacts]:
    """List the newest events of a namespace, or of all, oldest first.

    Raises:
        ConsoleError: The server does not answer, or the list is forbidden.
    """
    path = kind_of("Event").list_path(namespace)
    found: dict[str, EventFacts] = {}
    async for few in _pages(session, path, decode_event, left_out=left_out):
        found.update((event.uid, event) for event in few)
        trim(found)
    return newest_of(found.values(), most)[::-1]


async def _pages(
    session: KubeSession,
    path: str,
    decode: Callable[[Raw], FactT],
    decode_protobuf: Callable[[Raw], FactT] | None = None,
    *,
    left_out: LeftOut | None = None,
) -> AsyncIterator[list[FactT]]:
    decoder = ResponseDecoder(
        path, context=session.context, decode=decode, decode_protobuf=decode_protobuf, clock=SystemClock()
    )
    query = {"limit": str(PAGE)}
    pages, uids, unread = PageCount(path, size=PAGE), set[str](), 0
    while True:
        page = decoder.page(await session.request("GET", path, query=query, accept=decoder.accept, deadline_seconds=60))
        few = [found for raw in page.items if (found := decoder.decoded(raw)) is not None]
        yield few
        unread += len(page.items) - len(few)
        if not page.following:
            break
        uids.update(found.uid for found in few)
        await pages.next_page(page.following, held=len(page.items), known=len(uids))
        query["continue"] = page.following
    if unread and left_out is not None:
        left_out(path.rpartition("/")[2], unread)

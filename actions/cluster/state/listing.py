"""Nodes with the sums of the requests on them, pods and events of a cluster, listed once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from operator import attrgetter
from typing import Generic, TypeVar

import msgspec
from msgspec.structs import replace

from actions.base.errors import ConsoleError, MissingError, UnreachableError
from actions.base.executors import beside
from actions.cluster.auth.session import KubeSession
from actions.cluster.kinds import kind_of
from actions.cluster.state import pod_protobuf as protopod
from actions.cluster.state.decode import decode_event, decode_node, decode_pod
from actions.cluster.state.device_decode import decode_device_claim, decode_slice
from actions.cluster.state.device_layer import DeviceLayer
from actions.cluster.state.pod_index import PodIndex
from actions.cluster.state.store import MOST_SHOWN, HasUid, device_claim_key, newest_of, trim
from actions.cluster.watch.decoder import RequestedForm
from actions.cluster.watch.health import SourceHealth
from actions.cluster.watch.reflector import Raw, Reflector, Sink
from actions.cluster.watch.served import served_versions
from actions.cluster.watch.table_format import Cell, TableFormat
from actions.fleet.facts import DeviceClaimFacts, EventFacts, NodeFacts, NodeUsage, PodFacts, SliceFacts

FactT = TypeVar("FactT", bound=HasUid)

_LONGEST_SECONDS = 300.0


class ListedResource(msgspec.Struct, Generic[FactT], frozen=True):
    """A resource as it is listed or followed: its path, and the decoders of its objects."""

    path: str
    decode: Callable[[Raw], FactT]
    decode_protobuf: Callable[[Raw], FactT] | None = None
    trim: Callable[[dict[str, FactT]], None] = lambda _: None
    form: RequestedForm | None = None

    def reflector(self, session: KubeSession, sink: Sink[FactT], *, labels: str = "") -> Reflector[FactT]:
        """Return its reflector, the door of the console's own sources; a 403 ends it.

        Args:
            session: The session with the cluster.
            sink: The receiver.
            labels: Label selector, as kubectl's `-l`; empty for all.
        """
        return Reflector(
            session,
            self.path,
            decode=self.decode,
            decode_protobuf=self.decode_protobuf,
            identify=attrgetter("uid"),
            sink=sink,
            label_selector=labels,
            trim=self.trim,
            form=self.form,
            ends_when_forbidden=True,
        )


def node_list(session: KubeSession) -> ListedResource[NodeFacts]:
    """Return the nodes of a cluster."""
    return ListedResource(kind_of("Node").list_path(), partial(decode_node, region=session.region))


def pod_list(namespace: str = "") -> ListedResource[PodFacts]:
    """Return the pods of a namespace, or of all."""
    return ListedResource(kind_of("Pod").list_path(namespace), decode_pod, protopod.decode_pod)


def event_list(namespace: str = "") -> ListedResource[EventFacts]:
    """Return the events of a namespace, or of all; of many the newest."""
    return ListedResource(kind_of("Event").list_path(namespace), decode_event, trim=trim)


async def fetch_labels(
    session: KubeSession, kind: str, names: Sequence[str], *, namespace: str = "", labels: str = ""
) -> dict[str, dict[str, str | None]]:
    """List labels of nodes or pods, which their facts do not have: values by name of the label, by uid.

    Args:
        session: The session with the cluster.
        kind: `Node` or `Pod`.
        names: Of the labels; without any there is no request.
        namespace: Empty for all.
        labels: Label selector, as kubectl's `-l`; empty for all.

    Raises:
        ConsoleError: The server does not answer, or the list is forbidden.
    """
    if not names:
        return {}
    form = TableFormat(label_names=names)
    rows = await _listed(
        session, ListedResource(kind_of(kind).list_path(namespace), form.decode, form=form), labels=labels
    )
    values = {row.uid: map(_text_of, row.cells[-len(names) :]) for row in rows}
    return {uid: dict(zip(names, texts, strict=True)) for uid, texts in values.items()}


def _text_of(cell: Cell) -> str | None:
    return None if cell is None else str(cell)


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


async def fetch_nodes(session: KubeSession, *, labels: str = "", left_out: LeftOut | None = None) -> ListedNodes:
    """List nodes, all pods, and devices beside each other.

    Unreadable objects are left out. Devices that may not be listed are not counted.

    Args:
        session: The session with the cluster.
        labels: Label selector of the nodes, as kubectl's `-l`; empty for all.
        left_out: Called for objects that cannot be read.

    Raises:
        ConsoleError: The server does not answer, or the list of nodes or pods is forbidden.
    """
    async with (
        beside(_fetch_devices(session, left_out)) as devices,
        beside(_listed(session, pod_list(), left_out=left_out)) as all_pods,
    ):
        read = await _listed(session, node_list(session), labels=labels, left_out=left_out)
        nodes, index = {node.name: node for node in read}, PodIndex()
        found = {pod.key: pod for pod in await all_pods}
        layer = DeviceLayer(nodes, index.usage, found)
        for key, pod in found.items():
            index.change(key, None, pod)
        index.update_totals()
        slices, claims, reason = await devices
    _count(layer, slices, claims)
    nodes |= {name: node for name, node in layer.nodes.items() if name in nodes}
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
        claims = [*await _listed(session, ListedResource(path, decode_device_claim), left_out=left_out)]
        if namespace and not claims:
            return [], [], ""
        path = replace(kind, versions=versions).list_path()
        slices = [*await _listed(session, ListedResource(path, decode_slice), left_out=left_out)]
        return slices, claims, ""
    except MissingError:
        return [], [], ""
    except ConsoleError as error:
        return [], [], error.message


async def fetch_pods(
    session: KubeSession,
    namespace: str = "",
    *,
    labels: str = "",
    left_out: LeftOut | None = None,
    uncounted: Callable[[str], None] = lambda _: None,
) -> list[PodFacts]:
    """List the pods of a namespace, or of all, in the order of the server, with the devices of their claims.

    Args:
        session: The session with the cluster.
        namespace: Empty for all.
        labels: Label selector, as kubectl's `-l`; empty for all.
        left_out: Called for objects that cannot be read.
        uncounted: Called with the reason why devices of claims are not counted, or an empty one.

    Raises:
        ConsoleError: The server does not answer, or the list of pods is forbidden.
    """
    async with beside(_fetch_devices(session, left_out, namespace)) as devices:
        read = await _listed(session, pod_list(namespace), labels=labels, left_out=left_out)
        pods = {pod.key: pod for pod in read}
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
    session: KubeSession, namespace: str = "", *, left_out: LeftOut | None = None
) -> list[EventFacts]:
    """List the newest events of a namespace, or of all, oldest first.

    Raises:
        ConsoleError: The server does not answer, or the list is forbidden.
    """
    return newest_of(await _listed(session, event_list(namespace), left_out=left_out), MOST_SHOWN)[::-1]


class _OneList(Generic[FactT]):
    """The receiver of one list."""

    def __init__(self) -> None:
        self.items: Sequence[FactT] = ()

    async def replace(self, items: Sequence[FactT]) -> None:
        self.items = items

    def upsert(self, item: FactT) -> None:
        """Nothing is followed."""

    remove = upsert

    def health(self, health: SourceHealth) -> None:
        """Ignore it: errors are raised."""


async def _listed(
    session: KubeSession, resource: ListedResource[FactT], *, labels: str = "", left_out: LeftOut | None = None
) -> Sequence[FactT]:
    """List a resource."""
    sink = _OneList[FactT]()
    try:
        async with asyncio.timeout(_LONGEST_SECONDS):
            unread = await resource.reflector(session, sink, labels=labels).run_once()
    except TimeoutError as error:
        raise UnreachableError(f"The list of {resource.path} does not end.", hint="Check the network.") from error
    if unread and left_out is not None:
        left_out(resource.path.rpartition("/")[2], unread)
    return sink.items

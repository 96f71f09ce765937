"""The kept snapshot: nodes and pods of a cluster as they were last seen, on disk for the next start.

A file holds the facts of one cluster as one user saw them, written by one build of the program: facts are what its
decoders have made of objects, so that another build reads the cluster instead. It is 0600, and what a cluster's texts
may hold of secrets has been hidden in it. It begins with a mark and ends with a digest; anything else about it that is
not as written makes it one that is not there.

The columns of some thousand objects at a time are decoded at once, which shares texts that repeat and lets the event
loop of another thread work in between.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import Annotated, Generic, TypeVar

import msgspec

from actions.base.decoding import decode_msgpack
from actions.base.errors import ConfigError
from actions.base.files import open_file, private_directory, read_file, user_cache_folder, write_private
from actions.base.linux import release_free_memory
from actions.base.untrusted import redact
from actions.cluster.auth.kubeconfig import ChosenContext
from actions.cluster.state.device_layer import (
    devices_of,
    node_with,
    own_node,
    own_pod,
    own_usage,
    pod_with,
    usage_with,
)
from actions.cluster.state.pod_index import PodIndex
from actions.cluster.state.snapshot import ChangeLog, ClusterSnapshot
from actions.fleet.facts import NOTHING, UNUSED, NodeFacts, NodeUsage, PodFacts, Resources

_MARK = b"eksml-tui kept snapshot 3\n"
_DIGEST_BYTES = 32
_LENGTH_BYTES = 4
_PORTION = 1000
"""Objects that are encoded and decoded at once, in about a millisecond."""
MOST_OBJECTS = 150_000
MOST_BYTES = 64 << 20
MOST_FILES = 8
LONGEST_SECONDS = 7 * 86_400.0
"""A snapshot that is older is of no use."""
_SUFFIX = ".snapshot"
_DECODERS = (
    "decode.py",
    "device_decode.py",
    "device_index.py",
    "device_layer.py",
    "pod_protobuf.py",
    "pod_requests.py",
    "pod_status.py",
    "pod_index.py",
    "kept.py",
    "../../fleet/facts.py",
)

T = TypeVar("T")


class WatchVersions(msgspec.Struct, frozen=True):
    """The resource versions from which watches go on; an empty one makes its resource be listed."""

    nodes: str = ""
    pods: str = ""


class KeptSnapshot(msgspec.Struct, frozen=True, eq=False):
    """A cluster as it was.

    Args:
        taken_at: Seconds since the epoch.
        uid: The uid of the cluster's `kube-system` namespace.
        versions: Where watches go on.
        snapshot: Nodes, pods and their sums; `as_of` is `taken_at`.
        index: The sums of its pods without devices of claims, to go on with.
        own_nodes: Its nodes without such devices.
        own_pods: Its pods without such devices.
        with_devices: Those of its nodes, usage and pods that have such devices.
    """

    taken_at: float
    uid: str
    versions: WatchVersions
    snapshot: ClusterSnapshot
    index: PodIndex
    own_nodes: Mapping[str, NodeFacts]
    own_pods: Mapping[str, PodFacts]
    with_devices: tuple[Mapping[str, NodeFacts], Mapping[str, NodeUsage], Mapping[str, PodFacts]]


_Place = Annotated[int, msgspec.Meta(ge=0)]


class _Head(msgspec.Struct, array_like=True, forbid_unknown_fields=True):
    build: str
    cluster: str
    uid: str
    taken_at: float
    node_version: str
    pod_version: str
    texts: list[str]
    groups: list[tuple[str, ...]]
    amounts: list[tuple[int, int, int, int, int, int]]
    used: int
    nodes: int
    pods: int
    offered: dict[str, _Place]
    claimed: dict[str, _Place]
    held: dict[str, _Place]
    leaves_out_claims: bool


class _Usage(msgspec.Struct, array_like=True, forbid_unknown_fields=True):
    nodes: list[_Place]
    requested: list[_Place]
    pods: list[int]


class _Nodes(msgspec.Struct, array_like=True, forbid_unknown_fields=True):
    uids: list[str]
    names: list[str]
    types: list[_Place]
    regions: list[_Place]
    zones: list[_Place]
    capacity_types: list[_Place]
    pools: list[_Place]
    amounts: list[_Place]
    pods_allocatable: list[int]
    ready: list[bool]
    schedulable: list[bool]
    taints: list[_Place]
    created: list[float]
    versions: list[_Place]


class _Pods(msgspec.Struct, array_like=True, forbid_unknown_fields=True):
    uids: list[str]
    namespaces: list[_Place]
    names: list[str]
    nodes: list[_Place]
    phases: list[_Place]
    reasons: list[_Place]
    messages: list[_Place]
    ready: list[int]
    containers: list[_Place]
    restarts: list[int]
    requests: list[_Place]
    created: list[float]
    started: list[float]
    owner_kinds: list[_Place]
    owner_names: list[_Place]
    runs: list[_Place]
    stages: list[_Place]


def snapshot_folder() -> Path:
    """Return the folder of all kept snapshots; not created here."""
    return user_cache_folder() / "snapshots"


def context_digest(chosen: ChosenContext) -> str:
    """Return a digest of the server, its authority and the user, without what is secret of them."""
    authority = chosen.ca_data.encode()
    if chosen.ca_file:
        with suppress(OSError):
            authority = read_file(Path(chosen.ca_file))
    plugin = chosen.plugin
    parts = (
        (chosen.context, chosen.cluster, chosen.server, chosen.tls_server_name, chosen.proxy_url, chosen.is_insecure),
        hashlib.blake2b(authority, digest_size=_DIGEST_BYTES).hexdigest(),
        (chosen.username, chosen.certificate_file, chosen.token_file, chosen.user_file),
        hashlib.blake2b(chosen.certificate_data.encode(), digest_size=_DIGEST_BYTES).hexdigest(),
        (plugin.argv, plugin.environment) if plugin else (),
        chosen.impersonation.headers(),
    )
    return hashlib.blake2b(msgspec.msgpack.encode(parts), digest_size=_DIGEST_BYTES).hexdigest()


def load_kept(identity: str, *, now: float, folder: Path | None = None) -> KeptSnapshot | None:
    """Return the kept snapshot of a cluster; `None` if there is none that can be used.

    Args:
        identity: As by `context_digest`.
        now: Seconds since the epoch.
        folder: Of all kept snapshots; `None` for the usual one.
    """
    data = _own_bytes(_file_of(identity, folder))
    if data is None or not _is_whole(data):
        return None
    try:
        frames = _frames(memoryview(data)[len(_MARK) : -_DIGEST_BYTES])
        head = decode_msgpack(next(frames), _Head)
        if (head.build, head.cluster) != (build_stamp(), identity):
            return None
        if not now - LONGEST_SECONDS < head.taken_at <= now:
            return None
        return _read(head, frames)
    except (msgspec.DecodeError, StopIteration, LookupError, ValueError):
        return None


def _read(head: _Head, frames: Iterator[memoryview]) -> KeptSnapshot:
    """Read the facts.

    Raises:
        ValueError: Their number is not that of the head, or columns differ in length.
        LookupError: A place in a table is not in it, or a device is of no known object.
    """
    amounts = [Resources(*one) for one in head.amounts]
    usage: dict[str, NodeUsage] = {}
    for _ in range(0, head.used, _PORTION):
        usage.update(_node_usage(decode_msgpack(next(frames), _Usage), head, amounts))
    nodes: dict[str, NodeFacts] = {}
    for _ in range(0, head.nodes, _PORTION):
        read = _node_facts(decode_msgpack(next(frames), _Nodes), head, amounts)
        nodes.update((node.name, node) for node in read)
    pods: dict[str, PodFacts] = {}
    nothing = {one: NOTHING for one in amounts if one == NOTHING}
    shared = [nothing.get(one, one) for one in amounts]
    for _ in range(0, head.pods, _PORTION):
        columns = decode_msgpack(next(frames), _Pods)
        namespaces = map(head.texts.__getitem__, columns.namespaces)
        keys = map("/".join, zip(namespaces, columns.names, strict=True))
        pods.update(zip(keys, _pod_facts(columns, head, shared), strict=True))
    if (len(usage), len(nodes), len(pods)) != (head.used, head.nodes, head.pods) or next(frames, None) is not None:
        raise ValueError("another number of objects")
    index = PodIndex()
    index.fill(pods, usage)
    over_nodes = {name: node_with(nodes[name], amounts[place]) for name, place in head.offered.items()}
    over_usage = {name: usage_with(usage.get(name, UNUSED), amounts[place]) for name, place in head.claimed.items()}
    over_pods = {key: pod_with(pods[key], amounts[place]) for key, place in head.held.items()}
    snapshot = ClusterSnapshot(
        revision=1,
        nodes=nodes | over_nodes,
        pods=pods | over_pods if over_pods else pods,
        usage=index.usage | over_usage,
        pods_by_node=dict(index.keys),
        leaves_out_claims=head.leaves_out_claims,
        as_of=head.taken_at,
        history=ChangeLog(),
    )
    return KeptSnapshot(
        head.taken_at,
        head.uid,
        WatchVersions(head.node_version, head.pod_version),
        snapshot,
        index,
        nodes,
        pods,
        (over_nodes, over_usage, over_pods),
    )


def _node_usage(columns: _Usage, head: _Head, amounts: Sequence[Resources]) -> Iterable[tuple[str, NodeUsage]]:
    _require_equal_lengths(columns)
    requested = map(amounts.__getitem__, columns.requested)
    return zip(map(head.texts.__getitem__, columns.nodes), map(NodeUsage, requested, columns.pods), strict=True)


def _node_facts(columns: _Nodes, head: _Head, amounts: Sequence[Resources]) -> list[NodeFacts]:
    _require_equal_lengths(columns)
    texts = head.texts.__getitem__
    return list(
        map(
            NodeFacts,
            columns.uids,
            columns.names,
            map(texts, columns.types),
            map(texts, columns.regions),
            map(texts, columns.zones),
            map(texts, columns.capacity_types),
            map(texts, columns.pools),
            map(amounts.__getitem__, columns.amounts),
            columns.pods_allocatable,
            columns.ready,
            columns.schedulable,
            map(head.groups.__getitem__, columns.taints),
            columns.created,
            map(texts, columns.versions),
        )
    )


def _pod_facts(columns: _Pods, head: _Head, amounts: Sequence[Resources]) -> list[PodFacts]:
    _require_equal_lengths(columns)
    texts = head.texts.__getitem__
    return list(
        map(
            PodFacts,
            columns.uids,
            map(texts, columns.namespaces),
            columns.names,
            map(texts, columns.nodes),
            map(texts, columns.phases),
            map(texts, columns.reasons),
            map(texts, columns.messages),
            columns.ready,
            map(head.groups.__getitem__, columns.containers),
            columns.restarts,
            map(amounts.__getitem__, columns.requests),
            columns.created,
            columns.started,
            map(texts, columns.owner_kinds),
            map(texts, columns.owner_names),
            map(texts, columns.runs),
            map(texts, columns.stages),
        )
    )


def _require_equal_lengths(columns: _Usage | _Nodes | _Pods) -> None:
    if len({len(column) for column in msgspec.structs.astuple(columns)}) != 1:
        raise ValueError("columns of different lengths")


def write_kept(
    snapshot: ClusterSnapshot,
    identity: str,
    *,
    uid: str,
    taken_at: float,
    versions: WatchVersions,
    folder: Path | None = None,
) -> bool:
    """Keep a snapshot for the next start, in place of the one before; the oldest ones of other clusters go.

    Args:
        snapshot: A complete one; another thread may make later ones meanwhile.
        identity: As by `context_digest`.
        uid: The uid of the cluster's `kube-system` namespace.
        taken_at: Seconds since the epoch.
        versions: The resource versions of exactly this snapshot.
        folder: Of all kept snapshots; `None` for the usual one.

    Returns:
        False if there is no room for it, or it is too large to be kept.
    """
    if len(snapshot.nodes) + len(snapshot.pods) > MOST_OBJECTS:
        return False
    parts = _encoded(snapshot, identity, uid=uid, taken_at=taken_at, versions=versions)
    if sum(map(len, parts)) > MOST_BYTES:
        return False
    file = _file_of(identity, folder)
    try:
        write_private(private_directory(file.parent) / file.name, *parts, is_synced=False)
        _drop_oldest(file.parent)
    except (ConfigError, OSError):
        return False
    del parts
    release_free_memory()
    return True


def _encoded(
    snapshot: ClusterSnapshot, identity: str, *, uid: str, taken_at: float, versions: WatchVersions
) -> list[bytes]:
    """Return the file in parts: joined, a large one would be in memory three times."""
    texts, groups, amounts = _Numbered[str](), _Numbered[tuple[str, ...]](), _Numbered[Resources]()
    usage = [(name, own_usage(used)) for name, used in snapshot.usage.items()]
    nodes, pods = map(own_node, snapshot.nodes.values()), map(own_pod, snapshot.pods.values())
    frames = [
        *(msgspec.msgpack.encode(_usage_columns(few, texts, amounts)) for few in _few(usage)),
        *(msgspec.msgpack.encode(_node_columns(few, texts, groups, amounts)) for few in _few(nodes)),
        *(msgspec.msgpack.encode(_pod_columns(few, texts, groups, amounts)) for few in _few(pods)),
    ]
    head = _Head(
        build=build_stamp(),
        cluster=identity,
        uid=uid,
        taken_at=taken_at,
        node_version=versions.nodes,
        pod_version=versions.pods,
        offered={
            name: amounts(devices_of(node.allocatable))
            for name, node in snapshot.nodes.items()
            if node.offered is not NOTHING
        },
        claimed={name: amounts(used.claimed) for name, used in snapshot.usage.items() if used.claimed is not NOTHING},
        held={key: amounts(pod.claimed) for key, pod in snapshot.pods.items() if pod.claimed is not NOTHING},
        leaves_out_claims=snapshot.leaves_out_claims,
        texts=texts.values,
        groups=groups.values,
        amounts=[msgspec.structs.astuple(one) for one in amounts.values],
        used=len(snapshot.usage),
        nodes=len(snapshot.nodes),
        pods=len(snapshot.pods),
    )
    parts, digest = [_MARK], hashlib.blake2b(_MARK, digest_size=_DIGEST_BYTES)
    for frame in (msgspec.msgpack.encode(head), *frames):
        for part in (len(frame).to_bytes(_LENGTH_BYTES, "big"), frame):
            parts.append(part)
            digest.update(part)
    return [*parts, digest.digest()]


class _Numbered(Generic[T]):
    """Values that repeat, each with its place in a list."""

    def __init__(self) -> None:
        self.values: list[T] = []
        self._places: dict[T, int] = {}

    def __call__(self, value: T) -> int:
        place = self._places.get(value)
        if place is None:
            place = self._places[value] = len(self.values)
            self.values.append(value)
        return place


_NumberedTexts = _Numbered[str]
_NumberedGroups = _Numbered[tuple[str, ...]]
_NumberedAmounts = _Numbered[Resources]


def _usage_columns(usage: Sequence[tuple[str, NodeUsage]], texts: _NumberedTexts, amounts: _NumberedAmounts) -> _Usage:
    return _Usage(
        nodes=[texts(name) for name, _ in usage],
        requested=[amounts(used.requested) for _, used in usage],
        pods=[used.pods for _, used in usage],
    )


def _node_columns(
    nodes: Sequence[NodeFacts], texts: _NumberedTexts, groups: _NumberedGroups, amounts: _NumberedAmounts
) -> _Nodes:
    return _Nodes(
        uids=[node.uid for node in nodes],
        names=[node.name for node in nodes],
        types=[texts(node.instance_type) for node in nodes],
        regions=[texts(node.region) for node in nodes],
        zones=[texts(node.zone) for node in nodes],
        capacity_types=[texts(node.capacity_type) for node in nodes],
        pools=[texts(node.pool) for node in nodes],
        amounts=[amounts(node.allocatable) for node in nodes],
        pods_allocatable=[node.pods_allocatable for node in nodes],
        ready=[node.is_ready for node in nodes],
        schedulable=[node.is_schedulable for node in nodes],
        taints=[groups(node.taints) for node in nodes],
        created=[node.created_at for node in nodes],
        versions=[texts(node.version) for node in nodes],
    )


def _pod_columns(
    pods: Sequence[PodFacts], texts: _NumberedTexts, groups: _NumberedGroups, amounts: _NumberedAmounts
) -> _Pods:
    return _Pods(
        uids=[pod.uid for pod in pods],
        namespaces=[texts(pod.namespace) for pod in pods],
        names=[pod.name for pod in pods],
        nodes=[texts(pod.node) for pod in pods],
        phases=[texts(pod.phase) for pod in pods],
        reasons=[texts(pod.reason) for pod in pods],
        messages=[texts(redact(pod.message) if pod.message else "") for pod in pods],
        ready=[pod.ready for pod in pods],
        containers=[groups(pod.containers) for pod in pods],
        restarts=[pod.restarts for pod in pods],
        requests=[amounts(pod.requests) for pod in pods],
        created=[pod.created_at for pod in pods],
        started=[pod.started_at for pod in pods],
        owner_kinds=[texts(pod.owner_kind) for pod in pods],
        owner_names=[texts(pod.owner_name) for pod in pods],
        runs=[texts(pod.run) for pod in pods],
        stages=[texts(pod.stage) for pod in pods],
    )


def _few(values: Iterable[T]) -> Iterator[list[T]]:
    rest = iter(values)
    while few := list(islice(rest, _PORTION)):
        yield few


def _frames(body: memoryview) -> Iterator[memoryview]:
    at = 0
    while at < len(body):
        begin = at + _LENGTH_BYTES
        at = begin + int.from_bytes(body[at:begin], "big")
        if at > len(body):
            raise ValueError("a frame is cut")
        yield body[begin:at]


def _is_whole(data: bytes) -> bool:
    if not data.startswith(_MARK) or len(data) < len(_MARK) + _DIGEST_BYTES:
        return False
    body = memoryview(data)[:-_DIGEST_BYTES]
    return hashlib.blake2b(body, digest_size=_DIGEST_BYTES).digest() == data[-_DIGEST_BYTES:]


def _own_bytes(file: Path) -> bytes | None:
    """Read a file that is this user's alone; `None` for any other, and for one that is too large."""
    with suppress(OSError), open_file(file, is_followed=False) as opened:
        status = os.fstat(opened.fileno())
        is_own = status.st_uid == os.geteuid() and not stat.S_IMODE(status.st_mode) & 0o077
        return opened.read(MOST_BYTES + 1) if is_own and status.st_size <= MOST_BYTES else None
    return None


def _drop_oldest(folder: Path) -> None:
    """Leave the newest files alone."""
    files = sorted(folder.glob(f"*{_SUFFIX}"), key=_changed_at, reverse=True)
    for file in files[MOST_FILES:]:
        file.unlink(missing_ok=True)


def _changed_at(file: Path) -> float:
    try:
        return file.lstat().st_mtime
    except OSError:
        return 0.0


def _file_of(identity: str, folder: Path | None) -> Path:
    return (folder or snapshot_folder()) / f"{identity[:32]}{_SUFFIX}"


@lru_cache(maxsize=1)
def build_stamp() -> str:
    """Return a digest of the modules that make facts, by their sizes and times: other facts may come of other ones."""
    here = Path(__file__).parent
    stamps: list[tuple[str, int, int]] = []
    for name in _DECODERS:
        with suppress(OSError):
            status = (here / name).stat()
            stamps.append((name, status.st_size, status.st_mtime_ns))
    return hashlib.blake2b(msgspec.msgpack.encode(stamps), digest_size=_DIGEST_BYTES).hexdigest()

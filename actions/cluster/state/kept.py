"""The kept snapshot: nodes and pods of a cluster as they were last seen, on disk for the next start.

A file holds the facts of one cluster as one user saw them, written by one build of the program: facts are what its
decoders have made of objects, so that another build reads the cluster instead. It is 0600, and what a cluster's texts
may hold of secrets has been hidden in it. It is made of frames, each compressed: a head, then some thousand objects at
a time, which lets the event loop of another thread work in between. Anything about it that is not as written makes it
one that is not there.
"""

from __future__ import annotations

import hashlib
import os
import stat
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from functools import lru_cache
from itertools import chain, islice
from pathlib import Path
from typing import Annotated, Any, Generic, TypeVar

import msgspec
from msgspec.structs import astuple, fields, replace

from actions.base.decoding import decode_msgpack
from actions.base.errors import ConfigError
from actions.base.files import open_file, private_directory, read_file, user_cache_folder, write_private
from actions.base.linux import release_free_memory
from actions.base.untrusted import redact
from actions.cluster.auth.kubeconfig import ChosenContext
from actions.cluster.state.device_layer import own_node, own_pod, own_usage
from actions.cluster.state.pod_index import PodIndex
from actions.cluster.state.snapshot import ChangeLog, ClusterSnapshot
from actions.fleet.facts import NOTHING, NodeFacts, NodeUsage, PodFacts

_DIGEST_BYTES = 32
_LENGTH_BYTES = 4
_QUICK = 1
"""The level of compression."""
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
F = TypeVar("F", bound=msgspec.Struct)


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
    versions: WatchVersions
    used: int
    nodes: int
    pods: int
    leaves_out_claims: bool


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
    try:
        frames = _frames(memoryview(data or b""))
        head = decode_msgpack(next(frames), _Head)
        if (head.build, head.cluster) != (build_stamp(), identity):
            return None
        if not now - LONGEST_SECONDS < head.taken_at <= now:
            return None
        return _read(head, frames)
    except (msgspec.DecodeError, zlib.error, StopIteration, LookupError, ValueError):
        return None


def _read(head: _Head, frames: Iterator[bytes]) -> KeptSnapshot:
    """Read the facts.

    Raises:
        ValueError: Their number is not that of the head.
        LookupError: A place has no value.
    """
    usage: dict[str, NodeUsage] = {}
    for _ in range(0, head.used, _PORTION):
        usage.update(decode_msgpack(next(frames), dict[str, NodeUsage]))
    read_nodes, read_pods = _Columns(NodeFacts), _Columns(PodFacts)
    nodes: dict[str, NodeFacts] = {}
    for _ in range(0, head.nodes, _PORTION):
        nodes.update((node.name, node) for node in read_nodes.read(next(frames)))
    pods: dict[str, PodFacts] = {}
    for _ in range(0, head.pods, _PORTION):
        pods.update((pod.key, pod) for pod in read_pods.read(next(frames)))
    if (len(usage), len(nodes), len(pods)) != (head.used, head.nodes, head.pods) or next(frames, None) is not None:
        raise ValueError("another number of objects")
    with_devices = (
        {name: node for name, node in nodes.items() if node.offered != NOTHING},
        {name: used for name, used in usage.items() if used.claimed != NOTHING},
        {key: pod for key, pod in pods.items() if pod.claimed != NOTHING},
    )
    own_pods = pods | {key: own_pod(pod) for key, pod in with_devices[2].items()} if with_devices[2] else pods
    index = PodIndex()
    index.fill(own_pods, usage | {name: own_usage(used) for name, used in with_devices[1].items()})
    snapshot = ClusterSnapshot(
        revision=1,
        nodes=nodes,
        pods=pods,
        usage=usage,
        pods_by_node=dict(index.keys),
        leaves_out_claims=head.leaves_out_claims,
        as_of=head.taken_at,
        history=ChangeLog(),
    )
    own_nodes = nodes | {name: own_node(node) for name, node in with_devices[0].items()}
    return KeptSnapshot(head.taken_at, head.uid, head.versions, snapshot, index, own_nodes, own_pods, with_devices)


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
    head = _Head(
        build=build_stamp(),
        cluster=identity,
        uid=uid,
        taken_at=taken_at,
        versions=versions,
        used=len(snapshot.usage),
        nodes=len(snapshot.nodes),
        pods=len(snapshot.pods),
        leaves_out_claims=snapshot.leaves_out_claims,
    )
    portions: Iterator[object] = chain(
        (head,),
        map(dict, _few(snapshot.usage.items())),
        map(_Columns(NodeFacts).encoded, _few(snapshot.nodes.values())),
        map(_Columns(PodFacts).encoded, _few(map(_without_secrets, snapshot.pods.values()))),
    )
    parts: list[bytes] = []
    for portion in portions:
        frame = zlib.compress(msgspec.msgpack.encode(portion), _QUICK)
        parts += (len(frame).to_bytes(_LENGTH_BYTES, "big"), frame)
    return parts


def _without_secrets(pod: PodFacts) -> PodFacts:
    return replace(pod, message=redact(pod.message)) if pod.message else pod


class _Columns(Generic[F]):
    """Facts of one kind by field: values, and for those that repeat the place of each fact's value among them.

    A value that repeats is one object in all facts that are read: otherwise 50,000 pods take 30 MB more.
    """

    def __init__(self, kind: type[F]) -> None:
        self._kind = kind
        columns: list[Any] = [tuple[list[field.type], list[_Place]] for field in fields(kind)]  # type: ignore[name-defined]
        self._type: Any = tuple.__class_getitem__(tuple(columns))
        self._known: list[dict[Any, Any]] = [{NOTHING: NOTHING} for _ in columns]

    def encoded(self, facts: list[F]) -> list[tuple[list[Any], list[int]]]:
        """Return the columns of some facts, to be written."""
        columns = []
        for column in map(list, zip(*map(astuple, facts), strict=True)):
            places = {value: place for place, value in enumerate(dict.fromkeys(column))}
            is_repeating = len(places) <= max(1, len(column) // 2)
            columns.append((list(places), [places[value] for value in column]) if is_repeating else (column, []))
        return columns

    def read(self, frame: bytes) -> Iterator[F]:
        """Read some facts.

        Raises:
            LookupError: A place has no value.
        """
        found: list[Iterable[Any]] = []
        for (values, places), known in zip(decode_msgpack(frame, self._type), self._known, strict=True):
            shared = [known.setdefault(value, value) for value in values] if places else values
            found.append(map(shared.__getitem__, places) if places else values)
        return map(self._kind, *found)


def _few(values: Iterable[T]) -> Iterator[list[T]]:
    rest = iter(values)
    while few := list(islice(rest, _PORTION)):
        yield few


def _frames(body: memoryview) -> Iterator[bytes]:
    """Yield the frames of a file; one that is damaged is not decompressed, as its checksum is another one."""
    at = 0
    while at < len(body):
        begin = at + _LENGTH_BYTES
        at = begin + int.from_bytes(body[at:begin], "big")
        unpacking = zlib.decompressobj()
        data = unpacking.decompress(body[begin:at], MOST_BYTES)
        if at > len(body) or not unpacking.eof or unpacking.unused_data:
            raise ValueError("a frame is cut")
        yield data


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

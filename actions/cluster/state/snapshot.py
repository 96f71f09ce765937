"""Immutable snapshots of a cluster, and the keys of nodes and pods that changed between two of them.

The cost of a snapshot depends on the changes since the one before, not on the size of the cluster.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, ValuesView
from typing import Generic, TypeVar

import msgspec

from actions.cluster.watch.health import SourceHealth
from actions.fleet.facts import EventFacts, NodeClaimFacts, NodeFacts, NodeUsage, PodFacts, WorkloadFacts

_MOST_STEPS = 64
_MOST_KEYS = 10_000


class SnapshotChanges(msgspec.Struct, frozen=True):
    """The keys that have changed, come or gone. A node also counts as changed when the requests on it have."""

    nodes: frozenset[str]
    """Names."""
    pods: frozenset[str]
    """`namespace/name`."""


class _Step(msgspec.Struct, frozen=True):
    before: int
    after: int
    changes: SnapshotChanges | None


class ChangeLog:
    """Keys that changed, step by step; a step is the time between two snapshots.

    Bounded: for steps long past, and those that changed most of the cluster, it records only that everything may have
    changed. Used on one loop.
    """

    def __init__(self) -> None:
        self._steps: deque[_Step] = deque(maxlen=_MOST_STEPS)
        self._nodes: set[str] = set()
        self._pods: set[str] = set()

    def node(self, name: str) -> None:
        """Record a change of a node."""
        self._nodes.add(name)

    def pod(self, key: str) -> None:
        """Record a change of a pod."""
        self._pods.add(key)

    def close(self, before: int, after: int, *, is_held: bool = False) -> None:
        """End a step between two snapshots.

        Args:
            before: Revision of the snapshot before.
            after: Revision of the new one.
            is_held: The new one does not show all changes; those so far belong to the next step too.
        """
        is_small = len(self._nodes) + len(self._pods) <= _MOST_KEYS
        changes = SnapshotChanges(frozenset(self._nodes), frozenset(self._pods)) if is_small else None
        self._steps.append(_Step(before, after, changes))
        if not is_held:
            self._nodes, self._pods = set(), set()

    def between(self, before: int, after: int) -> SnapshotChanges | None:
        """Return the changes between two revisions; `None` if they are not known any more."""
        steps = [step for step in self._steps if before < step.after <= after]
        if before == after:
            return SnapshotChanges(frozenset(), frozenset())
        if not steps or steps[0].before > before:
            return None
        known = [step.changes for step in steps if step.changes is not None]
        if len(known) < len(steps):
            return None
        if len(known) == 1:
            return known[0]
        return SnapshotChanges(
            frozenset().union(*(changes.nodes for changes in known)),
            frozenset().union(*(changes.pods for changes in known)),
        )


class ClusterSnapshot(msgspec.Struct, frozen=True, eq=False):
    """The cluster at one revision. Its mappings never change; compare snapshots by `revision` only.

    Attributes:
        revision: Grows by one with every snapshot that differs.
        nodes: By name.
        pods: By `namespace/name`.
        usage: By node name; a node without pods is not in it. May name nodes that are not known (yet).
        pods_by_node: Pod keys, by node name; ended pods included.
        workloads: By `Kind namespace/name`.
        claims: NodeClaims, by name.
        events: Oldest first, the newest 1,000.
        health: By source: `nodes`, `pods`, `events`, `jobs`, `pytorchjobs`, …
        is_complete: Nodes and pods have been listed completely once.
        leaves_out_claims: The server has ResourceClaims, and their devices are not counted: they are not listed yet, or
            may not be.
        as_of: Nodes and pods are, or may be, as they were kept at this time, in seconds since the epoch; 0.0 for live.
        history: The changes, of the source that made it.
    """

    revision: int = 0
    nodes: Mapping[str, NodeFacts] = msgspec.field(default_factory=dict)
    pods: Mapping[str, PodFacts] = msgspec.field(default_factory=dict)
    usage: Mapping[str, NodeUsage] = msgspec.field(default_factory=dict)
    pods_by_node: Mapping[str, tuple[str, ...]] = msgspec.field(default_factory=dict)
    workloads: Mapping[str, WorkloadFacts] = msgspec.field(default_factory=dict)
    claims: Mapping[str, NodeClaimFacts] = msgspec.field(default_factory=dict)
    events: tuple[EventFacts, ...] = ()
    health: Mapping[str, SourceHealth] = msgspec.field(default_factory=dict)
    is_complete: bool = False
    leaves_out_claims: bool = False
    as_of: float = 0.0
    history: ChangeLog = msgspec.field(default_factory=ChangeLog)

    def changes_since(self, older: ClusterSnapshot | None) -> SnapshotChanges | None:
        """Return the nodes and pods that differ from an older snapshot.

        Returns:
            `None` if everything may differ: there is no older one, it is of another source, or too old.
        """
        if older is None or older.history is not self.history:
            return None
        return self.history.between(older.revision, self.revision)


T = TypeVar("T")

_MOST_CHANGES = 2_000
_SHARE = 20
"""With more changes than this part of the mapping, an overlay costs as much to read as a copy costs to make."""


class OverlayMapping(Mapping[str, T]):
    """A large mapping with a few changes laid over it. Neither changes while this is alive."""

    __slots__ = ("_base", "_changes", "_length")

    def __init__(self, base: Mapping[str, T], changes: Mapping[str, T | None], length: int) -> None:
        self._base = base
        self._changes = changes
        self._length = length

    def __getitem__(self, key: str) -> T:
        if key not in self._changes:
            return self._base[key]
        found = self._changes[key]
        if found is None:
            raise KeyError(key)
        return found

    def __iter__(self) -> Iterator[str]:
        return (key for key, _ in self.pairs())

    def values(self) -> ValuesView[T]:
        """Return a view of the values, whose iteration does each lookup once."""
        return _Values(self)

    def pairs(self) -> Iterator[tuple[str, T]]:
        """Yield keys with their values."""
        changes, base = self._changes, self._base
        for key, value in base.items():
            if key not in changes:
                yield key, value
            elif (changed := changes[key]) is not None:
                yield key, changed
        for key, came in changes.items():
            if came is not None and key not in base:
                yield key, came

    def __len__(self) -> int:
        return self._length


class _Values(ValuesView[T]):
    _mapping: OverlayMapping[T]

    def __iter__(self) -> Iterator[T]:
        return (value for _, value in self._mapping.pairs())


class SnapshotBuilder(Generic[T]):
    """Takes snapshots of a mapping that changes.

    Args:
        live: The mapping; every change of it must be reported by `changed`.
        base: The contents of the mapping at its first change.
        over: Values that snapshots have in the place of those of `live`; so are they reported.
    """

    def __init__(
        self, live: Mapping[str, T], base: Mapping[str, T] | None = None, over: Mapping[str, T] | None = None
    ) -> None:
        self._live = live
        self._over: Mapping[str, T] = over if over is not None else {}
        self._base: Mapping[str, T] = base or {}
        self._changes: dict[str, T | None] = {}

    def changed(self, key: str, value: T | None) -> None:
        """Record that `key` has another value, or is gone."""
        self._changes[key] = value

    def take(self) -> Mapping[str, T]:
        """Return an immutable mapping with the present contents."""
        if len(self._changes) > max(_MOST_CHANGES, len(self._base) // _SHARE):
            self._base, self._changes = {**self._live, **self._over}, {}
        if not self._changes:
            return self._base
        return OverlayMapping(self._base, dict(self._changes), len(self._live))

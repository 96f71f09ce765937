"""What the console reads of a cluster: one immutable picture per revision."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from actions.cluster.changes import ChangeLog, Changes
from actions.cluster.health import SourceHealth
from actions.fleet.facts import EventFacts, NodeClaimFacts, NodeFacts, NodeUsage, PodFacts, WorkloadFacts


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
        history: Of the source that made it.
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
    history: ChangeLog = msgspec.field(default_factory=ChangeLog)

    def changes_since(self, older: ClusterSnapshot | None) -> Changes | None:
        """Which nodes and pods differ from an older picture.

        Returns:
            `None` when everything has to be looked at: there is no older one, it is of another source, or too old.
        """
        if older is None or older.history is not self.history:
            return None
        return self.history.between(older.revision, self.revision)

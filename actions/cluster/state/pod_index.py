"""Pods by node with the sums of their requests."""

from __future__ import annotations

from collections.abc import Mapping

from actions.fleet.facts import NodeUsage, PodFacts, Resources
from actions.fleet.totals import ResourcesSum

_ENDED = ("Succeeded", "Failed")


class PodIndex:
    """Pods by node with running sums, so that the work of a change does not depend on the size of the cluster.

    `usage` and `keys` are as of the last `update_totals`: structs are made once a snapshot.
    """

    def __init__(self) -> None:
        self.usage: dict[str, NodeUsage] = {}
        """By node name, without nodes that have no pods with resources."""
        self.keys: dict[str, tuple[str, ...]] = {}
        """Keys of all pods of a node, ended ones included, in order of arrival."""
        self._sums: dict[str, _NodeTotal] = {}
        """Of the nodes on which something has changed since the index was filled; so `_members`."""
        self._members: dict[str, dict[str, None]] = {}
        self._counted: set[str] = set()
        self._moved: set[str] = set()

    def change(self, key: str, before: PodFacts | None, after: PodFacts | None) -> None:
        """Replace one pod as it was by the pod as it is; either may be `None`."""
        has_moved = before is None or after is None or before.node != after.node
        if before is not None and before.node:
            self._count(before, -1)
            if has_moved:
                self._member_set(before.node).pop(key, None)
                self._moved.add(before.node)
        if after is not None and after.node:
            self._count(after, 1)
            if has_moved:
                self._member_set(after.node)[key] = None
                self._moved.add(after.node)

    def fill(self, pods: Mapping[str, PodFacts], usage: Mapping[str, NodeUsage]) -> None:
        """Put many pods into an empty index, in the order of the mapping.

        Args:
            pods: By key.
            usage: Their sums by node, as an index that held them has had them.
        """
        members: dict[str, list[str]] = {}
        for key, pod in pods.items():
            keys = members.get(pod.node)
            if keys is None:
                keys = members[pod.node] = []
            keys.append(key)
        members.pop("", None)
        self.usage = dict(usage)
        self.keys = {node: tuple(keys) for node, keys in members.items()}

    def update_totals(self) -> None:
        """Bring `usage` and `keys` up to date for the nodes whose pods have changed."""
        for node in self._counted:
            total = self._sums[node]
            if total.pods:
                self.usage[node] = total.as_usage()
            else:
                self.usage.pop(node, None)
                del self._sums[node]
        self._counted.clear()
        for node in self._moved:
            if members := self._members[node]:
                self.keys[node] = tuple(members)
            else:
                self.keys.pop(node, None)
                del self._members[node]
        self._moved.clear()

    def _count(self, pod: PodFacts, sign: int) -> None:
        if pod.phase in _ENDED:
            return
        total = self._sums.get(pod.node)
        if total is None:
            total = self._sums[pod.node] = _NodeTotal(self.usage.get(pod.node))
        total.add(pod.requests, sign)
        self._counted.add(pod.node)

    def _member_set(self, node: str) -> dict[str, None]:
        members = self._members.get(node)
        if members is None:
            members = self._members[node] = dict.fromkeys(self.keys.get(node, ()))
        return members


class _NodeTotal:
    """The number of the pods of one node that have not ended, and what they request."""

    __slots__ = ("pods", "requests")

    def __init__(self, usage: NodeUsage | None) -> None:
        self.pods = 0
        self.requests = ResourcesSum()
        if usage is not None:
            self.pods = usage.pods
            self.requests.add(usage.requested)

    def add(self, requests: Resources, sign: int) -> None:
        self.pods += sign
        self.requests.add(requests, sign)
        if requests.neuron_cores:  # how many devices they are depends on the node
            self.requests.neuron -= sign * requests.neuron

    def as_usage(self) -> NodeUsage:
        return NodeUsage(self.requests.total(), self.pods)

"""Nodes, usage and pods with their devices of dynamic resource allocation, laid over what they are without these.

A fact with devices holds them as a part of its own, by which they can be taken off again: stores and the kept snapshot
have facts without them.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.structs import replace

from actions.cluster.state.device_index import ChangedDevices, DeviceIndex
from actions.fleet.facts import NOTHING, UNUSED, NodeFacts, NodeUsage, PodFacts, Resources

_UNCHANGED = ChangedDevices(frozenset(), frozenset())


class DeviceLayer:
    """The nodes, usage and pods that have devices, as they are shown. Used on one loop.

    Args:
        own_nodes: All nodes, by name, without devices; so the others.
        own_usage: By node name.
        own_pods: By key.
    """

    def __init__(
        self,
        own_nodes: Mapping[str, NodeFacts],
        own_usage: Mapping[str, NodeUsage],
        own_pods: Mapping[str, PodFacts],
    ) -> None:
        self.nodes: dict[str, NodeFacts] = {}
        self.usage: dict[str, NodeUsage] = {}
        self.pods: dict[str, PodFacts] = {}
        self.index = DeviceIndex(own_pods)
        self._own_nodes = own_nodes
        self._own_usage = own_usage
        self._own_pods = own_pods
        self._is_counted = False
        self._stale_nodes: set[str] = set()

    def restore(
        self, nodes: Mapping[str, NodeFacts], usage: Mapping[str, NodeUsage], pods: Mapping[str, PodFacts]
    ) -> None:
        """Begin with what had devices at an earlier time, until they can be counted, or are refused."""
        self.nodes.update(nodes)
        self.usage.update(usage)
        self.pods.update(pods)
        self.index.offered.update((name, devices_of(node.allocatable)) for name, node in nodes.items())
        self.index.claimed.update((name, used.claimed) for name, used in usage.items())
        self.index.held.update((key, pod.claimed) for key, pod in pods.items())

    def node_changed(self, name: str, after: NodeFacts | None) -> None:
        """Take over a change of a node; `None` for one that has gone."""
        if name in self.index.offered:
            self._stale_nodes.add(name)
            if after is None:
                self.nodes.pop(name, None)

    def pod_changed(self, key: str, before: PodFacts | None, after: PodFacts | None) -> None:
        """Take over a change of a pod; `None` for one that has come or gone."""
        for pod in (before, after):
            if pod is not None and pod.node in self.index.claimed:
                self._stale_nodes.add(pod.node)
        self.index.pod_changed(key)

    def shown(self, key: str, pod: PodFacts | None) -> PodFacts | None:
        """Return a pod that has changed with the devices that it holds."""
        held = self.index.held.get(key) if pod is not None and self.index.held else None
        if pod is not None and held is not None:
            self.pods[key] = found = pod_with(pod, held)
            return found
        self.pods.pop(key, None)
        return pod

    def update(self, *, is_counted: bool, is_refused: bool) -> ChangedDevices:
        """Bring all up to date, after the sums of pods have been.

        Args:
            is_counted: All slices and claims that may be seen are known.
            is_refused: They may not be seen, so that nothing is counted.

        Returns:
            What may be shown differently besides nodes and pods that have changed themselves.
        """
        changed = _UNCHANGED
        if is_counted:
            if not self._is_counted:
                self.index.restart()
            changed = self.index.update()
        elif is_refused:
            changed = self.index.clear()
        self._is_counted = is_counted
        for name in self._stale_nodes | changed.nodes:
            self._lay(name)
        self._stale_nodes.clear()
        for key in changed.pods:
            self.shown(key, self._own_pods.get(key))
        return changed

    def _lay(self, name: str) -> None:
        node, use = self._own_nodes.get(name), self._own_usage.get(name, UNUSED)
        offered, claimed = self.index.offered.get(name, NOTHING), self.index.claimed.get(name, NOTHING)
        with_offer = node_with(node, offered) if node is not None else None
        if with_offer is None or with_offer is node:
            self.nodes.pop(name, None)
        else:
            self.nodes[name] = with_offer
        if claimed == NOTHING:
            self.usage.pop(name, None)
        else:
            self.usage[name] = usage_with(use, claimed)


def node_with(node: NodeFacts, offered: Resources) -> NodeFacts:
    """Return a node with the devices that slices offer; those that a device plugin offers, too, count once."""
    has = node.allocatable
    more = Resources(
        gpu=max(offered.gpu - has.gpu, 0),
        neuron=max(offered.neuron - has.neuron, 0),
        efa=max(offered.efa - has.efa, 0),
    )
    return node if more == NOTHING else replace(node, allocatable=has.plus(more), offered=more)


def usage_with(usage: NodeUsage, claimed: Resources) -> NodeUsage:
    """Return the usage of a node with the devices of its pods' claims."""
    return replace(usage, requested=usage.requested.plus(claimed), claimed=claimed)


def pod_with(pod: PodFacts, held: Resources) -> PodFacts:
    """Return a pod with the devices of its claims; an ended one holds none."""
    return pod if pod.is_done else replace(pod, requests=pod.requests.plus(held), claimed=held)


def own_node(node: NodeFacts) -> NodeFacts:
    """Return a node as it is without slices."""
    if node.offered is NOTHING:
        return node
    return replace(node, allocatable=node.allocatable.minus(node.offered), offered=NOTHING)


def own_usage(usage: NodeUsage) -> NodeUsage:
    """Return the usage of a node as it is without claims."""
    if usage.claimed is NOTHING:
        return usage
    return replace(usage, requested=usage.requested.minus(usage.claimed), claimed=NOTHING)


def own_pod(pod: PodFacts) -> PodFacts:
    """Return a pod as it is without claims."""
    if pod.claimed is NOTHING:
        return pod
    return replace(pod, requests=pod.requests.minus(pod.claimed), claimed=NOTHING)


def devices_of(amount: Resources) -> Resources:
    """Return the part of an amount that devices can offer."""
    return Resources(gpu=amount.gpu, neuron=amount.neuron, efa=amount.efa)

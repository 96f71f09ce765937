"""Devices of dynamic resource allocation by node and by pod: what ResourceSlices offer, and what claims have of it.

The rules are the scheduler's: of a pool only the slices of its newest generation count, and only when all of them are
there. While a driver is about to replace them, the pool stays as it was complete last.

Source: `pools_stable.go` and the allocator of k8s.io/dynamic-resource-allocation v0.34.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from functools import lru_cache, reduce
from typing import Final

import msgspec

from actions.cluster.state.device_decode import KINDS
from actions.fleet.facts import NOTHING, DeviceClaimFacts, DeviceFacts, PodFacts, Resources, SliceFacts

_PoolId = tuple[str, str]
"""Driver and name."""
_Unit = tuple[str, str]
"""Kind of a device, and what it is counted as."""
_NodeSums = tuple[Resources, Resources]
"""Devices that a pool offers on a node, and those of them that claims have."""
_NO_SUMS: Final[_NodeSums] = (NOTHING, NOTHING)
_MOST_STALE = 256
"""Pools or pods that are summed up at once, in a few milliseconds."""
_MOST_SHARED = 4096


class ChangedDevices(msgspec.Struct, frozen=True):
    """The names of nodes and keys of pods whose devices have changed."""

    nodes: frozenset[str]
    pods: frozenset[str]


class DeviceIndex:
    """Sums of devices by node and pod; a change costs what it changes, not the size of the cluster.

    `offered`, `claimed` and `held` are as of the last `update`.

    Args:
        pods: All pods, by key, as their own requests are.
    """

    def __init__(self, pods: Mapping[str, PodFacts]) -> None:
        self.offered: dict[str, Resources] = {}
        """Devices that slices offer, by node."""
        self.claimed: dict[str, Resources] = {}
        """Devices that claims of pods have, by node."""
        self.held: dict[str, Resources] = {}
        """Devices that a pod's claims have, by its key."""
        self._pods = pods
        self._slices: dict[_PoolId, tuple[SliceFacts, ...]] = {}
        self._whole: dict[_PoolId, tuple[SliceFacts, ...]] = {}
        """All slices of a pool's newest generation that was complete."""
        self._claims: dict[str, DeviceClaimFacts] = {}
        self._claims_of_pool: dict[_PoolId, set[str]] = {}
        self._claims_of_pod: dict[str, tuple[str, ...]] = {}
        self._pool_sums: dict[_PoolId, dict[str, _NodeSums]] = {}
        self._pools_of_node: dict[str, tuple[_PoolId, ...]] = {}
        self._pod_sums: dict[str, Resources] = {}
        self._stale_pools: set[_PoolId] = set()
        self._stale_pods: set[str] = set()
        self._changed_nodes: set[str] = set()
        self._changed_pods: set[str] = set()

    def slice_changed(self, before: SliceFacts | None, after: SliceFacts | None) -> None:
        """Replace one slice as it was by the slice as it is; either may be `None`."""
        if before is not None and before.driver in KINDS:
            pool = (before.driver, before.pool)
            self._slices[pool] = tuple(one for one in self._slices[pool] if one.name != before.name)
            self._pool_changed(pool)
        if after is not None and after.driver in KINDS:
            pool = (after.driver, after.pool)
            self._slices[pool] = (*self._slices.get(pool, ()), after)
            self._pool_changed(pool)
        self._sum_up_many()

    def claim_changed(self, key: str, before: DeviceClaimFacts | None, after: DeviceClaimFacts | None) -> None:
        """Replace one claim as it was by the claim as it is; either may be `None`."""
        known = self._claims.pop(key, None) if before is not None else None
        if known is not None:
            for pool in _pools_of(known):
                self._claims_of_pool[pool].discard(key)
                self._stale_pools.add(pool)
            for pod in _pods_of(known):
                self._claims_of_pod[pod] = tuple(other for other in self._claims_of_pod[pod] if other != key)
                self._stale_pods.add(pod)
        if after is not None and after.devices and after.pods:
            self._claims[key] = after
            for pool in _pools_of(after):
                self._claims_of_pool.setdefault(pool, set()).add(key)
                self._stale_pools.add(pool)
            for pod in _pods_of(after):
                self._claims_of_pod[pod] = (*self._claims_of_pod.get(pod, ()), key)
                self._stale_pods.add(pod)
        self._sum_up_many()

    def pod_changed(self, key: str) -> None:
        """Count claims that were made for a pod anew, as the pod's own requests decide about them."""
        for claim in self._claims_of_pod.get(key, ()) if self._claims_of_pod else ():
            if self._claims[claim].is_extended:
                self._stale_pools |= _pools_of(self._claims[claim])
                self._stale_pods.add(key)

    def update(self) -> ChangedDevices:
        """Bring the sums up to date and return those that differ."""
        self._sum_up()
        for node in self._changed_nodes:
            offered, claimed = self._node_sums(node)
            _put(self.offered, node, offered)
            _put(self.claimed, node, claimed)
        for pod in self._changed_pods:
            _put(self.held, pod, self._pod_sums.get(pod, NOTHING))
        changed = ChangedDevices(frozenset(self._changed_nodes), frozenset(self._changed_pods))
        self._changed_nodes.clear()
        self._changed_pods.clear()
        return changed

    def clear(self) -> ChangedDevices:
        """Empty the sums, of which some may be from an earlier time, until `restart`; return those that there were."""
        changed = ChangedDevices(frozenset(self.offered.keys() | self.claimed.keys()), frozenset(self.held))
        for sums in (self.offered, self.claimed, self.held):
            sums.clear()
        return changed

    def restart(self) -> None:
        """Let the next `update` return all, whatever sums there are."""
        self._changed_nodes.update(self.offered, self.claimed, self._pools_of_node)
        self._changed_pods.update(self.held, self._pod_sums)

    def _pool_changed(self, pool: _PoolId) -> None:
        slices = self._slices[pool]
        if not slices:
            del self._slices[pool]
            self._whole.pop(pool, None)
        else:
            newest = max(one.generation for one in slices)
            current = tuple(one for one in slices if one.generation == newest)
            if len(current) == current[0].count:
                self._whole[pool] = current
        self._stale_pools.add(pool)
        for claim in self._claims_of_pool.get(pool, ()):
            self._stale_pods.update(_pods_of(self._claims[claim]))

    def _sum_up_many(self) -> None:
        """Sum up what has changed as soon as it is much, as when a list is taken over bit by bit."""
        if len(self._stale_pools) >= _MOST_STALE or len(self._stale_pods) >= _MOST_STALE:
            self._sum_up()

    def _sum_up(self) -> None:
        for pool in self._stale_pools:
            self._sum_up_pool(pool)
        self._stale_pools.clear()
        for pod in self._stale_pods:
            held = self._sum_of_pod(pod)
            if held != self._pod_sums.get(pod, NOTHING):
                self._changed_pods.add(pod)
            _put(self._pod_sums, pod, held)
            if not self._claims_of_pod.get(pod):
                self._claims_of_pod.pop(pod, None)
        self._stale_pods.clear()

    def _sum_up_pool(self, pool: _PoolId) -> None:
        before, after = self._pool_sums.pop(pool, {}), self._sums_of_pool(pool)
        for node in before.keys() | after.keys():
            if before.get(node) != after.get(node):
                self._changed_nodes.add(node)
            if node not in after:
                self._leave_node(node, pool)
            elif node not in before:
                self._pools_of_node[node] = (*self._pools_of_node.get(node, ()), pool)
        if after:
            self._pool_sums[pool] = after
        elif not self._claims_of_pool.get(pool):
            self._claims_of_pool.pop(pool, None)

    def _leave_node(self, node: str, pool: _PoolId) -> None:
        others = tuple(other for other in self._pools_of_node[node] if other != pool)
        if others:
            self._pools_of_node[node] = others
        else:
            del self._pools_of_node[node]

    def _node_sums(self, node: str) -> _NodeSums:
        found = [self._pool_sums[pool][node] for pool in self._pools_of_node.get(node, ())]
        if len(found) == 1:
            return found[0]
        return reduce(lambda one, other: (one[0].plus(other[0]), one[1].plus(other[1])), found, _NO_SUMS)

    def _sums_of_pool(self, pool: _PoolId) -> dict[str, _NodeSums]:
        offered = _offered(self._whole.get(pool, ()))
        claimed: dict[str, set[_Unit]] = {}
        for key in self._claims_of_pool.get(pool, ()):
            claim = self._claims[key]
            for driver, name, device in claim.devices:
                if (driver, name) != pool:
                    continue
                node, unit = self._place(claim, pool, device)
                if node and unit[0] and any(self._counts(claim, pod, unit) for pod in _pods_of(claim)):
                    claimed.setdefault(node, set()).add(unit)
        if not claimed:
            return {node: (amount, NOTHING) for node, amount in offered.items()}
        return {
            node: (offered.get(node, NOTHING), _amount_of(claimed.get(node, ()))) for node in offered.keys() | claimed
        }

    def _sum_of_pod(self, key: str) -> Resources:
        found: set[tuple[_PoolId, _Unit]] = set()
        for claim in map(self._claims.__getitem__, self._claims_of_pod.get(key, ())):
            for driver, name, device in claim.devices:
                _, unit = self._place(claim, (driver, name), device)
                if unit[0] and self._counts(claim, key, unit):
                    found.add(((driver, name), unit))
        return _amount_of([unit for _, unit in found])

    def _place(self, claim: DeviceClaimFacts, pool: _PoolId, name: str) -> tuple[str, _Unit]:
        """Return node and unit of a device; of one that no slice offers (any more) as claim and driver have it."""
        for one in self._whole.get(pool, ()):
            device = _by_name(one.devices).get(name)
            if device is not None:
                return device.node or one.node, (device.kind, device.unit)
        return claim.node, (KINDS.get(pool[0], ""), name)

    def _counts(self, claim: DeviceClaimFacts, key: str, unit: _Unit) -> bool:
        """Return whether a device is not among the pod's own requests, as one of a claim made of these is."""
        if not claim.is_extended:
            return True
        pod = self._pods.get(key)
        return pod is not None and not getattr(pod.requests, unit[0])


def _put(sums: dict[str, Resources], key: str, amount: Resources) -> None:
    if amount == NOTHING:
        sums.pop(key, None)
    else:
        sums[key] = amount


def _pools_of(claim: DeviceClaimFacts) -> set[_PoolId]:
    return {(driver, pool) for driver, pool, _ in claim.devices if driver in KINDS}


def _pods_of(claim: DeviceClaimFacts) -> Iterator[str]:
    return (f"{claim.namespace}/{pod}" for pod in claim.pods)


def _offered(slices: tuple[SliceFacts, ...]) -> dict[str, Resources]:
    """Return the devices of a pool by node."""
    if len(slices) == 1 and slices[0].node:
        amount = _amount_of_devices(slices[0].devices)
        return {slices[0].node: amount} if amount != NOTHING else {}
    units: dict[str, set[_Unit]] = {}
    for one in slices:
        for device in one.devices:
            if device.kind and (node := device.node or one.node):
                units.setdefault(node, set()).add((device.kind, device.unit))
    return {node: _amount_of(found) for node, found in units.items()}


@lru_cache(maxsize=_MOST_SHARED)
def _by_name(devices: tuple[DeviceFacts, ...]) -> dict[str, DeviceFacts]:
    return {device.name: device for device in devices}


@lru_cache(maxsize=_MOST_SHARED)
def _amount_of_devices(devices: tuple[DeviceFacts, ...]) -> Resources:
    return _amount_of({(device.kind, device.unit) for device in devices})


def _amount_of(units: Collection[_Unit]) -> Resources:
    """Sum up different units."""
    kinds = [kind for kind, _ in units]
    return _shared_amount(*map(kinds.count, ("gpu", "neuron", "efa")))


@lru_cache(maxsize=_MOST_SHARED)
def _shared_amount(gpu: int, neuron: int, efa: int) -> Resources:
    return Resources(gpu=gpu, neuron=neuron, efa=efa) if gpu or neuron or efa else NOTHING

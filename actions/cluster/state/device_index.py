"""Devices of dynamic resource allocation by node and by pod: what ResourceSlices offer, and what claims have of it.

The rules are the scheduler's: of a pool only the slices of its newest generation count, and only when all of them are
there. While a driver is about to replace them, the pool stays as it was complete last.

Source: `pools_stable.go` and the allocator of k8s.io/dynamic-resource-allocation v0.34.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Final, TypeVar

import msgspec

from actions.cluster.state.device_decode import KINDS
from actions.fleet.facts import NOTHING, DeviceClaimFacts, DeviceFacts, PodFacts, Resources, SliceFacts

_PoolId = tuple[str, str]
"""Driver and name."""
_Unit = tuple[str, _PoolId, str]
"""Kind, pool, and what the device is counted as."""
_KIND: Final = 0


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
        self._slices: dict[_PoolId, dict[str, SliceFacts]] = {}
        self._pools: dict[_PoolId, dict[str, tuple[str, DeviceFacts]]] = {}
        """Node and facts of a pool's devices, by their names."""
        self._claims: dict[str, DeviceClaimFacts] = {}
        self._claims_of: dict[_PoolId, set[str]] = {}
        self._extended: dict[str, set[str]] = {}
        """Keys of claims that the scheduler has made for a pod, by that of the pod."""
        self._counted: dict[str, list[tuple[str, str, _Unit]]] = {}
        """Node, pod and unit for which a claim is counted."""
        self._offered = _UnitCounts()
        self._on_nodes = _UnitCounts()
        self._of_pods = _UnitCounts()
        self._stale_pools: set[_PoolId] = set()
        self._stale_claims: set[str] = set()

    def slice_changed(self, before: SliceFacts | None, after: SliceFacts | None) -> None:
        """Replace one slice as it was by the slice as it is; either may be `None`."""
        if before is not None and before.driver in KINDS:
            pool = (before.driver, before.pool)
            self._slices[pool].pop(before.name)
            self._stale_pools.add(pool)
        if after is not None and after.driver in KINDS:
            pool = (after.driver, after.pool)
            self._slices.setdefault(pool, {})[after.name] = after
            self._stale_pools.add(pool)

    def claim_changed(self, key: str, before: DeviceClaimFacts | None, after: DeviceClaimFacts | None) -> None:
        """Replace one claim as it was by the claim as it is; either may be `None`."""
        if before is not None:
            self._claims.pop(key, None)
            for pool in _pools_of(before):
                _drop(self._claims_of, pool, key)
            for pod in before.pods if before.is_extended else ():
                _drop(self._extended, f"{before.namespace}/{pod}", key)
        if after is not None and after.devices and after.pods:
            self._claims[key] = after
            for pool in _pools_of(after):
                self._claims_of.setdefault(pool, set()).add(key)
            for pod in after.pods if after.is_extended else ():
                self._extended.setdefault(f"{after.namespace}/{pod}", set()).add(key)
        self._stale_claims.add(key)

    def pod_changed(self, key: str) -> None:
        """Count the claims that were made for a pod anew, as the pod's own requests decide about them."""
        if self._extended and key in self._extended:
            self._stale_claims |= self._extended[key]

    def update(self) -> ChangedDevices:
        """Bring the sums up to date and return those that differ."""
        for pool in self._stale_pools:
            self._read_pool(pool)
            self._stale_claims |= self._claims_of.get(pool, set())
        self._stale_pools.clear()
        for key in self._stale_claims:
            self._count_claim(key)
        self._stale_claims.clear()
        nodes = self._offered.update(self.offered) | self._on_nodes.update(self.claimed)
        return ChangedDevices(frozenset(nodes), frozenset(self._of_pods.update(self.held)))

    def clear(self) -> ChangedDevices:
        """Empty the sums, of which some may be from an earlier time, until `restart`; return those that there were."""
        changed = ChangedDevices(frozenset(self.offered.keys() | self.claimed.keys()), frozenset(self.held))
        for sums in (self.offered, self.claimed, self.held):
            sums.clear()
        return changed

    def restart(self) -> None:
        """Let the next `update` sum everything up, whatever sums there are."""
        self._offered.touch(self.offered)
        self._on_nodes.touch(self.claimed)
        self._of_pods.touch(self.held)

    def _read_pool(self, pool: _PoolId) -> None:
        slices = self._slices.get(pool)
        if not slices:
            self._slices.pop(pool, None)
            self._replace_pool(pool, {})
            return
        newest = max(one.generation for one in slices.values())
        current = [one for one in slices.values() if one.generation == newest]
        if len(current) == current[0].count:
            found = {device.name: (device.node or one.node, device) for one in current for device in one.devices}
            self._replace_pool(pool, found)

    def _replace_pool(self, pool: _PoolId, found: dict[str, tuple[str, DeviceFacts]]) -> None:
        for node, unit in _units(pool, self._pools.pop(pool, {}).values()):
            self._offered.add(node, unit, -1)
        for node, unit in _units(pool, found.values()):
            self._offered.add(node, unit, 1)
        if found:
            self._pools[pool] = found

    def _count_claim(self, key: str) -> None:
        for node, pod, unit in self._counted.pop(key, ()):
            self._on_nodes.add(node, unit, -1)
            self._of_pods.add(pod, unit, -1)
        claim = self._claims.get(key)
        if claim is None:
            return
        counted = [
            (node, f"{claim.namespace}/{name}", unit)
            for device in claim.devices
            if (found := self._place(claim, *device)) is not None
            for node, unit in (found,)
            for name in claim.pods
            if not (claim.is_extended and self._requests(f"{claim.namespace}/{name}", unit[_KIND]))
        ]
        for node, pod, unit in counted:
            self._on_nodes.add(node, unit, 1)
            self._of_pods.add(pod, unit, 1)
        self._counted[key] = counted

    def _place(self, claim: DeviceClaimFacts, driver: str, pool: str, name: str) -> tuple[str, _Unit] | None:
        """Return node and unit of a device; of one that no slice offers (any more) what the claim and driver tell."""
        node, device = self._pools.get((driver, pool), {}).get(name, (claim.node, None))
        kind = device.kind if device is not None else KINDS.get(driver, "")
        if not kind or not node:
            return None
        return node, (kind, (driver, pool), device.unit if device is not None else name)

    def _requests(self, key: str, kind: str) -> bool:
        """Return whether a pod requests devices of a kind by itself; the request of a claim made for it is one."""
        pod = self._pods.get(key)
        return pod is None or getattr(pod.requests, kind) > 0


class _UnitCounts:
    """Units by node or pod, with the number of claims that have them; in their sums each unit counts once."""

    def __init__(self) -> None:
        self._counts: dict[str, Counter[_Unit]] = {}
        self._stale: set[str] = set()

    def add(self, owner: str, unit: _Unit, count: int) -> None:
        """Count a unit once more, or once less."""
        counts = self._counts.setdefault(owner, Counter())
        counts[unit] += count
        if not counts[unit]:
            del counts[unit]
        self._stale.add(owner)

    def touch(self, owners: Iterable[str]) -> None:
        """Let the next `update` sum up these owners and all that are counted."""
        self._stale.update(owners, self._counts)

    def update(self, sums: dict[str, Resources]) -> set[str]:
        """Bring sums up to date; return the owners whose sums differ."""
        changed: set[str] = set()
        for owner in self._stale:
            kinds = Counter(unit[_KIND] for unit in self._counts.get(owner, ()))
            found = Resources(gpu=kinds["gpu"], neuron=kinds["neuron"], efa=kinds["efa"]) if kinds else NOTHING
            if found != sums.get(owner, NOTHING):
                changed.add(owner)
            if kinds:
                sums[owner] = found
            else:
                sums.pop(owner, None)
                self._counts.pop(owner, None)
        self._stale.clear()
        return changed


_Key = TypeVar("_Key")


def _drop(sets: dict[_Key, set[str]], key: _Key, member: str) -> None:
    members = sets.get(key, set())
    members.discard(member)
    if not members:
        sets.pop(key, None)


def _pools_of(claim: DeviceClaimFacts) -> set[_PoolId]:
    return {(driver, pool) for driver, pool, _ in claim.devices}


def _units(pool: _PoolId, devices: Iterable[tuple[str, DeviceFacts]]) -> set[tuple[str, _Unit]]:
    return {(node, (device.kind, pool, device.unit)) for node, device in devices if device.kind and node}

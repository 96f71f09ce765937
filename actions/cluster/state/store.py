"""The facts of one source by key, and the newest events of a cluster in order.

A change that leaves a fact equal to the one before changes nothing.
"""

from __future__ import annotations

import asyncio
import heapq
from bisect import bisect_left, insort
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Generic, Protocol, TypeVar

from msgspec.structs import replace

from actions.base.clock import Clock
from actions.cluster.bounds import FACTS
from actions.cluster.watch.decoder import SLICE_SECONDS
from actions.cluster.watch.health import Health, SourceHealth
from actions.fleet.facts import (
    DeviceClaimFacts,
    EventFacts,
    NodeClaimFacts,
    NodeFacts,
    PodFacts,
    SliceFacts,
    WorkloadFacts,
)

_PORTION = 64


class HasUid(Protocol):
    """A fact with the uid of its object."""

    @property
    def uid(self) -> str: ...


class HasNamespace(HasUid, Protocol):
    """A fact about an object in a namespace."""

    @property
    def namespace(self) -> str: ...


FactT = TypeVar("FactT", bound=HasUid)
PlacedT = TypeVar("PlacedT", bound=HasNamespace)


class FactTable(Generic[FactT]):
    """The facts of one source, by key; a reflector's sink. Called on one loop.

    Args:
        key: Returns the name of a fact's object; another uid under the same key is another object, which replaces it.
        changed: Called with every difference: the key, the fact before and the fact after, `None` for none.
        report_health: Called with the source's health.
        report_replacing: Called when `replace` begins and ends: in between, the facts are neither the old list nor the
            new one.
        clock: For the slices of `replace`.
    """

    def __init__(
        self,
        *,
        key: Callable[[FactT], str],
        changed: Callable[[str, FactT | None, FactT | None], None],
        report_health: Callable[[SourceHealth], None],
        clock: Clock,
        report_replacing: Callable[[bool], None] = lambda _: None,
    ) -> None:
        self.facts: dict[str, FactT] = {}
        self.is_complete = False
        self._key = key
        self._changed = changed
        self._report_health = report_health
        self._report_replacing = report_replacing
        self._clock = clock
        self._last_health: SourceHealth | None = None
        self._left_out = 0
        self._is_restored = False

    def restore(self, facts: Mapping[str, FactT]) -> None:
        """Begin with facts that were complete once, and are again when the source is live."""
        self.facts.update(facts)
        self._is_restored = True

    async def replace(self, items: Sequence[FactT]) -> None:
        """Take a complete list: put new and different facts, drop those that are not in it."""
        self._report_replacing(True)
        try:
            await self._upsert_all(items)
            if len(self.facts) > len(items):
                self._drop_others(self.facts.items(), items)
            self.is_complete = True
            self._left_out = 0
        finally:
            self._report_replacing(False)

    async def replace_within(self: FactTable[PlacedT], namespace: str, items: Sequence[PlacedT]) -> None:
        """Take a complete list of one namespace, without a change of `is_complete`."""
        self._is_restored = False
        await self._upsert_all(items)
        here = [(key, fact) for key, fact in self.facts.items() if fact.namespace == namespace]
        self._drop_others(here, items)

    def keep_within(self: FactTable[PlacedT], namespaces: Collection[str]) -> None:
        """Drop facts of other namespaces, which may not be seen any more."""
        self._is_restored = False
        for key in [key for key, fact in self.facts.items() if fact.namespace not in namespaces]:
            self._changed(key, self.facts.pop(key), None)

    async def _upsert_all(self, items: Sequence[FactT]) -> None:
        until = self._clock.monotonic() + SLICE_SECONDS
        for begin in range(0, len(items), _PORTION):
            for item in items[begin : begin + _PORTION]:
                key = self._key(item)
                self._put(key, self.facts.get(key), item)
            if self._clock.monotonic() >= until:
                await asyncio.sleep(0)
                until = self._clock.monotonic() + SLICE_SECONDS

    def _drop_others(self, known: Iterable[tuple[str, FactT]], items: Sequence[FactT]) -> None:
        kept = {self._key(item) for item in items}
        for key in [key for key, _ in known if key not in kept]:
            self._changed(key, self.facts.pop(key), None)

    def upsert(self, item: FactT) -> None:
        """Put one fact. A new one for which there is no room (`limits.FACTS`) is counted as skipped."""
        key = self._key(item)
        before = self.facts.get(key)
        if before is None and len(self.facts) >= FACTS:
            self._leave_out()
        else:
            self._put(key, before, item)

    def _put(self, key: str, before: FactT | None, item: FactT) -> None:
        if before == item:
            return
        self.facts[key] = item
        self._changed(key, before, item)

    def remove(self, item: FactT) -> None:
        """Drop one object's fact, unless another object of its name has replaced it already."""
        key = self._key(item)
        before = self.facts.get(key)
        if before is not None and before.uid == item.uid:
            del self.facts[key]
            self._changed(key, before, None)

    def health(self, health: SourceHealth) -> None:
        """Take the source's new health."""
        self._last_health = health
        if self._is_restored and health.state is Health.LIVE:  # its watch goes on where the facts were kept
            self.is_complete, self._is_restored = True, False
        self._report_health(replace(health, skipped=health.skipped + self._left_out) if self._left_out else health)

    def _leave_out(self) -> None:
        """Count an object for which there is no room; report the first one at once."""
        self._left_out += 1
        if self._left_out == 1 and self._last_health is not None:
            self.health(self._last_health)


def node_key(node: NodeFacts) -> str:
    """Return a node's key: its name."""
    return node.name


def pod_key(pod: PodFacts) -> str:
    """Return a pod's key: `namespace/name`."""
    return pod.key


def workload_key(workload: WorkloadFacts) -> str:
    """Return a workload's key: `Kind namespace/name`."""
    return f"{workload.kind} {workload.namespace}/{workload.name}"


def claim_key(claim: NodeClaimFacts) -> str:
    """Return a NodeClaim's key: its name."""
    return claim.name


def slice_key(found: SliceFacts) -> str:
    """Return a ResourceSlice's key: its name."""
    return found.name


def device_claim_key(claim: DeviceClaimFacts) -> str:
    """Return a ResourceClaim's key: `namespace/name`."""
    return f"{claim.namespace}/{claim.name}"


MOST_EVENTS = 5000
"""Events that are kept; a cluster keeps those of an hour, which may be hundreds of thousands."""
MOST_SHOWN = 1000
"""Events in a snapshot."""

_Place = tuple[float, str]


def newest_of(events: Iterable[EventFacts], most: int) -> list[EventFacts]:
    """Return the newest events, newest first."""
    return heapq.nlargest(most, events, key=_place)


def trim(found: dict[str, EventFacts]) -> None:
    """Drop all but the newest events, by uid, from a list that is being read."""
    if len(found) > 2 * MOST_EVENTS:
        newest = newest_of(found.values(), MOST_EVENTS)
        found.clear()
        found.update((event.uid, event) for event in newest)


class EventTable(FactTable[EventFacts]):
    """The newest events by uid, and their order in time: a change costs the same whatever the cluster has.

    An event that was dropped for its age comes back when it happens again.

    Args:
        changed: Called with every difference, as by `FactTable`.
        report_health: Called with the source's health.
        report_replacing: Called when `replace` begins and ends.
        clock: For the slices of `replace`.
        most: The number of events that are kept.
    """

    def __init__(
        self,
        *,
        changed: Callable[[str, EventFacts | None, EventFacts | None], None],
        report_health: Callable[[SourceHealth], None],
        clock: Clock,
        report_replacing: Callable[[bool], None] = lambda _: None,
        most: int = MOST_EVENTS,
    ) -> None:
        super().__init__(
            key=event_key,
            changed=self._note,
            report_health=report_health,
            clock=clock,
            report_replacing=report_replacing,
        )
        self._event_changed = changed
        self._most = most
        self._order: list[_Place] = []

    def newest(self, most: int = MOST_SHOWN) -> tuple[EventFacts, ...]:
        """Return the newest events, oldest first."""
        facts = self.facts
        return tuple([facts[uid] for _, uid in self._order[-most:]])

    async def replace(self, items: Sequence[EventFacts]) -> None:
        """Take a complete list and keep the newest of it. Events that are gone make room first."""
        newest = newest_of(items, self._most)
        self._report_replacing(True)
        try:
            self._drop_others(self.facts.items(), newest)
            await self._upsert_all(newest)
            self.is_complete = True
        finally:
            self._report_replacing(False)

    def _put(self, key: str, before: EventFacts | None, item: EventFacts) -> None:
        """Put one event, unless it is older than all of a full table."""
        if before is None and len(self._order) >= self._most and _place(item) < self._order[0]:
            return
        super()._put(key, before, item)
        if len(self._order) > self._most:
            self.remove(self.facts[self._order[0][1]])

    def _note(self, key: str, before: EventFacts | None, after: EventFacts | None) -> None:
        if before is not None:
            del self._order[bisect_left(self._order, _place(before))]
        if after is not None:
            insort(self._order, _place(after))
        self._event_changed(key, before, after)


def event_key(event: EventFacts) -> str:
    """Return an event's key: its uid."""
    return event.uid


def _place(event: EventFacts) -> _Place:
    return (event.last_seen_at, event.uid)

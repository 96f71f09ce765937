"""The facts of one source by key, changed fact by fact: one that says the same as before changes nothing at all."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Generic, Protocol, TypeVar

from msgspec.structs import replace

from actions.base.clock import Clock
from actions.cluster.health import SourceHealth
from actions.cluster.limits import FACTS
from actions.cluster.slices import SLICE_SECONDS
from actions.fleet.facts import NodeClaimFacts, NodeFacts, PodFacts, WorkloadFacts

_PORTION = 64


class HasUid(Protocol):
    """A fact that knows which object it is about."""

    @property
    def uid(self) -> str: ...


class HasNamespace(HasUid, Protocol):
    """A fact about an object that lives in a namespace."""

    @property
    def namespace(self) -> str: ...


FactT = TypeVar("FactT", bound=HasUid)
PlacedT = TypeVar("PlacedT", bound=HasNamespace)


class FactTable(Generic[FactT]):
    """The facts of one source, by key; a reflector's sink. Called on one loop.

    Args:
        key: Names an object as people do; another uid under the same key is another object, which takes its place.
        changed: Told of every difference: the key, the fact before and the fact after, `None` for none.
        tell_health: Told of the source's health.
        tell_replacing: Told when a complete list begins and ends to be taken: between, the facts are neither the old
            list nor the new.
        clock: For handing the loop back during `replace`.
    """

    def __init__(
        self,
        *,
        key: Callable[[FactT], str],
        changed: Callable[[str, FactT | None, FactT | None], None],
        tell_health: Callable[[SourceHealth], None],
        clock: Clock,
        tell_replacing: Callable[[bool], None] = lambda _: None,
    ) -> None:
        self.facts: dict[str, FactT] = {}
        self.is_complete = False
        self._key = key
        self._changed = changed
        self._tell_health = tell_health
        self._tell_replacing = tell_replacing
        self._clock = clock
        self._told: SourceHealth | None = None
        self._left_out = 0

    async def replace(self, items: Sequence[FactT]) -> None:
        """A complete list: put what is new or different, drop what is not in it."""
        self._tell_replacing(True)
        try:
            await self._upsert_all(items)
            if len(self.facts) > len(items):
                self._drop_others(self.facts.items(), items)
            self.is_complete = True
            self._left_out = 0
        finally:
            self._tell_replacing(False)

    async def replace_within(self: FactTable[PlacedT], namespace: str, items: Sequence[PlacedT]) -> None:
        """A list complete for one namespace; whether the table is complete is for others to know."""
        await self._upsert_all(items)
        here = [(key, fact) for key, fact in self.facts.items() if fact.namespace == namespace]
        self._drop_others(here, items)

    def keep_within(self: FactTable[PlacedT], namespaces: Collection[str]) -> None:
        """Drop what is in other namespaces: it cannot be seen any more."""
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
        """One fact as it is now. A new one for which there is no room (`limits.FACTS`) is counted as skipped."""
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
        """One object is gone, unless another one of its name has taken its place already."""
        key = self._key(item)
        before = self.facts.get(key)
        if before is not None and before.uid == item.uid:
            del self.facts[key]
            self._changed(key, before, None)

    def health(self, health: SourceHealth) -> None:
        """The source is doing better or worse."""
        self._told = health
        self._tell_health(replace(health, skipped=health.skipped + self._left_out) if self._left_out else health)

    def _leave_out(self) -> None:
        """Count an object for which there is no room; the first one is told at once."""
        self._left_out += 1
        if self._left_out == 1 and self._told is not None:
            self.health(self._told)


def node_key(node: NodeFacts) -> str:
    """Nodes go by name."""
    return node.name


def pod_key(pod: PodFacts) -> str:
    """Pods go by `namespace/name`."""
    return pod.key


def workload_key(workload: WorkloadFacts) -> str:
    """Workloads go by `Kind namespace/name`."""
    return f"{workload.kind} {workload.namespace}/{workload.name}"


def claim_key(claim: NodeClaimFacts) -> str:
    """NodeClaims go by name."""
    return claim.name

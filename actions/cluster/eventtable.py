"""The newest events of a cluster, in order, however many there are."""

from __future__ import annotations

import heapq
from bisect import bisect_left, insort
from collections.abc import Callable, Iterable, Sequence

from actions.base.clock import Clock
from actions.cluster.health import SourceHealth
from actions.cluster.store import FactTable
from actions.fleet.facts import EventFacts

MOST_EVENTS = 5000
"""Kept; older ones are dropped. A cluster keeps its events for an hour, which may be hundreds of thousands."""
MOST_SHOWN = 1000
"""In a picture."""

_Place = tuple[float, str]


def newest_of(events: Iterable[EventFacts], most: int) -> list[EventFacts]:
    """The newest events, newest first."""
    return heapq.nlargest(most, events, key=_place)


def trim(found: dict[str, EventFacts]) -> None:
    """Of a list that is coming in, by uid, keep the newest events only."""
    if len(found) > 2 * MOST_EVENTS:
        newest = newest_of(found.values(), MOST_EVENTS)
        found.clear()
        found.update((event.uid, event) for event in newest)


class EventTable(FactTable[EventFacts]):
    """The newest events by uid, and their order in time: a change costs the same whatever the cluster has.

    An event that was dropped for its age comes back when it happens again.

    Args:
        changed: Told of every difference, as by `FactTable`.
        tell_health: Told of the source's health.
        tell_replacing: Told when a complete list begins and ends to be taken.
        clock: For handing the loop back.
        most: How many are kept.
    """

    def __init__(
        self,
        *,
        changed: Callable[[str, EventFacts | None, EventFacts | None], None],
        tell_health: Callable[[SourceHealth], None],
        clock: Clock,
        tell_replacing: Callable[[bool], None] = lambda _: None,
        most: int = MOST_EVENTS,
    ) -> None:
        super().__init__(
            key=event_key, changed=self._note, tell_health=tell_health, clock=clock, tell_replacing=tell_replacing
        )
        self._tell = changed
        self._most = most
        self._order: list[_Place] = []

    def newest(self, most: int = MOST_SHOWN) -> tuple[EventFacts, ...]:
        """The newest events, oldest first."""
        facts = self.facts
        return tuple([facts[uid] for _, uid in self._order[-most:]])

    async def replace(self, items: Sequence[EventFacts]) -> None:
        """A complete list: keep the newest of it. What is gone makes room first."""
        newest = newest_of(items, self._most)
        self._tell_replacing(True)
        try:
            self._drop_others(self.facts.items(), newest)
            await self._upsert_all(newest)
            self.is_complete = True
        finally:
            self._tell_replacing(False)

    def _put(self, key: str, before: EventFacts | None, item: EventFacts) -> None:
        """One event as it is now; nothing, if it is older than all of a full table."""
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
        self._tell(key, before, after)


def event_key(event: EventFacts) -> str:
    """Events go by uid."""
    return event.uid


def _place(event: EventFacts) -> _Place:
    return (event.last_seen_at, event.uid)

"""The newest events: in order, bounded, at the same cost however many a cluster has."""

from __future__ import annotations

import time

import msgspec
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from actions.base.clock import SystemClock
from actions.cluster.state.store import MOST_EVENTS, MOST_SHOWN, EventTable, newest_of, trim
from actions.fleet.facts import EventFacts

MOST = 4


def an_event(number: int, at: float) -> EventFacts:
    return EventFacts(str(number), "default", "Pod", "train-0", "Normal", "Pulled", "done", 1, at)


def a_table(most: int = MOST) -> EventTable:
    return EventTable(changed=lambda *_: None, report_health=lambda _: None, clock=SystemClock(), most=most)


EVENTS = st.lists(st.builds(an_event, st.integers(0, 9), st.integers(0, 9).map(float)), max_size=12)


def distinct(events: list[EventFacts]) -> list[EventFacts]:
    return list({event.uid: event for event in events}.values())


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.tuples(st.sampled_from(["upsert", "remove", "replace"]), EVENTS), max_size=8))
async def test_what_is_kept_is_in_order_and_bounded_and_the_newest_of_every_list(
    steps: list[tuple[str, list[EventFacts]]],
) -> None:
    table = a_table()
    for step, events in steps:
        if step == "replace":
            listed = distinct(events)
            await table.replace(listed)
            assert set(table.newest()) == set(newest_of(listed, MOST))
        for event in events if step != "replace" else ():
            if step == "upsert":
                table.upsert(event)
            else:
                table.remove(event)
        shown = table.newest()
        assert [(one.last_seen_at, one.uid) for one in shown] == sorted((one.last_seen_at, one.uid) for one in shown)
        assert set(shown) == set(table.facts.values())
        assert len(shown) <= MOST


async def test_an_event_that_was_dropped_for_its_age_comes_back_when_it_happens_again() -> None:
    table = a_table(2)
    old = an_event(1, 1.0)
    for event in (old, an_event(2, 2.0), an_event(3, 3.0)):
        table.upsert(event)
    assert [event.uid for event in table.newest()] == ["2", "3"]
    table.upsert(msgspec.structs.replace(old, last_seen_at=4.0, count=2))
    assert [event.uid for event in table.newest()] == ["3", "1"]


async def test_d19_a_picture_costs_the_same_with_two_hundred_thousand_events() -> None:
    """Processor time is compared with processor time; 200 ms for a picture before, 560 times what few events cost."""

    async def seconds_of_pictures(count: int) -> float:
        table = a_table(MOST_EVENTS)
        await table.replace([an_event(number, float(number)) for number in range(count)])
        began = time.process_time()
        for number in range(50):
            table.upsert(an_event(number, float(count + number)))
            assert len(table.newest()) == MOST_SHOWN
        return time.process_time() - began

    few, many = await seconds_of_pictures(2_000), await seconds_of_pictures(200_000)
    assert many < 10 * few


def test_a_list_that_comes_in_is_trimmed_to_the_newest() -> None:
    found: dict[str, EventFacts] = {}
    for number in range(25_000):
        found[str(number)] = an_event(number, float(number * 7919 % 25_000))
        trim(found)
        assert len(found) <= 2 * MOST_EVENTS
    newest = sorted(found.values(), key=lambda event: event.last_seen_at)[-MOST_EVENTS:]
    assert [event.last_seen_at for event in newest] == [float(at) for at in range(20_000, 25_000)]

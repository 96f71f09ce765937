"""The events pane: newest first, warnings with a sign, of one namespace."""

from __future__ import annotations

from msgspec.structs import replace

from tests.support.builders import a_snapshot, an_event, console_services
from tests.unit.panes.alone import text_of
from tui.panes.events import EventsPane


async def test_the_newest_event_comes_first_and_warnings_have_a_sign() -> None:
    text = await text_of(
        EventsPane(console_services(a_snapshot(events=[an_event(), an_event("FailedMount", type_="Warning")])))
    )

    assert "▲ FailedMount" in text
    assert "Warning" in text
    assert "11:59:00" in text


async def test_events_are_narrowed_to_a_namespace() -> None:
    services = console_services(a_snapshot(events=[an_event(), replace(an_event("Killed"), namespace="other")]))
    services.narrow("other")
    text = await text_of(EventsPane(services))
    assert "events in other" in text
    assert "Killed" in text
    assert "Scheduled" not in text


async def test_what_volcano_says_of_a_gang_that_it_has_placed_is_no_warning() -> None:
    message = "0/3 tasks in gang unschedulable: pod group is ready, 3 Running, 3 minAvailable"
    placed = replace(an_event("Unschedulable", type_="Warning"), kind="PodGroup", message=message)
    waiting = replace(placed, uid="other", message=message.replace("is ready", "is not ready"))

    assert "· Unschedulable" in await text_of(EventsPane(console_services(a_snapshot(events=[placed]))))
    assert "▲ Unschedulable" in await text_of(EventsPane(console_services(a_snapshot(events=[waiting]))))

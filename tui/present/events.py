"""Events as rows of a table, newest first."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from actions.fleet.facts import EventFacts
from tui.present.cells import Cells, CellValue, Span, Tone
from tui.present.text import clock_of


class EventScope(msgspec.Struct, frozen=True):
    """Which events a table shows: those about one object, or all.

    Args:
        namespace: Of the object.
        name: Of the object; empty for all objects.
    """

    namespace: str = ""
    name: str = ""

    def holds(self, event: EventFacts) -> bool:
        """Whether the event is to be shown."""
        return not self.name or (event.name == self.name and event.namespace in (self.namespace, ""))

    def title(self) -> str:
        """For the border of the pane."""
        return f"events of {self.name}" if self.name else "events"


def events_in(events: Iterable[EventFacts], scope: EventScope) -> list[EventFacts]:
    """The events to show."""
    return [event for event in events if scope.holds(event)]


def search_text(event: EventFacts) -> str:
    """What a filter on events looks at."""
    return " ".join((event.type, event.reason, event.kind, event.namespace, event.name, event.message))


def time_cell(event: EventFacts) -> CellValue:
    """Time of day, UTC, of the last time it happened."""
    return Span(clock_of(round(event.last_seen_at * 1e9))[:8], Tone.MUTED)


def type_cell(event: EventFacts) -> CellValue:
    """The word."""
    return Span(event.type, Tone.MUTED if event.type == "Normal" else Tone.WARN)


def reason_cell(event: EventFacts) -> Cells:
    """A glyph before the reason: a warning is seen without colour, and where there is no room for its type."""
    if event.type == "Normal":
        return (Span("· ", Tone.MUTED), Span(event.reason))
    return (Span("▲ ", Tone.WARN), Span(event.reason, Tone.WARN))


def object_cell(event: EventFacts) -> str:
    """Kind and name."""
    return f"{event.kind}/{event.name}"


def count_cell(event: EventFacts) -> CellValue:
    """How often; once is not worth saying."""
    return f"×{event.count}" if event.count > 1 else ""


def message_cell(event: EventFacts) -> CellValue:
    """What the component said."""
    return event.message if event.type == "Normal" else Span(event.message, Tone.WARN)

"""Events as rows of a table, newest first."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from actions.fleet.facts import EventFacts
from tui.present.cells import Cells, CellValue, Span, Tone
from tui.present.text import clock_of


class EventScope(msgspec.Struct, frozen=True):
    """The events that a table shows: those of one object, or all.

    Args:
        namespace: Namespace of the object.
        name: Name of the object; empty for all objects.
        within: Only events of this namespace.
    """

    namespace: str = ""
    name: str = ""
    within: str = ""

    def holds(self, event: EventFacts) -> bool:
        """Return whether the event is in scope."""
        if self.within and event.namespace != self.within:
            return False
        return not self.name or (event.name == self.name and event.namespace in (self.namespace, ""))

    def title(self) -> str:
        """The title of the pane."""
        subject = f"events of {self.name}" if self.name else "events"
        return f"{subject} in {self.within}" if self.within else subject


def events_in(events: Iterable[EventFacts], scope: EventScope) -> list[EventFacts]:
    """Return the events in scope."""
    return [event for event in events if scope.holds(event)]


def search_text(event: EventFacts) -> str:
    """Return the text that a filter on events matches."""
    return " ".join((event.type, event.reason, event.kind, event.namespace, event.name, event.message))


def time_cell(event: EventFacts) -> CellValue:
    """The time of day, UTC, of the last occurrence."""
    return Span(clock_of(round(event.last_seen_at * 1e9))[:8], Tone.MUTED)


def type_cell(event: EventFacts) -> CellValue:
    """The type: `Normal` or `Warning`."""
    return Span(event.type, Tone.WARN if event.is_warning else Tone.MUTED)


def reason_cell(event: EventFacts) -> Cells:
    """The reason after a glyph: a warning is visible without colour, and where the type has no room."""
    if event.is_warning:
        return (Span("▲ ", Tone.WARN), Span(event.reason, Tone.WARN))
    return (Span("· ", Tone.MUTED), Span(event.reason))


def object_cell(event: EventFacts) -> str:
    """Kind and name of the object."""
    return f"{event.kind}/{event.name}"


def count_cell(event: EventFacts) -> CellValue:
    """The number of occurrences; empty for one."""
    return f"×{event.count}" if event.count > 1 else ""


def message_cell(event: EventFacts) -> CellValue:
    """The message of the component that reported it."""
    return Span(event.message, Tone.WARN) if event.is_warning else event.message

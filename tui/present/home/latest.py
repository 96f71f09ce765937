"""The newest events of the cluster as the last section of Home, where there is room for them."""

from __future__ import annotations

import heapq
from collections.abc import Sequence

import msgspec

from actions.fleet.facts import EventFacts
from tui.present.cells import Cells, Span, Tone, fit, fit_ends, width_of
from tui.present.events import message_cell, object_cell, reason_cell, time_cell
from tui.present.home.board import BoardEntry, BoardRow, Section
from tui.present.subject import Subject

MOST_ROWS = 40
"""As many as the highest terminal that is usual has room for."""
_LEAST_REASON = 16
_LEAST_MESSAGE = 24
_GAP = Span("  ")


class LatestEvents(msgspec.Struct, frozen=True):
    """The newest events, the last one first; made once for each list of events.

    Args:
        source: The list that they are of.
        events: The newest of it.
    """

    source: Sequence[EventFacts] = ()
    events: tuple[EventFacts, ...] = ()

    def of(self, source: Sequence[EventFacts]) -> LatestEvents:
        """Return those of a list; the same object for the same list."""
        if source is self.source:
            return self
        newest = heapq.nlargest(MOST_ROWS, source, key=lambda event: event.last_seen_at)
        return LatestEvents(source, tuple(newest))


def latest_section(events: Sequence[EventFacts], key: str, width: int) -> Section:
    """Return the section of the newest events.

    Args:
        events: The last one first.
        key: Opens the pane of all events.
        width: Terminal columns.
    """
    kinds = max((width_of(object_cell(event)) for event in events), default=0)
    names = min(kinds, max(20, width * 3 // 10))
    longest = max((width_of(reason_cell(event)) for event in events), default=0)
    reasons = min(longest, max(_LEAST_REASON, width // 6))
    rows = tuple(_row(event, reasons, names, width) for event in events)
    return Section("Latest events", rows, f"{key} all events")


def _row(event: EventFacts, reasons: int, names: int, width: int) -> BoardRow:
    first: Cells = (Span("  "), *fit(time_cell(event), 8), _GAP, *fit(reason_cell(event), reasons), _GAP)
    told = (*first, *fit_ends(object_cell(event), names), _GAP)
    if width - width_of(told) < _LEAST_MESSAGE:
        told = first
    message = message_cell(event)
    cells = (*told, message if isinstance(message, Span) else Span(str(message), Tone.MUTED))
    subject = Subject(event.kind, event.name, event.namespace)
    return BoardRow(cells, BoardEntry(f"event {event.uid}", "open events", subject))

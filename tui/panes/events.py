"""The events pane: recent events of the cluster."""

from __future__ import annotations

from typing import ClassVar

from msgspec.structs import replace

from actions.fleet.facts import EventFacts
from tui.feeds.services import ConsoleServices, default_namespace
from tui.panes.base import TablePane, bindings_of
from tui.present import events
from tui.present.events import EventScope
from tui.present.subject import Subject, parse_subject
from tui.settings.keys import KeyContext
from tui.widgets.table_model import Column

COLUMNS: tuple[Column[EventFacts], ...] = (
    Column("time", "TIME", events.time_cell, width=8, sort_key=lambda event: event.last_seen_at),
    Column("type", "TYPE", events.type_cell, width=7, drop=4),
    Column("reason", "REASON", events.reason_cell, width=16, flex=1, limit=24),
    Column("object", "OBJECT", events.object_cell, width=20, flex=4, limit=50, drop=2, keeps_ends=True),
    Column("count", "COUNT", events.count_cell, width=5, align="right", drop=3, sort_key=lambda event: event.count),
    Column("message", "MESSAGE", events.message_cell, width=20, flex=6),
)


class EventsPane(TablePane[EventFacts]):
    """The events of the whole cluster or of one object, newest first."""

    ONLY = "only"
    CONTEXT = KeyContext.EVENTS
    BINDINGS: ClassVar = bindings_of(KeyContext.EVENTS)
    NOUN = "events"
    SORT = "time"
    IS_REVERSED = True
    EMPTY = "No recent events."

    def __init__(self, services: ConsoleServices) -> None:
        super().__init__(services, COLUMNS, key=lambda event: event.uid, search=events.search_text)
        self._scope = EventScope()
        self._shown: tuple[tuple[EventFacts, ...], EventScope] | None = None

    def refresh_data(self) -> None:
        """Show the events of the scope."""
        self.show_health(self.services.health("events"))
        if self._scope.within != self.services.namespace:
            self._scope = replace(self._scope, within=self.services.namespace)
            self.retitle(self._scope.title())
        snapshot = self.services.cluster.snapshot()
        if snapshot is None:
            return
        if self._shown is not None and self._shown[0] is snapshot.events and self._shown[1] == self._scope:
            return
        self._shown = (snapshot.events, self._scope)
        self.show_rows(events.events_in(snapshot.events, self._scope))

    def show_target(self, of: str) -> None:
        """Show the events of one object (`namespace/pod`, `node/NAME`), or all (empty)."""
        default = default_namespace(self.services, self.services.followed.on_screen)
        subject = parse_subject(of, default_namespace=default) if of else None
        self._scope = EventScope() if subject is None else EventScope(subject.namespace, subject.name)
        self._scope = replace(self._scope, within=self.services.namespace)
        self.retitle(self._scope.title())
        self.refresh_data()

    def subject(self) -> Subject | None:
        """Return the object of the event under the cursor."""
        event = self.table.selected_row
        return None if event is None else Subject(event.kind, event.name, event.namespace)

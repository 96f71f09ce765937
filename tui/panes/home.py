"""The home pane: clusters, fleet, runs, problems and blueprints in one look; the first pane of a console."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult

from actions.base.errors import MissingError
from actions.fleet.facts import EventFacts
from tui.feeds.cluster import leaves_out_claims
from tui.feeds.runs import is_list_complete
from tui.feeds.services import CLUSTER, RUNS, ConsoleServices, troubles_elsewhere
from tui.feeds.supervisor import FeedState
from tui.panes.base import Pane, bindings_of
from tui.present.cells import Span, Tone
from tui.present.home.home_board import HomeFacts, home_board
from tui.present.home.latest import LatestEvents
from tui.present.subject import Subject
from tui.present.text import unused_text
from tui.settings.keys import KeyContext, key_name
from tui.widgets.sections import SectionList
from tui.widgets.split import Split

_NAMED_KEYS = ("open runs", "open blueprints", "open nodes", "open events", "command-line", "palette", "help")


class HomePane(Pane):
    """Everything in one look, and the way to each of it."""

    CONTEXT = KeyContext.HOME
    BINDINGS: ClassVar = bindings_of(KeyContext.HOME)

    def __init__(self, services: ConsoleServices) -> None:
        super().__init__(services)
        keymap = services.settings.keymap
        self._keys = {line: key_name(KeyContext.EVERYWHERE, line, keymap) for line in _NAMED_KEYS}
        self._keys["why"] = key_name(KeyContext.HOME, "why", keymap)
        self._keys |= {line: key_name(KeyContext.RUNS, line, keymap) for line in ("park", "teardown")}
        self._sections = SectionList()
        self._latest = LatestEvents()

    def compose(self) -> ComposeResult:
        """Yield the sections."""
        yield self._sections

    def refresh_data(self) -> None:
        """Show the newest facts, and ask for what is not computed yet."""
        self.show_health(self.services.health("nodes"))
        self._request_facts()
        if self.size.width and self.size.height:
            self._sections.show(home_board(self._facts(), self.size.width, self.size.height))

    def on_resize(self) -> None:
        """Lay the sections out for the new size."""
        self.refresh_data()

    def show_target(self, of: str) -> None:
        """Move the cursor to a run, blueprint, context or section of that name; empty leaves it where it is.

        Raises:
            MissingError: There is no such entry on screen.
        """
        if of and not any(self._sections.select(key) for key in self._sections.shown_keys if key.endswith(f" {of}")):
            raise MissingError(f"Home shows no {of!r}.", hint="Open runs, blueprints or pods for all of them.")

    def subject(self) -> Subject | None:
        """Return the run, the blueprint or the object under the cursor.

        A run only when the operator has put the cursor there: no command may mean one that was chosen for its place.
        """
        subject = self.subject_in_sight()
        is_proposed = subject is not None and subject.kind == "Run" and not self._sections.is_moved
        return None if is_proposed else subject

    def subject_in_sight(self) -> Subject | None:
        """Return what is under the cursor, whoever has put it there."""
        entry = self._sections.selected
        return None if entry is None else entry.subject

    def focus_content(self) -> None:
        """Focus the sections."""
        self._sections.focus()

    def on_section_list_selected(self, event: SectionList.Selected) -> None:
        """Open the entry."""
        event.stop()
        if event.entry.line:
            self.post_message(self.Entered(event.entry.line))

    def on_section_list_left(self, event: SectionList.Left) -> None:
        """Go to another pane; with none on screen, go around."""
        event.stop()
        if isinstance(self.parent, Split) and len(self.parent.visible_keys) > 1:
            self.post_message(self.Entered("focus next" if event.by > 0 else "focus previous"))
        else:
            self._sections.wrap(event.by)

    def _request_facts(self) -> None:
        services, home = self.services, self.services.home
        if services.cluster.awaits_kept:
            return  # beside the first frame, a thread that reads the kubeconfig held it up
        if services.supervisor.health(CLUSTER).state is FeedState.STARTING and services.cluster.snapshot() is None:
            return  # the cluster comes first
        home.follow(services.cluster.snapshot())
        home.read_contexts(services.settings.target, services.cluster.target)
        home.plan(services.blueprints.found, services.settings.preferred_preset)
        home.note_failing(services.runs.summaries)

    def _facts(self) -> HomeFacts:
        services, home, now = self.services, self.services.home, self.services.clock.now().timestamp()
        snapshot = services.cluster.snapshot()
        is_read = snapshot is not None and bool(snapshot.is_complete or snapshot.as_of)
        catalogue, elsewhere = services.blueprints, services.runs.listed_elsewhere()
        is_catalogue_read = bool(catalogue.found or catalogue.broken) or catalogue.is_read
        return HomeFacts(
            now=now,
            context=services.cluster.context_name,
            contexts=home.contexts,
            contexts_error=home.contexts_error,
            cluster_state=self._cluster_state(),
            totals=home.trouble.totals if is_read else None,
            leaves_out_claims=leaves_out_claims(snapshot),
            paid=services.paid.now(),
            unscheduled=home.trouble.unscheduled,
            runs=services.runs.summaries if services.runs.unread or is_list_complete(services.runs) else None,
            unread=len(services.runs.unread),
            runs_error=services.supervisor.health(RUNS).detail,
            elsewhere=elsewhere,
            troubles=troubles_elsewhere(services),
            silent=frozenset(run.id for run in elsewhere if services.remote.is_silent(run)),
            names={**services.remote.names, **services.runs.names},
            unused={run.id: unused_text(run.unused, now) for run in services.runs.summaries if run.unused},
            problems=home.problems,
            blueprints=catalogue.found if is_catalogue_read else None,
            broken=len(catalogue.broken),
            latest=self._latest_events(),
            costs=home.costs,
            keys=self._keys,
            is_readonly=services.settings.readonly,
        )

    def _latest_events(self) -> tuple[EventFacts, ...]:
        snapshot = self.services.cluster.snapshot()
        self._latest = self._latest.of(snapshot.events if snapshot is not None else ())
        return self._latest.events

    def _cluster_state(self) -> Span:
        """Return the state of the cluster on screen in a few words; bad if it does not answer, or refuses."""
        health = self.services.health("nodes")
        match health.state:
            case FeedState.LIVE:
                return Span("live", Tone.GOOD)
            case FeedState.STARTING:
                return Span(health.as_of, Tone.WARN) if health.as_of else Span("connecting", Tone.MUTED)
            case FeedState.WAITING | FeedState.REFUSED:
                return Span(self.services.label_of(health), Tone.BAD)
            case FeedState.ENDED:
                if health.as_of and not health.detail:  # the feed has not started yet
                    return Span(health.as_of, Tone.WARN)
                return Span(health.detail or "not connected", Tone.MUTED)

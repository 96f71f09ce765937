"""The home pane: clusters, fleet, runs, problems and blueprints in one look; the first pane of a console."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from msgspec.structs import replace
from textual.app import ComposeResult

from actions.base.errors import MissingError
from actions.fleet.facts import EventFacts
from tui.feeds.cluster import leaves_out_claims
from tui.feeds.followed import each_once
from tui.feeds.runs import is_list_complete
from tui.feeds.services import RUNS, ConsoleServices, troubles_elsewhere
from tui.feeds.supervisor import FeedState
from tui.panes.base import Pane, bindings_of
from tui.panes.clusters import cluster_facts, health_of_all, state_span
from tui.present.home.clusters import totals_in
from tui.present.home.home_board import HomeFacts, home_board
from tui.present.home.latest import LatestEvents
from tui.present.subject import Subject
from tui.present.text import unused_text
from tui.settings.keys import KeyContext, key_name
from tui.widgets.sections import SectionList
from tui.widgets.split import Split

if TYPE_CHECKING:
    from actions.cluster.diagnose.overview import Problem

_URGENCY = ("error", "warning", "info")
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
        self.show_health(health_of_all(self.services, "nodes"))
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
        if services.followed.on_screen.connection.state is FeedState.STARTING and services.cluster.snapshot() is None:
            return  # the cluster comes first
        for cluster in services.clusters:
            cluster.follow(home.failing)
        home.read_contexts(services.settings.target, services.cluster.target)
        home.plan(services.blueprints.found, services.settings.preferred_preset)
        home.note_failing(services.runs.summaries)

    def _facts(self) -> HomeFacts:
        services, home, now = self.services, self.services.home, self.services.clock.now().timestamp()
        clusters, on_screen = cluster_facts(services), services.followed.on_screen
        shown, trouble = on_screen.shown(), on_screen.problems.trouble
        catalogue, elsewhere = services.blueprints, services.runs.listed_elsewhere()
        is_catalogue_read = bool(catalogue.found or catalogue.broken) or catalogue.is_read
        return HomeFacts(
            now=now,
            context=services.cluster.context_name,
            contexts=home.contexts,
            contexts_error=home.contexts_error,
            clusters=clusters,
            cluster_state=state_span(services, services.health("nodes")),
            totals=totals_in(clusters) if clusters else trouble.totals if shown is not None else None,
            leaves_out_claims=any(leaves_out_claims(one.shown()) for one in services.clusters),
            paid=services.paid.now(),
            unscheduled=sum(one.unscheduled for one in clusters) if clusters else trouble.unscheduled,
            runs=services.runs.summaries if services.runs.unread or is_list_complete(services.runs) else None,
            unread=len(services.runs.unread),
            runs_error=services.supervisor.health(RUNS).detail,
            elsewhere=elsewhere,
            troubles=troubles_elsewhere(services),
            silent=frozenset(run.id for run in elsewhere if services.remote.is_silent(run)),
            names={**services.remote.names, **services.runs.names},
            unused={run.id: unused_text(run.unused, now) for run in services.runs.summaries if run.unused},
            problems=self._problems(),
            blueprints=catalogue.found if is_catalogue_read else None,
            broken=len(catalogue.broken),
            latest=self._latest_events(),
            costs=home.costs,
            keys=self._keys,
            is_readonly=services.settings.readonly,
        )

    def _problems(self) -> tuple[Problem, ...] | None:
        """Return the problems of all clusters, the most urgent first; `None` before any has been looked through."""
        clusters = self.services.clusters
        if len(clusters) == 1:
            return clusters[0].problems.found
        searched = [one for one in each_once(clusters) if one.problems.found is not None]
        found = [replace(problem, cluster=one.key) for one in searched for problem in one.problems.found or ()]
        return tuple(sorted(found, key=lambda problem: _URGENCY.index(problem.severity.value))) if searched else None

    def _latest_events(self) -> tuple[EventFacts, ...]:
        snapshot = self.services.cluster.snapshot()
        self._latest = self._latest.of(snapshot.events if snapshot is not None else ())
        return self._latest.events

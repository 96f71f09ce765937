"""The logs pane: a stage's log from the run's spool, or any pod's over the API."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.content import Content
from textual.timer import Timer

from actions.base.errors import MissingError
from actions.fleet.facts import PodFacts
from tui.feeds.job import JobFeed
from tui.feeds.logs import PAUSE_SECONDS, LogFeed, LogPump, PodLogFeed
from tui.feeds.services import WATCH, ConsoleServices
from tui.feeds.spool import SpoolLogFeed, watched_stage
from tui.feeds.supervisor import FeedHealth, FeedState
from tui.feeds.ticker import PAINT_INTERVAL_SECONDS
from tui.panes.base import Pane, bindings_of
from tui.present.subject import Subject, parse_subject
from tui.settings.keys import KeyContext
from tui.widgets.log import LogView
from tui.widgets.log_buffer import LogBuffer

_WORK = "log"
_SEEN_SECONDS = 2 * PAINT_INTERVAL_SECONDS
"""A pane that was not refreshed for so long is hidden."""


class LogsPane(Pane):
    """The log view of one source at a time; by default that of the run's stage at work, or of the watched job.

    Lines are read only while the pane is visible: until then they wait on disk or in the API.
    """

    CONTEXT = KeyContext.LOGS
    BINDINGS: ClassVar = bindings_of(KeyContext.LOGS)

    def __init__(self, services: ConsoleServices) -> None:
        super().__init__(services)
        self._view = LogView(LogBuffer())
        self._feed: LogFeed | None = None
        self._pump: LogPump | None = None
        self._next_slice: Timer | None = None
        self._pulled_at = 0.0
        self._pod: PodFacts | None = None
        self._goes_along = True

    def compose(self) -> ComposeResult:
        """Yield the log view."""
        yield self._view

    def refresh_data(self) -> None:
        """Take new lines."""
        if self._goes_along:
            self._go_along()
        self.show_health(self._health())
        self._pulled_at = self.services.clock.monotonic()
        if self._next_slice is None:
            self._take_in()
        self._view.refresh_data()

    def _take_in(self) -> None:
        """Take lines for some milliseconds; while more wait and the pane is visible, schedule the next slice."""
        self._next_slice = None
        if self._pump is None:
            return
        has_more = self._pump.drain()
        if has_more or self._pump.feed.holds_back:
            self.services.ticker.request_paint()
        if has_more and self.services.clock.monotonic() - self._pulled_at < _SEEN_SECONDS:
            self._next_slice = self.set_timer(PAUSE_SECONDS, self._take_in)

    def show_target(self, of: str) -> None:
        """Show the log of a stage of the run (its id), of a pod (`namespace/name`), or follow the run (empty).

        Raises:
            MissingError: There is no such pod.
        """
        view = self.services.runs.view
        self._goes_along = not of
        if view is not None and of in {stage.id for stage in view.stages}:
            self._show_stage(of)
        elif of:
            self.show_pod(self._find(of), "")

    def show_pod(self, pod: PodFacts, container: str) -> None:
        """Follow a pod over the API."""
        self._goes_along = False
        self._pod = pod
        services = self.services
        feed = PodLogFeed(
            services.cluster, pod, container=container, clock=services.clock, changed=services.ticker.request_paint
        )
        services.supervisor.keep(_WORK, lambda: feed.run(lambda: services.supervisor.mark_live(_WORK)))
        self._show(feed)

    def subject(self) -> Subject | None:
        """Return the pod whose log is shown."""
        return Subject("Pod", self._pod.name, self._pod.namespace) if self._pod else None

    def filter(self, text: str) -> None:
        """Show only matching lines."""
        self._view.filter(text)

    def focus_content(self) -> None:
        """Focus the lines."""
        self._view.focus()

    def _go_along(self) -> None:
        watched = self.services.watched
        if watched is not None:
            if self._feed is not watched:
                self.services.supervisor.drop(_WORK)
                self._pod = None
                self._show(watched)
            return
        view, folder = self.services.runs.view, self.services.runs.folder
        stage = watched_stage(view, folder) if view is not None and folder is not None else None
        if stage is not None and folder is not None:
            feed = self._feed
            if not isinstance(feed, SpoolLogFeed) or (feed.folder, feed.stage) != (folder, stage):
                self._show_stage(stage)

    def _show_stage(self, stage: str) -> None:
        folder = self.services.runs.folder
        if folder is not None:
            self.services.supervisor.drop(_WORK)
            self._pod = None
            self._show(SpoolLogFeed(folder, stage))

    def _show(self, feed: LogFeed) -> None:
        self._feed = feed
        self.border_title = Content(f"log of {feed.title}")
        buffer = LogBuffer()
        self._pump = LogPump(feed, buffer.extend_tagged, clock=self.services.clock)
        self._view.show(buffer)

    def _health(self) -> FeedHealth:
        if isinstance(self._feed, PodLogFeed):
            return self.services.supervisor.health(_WORK)
        if isinstance(self._feed, JobFeed):
            return self.services.supervisor.health(WATCH)
        if self._feed is None:
            return FeedHealth(FeedState.ENDED, "no log selected")
        return FeedHealth(FeedState.LIVE if self.services.runs.is_busy else FeedState.ENDED, "from the run's spool")

    def _find(self, name: str) -> PodFacts:
        subject = parse_subject(name, default_namespace=self.services.cluster.namespace)
        snapshot = self.services.cluster.snapshot()
        pod = snapshot.pods.get(f"{subject.namespace}/{subject.name}") if snapshot else None
        if pod is None:
            raise MissingError(f"There is no pod {subject.namespace}/{subject.name}.", hint="Select a pod in pods.")
        return pod

"""The logs pane: a stage's log from the run's output, or any pod's over the API."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from typing import TYPE_CHECKING, ClassVar

from textual.app import ComposeResult
from textual.timer import Timer

from actions.base.clock import Clock
from actions.base.errors import MissingError, ParameterError, RefusedError
from actions.base.untrusted import redact
from actions.base.wording import counted, listed
from actions.fleet.facts import PodFacts
from tui.feeds.job import JobFeed
from tui.feeds.logs import FROM_THE_TAIL, PAUSE_SECONDS, LogBegin, LogFeed, LogPump, PodLogFeed
from tui.feeds.output import AT_WORK, NEWEST_BYTES, OutputLogFeed, lost_text, place_of, watched_stage
from tui.feeds.services import WATCH, ConsoleServices, default_namespace
from tui.feeds.supervisor import FeedHealth, FeedState
from tui.feeds.ticker import PAINT_INTERVAL_SECONDS
from tui.panes.base import ON_OFF, Pane, bindings_of
from tui.present.ansi import visible_text
from tui.present.subject import Subject, parse_subject
from tui.present.text import clock_of, moment_in
from tui.settings.keys import KeyContext
from tui.terminal.clipboard import MOST_BYTES, Clipping
from tui.widgets.log import LogView
from tui.widgets.log_buffer import LineSearch, LogBuffer
from tui.widgets.log_renderer import Wrap

if TYPE_CHECKING:
    from actions.telemetry.printed_addresses import PrintedAddress

_WORK = "log"
_SWITCHES = {"wrap": "wrap", "time": "has_clock", "source": "has_source", "json": "lays_json"}
"""The options of the log by the names that `set` takes."""
_PLACES = {
    "error": ("error", True),
    "previous-error": ("error", False),
    "match": ("match", True),
    "previous-match": ("match", False),
}
"""Places that `goto` knows beside times, with the direction in which they are looked for."""
_SIDEWAYS = {"left": -1, "right": 1}
_MOST_ADDRESSES = 1_000
_SAVED_AT_ONCE = 500
"""Lines, which take a few milliseconds."""
_NO_LOG = "No log yet: enter on a stage or a pod shows its log, l that of a workload."
_NO_LOG_OF_RUN = "No log yet: what the pods of the run print comes here by itself."
_SEEN_SECONDS = 2 * PAINT_INTERVAL_SECONDS
"""A pane that was not refreshed for this long is hidden."""


class _WholeLog:
    """The log of a stage from its first line on, read behind its newest lines.

    Args:
        feed: All lines.
        clock: Time.
    """

    def __init__(self, feed: OutputLogFeed, clock: Clock) -> None:
        self.feed = feed
        self.buffer = LogBuffer()
        self.pump = LogPump(feed, self.buffer.extend_tagged, clock=clock)

    def reaches(self, newest: OutputLogFeed) -> bool:
        """Return whether all lines that the feed of the newest ones has given are there."""
        return self.feed.offset >= newest.offset and (newest.holds_back or not self.feed.holds_back)


class LogsPane(Pane):
    """The log view of one source at a time; by default that of the run's stage at work, or of the watched job.

    Lines are read only while the pane is visible: until then they wait on disk or in the API.
    """

    CONTEXT = KeyContext.LOGS
    OPTIONS: ClassVar = {
        "follow": ON_OFF,
        "wrap": tuple(Wrap),
        "time": ON_OFF,
        "source": ON_OFF,
        "json": ON_OFF,
    }
    BINDINGS: ClassVar = bindings_of(KeyContext.LOGS)

    def __init__(self, services: ConsoleServices) -> None:
        super().__init__(services)
        self._view = LogView(LogBuffer())
        self._feed: LogFeed | None = None
        self._pump: LogPump | None = None
        self._whole: _WholeLog | None = None
        """The same log from its first line on, while that is read behind the newest lines."""
        self._next_slice: Timer | None = None
        self._pulled_at = 0.0
        self._pod: PodFacts | None = None
        self._cluster = ""
        """The key of the pod's cluster."""
        self._goes_along = True

    def compose(self) -> ComposeResult:
        """Yield the log view."""
        yield self._view

    def refresh_data(self) -> None:
        """Take new lines."""
        if self._goes_along:
            self._go_along()
        health = self._health()
        self.show_health(health)
        feed, is_over = self._feed, health.state is FeedState.ENDED
        self._view.has_ended = feed is not None and (is_over or _has_ended(self.services, feed))
        hint = _NO_LOG_OF_RUN if self._comes_by_itself else _NO_LOG
        self._view.lines.hint = "" if self._feed is not None else hint
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
        if self._whole is not None and not has_more:
            has_more = self._read_whole(self._whole)
        if has_more or self._pump.feed.holds_back:
            self.services.ticker.request_paint()
        if has_more and self.services.clock.monotonic() - self._pulled_at < _SEEN_SECONDS:
            self._next_slice = self.set_timer(PAUSE_SECONDS, self._take_in)

    def _read_whole(self, whole: _WholeLog) -> bool:
        """Take older lines for some milliseconds; once all are there, show them above the newest ones.

        Returns:
            Whether there are more.
        """
        newest = self._feed
        if whole.pump.drain() or not (isinstance(newest, OutputLogFeed) and whole.reaches(newest)):
            return True
        self._feed, self._pump, self._whole = whole.feed, whole.pump, None
        self._view.show(whole.buffer, is_longer=True)
        return False

    def show_target(self, of: str) -> None:
        """Show the log of a stage of the run (its id), of a pod (`namespace/name`), or follow the run (empty).

        Raises:
            MissingError: There is no such pod.
        """
        view = self.services.runs.view
        self._goes_along = not of
        if self.services.runs.remote is not None and "/" not in of:
            self.services.runs.remote_stage, self._goes_along = of, True  # of its pods, while there are any
        elif view is not None and of in {stage.id for stage in view.stages}:
            self._show_stage(of)
        elif of:
            self.show_pod(self._find(of), "")

    def show_pod(self, pod: PodFacts, container: str, begin: LogBegin = FROM_THE_TAIL) -> None:
        """Follow a pod over the API, from `begin` on."""
        self._goes_along = False
        self._pod = pod
        services = self.services
        self._cluster = services.followed.on_screen.key
        feed = PodLogFeed(
            services.cluster,
            pod,
            container=container,
            clock=services.clock,
            changed=services.ticker.request_paint,
            begin=begin,
        )
        services.supervisor.keep(_WORK, lambda: feed.run(lambda: services.supervisor.mark_live(_WORK)))
        self._show(feed)

    def subject(self) -> Subject | None:
        """Return what the log is of: a pod, the watched job, or a stage of the run on screen."""
        if self._pod is not None:
            return Subject("Pod", self._pod.name, self._pod.namespace, cluster=self._cluster)
        if isinstance(self._feed, JobFeed):
            job = self._feed.job
            return Subject(job.kind, job.name, job.namespace)
        return Subject("Stage", self._feed.stage) if isinstance(self._feed, OutputLogFeed) else None

    def filter(self, text: str) -> None:
        """Show only matching lines."""
        self._view.filter(text)

    def show_only(self, names: Collection[str]) -> None:
        """Show only the lines of some pods.

        Args:
            names: Names of pods, or parts of them. Empty: that of the line that was reached, else of the last one on
                screen; all pods, if only some are shown.

        Raises:
            MissingError: There is no such pod in the log, or no line.
        """
        sources = self._view.buffer.sources
        if names:
            wanted = [source for source in sources if any(name in source for name in names)]
        elif self._view.only:
            wanted = []
        else:
            wanted = [self._view.buffer.line(number).source for number in self._view.lines_to_copy(is_range=False)[-1:]]
        if not wanted and not self._view.only:
            raise MissingError(f"The log has no line of {listed(sorted(names), 3) or 'any pod'}.")
        self._view.filter(only=wanted)

    def go_to(self, moment: str) -> None:
        """Scroll to the first line from a moment on (see `moment_in`), to an error or a match, or sideways.

        Raises:
            ConsoleError: It is not a moment, or the log is empty.
        """
        buffer = self._view.buffer
        if buffer.start == buffer.end:
            raise MissingError("The log has no line yet.")
        if moment in _SIDEWAYS:
            self._view.lines.action_shift(_SIDEWAYS[moment])
            return
        if moment in _PLACES:
            what, is_down = _PLACES[moment]
            go = self._view.action_next_error if what == "error" else self._view.action_next_match
            go(is_down)
            return
        at_ns = moment_in(moment, newest_ns=buffer.line(buffer.end - 1).at_ns)
        if at_ns is None:
            hint = "Write 14:02, 14:02:07, 2026-11-20T14:02 (UTC), -10m, error, match, left or right."
            raise ParameterError(f"{moment!r} is not a time.", hint=hint)
        self._view.go_to(min(buffer.line_at(at_ns), buffer.end - 1))

    def search(self, pattern: str) -> None:
        """Highlight the matches of a regular expression, and go to one; empty ends the search."""
        self._view.search(pattern)

    def set_option(self, option: str, value: str) -> None:
        """Switch following, wrapping, times, sources or the layout of JSON; see `Pane.set_option`."""
        lines = self._view.lines
        if option == "follow":
            if value != ON_OFF[not lines.is_following]:
                lines.action_toggle_follow()
            return
        name = _SWITCHES[option]
        for _ in self.OPTIONS[option]:
            now = getattr(lines.options, name)
            if value == (now if option == "wrap" else ON_OFF[not now]):
                return
            lines.action_switch(name)
            if not value:
                return

    def mark(self, action: str) -> None:
        """Mark a line or drop its mark (`toggle`), go to a mark (`next`, `previous`), or drop all marks (`clear`).

        Raises:
            MissingError: There is no line to mark, or no mark.
        """
        if action == "toggle":
            if not self._view.lines.visible_lines:
                raise MissingError("The log has no line yet.")
            self._view.action_mark()
            return
        if not self._view.lines.marks.numbers:
            raise MissingError("No line of the log is marked.", hint="Mark one with space, or :mark.")
        if action == "clear":
            self._view.action_mark(clears=True)
        else:
            self._view.action_next_mark(action == "next")

    def clipping(self, column: str) -> Clipping:
        """Return the lines from the mark on, else the line reached by a search, an error or a time, else all on screen.

        They are copied as they were printed, also where JSON is laid out.
        """
        if column:
            return super().clipping(column)
        lines = self._view.lines_to_copy()
        if not lines:
            raise MissingError("The log has no line yet.")
        if len(lines) > MOST_BYTES:
            raise RefusedError(f"{len(lines):,} lines are too many to copy.", hint="Save them: :save FILE.")
        text = "\n".join(visible_text(self._view.buffer.line(number).text) for number in lines)
        return Clipping(text, f"{counted(len(lines), 'line')} of the log")

    async def addresses(self) -> list[tuple[PrintedAddress, str]]:
        """Return the web interfaces that the log names, the newest of each kind, with the pods that printed them."""
        from actions.telemetry.printed_addresses import LINES, address_in

        found: dict[str, tuple[PrintedAddress, str]] = {}
        buffer = self._view.buffer
        search = LineSearch(buffer, LINES)
        for _ in iter(search.advance, True):
            await asyncio.sleep(0)
        for line in map(buffer.line, search.matches[-_MOST_ADDRESSES:]):
            address = address_in(visible_text(line.text))
            if address is not None:
                pod = line.source.partition("/")[0] if self._pod is None else self._pod.name
                found[address.title] = address, pod
        return sorted(found.values(), key=lambda one: one[0].rank)

    async def contents(self) -> bytes:
        """Return the lines that pass the filter, each with its time and its source, without secrets."""
        view, parts = self._view, list[str]()
        window, buffer = view.lines.window, view.buffer
        number, is_single = window.at_or_after(buffer.start), len(buffer.sources) < 2
        while number is not None:
            lines: list[str] = []
            while number is not None and len(lines) < _SAVED_AT_ONCE:
                line = buffer.line(number)
                source = "" if is_single else f"{line.source} "
                lines.append(f"{clock_of(line.at_ns)} {source}{visible_text(line.text)}\n")
                number = window.at_or_after(number + 1)
            parts.append(redact("".join(lines)))
            await asyncio.sleep(0)
        return "".join(parts).encode("utf-8", "replace")

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
        feed = self._feed
        if stage is None or folder is None:
            self._show_nothing()
        elif not isinstance(feed, OutputLogFeed) or (feed.folder, feed.stage) != (folder, stage):
            self._show_stage(stage)
        elif view is not None:
            self.entitle(f"log of {place_of(view, stage)}")  # its workload may have been made meanwhile

    def _show_stage(self, stage: str) -> None:
        folder = self.services.runs.folder
        if folder is not None:
            self.services.supervisor.drop(_WORK)
            self._pod = None
            newest = OutputLogFeed(folder, stage, newest_bytes=NEWEST_BYTES)
            self._show(newest)
            if newest.offset:
                self._whole = _WholeLog(OutputLogFeed(folder, stage), self.services.clock)

    def _show_nothing(self) -> None:
        """Show an empty log: no line of another run may stand beside the one on screen."""
        view = self.services.runs.view
        self.entitle(f"log of {view.id}" if view is not None else self.CONTEXT.value)
        if self._feed is not None:
            self.services.supervisor.drop(_WORK)
            self._feed = self._pump = self._pod = self._whole = None
            self._view.show(LogBuffer())

    def _show(self, feed: LogFeed) -> None:
        self._feed, self._whole = feed, None
        view = self.services.runs.view
        title = feed.title
        if isinstance(feed, OutputLogFeed) and view is not None and view.id == feed.folder.name:
            title = place_of(view, feed.stage)
        self.entitle(f"log of {title}")
        buffer = LogBuffer()
        self._pump = LogPump(feed, buffer.extend_tagged, clock=self.services.clock)
        self._view.show(buffer)

    @property
    def _comes_by_itself(self) -> bool:
        return self.services.runs.view is not None and self.services.runs.is_busy

    def _health(self) -> FeedHealth:
        if isinstance(self._feed, PodLogFeed):
            health = self.services.supervisor.health(_WORK)
            return health if health.state is not FeedState.ENDED else FeedHealth(health.state, "ended")
        if isinstance(self._feed, JobFeed):
            return self.services.supervisor.health(WATCH)
        if self._feed is None:
            return FeedHealth(FeedState.ENDED, "no log yet" if self._comes_by_itself else "no log selected")
        words = "from the run's output"
        if self._whole is not None:
            words += f" · older lines: {self._whole.feed.share:.0%}"
        if isinstance(self._feed, OutputLogFeed):
            words += lost_text(self._feed.lost)
        return FeedHealth(FeedState.LIVE if self.services.runs.is_busy else FeedState.ENDED, words)

    def _find(self, name: str) -> PodFacts:
        subject = parse_subject(
            name, default_namespace=default_namespace(self.services, self.services.followed.on_screen)
        )
        snapshot = self.services.cluster.snapshot()
        pod = snapshot.pods.get(f"{subject.namespace}/{subject.name}") if snapshot else None
        if pod is None:
            raise MissingError(f"There is no pod {subject.namespace}/{subject.name}.", hint="Select a pod in pods.")
        return pod


def _has_ended(services: ConsoleServices, feed: LogFeed) -> bool:
    """Return whether a log is that of a job, or of a stage of the run on screen, that is over."""
    if isinstance(feed, OutputLogFeed) and services.runs.view is not None:
        return any(stage.id == feed.stage and stage.state not in AT_WORK for stage in services.runs.view.stages)
    return isinstance(feed, JobFeed) and feed.end is not None

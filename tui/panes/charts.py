"""The charts pane: progress and curves of a stage or watched job, read from its log."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar, Protocol

from textual.app import ComposeResult
from textual.content import Content

from actions.base.errors import MissingError
from actions.run.state.records import StageFinding
from actions.run.state.view import StageView
from actions.telemetry.curves import Curves
from actions.telemetry.points import TrainingProgress
from tui.feeds.services import WATCH, ConsoleServices
from tui.feeds.spool import SpoolCurves, watched_stage
from tui.feeds.supervisor import FeedHealth, FeedState
from tui.panes.base import Pane, bindings_of
from tui.present.charts import MetricChart, charts_of, curves_in, notes_on, progress_lines
from tui.settings.keys import KeyContext
from tui.widgets.base import Lines
from tui.widgets.plot import PlotView

_PROGRESS_LINES = 2
_LOSS = "loss"


class CurveSource(Protocol):
    """A source of curves and progress: a stage's spool, or a watched job."""

    title: str
    curves: Curves

    @property
    def progress(self) -> Mapping[tuple[str, str], TrainingProgress]:
        """Newest state by pod and label; the one that moved last is at the end."""
        ...

    def read_on(self) -> bool:
        """Read new values; return whether more may be waiting."""
        ...


class ChartsPane(Pane):
    """The curves of the stage at work, of a selected one, or of a watched job: one chart at a time."""

    CONTEXT = KeyContext.CHARTS
    BINDINGS: ClassVar = bindings_of(KeyContext.CHARTS)

    def __init__(self, services: ConsoleServices) -> None:
        super().__init__(services)
        self._progress = Lines(classes="totals")
        self._plot = PlotView(_LOSS)
        self._source: CurveSource | None = None
        self._chosen = ""
        self._metric = ""

    def compose(self) -> ComposeResult:
        """Yield progress above the plot."""
        yield self._progress
        yield self._plot

    def refresh_data(self) -> None:
        """Read new values and draw them."""
        self._choose()
        source = self._source
        self.show_health(self._health())
        if source is None:
            return
        if source.read_on():
            self.services.ticker.request_paint()
        chart, place = self._chart(source)
        notes = notes_on(chart, source.curves, self._findings()) if chart else []
        notes = notes[:_PROGRESS_LINES]
        self._progress.show([*progress_lines(source.progress, limit=_PROGRESS_LINES - len(notes)), *notes])
        if chart is None:
            return
        self._entitle(f"{chart.name}{place} of {source.title}")
        self._plot.describe(chart.label, "message size" if chart.is_by_size else "step", is_by_size=chart.is_by_size)
        self._plot.show(curves_in(chart, source.curves), version=(id(source), chart, source.curves.revision))

    def show_target(self, of: str) -> None:
        """Show the curves of one stage, or of the one at work (empty)."""
        self._chosen = of
        self.refresh_data()

    def choose(self, metric: str) -> None:
        """Show the chart of that name or metric, or the next one (empty).

        Raises:
            MissingError: The log has no such metric.
        """
        charts = self._charts(self._source) if self._source is not None else []
        if not charts:
            raise MissingError("No curve yet.")
        names = [chart.name for chart in charts]
        if metric:
            found = next((chart.name for chart in charts if metric in (chart.name, *chart.metrics)), None)
            if found is None:
                raise MissingError(f"The log has no {metric!r}.", hint=f"It has {', '.join(names)}.")
            self._metric = found
        else:
            at = names.index(self._metric) + 1 if self._metric in names else 1
            self._metric = names[at % len(names)]
        self.refresh_data()

    def focus_content(self) -> None:
        """Focus the plot."""
        self._plot.focus()

    def _chart(self, source: CurveSource) -> tuple[MetricChart | None, str]:
        """Return the current chart, its index and the number of charts."""
        charts = self._charts(source)
        if not charts:
            return None, ""
        at = next((place for place, chart in enumerate(charts) if chart.name == self._metric), 0)
        return charts[at], f" ({at + 1}/{len(charts)})" if len(charts) > 1 else ""

    def _charts(self, source: CurveSource) -> list[MetricChart]:
        """Return the charts of the log's metrics, in the blueprint's order."""
        stage = self._stage_of(source)
        return charts_of(source.curves.metrics(), stage.charts if stage else ())

    def _findings(self) -> Sequence[StageFinding]:
        """Return the findings that the run has recorded about the stage's output."""
        stage = self._stage_of(self._source)
        return stage.findings if stage else ()

    def _stage_of(self, source: CurveSource | None) -> StageView | None:
        view = self.services.runs.view
        if view is None or not isinstance(source, SpoolCurves):
            return None
        return next((stage for stage in view.stages if stage.id == source.stage), None)

    def _health(self) -> FeedHealth:
        if self._source is not None and self._source is self.services.watched:
            return self.services.supervisor.health(WATCH)
        word = "from the run's spool" if self._source else "no run on screen"
        is_live = self._source is not None and self.services.runs.is_busy
        return FeedHealth(FeedState.LIVE if is_live else FeedState.ENDED, word)

    def _choose(self) -> None:
        watched = self.services.watched
        if watched is not None and not self._chosen:
            self._take(watched)
            return
        view, folder = self.services.runs.view, self.services.runs.folder
        if view is None or folder is None:
            return
        stage = self._chosen or watched_stage(view, folder)
        known = self._source
        if stage is None or (isinstance(known, SpoolCurves) and (known.folder, known.stage) == (folder, stage)):
            return
        self._take(SpoolCurves(folder, stage))

    def _take(self, source: CurveSource) -> None:
        if source is not self._source:
            self._source = source
            self._entitle(f"curves of {source.title}")

    def _entitle(self, title: str) -> None:
        if self.border_title != Content(title).markup:  # setting it repaints the whole pane
            self.border_title = Content(title)

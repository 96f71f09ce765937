"""The charts pane: progress and curves of a stage or watched job, read from its log."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, ClassVar, Protocol

from textual.app import ComposeResult

from actions.base.errors import ConsoleError, MissingError, RefusedError
from actions.base.untrusted import redact
from actions.run.output.curve_reader import StageCurves
from actions.run.state.view import StageState, StageView
from actions.telemetry.curve_alarms import CurveAlarm, curve_alarms_of, hang_of
from actions.telemetry.curves import Curves
from actions.telemetry.points import TrainingProgress
from tui.feeds.output import lost_text, place_of, watched_stage
from tui.feeds.services import WATCH, ConsoleServices
from tui.feeds.supervisor import FeedHealth, FeedState
from tui.panes.base import bindings_of
from tui.panes.plots import PAGES, STEPS, PlotPane
from tui.present.cells import fit
from tui.present.charts.curves import TimeAxis
from tui.present.charts.metrics import (
    ChartRow,
    MetricChart,
    chart_rows,
    charts_meant,
    charts_of,
    curves_in,
    is_meant,
    marks_on,
    notes_on,
    progress_lines,
)
from tui.settings.keys import KeyContext, key_name
from tui.widgets.base import Lines
from tui.widgets.plot_grid import SmallPlot

if TYPE_CHECKING:
    from actions.run.comparison import RunCurves

_ENDED = frozenset({StageState.SUCCEEDED, StageState.FAILED, StageState.CANCELLED, StageState.UNDONE})
_PROGRESS_LINES = 2
_FRAME = 2
"""Columns of the border of a pane as wide as the screen."""
_READING_SECONDS = 0.25
"""Pause between two paints while curves are being read."""
_LOSS = "loss"
_ALL = "all"
"""The name of all charts at once in the command `chart`."""
_COMPARED = "compared runs"
_DIFFERENCES = 4
"""Lines for the settings in which compared runs differ."""


class CurveSource(Protocol):
    """A source of curves and progress: a stage's output, or a watched job."""

    title: str
    curves: Curves

    @property
    def progress(self) -> Mapping[tuple[str, str], TrainingProgress]:
        """Newest state by pod and label; the one that moved last is at the end."""
        ...

    def read_on(self) -> bool:
        """Read new values; return whether more may be waiting."""
        ...


class ChartsPane(PlotPane):
    """The curves of the stage at work, of a selected one, a watched job, or compared runs: one chart at a time."""

    CONTEXT = KeyContext.CHARTS
    BINDINGS: ClassVar = bindings_of(KeyContext.CHARTS)
    DEFAULT_CSS = """
    ChartsPane > .totals { height: auto; max-height: 2; }
    ChartsPane > .compared { height: auto; padding: 0 1; }
    """

    def __init__(self, services: ConsoleServices) -> None:
        super().__init__(services, _LOSS)
        self._launch_key = key_name(KeyContext.EVERYWHERE, "open blueprints", services.settings.keymap)
        self._progress = Lines(classes="totals")
        self._runs = Lines(classes="compared")
        self._differences = Lines(classes="compared")
        self._compared: tuple[RunCurves, ...] = ()
        self._compared_beside = ""
        """The run on screen when the comparison began; another one ends it."""
        self._awaited = 0
        """The number of runs whose curves are being read, to be compared."""
        self._source: CurveSource | None = None
        self._stored: StageCurves | None = None
        """The curves on disk that were shown last; of a copy, until the watched job has as many values."""
        self._chosen = ""
        self._alarmed: tuple[CurveSource | None, int, tuple[CurveAlarm, ...]] = (None, -1, ())
        """Alarms on the curves of a source, and the revision that they were found in."""
        self._contents: dict[str, SmallPlot] = {}
        """The newest content of each chart, by its name."""

    def compose(self) -> ComposeResult:
        """Yield progress above the plot; of compared runs their values above it, their differences below it."""
        yield self._progress
        yield self._runs
        yield self._plot
        yield self._several
        yield self._differences

    def refresh_data(self) -> None:
        """Read new values and draw them."""
        self.rows_taken = len(self._compared) or _PROGRESS_LINES
        if self._compared and self._compared_beside != _on_screen(self.services):
            self.leave()
        self._progress.display = not self._compared
        self._runs.display = bool(self._compared)
        self._differences.display = bool(self._compared) and not self._several.display
        if self._compared:
            self._draw_compared()
            return
        if self._awaited:
            self.show_health(FeedHealth(FeedState.ENDED, "reading the runs' output"))
            self._progress.show([])
            self._draw_nothing(f"{self._awaited} runs compared", f"Reading the curves of {self._awaited} runs…")
            return
        self._choose()
        source = self._source
        self.show_health(self._health())
        if source is None:
            self._draw_nothing(f"curves of {self._place()}" if self._place() else self.CONTEXT.value)
            return
        if isinstance(source, StageCurves) and not source.is_complete:
            self.services.ticker.request_paint_in(_READING_SECONDS)
            self._draw_nothing(f"curves of {self._place()}", "Reading the curves.")
            return
        if not isinstance(source, StageCurves) and source.read_on():
            self.services.ticker.request_paint()
        chart, _ = self._chart()
        alarms = self._alarms(source)
        stage = _stage_of(self.services, source)
        notes = notes_on(chart, source.curves, stage.findings if stage else (), alarms) if chart else []
        notes = notes[:_PROGRESS_LINES]
        room = _PROGRESS_LINES - len(notes)
        is_over = stage is not None and stage.state in _ENDED
        bars = progress_lines(_bars_of(source, stage), limit=room, width=self.size.width - 4, is_over=is_over)
        self._progress.show([*bars, *(fit(note, max(1, self.size.width - 4)) for note in notes)])
        if chart is None:
            self._draw_nothing(f"curves of {self._place()}")
            return
        self._draw(lambda one: self._content(source, one, alarms), self._place())

    def _content(self, source: CurveSource, chart: MetricChart, alarms: Sequence[CurveAlarm]) -> SmallPlot:
        """Return the curves and marks of a chart with their labels; those of before while nothing has changed."""
        stage = _stage_of(self.services, source)
        attempts = stage.worked if stage else ()
        version = source.curves.revision, len(attempts), tuple((alarm.metric, alarm.x) for alarm in alarms)
        known = self._contents.get(chart.name)
        if known is not None and (known.key, known.version) == ((source, chart), version):
            return known
        marks, x_label = marks_on(chart, source.curves, attempts, alarms), _x_label(chart)
        curves = curves_in(chart, source.curves)
        found = SmallPlot((source, chart), chart.label, x_label, chart.is_by_size, curves, marks, version)
        self._contents[chart.name] = found
        return found

    def on_resize(self) -> None:
        """Choose again how many charts there is room for."""
        self.services.ticker.request_paint()

    def has_nothing(self) -> bool:
        """Return whether what is to be shown, of the run or the watched job, has neither a curve nor a bar."""
        if self._compared or self._awaited:
            return False
        with suppress(ConsoleError):
            self._choose()
            source = self._source
            if source is None:
                return self.services.runs.view is not None
            if not isinstance(source, StageCurves):
                source.read_on()
            elif not source.is_complete:
                return False
            return not source.curves.metrics() and not _bars_of(source, _stage_of(self.services, source))
        return False  # the reason stands in the pane

    def show_target(self, of: str) -> None:
        """Show the curves of one stage, or of the one at work (empty): compared runs stay.

        Raises:
            MissingError: The run on screen has no such stage.
        """
        runs = self.services.runs
        stages = [stage.id for stage in runs.view.stages] if runs.view is not None and runs.remote is None else [of]
        if of and of not in stages:
            raise MissingError(f"The run on screen has no stage {of!r}.", hint=f"It has {', '.join(stages)}.")
        if of:
            self._compared = ()
        if runs.remote is not None:
            runs.remote_stage, of = of, ""  # of its pods, while there are any
        self._chosen = of
        self.refresh_data()

    def choose(self, metric: str) -> None:
        """Show the chart of that name or metric, the next one (empty), or all of them, and back (`all`).

        Of several side by side, `next` and `previous` move the focus, `next-page` and `previous-page` show others.

        Raises:
            MissingError: The log has no such metric.
            RefusedError: There is no room for several charts, or only one is shown.
        """
        charts = self._charts_now()
        if not charts:
            raise MissingError("There is no curve yet.")
        if metric in STEPS:
            self.next_plot(STEPS[metric])
            return
        if metric in PAGES:
            self.turn_page(PAGES[metric])
            return
        if metric == _ALL:
            self._want_several(charts)
            return
        self._is_several = False
        if metric:
            self._metric = charts_meant(self._all_charts(), (metric,))[0].name
            if all(chart.name != self._metric for chart in charts):
                self.services.picked_charts.pop(self._picked_for(), None)
        else:
            names = [chart.name for chart in charts]
            at = names.index(self._metric) + 1 if self._metric in names else 1
            self._metric = names[at % len(names)]
        self.refresh_data()

    def pick(self, names: Sequence[str]) -> None:
        """Show these charts alone, side by side where there is room; all of them at choice again if all are meant.

        Args:
            names: Names of charts or metrics, or patterns: `train/*`. One that comes later and fits is shown, too.

        Raises:
            MissingError: The log has no such metric.
        """
        charts, place = self._all_charts(), self._picked_for()
        picked = charts_meant(charts, names)
        self.services.picked_charts.pop(place, None)  # the newest choice stands last
        if len(picked) < len(charts):
            self.services.picked_charts[place] = tuple(names)
        self._metric, self._is_several = picked[0].name, len(picked) > 1
        self.refresh_data()

    def choices(self) -> list[ChartRow]:
        """Return a row for each chart of the log, with its newest values; of compared runs those of the first.

        Raises:
            MissingError: There is no curve yet.
        """
        charts, shown = self._all_charts(), {chart.name for chart in self._charts_now()}
        if charts and self._compared:
            return chart_rows(charts, self._compared[0].series, shown)
        if not charts or self._source is None:
            raise MissingError("There is no curve yet.")
        return chart_rows(charts, self._source.curves.series, shown)

    def _want_several(self, charts: Sequence[MetricChart]) -> None:
        if self._is_several:
            self._leave_grid()
            self.refresh_data()
            return
        if len(charts) == 1:
            if len(self._all_charts()) > 1:
                raise RefusedError(f"Only the chart {charts[0].name} is chosen.", hint="Enter chooses more.")
            raise RefusedError(
                f"The log has one chart only, {charts[0].name}.", hint="More appear when it has further metrics."
            )
        columns, rows = self._shape(charts)
        if columns * rows < 2:
            is_whole = self.size.width >= self.screen.size.width - _FRAME
            way = "Enlarge the window; m shows the next chart." if is_whole else "Zoom the pane with z."
            raise RefusedError("There is no room for two charts.", hint=way)
        self._is_several = True
        self.refresh_data()

    def values_csv(self) -> str:
        """Return the values of the curves on screen as CSV, without anything like a credential.

        Raises:
            MissingError: There is no curve yet.
        """
        from actions.run.comparison import series_csv

        chart, _ = self._chart()
        runs, source = self._compared, self._source
        if chart is None or (source is None and not runs):
            raise MissingError("There is no curve yet.")
        found = {metric: source.curves.series(metric) for metric in chart.metrics} if source else {}
        found = {run.id: run.series(chart.metrics[0]) for run in runs} or found
        return redact(series_csv(found, "size_bytes" if chart.is_by_size else "step"))

    def wait_for_runs(self, count: int) -> None:
        """Show that the curves of so many runs are being read; 0: they are there, or cannot be compared."""
        if count != self._awaited:
            self._awaited = count
            self.refresh_data()

    def compare(self, runs: Sequence[RunCurves], metric: str) -> None:
        """Overlay the curves of runs, from here on until `leave`."""
        self._compared, self._metric, self._awaited = tuple(runs), metric, 0
        self._is_several, self._compared_beside = False, _on_screen(self.services)
        self.refresh_data()

    def leave(self) -> bool:
        """Go back from several charts to one, else end the comparison; return whether there was either."""
        was = bool(self._compared) or self._is_several
        if self._is_several:
            self._leave_grid()
        elif self._compared:
            self._compared, self._metric = (), ""
        if was:
            self.services.ticker.request_paint()
        return was

    def _draw_compared(self) -> None:
        """Draw the compared runs; one piece of one output is read at a time."""
        from actions.run.comparison import differences_of
        from tui.present.charts.metrics import difference_lines, legend_lines

        runs = self._compared
        if any(run.read_on() for run in runs):
            self.services.ticker.request_paint()
        self.show_health(FeedHealth(FeedState.ENDED, "from the runs' output · esc ends the comparison"))
        chart, _ = self._chart()
        if chart is None:
            self._draw_nothing(f"{len(runs)} runs compared", f"Reading the curves of {len(runs)} runs…")
            return
        self._draw(self._content_of_runs, f"{len(runs)} runs compared")
        is_grid, names = self._several.display, [self.services.runs.names.get(run.id, run.id) for run in runs]
        self._runs.show(legend_lines(runs, names, "" if is_grid else chart.metrics[0]))
        self._differences.show(difference_lines(differences_of([run.settings for run in runs]), limit=_DIFFERENCES))

    def _content_of_runs(self, chart: MetricChart) -> SmallPlot:
        """Return a curve for each compared run."""
        from tui.present.charts.metrics import compared_curves

        runs, metric = self._compared, chart.metrics[0]
        version = (metric, *(run.revision for run in runs))
        known = self._contents.get(chart.name)
        if known is not None and (known.key, known.version) == ((runs, chart), version):
            return known
        curves, elapsed = compared_curves(runs, metric), TimeAxis.ELAPSED
        found = SmallPlot((runs, chart), chart.label, _x_label(chart), chart.is_by_size, curves, (), version, elapsed)
        self._contents[chart.name] = found
        return found

    def _charts_now(self) -> list[MetricChart]:
        """Return the charts that the operator has picked, as far as the log has them; without any, all of them."""
        charts = self._all_charts()
        picked = self.services.picked_charts.get(self._picked_for(), ())
        return [chart for chart in charts if is_meant(chart, picked)] or charts

    def _picked_for(self) -> str:
        """Return what the picked charts are kept for."""
        return _COMPARED if self._compared else self._place()

    def _all_charts(self) -> list[MetricChart]:
        """Return the charts of a log's metrics, in the blueprint's order, or of those that compared runs share."""
        if self._compared:
            from actions.run.comparison import shared_metrics
            from tui.present.charts.metrics import compared_charts

            return compared_charts(shared_metrics([run.metrics() for run in self._compared]))
        source = self._source
        if source is None or (isinstance(source, StageCurves) and not source.is_complete):
            return []
        stage = _stage_of(self.services, source)
        return charts_of(source.curves.metrics(), stage.charts if stage else ())

    def _alarms(self, source: CurveSource) -> Sequence[CurveAlarm]:
        """Return the alarms on a log: of its curves when they have changed, of its silence each time."""
        if self._alarmed[:2] != (source, source.curves.revision):
            self._alarmed = (source, source.curves.revision, curve_alarms_of(source.curves))
        stage, watched = _stage_of(self.services, source), self.services.watched
        is_at_work = stage is not None and stage.state is StageState.RUNNING and self.services.runs.is_busy
        is_live = is_at_work or (watched is not None and watched is source and watched.end is None)
        hang = hang_of(source.curves, self.services.clock.now().timestamp()) if is_live else None
        return self._alarmed[2] if hang is None else (hang, *self._alarmed[2])

    def _health(self) -> FeedHealth:
        if self._source is not None and self._source is self.services.watched:
            return self.services.supervisor.health(WATCH)
        nothing = "no curve yet" if self.services.runs.view is not None else "no run on screen"
        word = _words_of(self._source) if self._source else nothing
        is_live = self._source is not None and self.services.runs.is_busy
        return FeedHealth(FeedState.LIVE if is_live else FeedState.ENDED, word)

    def _choose(self) -> None:
        watched, is_copy = self.services.watched, self.services.runs.is_copy
        if watched is not None and not self._chosen and not is_copy:
            self._source = watched
            return
        view, folder = self.services.runs.view, self.services.runs.folder
        if view is None or folder is None:
            self._source = None
            return
        wanted = self.services.runs.remote_stage if is_copy else self._chosen
        is_stage = wanted in {stage.id for stage in view.stages}  # it may be one of another run
        stage = wanted if is_stage else watched_stage(view, folder)
        if stage is None:
            self._source = watched if is_copy else None
        else:
            self._stored = self.services.curves.of(folder, stage)
            is_behind = is_copy and self._stored.is_complete and _is_ahead(watched, self._stored)
            self._source = watched if is_behind else self._stored

    def _place(self) -> str:
        """Name run, stage and job of what is drawn, or of what will be; empty without any."""
        view, source = self.services.runs.view, self._source
        if source is not None and not isinstance(source, StageCurves):
            return source.title
        if view is None:
            return ""
        return place_of(view, source.stage) if source is not None else view.id

    def _draw_nothing(self, title: str, reason: str = "") -> None:
        """Empty the plot, with a reason in its place: no curve may stand below the name of another run."""
        self.entitle(title)
        self._show_several(columns=0)
        if self._source is None:
            self._progress.show([])
        if self._drawn is not None:
            self._drawn = None
            self._plot.clear()
        self._plot.describe("", "step")
        self._plot.empty = reason or _guidance(self.services, self._source, self._launch_key)
        self._plot.show([], version=("nothing", self._plot.empty))


def _guidance(services: ConsoleServices, source: CurveSource | None, launch_key: str) -> str:
    """Return what to do for a curve, or what it comes from."""
    view, watched = services.runs.view, services.watched
    if watched is not None:
        return f"No curve yet. Curves are read from the log of {watched.title}."
    if view is None:
        return f"No run is on screen: {launch_key} opens the blueprints, :watch KIND/NAME shows a job."
    stage = _stage_of(services, source)
    if stage is not None and stage.kind == "job" and stage.state in _ENDED:
        none = f"No curve: no line of the log of {stage.title} was read as a value of a step."
        is_done = stage.state is StageState.SUCCEEDED and bool(stage.charts)
        return f"{none} A job that resumed at its last step had nothing left to train." if is_done else none
    jobs = [stage.title for stage in view.stages if stage.kind == "job" and stage.state is not StageState.SKIPPED]
    return f"No curve yet. Curves are read from the logs of jobs{': ' * bool(jobs)}{', '.join(jobs)}."


def _words_of(source: CurveSource) -> str:
    """Return where curves come from, how much of them is read, and what of them is damaged."""
    if not isinstance(source, StageCurves):
        return "from the run's output"
    if not source.is_complete:
        return f"reading {source.read_bytes >> 20} of {source.size_bytes >> 20} MiB"
    return f"from the run's output{lost_text(source.lost)}"


def _is_ahead(watched: CurveSource | None, copied: CurveSource) -> bool:
    """Return whether the pods have printed more than the store has: a run without a runner goes on there alone."""
    return watched is not None and watched.curves.revision > copied.curves.revision


def _x_label(chart: MetricChart) -> str:
    return "message size" if chart.is_by_size else "step"


def _on_screen(services: ConsoleServices) -> str:
    view, watched = services.runs.view, services.watched
    return f"{view.id if view is not None else ''} {watched.title if watched is not None else ''}"


def _bars_of(source: CurveSource, stage: StageView | None) -> Mapping[tuple[str, str], TrainingProgress]:
    """Return the progress that is worth a line.

    A bar that a finished stage left open says nothing any more, nor does one of an attempt before the present one.
    """
    is_done = stage is not None and stage.state is StageState.SUCCEEDED
    begin = stage.worked[-1].begin if stage is not None and len(stage.worked) > 1 else 0.0
    moved_at = source.moved_at if isinstance(source, StageCurves) else {}
    return {
        of: bar
        for of, bar in source.progress.items()
        if moved_at.get(of, begin) >= begin and (not is_done or bar.done >= (bar.total or 0))
    }


def _stage_of(services: ConsoleServices, source: CurveSource | None) -> StageView | None:
    view = services.runs.view
    if view is None or not isinstance(source, StageCurves):
        return None
    return next((stage for stage in view.stages if stage.id == source.stage), None)

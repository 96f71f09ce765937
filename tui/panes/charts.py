"""Progress and curves of a stage, read from its log."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Protocol

from textual.app import ComposeResult

from actions.telemetry.curves import Curves
from actions.telemetry.points import Progress
from tui.keys import Context
from tui.live.desk import WATCH, Desk
from tui.live.health import FeedHealth, FeedState
from tui.live.spool_feeds import SpoolCurves, watched_stage
from tui.panes.bindings import bindings_of
from tui.panes.pane import Pane
from tui.present.curves import Curve
from tui.present.progress import progress_lines
from tui.widgets.lines import Lines
from tui.widgets.plot import PlotView

_PROGRESS_LINES = 2
_LOSS = "loss"


class CurveSource(Protocol):
    """Where curves and progress come from: a stage's spool, or a watched job."""

    title: str
    curves: Curves

    @property
    def progress(self) -> Mapping[tuple[str, str], Progress]:
        """The newest state by pod and label, what moved last at the end."""
        ...

    def read_on(self) -> bool:
        """Take up what has come; whether more may be waiting."""
        ...


class ChartsPane(Pane):
    """The loss curves (all curves, where none is a loss) of the stage at work, or of a chosen one."""

    CONTEXT = Context.CHARTS
    BINDINGS: ClassVar = bindings_of(Context.CHARTS)

    def __init__(self, desk: Desk) -> None:
        super().__init__(desk)
        self._progress = Lines(classes="totals")
        self._plot = PlotView(_LOSS)
        self._source: CurveSource | None = None
        self._chosen = ""

    def compose(self) -> ComposeResult:
        """Progress above the plot."""
        yield self._progress
        yield self._plot

    def pull(self) -> None:
        """Read on and draw what is new."""
        self._choose()
        source = self._source
        self.show_health(self._health())
        if source is None:
            return
        if source.read_on():
            self.desk.ticker.poke()
        self._progress.show(progress_lines(source.progress, limit=_PROGRESS_LINES))
        self._plot.show(curves_of(source), version=(id(source), source.curves.revision))

    def point_at(self, of: str) -> None:
        """Show the curves of one stage, or of the one at work (empty)."""
        self._chosen = of
        self.pull()

    def focus_content(self) -> None:
        """Put the focus on the plot."""
        self._plot.focus()

    def _health(self) -> FeedHealth:
        if self._source is not None and self._source is self.desk.watched:
            return self.desk.supervisor.health(WATCH)
        word = "from the run's spool" if self._source else "no run on screen"
        is_live = self._source is not None and self.desk.runs.is_busy
        return FeedHealth(FeedState.LIVE if is_live else FeedState.ENDED, word)

    def _choose(self) -> None:
        watched = self.desk.watched
        if watched is not None and not self._chosen:
            self._take(watched)
            return
        view, folder = self.desk.runs.view, self.desk.runs.folder
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
            self.border_title = f"curves of {source.title}"


def curves_of(source: CurveSource) -> list[Curve]:
    """What is drawn: the losses, or everything where there is none."""
    metrics = source.curves.metrics()
    losses = [metric for metric in metrics if metric.endswith("_loss")]
    found = []
    for metric in losses or metrics:
        series = source.curves.series(metric)
        if series is not None:
            samples = series.samples()
            found.append(Curve(metric, [sample.x for sample in samples], [sample.y for sample in samples]))
    return found

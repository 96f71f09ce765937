"""The charts and progress bars of a log's metrics, with notes in words."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from statistics import mean, median
from typing import TYPE_CHECKING

import msgspec

from actions.base.errors import MissingError
from actions.base.wording import duration
from actions.run.state.records import CheckResult, StageFinding
from actions.run.state.view import Period
from actions.telemetry.curve_alarms import CurveAlarm, CurveAlarmKind
from actions.telemetry.curves import Curves, Series, divergence_of
from actions.telemetry.points import TrainingProgress
from tui.present.cells import Cells, Span, Tone, bar, width_of
from tui.present.charts.curves import Curve, Mark, MarkKind, short_number
from tui.present.text import short_names

if TYPE_CHECKING:
    from actions.run.comparison import Difference, RunCurves

BANDWIDTH = "busbw_gbs"
_LOSS = "loss"
_STEP_TIMES = ("step_time_s", "step_time_ms", "seconds_per_iter")
_FIRST = (BANDWIDTH, "step_time_s", "throughput", "grad_norm", "lr", "consumed_samples")
_LABELS = {BANDWIDTH: "bus bandwidth GB/s", "lr": "learning rate", "grad_norm": "gradient norm"}
_LAGS_BY = 0.1
"""Excess over the median step time from which a rank counts as slowing down the others."""


class MetricChart(msgspec.Struct, frozen=True):
    """Curves that share their axes.

    Args:
        name: Name in the command `chart`: `loss`, or a metric.
        metrics: The metrics drawn.
        label: Label of the y axis.
        is_by_size: The x axis is a number of bytes.
    """

    name: str
    metrics: tuple[str, ...]
    label: str
    is_by_size: bool = False


def charts_of(metrics: Sequence[str], order: Sequence[str] = ()) -> list[MetricChart]:
    """Group metrics into charts: the losses together, every other metric by itself, those of `train/…` side by side.

    Args:
        metrics: The metrics of the log.
        order: Metrics whose charts come first, in this order; the losses and other important ones follow.
    """
    losses = tuple(metric for metric in metrics if metric.endswith("_loss"))
    others = [metric for metric in metrics if metric not in losses]
    groups = ["", *dict.fromkeys(metric.partition("/")[0] for metric in others if "/" in metric)]
    grouped = sorted(others, key=lambda metric: groups.index(metric.partition("/")[0] if "/" in metric else ""))
    ordered = [*(metric for metric in _FIRST if metric in others), *(m for m in grouped if m not in _FIRST)]
    found = [MetricChart(_LOSS, losses, _LOSS)] if losses else []
    found += [MetricChart(m, (m,), _LABELS.get(m, m.replace("_", " ")), m == BANDWIDTH) for m in ordered]
    places = {metric: place for place, metric in enumerate(order)}
    return sorted(found, key=lambda chart: min(places.get(metric, len(places)) for metric in chart.metrics))


def is_meant(chart: MetricChart, words: Sequence[str]) -> bool:
    """Return whether one of the words is the name of the chart or of a metric of it, or a pattern that fits it."""
    names = [name.lower() for name in (chart.name, *chart.metrics)]
    return any(word.lower() in names or any(fnmatchcase(name, word.lower()) for name in names) for word in words)


def charts_meant(charts: Sequence[MetricChart], words: Sequence[str]) -> list[MetricChart]:
    """Return the charts that names of charts and metrics, or patterns (`train/*`), mean, in the charts' order.

    Raises:
        MissingError: One of the words means none.
    """
    for word in words:
        if not any(is_meant(chart, (word,)) for chart in charts):
            raise MissingError(f"The log has no {word!r}.", hint=f"It has {', '.join(one.name for one in charts)}.")
    return [chart for chart in charts if is_meant(chart, words)]


class ChartRow(msgspec.Struct, frozen=True):
    """A chart that can be picked.

    Args:
        chart: The chart.
        newest: The newest values of its metrics, as text.
        points: Number of values that are kept of the metric with the most.
        is_shown: It is among the charts that are shown.
    """

    chart: MetricChart
    newest: str
    points: int
    is_shown: bool


def chart_rows(
    charts: Sequence[MetricChart], series_of: Callable[[str], Series | None], shown: Collection[str]
) -> list[ChartRow]:
    """Return a row for each chart, in their order; `shown` has the names of those on screen."""
    rows = []
    for chart in charts:
        found = {metric: series for metric in chart.metrics if (series := series_of(metric)) is not None}
        lasts = {metric: last.y for metric, series in found.items() if (last := series.last) is not None}
        values = [short_number(y) if len(lasts) == 1 else f"{metric} {short_number(y)}" for metric, y in lasts.items()]
        points = max((len(series.samples()) for series in found.values()), default=0)
        rows.append(ChartRow(chart, ", ".join(values), points, chart.name in shown))
    return rows


def curves_in(chart: MetricChart, curves: Curves) -> list[Curve]:
    """Return the curves to draw."""
    found = []
    for metric in chart.metrics:
        series = curves.series(metric)
        if series is not None:
            samples = series.samples()
            xs, ys = [sample.x for sample in samples], [sample.y for sample in samples]
            found.append(Curve(metric, xs, ys, times=[sample.at for sample in samples]))
    return found


def marks_on(
    chart: MetricChart, curves: Curves, attempts: Sequence[Period] = (), alarms: Sequence[CurveAlarm] = ()
) -> list[Mark]:
    """Return where epochs began, where steps went back or a later attempt begins, and the places of alarms.

    Args:
        chart: The chart; one over message sizes has no marks.
        curves: Of one log.
        attempts: Of the stage, oldest first.
        alarms: On the log; those on other metrics are left out.
    """
    if chart.is_by_size:
        return []
    found = [Mark(MarkKind.EPOCH, epoch.x, epoch.at) for epoch in curves.epochs]
    restarts: dict[float, float | None] = {}
    for series in filter(None, map(curves.series, chart.metrics)):
        for x in series.restarts:
            restarts.setdefault(x, next((sample.at for sample in series if sample.x >= x), None))
        restarts |= _begun_in(series, attempts[1:])
    found += [Mark(MarkKind.RESTART, x, at) for x, at in sorted(restarts.items())]
    return [*found, *(Mark(MarkKind.ALARM, alarm.x, alarm.at) for alarm in alarms if alarm.metric in chart.metrics)]


def _begun_in(series: Series, attempts: Sequence[Period]) -> dict[float, float]:
    """Return the first point of each attempt: its x, and its time."""
    timed = [(sample.at, sample.x) for sample in series if sample.at is not None]
    firsts = (next(((x, at) for at, x in timed if at >= attempt.begin), None) for attempt in attempts)
    return dict(first for first in firsts if first is not None)


def notes_on(
    chart: MetricChart, curves: Curves, findings: Sequence[StageFinding] = (), alarms: Sequence[CurveAlarm] = ()
) -> list[Cells]:
    """Summarize a chart, the worst first: a diverged loss, alarms, bandwidth with its check, the slowest rank."""
    first = [*_diverged(chart, curves), *_alarmed(chart, alarms)]
    return [*first, *_bandwidth(chart, curves, findings), *_slowest(chart, curves)]


def _diverged(chart: MetricChart, curves: Curves) -> Iterator[Cells]:
    found = divergence_of(curves) if chart.name == _LOSS else None
    if found is not None:
        yield (Span(f"▲ {found.metric} {found.detail}", Tone.BAD),)


def _alarmed(chart: MetricChart, alarms: Sequence[CurveAlarm]) -> Iterator[Cells]:
    for alarm in alarms:
        is_here = alarm.metric in chart.metrics or alarm.kind is CurveAlarmKind.HANG
        if is_here and not alarm.is_past and alarm.kind is not CurveAlarmKind.NOT_A_NUMBER:
            tone = Tone.MUTED if alarm.kind is CurveAlarmKind.PLATEAU else Tone.WARN
            yield (Span(f"▲ {alarm.detail}.", tone),)


def _bandwidth(chart: MetricChart, curves: Curves, findings: Sequence[StageFinding]) -> Iterator[Cells]:
    series = curves.series(BANDWIDTH) if chart.is_by_size else None
    rows = [sample for sample in series.samples() if math.isfinite(sample.y)] if series is not None else []
    if not rows:
        return
    from actions.fleet.quantity import size_text

    best = max(rows, key=lambda sample: sample.y)
    yield (
        Span(f"peak {best.y:g} GB/s at {size_text(round(best.x))} out of place", Tone.STRONG),
        Span(f" · mean {short_number(mean(sample.y for sample in rows))} GB/s of all sizes"),
    )
    wrong = next((one for one in findings if one.result is CheckResult.FAILED), None)
    if wrong is not None:
        yield (Span(f"✗ {wrong.subject}: {wrong.detail}", Tone.BAD),)
    elif findings:
        check = next((one for one in reversed(findings) if "GB/s" in one.detail), findings[0])
        yield (Span(f"✓ {check.subject}: {check.detail}", Tone.GOOD),)


def _slowest(chart: MetricChart, curves: Curves) -> Iterator[Cells]:
    for metric in _STEP_TIMES:
        times = {rank: value for rank, value in curves.latest(metric).items() if math.isfinite(value)}
        if len(times) < 2 or (metric not in chart.metrics and chart.name != _LOSS):
            continue
        usual, (rank, worst) = median(times.values()), max(times.items(), key=lambda item: item[1])
        over = worst / usual - 1 if usual > 0 else 0.0
        slowest = f"slowest: rank {rank}, {worst:.3g} {'ms' if metric.endswith('_ms') else 's'} a step"
        if over >= _LAGS_BY:
            yield (Span(f"▲ {slowest}, {over:.0%} over the median", Tone.WARN),)
        else:
            yield (Span(f"{slowest}, no lag", Tone.MUTED),)
        return


_LEAST_BAR = 8
_MOST_BAR = 40
_FULL_LINE = 60
"""From so many columns on, the bar gets a third of those more."""


def progress_lines(
    states: Mapping[tuple[str, str], TrainingProgress], *, limit: int, width: int = 0, is_over: bool = False
) -> list[Cells]:
    """Return one line for each pod, with the bar that moved last; if there are many, the slowest pods first.

    Args:
        states: Newest state by pod and label; the one that moved last is at the end.
        limit: Maximum number of lines.
        width: Terminal columns of a line.
        is_over: The work has ended, so that nothing is left of it.
    """
    newest: dict[str, TrainingProgress] = {}
    for (pod, _label), state in states.items():
        newest.pop(pod, None)
        newest[pod] = state
    names = short_names(list(newest))
    slowest = sorted(newest.items(), key=lambda item: _share(item[1]))
    parts = [_counted(names[pod], state, is_over=is_over) for pod, state in slowest[:limit]]
    bar_width = min(_MOST_BAR, _LEAST_BAR + max(0, width - _FULL_LINE) // 3)
    if width and parts:  # the bar gives way to what is counted
        bar_width = max(0, min(bar_width, width - max(map(width_of, parts))))
    return [_line(counted, state, bar_width, width) for counted, (_, state) in zip(parts, slowest, strict=False)]


def _share(state: TrainingProgress) -> float:
    return state.done / state.total if state.total else 0.0


def _counted(name: str, state: TrainingProgress, *, is_over: bool) -> Cells:
    """Return what a line has without its bar, the most important first: a narrow pane cuts from the right."""
    counted = f"{state.done:,}/{state.total:,}" if state.total else f"{state.done:,}"
    spans = [Span(f"{name} ", Tone.MUTED)]
    if state.total:
        spans.append(Span(f" {_share(state):4.0%} "))
    spans.append(Span(counted, Tone.STRONG))
    if state.remaining_seconds is not None and not is_over:
        spans.append(Span(f" · {duration(state.remaining_seconds)} to go"))
    return tuple(spans)


def _line(counted: Cells, state: TrainingProgress, bar_width: int, width: int) -> Cells:
    """Return a line with as much of its end as there is room for: rate and label come whole, or not at all."""
    spans = list(counted)
    if state.total:  # an empty bar would be 0 %
        share = _share(state)
        filled = bar(share, bar_width)
        tone = Tone.GOOD if share >= 1 else Tone.BUSY
        spans[1:1] = [Span(filled, tone), Span("·" * (bar_width - len(filled)), Tone.MUTED)]
    rate = [Span(f" · {state.per_second:.3g}/s")] if state.per_second else []
    for span in (*rate, Span(f" {state.label}", Tone.MUTED)):
        if width and width_of((*spans, span)) > width:
            break
        spans.append(span)
    return tuple(spans)


GLYPHS = "○▲×◆▼"
"""One for each run: colours alone are not enough for some eyes and on some terminals."""
TONES = (Tone.BUSY, Tone.WARN, Tone.GOOD, Tone.ACCENT, Tone.BAD)
"""The tones of the plot's first curves, in its order."""
MOST_RUNS = len(GLYPHS)


def compared_charts(metrics: Sequence[str]) -> list[MetricChart]:
    """Return one chart for each metric: in a chart of several the runs could not be distinguished."""
    charts = charts_of(metrics)
    return [
        MetricChart(metric, (metric,), chart.label if chart.name == metric else metric, chart.is_by_size)
        for chart in charts
        for metric in chart.metrics
    ]


def compared_curves(runs: Sequence[RunCurves], metric: str, names: Sequence[str] = ()) -> list[Curve]:
    """Return a curve for each run, with its glyph; without `names`, a legend of its own names the runs."""
    found = []
    for run, glyph, name in zip(runs, GLYPHS, names or [""] * len(runs), strict=False):
        samples = tuple(run.series(metric) or ())
        times = [sample.at for sample in samples]
        found.append(Curve(name, [one.x for one in samples], [one.y for one in samples], glyph=glyph, times=times))
    return found


def legend_lines(runs: Sequence[RunCurves], names: Sequence[str], metric: str) -> list[Cells]:
    """Return a line for each run: glyph, name; of a metric the last value, step, and the least value with its step."""
    from actions.run.comparison import figures_of_series

    width = max(map(len, names), default=0)
    lines = []
    for run, name, glyph, tone in zip(runs, names, GLYPHS, TONES, strict=False):
        figures = figures_of_series(run.series(metric) if metric else None)
        spans = [Span(f"{glyph} {name:<{width}}", tone)]
        if figures.last is not None:
            spans.append(Span(f"  last {short_number(figures.last.y)}", Tone.STRONG))
            spans.append(Span(f" at step {figures.last.x:,.10g}"))
        if figures.least is not None:
            spans.append(Span(f" · min {short_number(figures.least.y)} at {figures.least.x:,.10g}", Tone.MUTED))
        lines.append(tuple(spans))
    return lines


def difference_lines(differences: Sequence[Difference], *, limit: int) -> list[Cells]:
    """Return a line for each setting that differs, with the value of each run behind the run's glyph.

    Args:
        differences: Of the runs, in their order.
        limit: Most lines; the last one counts what is left out.
    """
    from actions.run.comparison import setting_text

    if not differences:
        return [(Span("The runs have the same parameters.", Tone.MUTED),)]
    width = max(len(one.name) for one in differences)
    lines: list[Cells] = []
    for one in differences:
        spans = [Span(f"{one.name:<{width}}", Tone.STRONG)]
        for value, glyph, tone in zip(one.values, GLYPHS, TONES, strict=False):
            spans += [Span(f"  {glyph} ", tone), Span(setting_text(value))]
        lines.append(tuple(spans))
    if len(lines) <= limit:
        return lines
    rest = len(lines) - limit + 1
    return [*lines[: limit - 1], (Span(f"… and {rest} more: eksml-tui runs compare lists all.", Tone.MUTED),)]

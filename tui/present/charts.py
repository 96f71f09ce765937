"""The charts and progress bars of a log's metrics, with notes in words."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from statistics import mean, median

import msgspec

from actions.fleet.quantity import format_bytes
from actions.run.state.records import CheckResult, StageFinding
from actions.telemetry.curves import Curves, divergence_of
from actions.telemetry.points import TrainingProgress
from tui.present.cells import Cells, Span, Tone, bar
from tui.present.curves import Curve, short_number
from tui.present.text import duration, short_names

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
    """Group metrics into charts: the losses together, every other metric by itself.

    Args:
        metrics: The metrics of the log.
        order: Metrics whose charts come first, in this order; the losses and other important ones follow.
    """
    losses = tuple(metric for metric in metrics if metric.endswith("_loss"))
    others = [metric for metric in metrics if metric not in losses]
    ordered = [*(metric for metric in _FIRST if metric in others), *(m for m in others if m not in _FIRST)]
    found = [MetricChart(_LOSS, losses, _LOSS)] if losses else []
    found += [MetricChart(m, (m,), _LABELS.get(m, m.replace("_", " ")), m == BANDWIDTH) for m in ordered]
    places = {metric: place for place, metric in enumerate(order)}
    return sorted(found, key=lambda chart: min(places.get(metric, len(places)) for metric in chart.metrics))


def curves_in(chart: MetricChart, curves: Curves) -> list[Curve]:
    """Return the curves to draw."""
    found = []
    for metric in chart.metrics:
        series = curves.series(metric)
        if series is not None:
            samples = series.samples()
            found.append(Curve(metric, [sample.x for sample in samples], [sample.y for sample in samples]))
    return found


def notes_on(chart: MetricChart, curves: Curves, findings: Sequence[StageFinding] = ()) -> list[Cells]:
    """Summarize a chart in at most two lines: a diverged loss, bandwidth with its check, or the slowest rank."""
    return [*_diverged(chart, curves), *_bandwidth(chart, curves, findings), *_slowest(chart, curves)]


def _diverged(chart: MetricChart, curves: Curves) -> Iterator[Cells]:
    found = divergence_of(curves) if chart.name == _LOSS else None
    if found is not None:
        yield (Span(f"▲ {found.metric} {found.detail}", Tone.BAD),)


def _bandwidth(chart: MetricChart, curves: Curves, findings: Sequence[StageFinding]) -> Iterator[Cells]:
    series = curves.series(BANDWIDTH) if chart.is_by_size else None
    rows = [sample for sample in series.samples() if math.isfinite(sample.y)] if series is not None else []
    if not rows:
        return
    best = max(rows, key=lambda sample: sample.y)
    yield (
        Span(f"peak {best.y:g} GB/s at {format_bytes(round(best.x))}", Tone.STRONG),
        Span(f" · mean of all sizes {short_number(mean(sample.y for sample in rows))} GB/s"),
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


_BAR_WIDTH = 8


def progress_lines(states: Mapping[tuple[str, str], TrainingProgress], *, limit: int) -> list[Cells]:
    """Return one line for each pod, with the bar that moved last; if there are many, the slowest pods first.

    Args:
        states: Newest state by pod and label; the one that moved last is at the end.
        limit: Maximum number of lines.
    """
    newest: dict[str, TrainingProgress] = {}
    for (pod, _label), state in states.items():
        newest.pop(pod, None)
        newest[pod] = state
    names = short_names(list(newest))
    slowest = sorted(newest.items(), key=lambda item: _share(item[1]))
    return [_line(names[pod], state) for pod, state in slowest[:limit]]


def _share(state: TrainingProgress) -> float:
    return state.done / state.total if state.total else 0.0


def _line(name: str, state: TrainingProgress) -> Cells:
    share = _share(state)
    filled = bar(share, _BAR_WIDTH)
    counted = f"{state.done:,}/{state.total:,}" if state.total else f"{state.done:,}"
    spans = [
        Span(f"{name} ", Tone.MUTED),
        Span(filled, Tone.GOOD if share >= 1 else Tone.BUSY),
        Span("·" * (_BAR_WIDTH - len(filled)), Tone.MUTED),
        Span(f" {share:4.0%} " if state.total else " "),
        Span(counted, Tone.STRONG),
    ]
    # a narrow pane cuts from the right: what is asked for first stands first
    if state.remaining_seconds is not None:
        spans.append(Span(f" · {duration(state.remaining_seconds)} to go"))
    if state.per_second:
        spans.append(Span(f" · {state.per_second:.3g}/s"))
    spans.append(Span(f" {state.label}", Tone.MUTED))
    return tuple(spans)

"""Readings of captured output as text charts, as wide as the terminal."""

from __future__ import annotations

import math
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from actions.telemetry.curves import Curves, Series
from actions.telemetry.tools.collectives import NcclReading, NccomReading
from actions.telemetry.tools.efa import EfaReading
from actions.telemetry.tools.neuron import NeuronListing, NeuronReport, NeuronScreen
from actions.telemetry.tools.node_listing import NodeListing
from actions.telemetry.tools.nvidia_smi_reading import SmiReading
from tui.present.ansi import visible_text
from tui.present.cells import bar
from tui.present.charts.curves import Curve, figures_of, short_number
from tui.present.charts.metrics import BANDWIDTH
from tui.present.charts.raster import Color
from tui.widgets.plot_renderer import Pen, PlotOptions, Smoothing, picture_of

if TYPE_CHECKING:
    from actions.run.comparison import RunCurves

_COLORS: tuple[Color, ...] = (
    (95, 175, 255),
    (255, 175, 0),
    (95, 215, 95),
    (215, 135, 255),
    (255, 95, 95),
    (0, 215, 215),
)
_RAW = PlotOptions(smoothing=Smoothing.OFF)
_LEAST_ROWS = 12
_MOST_ROWS = 30
_LABEL = 18


def curves_of(curves: Curves, metrics: Sequence[str] = ()) -> list[Curve]:
    """Choose the curves to draw: the named metrics, else the losses, else those that came first."""
    known = curves.metrics()
    wanted = metrics or [name for name in known if name.endswith("_loss")] or known[: len(_COLORS)]
    return [_curve(name, series) for name in wanted if (series := curves.series(name)) is not None]


def log_plot(curves: Sequence[Curve]) -> Iterator[str]:
    """Draw curves over the step."""
    yield from _chart(curves, _RAW, "over step")


def comparison_plot(runs: Sequence[RunCurves], metric: str) -> Iterator[str]:
    """Draw the curves of runs over each other."""
    curves = [_curve(run.id, series) for run in runs if (series := run.series(metric)) is not None]
    is_by_size = _are_over_size([metric])
    options = PlotOptions(is_by_size=is_by_size, smoothing=Smoothing.OFF)
    yield from _chart(curves, options, f"{metric} {_over(is_by_size)}")


def run_plot(run: RunCurves, metrics: Sequence[str], *, is_colored: bool | None = None) -> Iterator[str]:
    """Draw curves of a run: the named metrics, else the losses, else the first one.

    Args:
        run: The run.
        metrics: Their names.
        is_colored: Draw in colours; `None` as stdout takes them.
    """
    chosen = _chosen(run, metrics)
    is_by_size = _are_over_size(chosen)
    curves = [_curve(metric, series) for metric in chosen if (series := run.series(metric)) is not None]
    options = PlotOptions(is_by_size=is_by_size, smoothing=Smoothing.OFF)
    yield from _chart(curves, options, _over(is_by_size), is_colored=is_colored)


def run_svg(run: RunCurves, metrics: Sequence[str]) -> str:
    """Return what `run_plot` draws as SVG."""
    from rich.segment import Segment
    from textual.strip import Strip

    from tui.commands.screenshot import svg_of
    from tui.present.ansi import segments_of

    lines = (run.id, *run_plot(run, metrics, is_colored=True))
    return svg_of([Strip(Segment(text, style) for text, style, _ in segments_of(line)) for line in lines])


def _chosen(run: RunCurves, metrics: Sequence[str]) -> Sequence[str]:
    known = run.metrics()
    return metrics or [name for name in known if name.endswith("_loss")] or known[:1]


def _are_over_size(metrics: Sequence[str]) -> bool:
    """Return whether metrics are measured by message size, not by step."""
    return bool(metrics) and all(metric == BANDWIDTH for metric in metrics)


def _over(is_by_size: bool) -> str:
    return "over message size" if is_by_size else "over step"


def nccl_plot(reading: NcclReading | NccomReading) -> Iterator[str]:
    """Draw bus bandwidth over message size."""
    yield from _chart(bandwidth_curves(reading), PlotOptions(is_by_size=True), "GB/s over message size")


def bandwidth_curves(reading: NcclReading | NccomReading) -> list[Curve]:
    """Return bus bandwidth in GB/s by message size in bytes, out of place and in place."""
    if isinstance(reading, NccomReading):
        pairs = [(row.get("size(B)"), row.get("busbw(GB/s)")) for row in reading.rows]
        kept = [(x, y) for x, y in pairs if isinstance(x, float) and isinstance(y, float)]
        return [Curve("busbw", [x for x, _ in kept], [y for _, y in kept])] if kept else []
    sizes = [float(row.size) for row in reading.rows]
    out = Curve("out of place", sizes, [row.out_of_place.busbw for row in reading.rows])
    both = [(float(row.size), row.in_place.busbw) for row in reading.rows if row.in_place]
    inside = Curve("in place", [size for size, _ in both], [value for _, value in both])
    return [curve for curve in (out, inside) if curve.xs]


def smi_plot(reading: SmiReading, history: Mapping[int, Series]) -> Iterator[str]:
    """Draw the load of each GPU: over the samples, or as bars if there is only one."""
    if any(len(series.samples()) > 1 for series in history.values()):
        curves = [_curve(f"GPU {index}", series) for index, series in sorted(history.items())]
        yield from _chart(curves, _RAW, "percent busy, over samples")
        return
    yield from _bars([(f"GPU {gpu.index} {gpu.name}", gpu.util_pct) for gpu in reading.gpus])


def neuron_plot(reading: NeuronReport | NeuronScreen | NeuronListing, history: Series) -> Iterator[str]:
    """Draw the load of the cores: over the records, or as bars if there is only one."""
    if len(history.samples()) > 1:
        yield from _chart([_curve("mean of all cores", history)], _RAW, "percent busy, over records")
        return
    match reading:
        case NeuronReport():
            yield from _bars([(f"NC{number}", use.util_max) for number, use in sorted(reading.cores.items())])
        case NeuronScreen():
            cells = [
                (f"ND{device} NC{at}", use) for device, cores in reading.devices.items() for at, use in enumerate(cores)
            ]
            yield from _bars(cells)
        case NeuronListing():
            yield "A list of devices has nothing to draw; omit --output plot."


def efa_plot(reading: EfaReading | Sequence[NodeListing]) -> Iterator[str]:
    """Draw adapters by rank, or EFA devices by node."""
    if isinstance(reading, EfaReading):
        ranks = sorted({one.rank for one in reading.providers})
        counts = [(f"rank {rank}", float(reading.adapters_of(rank))) for rank in ranks]
    else:
        found = ((node.name or "node", node.amount("Allocatable", "vpc.amazonaws.com/efa")) for node in reading)
        counts = [(name, count or 0.0) for name, count in found]
    yield from _bars(counts, unit=" adapters", whole=max((count for _, count in counts), default=1.0) or 1.0)


def _curve(name: str, series: Series) -> Curve:
    samples = series.samples()
    return Curve(name, [sample.x for sample in samples], [sample.y for sample in samples])


def _chart(
    curves: Sequence[Curve], options: PlotOptions, caption: str, *, is_colored: bool | None = None
) -> Iterator[str]:
    if not curves:
        yield "There is nothing to draw in this output."
        return
    is_colored = sys.stdout.isatty() if is_colored is None else is_colored
    width, rows = shutil.get_terminal_size((100, 30))
    pens = [Pen(color, color) for color in (_COLORS[at % len(_COLORS)] for at in range(len(curves)))]
    height = min(max(rows - 4, _LEAST_ROWS), _MOST_ROWS)
    lines = picture_of(curves, pens, width=width, height=height, options=options)
    yield from (line if is_colored else visible_text(line).rstrip() for line in lines)
    for curve, pen in zip(curves, pens, strict=True):
        figures = figures_of(curve, is_log=False)
        mark = f"\x1b[38;2;{pen.bright[0]};{pen.bright[1]};{pen.bright[2]}m━━\x1b[0m" if is_colored else "━━"
        unshown = f", {figures.unshown} not shown" if figures.unshown else ""
        last, low, high = (short_number(value) for value in (figures.last, figures.low, figures.high))
        yield f"{mark} {curve.name}: last {last}, min {low}, max {high}{unshown}"
    yield caption


def _bars(values: Sequence[tuple[str, float | None]], *, unit: str = "%", whole: float = 100.0) -> Iterator[str]:
    if not values:
        yield "There is nothing to draw in this output."
        return
    width = max(10, shutil.get_terminal_size((100, 30)).columns - _LABEL - 14)
    for label, value in values:
        shown = "?" if value is None or math.isnan(value) else f"{value:g}{unit}"
        yield f"{label[:_LABEL]:<{_LABEL}} {bar((value or 0.0) / whole, width):<{width}} {shown}"

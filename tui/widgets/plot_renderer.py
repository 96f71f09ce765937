"""Curves to a chart of characters: a pure function of data, size and colours."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from enum import Enum, auto

import msgspec

from actions.base.numbers import MOST
from actions.fleet.quantity import format_bytes
from actions.telemetry.curves import smoothed
from tui.present.charts.curves import (
    Curve,
    Line,
    Mark,
    TimeAxis,
    figures_of,
    heights_of,
    marks_in_words,
    on_axis,
    round_ticks,
    short_number,
    size_ticks,
    thinned,
    tick_labels,
    time_at,
    time_labels,
    time_ticks,
)
from tui.present.charts.raster import Axis, Color, Stroke, draw_strokes

_MOST_POWER = math.log10(MOST)
LEAST_WIDTH, LEAST_HEIGHT = 24, 5
COLUMNS_PER_X_TICK = 14
ROWS_PER_Y_TICK = 3
COLUMNS_PER_GLYPH = 16
RULE = "┊"
LEAST_Y_SHARE = 0.02
"""The height of the y axis at least, as a share of the greatest value."""
SPARSE_POINTS = 50
"""Curves of fewer points are not smoothed by themselves: each of their points can be seen."""


class Smoothing(Enum):
    """Curves that are drawn with their moving average."""

    OFF = auto()
    DENSE = auto()
    """Those of at least `SPARSE_POINTS`."""
    ON = auto()
    """All of them."""


class PlotOptions(msgspec.Struct, frozen=True):
    """The options of a plot."""

    is_log: bool = False
    """The y axis is logarithmic."""
    is_by_size: bool = False
    """The x axis is a number of bytes, and logarithmic."""
    smoothing: Smoothing = Smoothing.DENSE
    window: tuple[float, float] | None = None
    """The part of the x axis that is shown; `None` for the whole."""
    time: TimeAxis = TimeAxis.NONE

    @property
    def x_label(self) -> str:
        """The label of an x axis that is a time; empty for another one."""
        return {TimeAxis.CLOCK: "time (UTC)", TimeAxis.ELAPSED: "time since its start"}.get(self.time, "")


class Rule(msgspec.Struct, frozen=True):
    """A vertical mark."""

    x: float
    color: Color


class Pen(msgspec.Struct, frozen=True):
    """The colours of one curve: of measured and of smoothed values."""

    raw: Color
    bright: Color


def picture_of(
    curves: Sequence[Curve],
    pens: Sequence[Pen],
    *,
    width: int,
    height: int,
    options: PlotOptions,
    rules: Sequence[Rule] = (),
) -> list[str]:
    """Draw curves as a chart.

    Args:
        curves: Over their own x; `options` chooses the axis.
        pens: One for each curve.
        width: Terminal columns.
        height: Lines.
        options: Axes, smoothing, the part to show.
        rules: Vertical marks, on the axis that `options` choose.

    Returns:
        `height` lines with SGR colours; one line with the reason if there is nothing to draw.
    """
    if width < LEAST_WIDTH or height < LEAST_HEIGHT:
        return ["too small for a chart"]
    raw, lines = _strokes(curves, pens, buckets=max(LEAST_WIDTH, width // 2), options=options)
    strokes = [*raw, *lines]
    ys = [y for stroke in strokes for y in stroke.line.ys if y is not None]
    ends = x_range(curves, options)
    if not ys or ends is None:
        return [_nothing_to_draw(curves, options)]
    x_axis = _x_axis(*ends, most=max(2, width // COLUMNS_PER_X_TICK), options=options)
    y_axis = _y_axis(min(ys), max(ys), most=max(2, height // ROWS_PER_Y_TICK), is_log=options.is_log)
    strokes = [*_ruled(rules, x_axis, y_axis, rows=height), *strokes, *_glyphs(curves, lines, width)]
    return draw_strokes(strokes, x_axis, y_axis, width=width, height=height)


def _nothing_to_draw(curves: Sequence[Curve], options: PlotOptions) -> str:
    """Return why no value of the curves can be drawn."""
    count = sum(len(curve.ys) for curve in curves)
    if not count:
        return "no data yet"
    if not any(math.isfinite(y) for curve in curves for y in curve.ys):
        return f"no number to draw: all {count:,} values are NaN or infinite"
    return "no data in this part of the axis" if options.window is not None else "no value above 0 for a log axis"


def is_smoothed(curve: Curve, options: PlotOptions) -> bool:
    """Return whether a curve is drawn with its moving average; one over message sizes never is."""
    if options.is_by_size or len(curve.xs) < 2:
        return False
    is_dense = len(curve.xs) >= SPARSE_POINTS
    return options.smoothing is Smoothing.ON or (options.smoothing is Smoothing.DENSE and is_dense)


def x_range(curves: Sequence[Curve], options: PlotOptions) -> tuple[float, float] | None:
    """Return the ends of the x axis as `picture_of` draws it; `None` without a value that can be drawn."""
    if options.window is not None:
        return options.window
    drawn = [on_axis(curve, is_by_size=options.is_by_size, time=options.time) for curve in curves]
    xs = [
        x
        for curve in drawn
        for x, y in zip(curve.xs, heights_of(curve, is_log=options.is_log), strict=True)
        if y is not None and math.isfinite(x)
    ]
    if not xs:
        return None
    axis = _x_axis(min(xs), max(xs), most=2, options=options)
    return axis.low, axis.high


def _strokes(
    curves: Sequence[Curve], pens: Sequence[Pen], *, buckets: int, options: PlotOptions
) -> tuple[list[Stroke], list[Stroke]]:
    """Return the measured values of smoothed curves, and the line of each curve."""
    raw: list[Stroke] = []
    bright: list[Stroke] = []
    shown = [on_axis(curve, is_by_size=options.is_by_size, time=options.time) for curve in curves]
    reach = _reach(shown)
    for curve, pen in zip(shown, pens, strict=True):
        heights = heights_of(curve, is_log=options.is_log)
        if is_smoothed(curve, options):
            average = smoothed(curve.xs, heights, reach=reach)
            raw.append(Stroke(_part(curve.xs, heights, buckets, options), pen.raw))
            bright.append(Stroke(_part(curve.xs, average, buckets, options), pen.bright))
        else:
            bright.append(Stroke(_part(curve.xs, heights, buckets, options), pen.bright))
    return raw, bright


def _part(xs: Sequence[float], heights: Sequence[float | None], buckets: int, options: PlotOptions) -> Line:
    """Return what of a line is in the window, thinned: a moving average begins before the window does."""
    if options.window is not None:
        low, high = options.window
        kept = [place for place, x in enumerate(xs) if low <= x <= high]
        xs, heights = [xs[place] for place in kept], [heights[place] for place in kept]
    return _finite(thinned(xs, heights, buckets))


def _glyphs(curves: Sequence[Curve], lines: Sequence[Stroke], width: int) -> Iterator[Stroke]:
    """Yield the glyphs of curves that have one, on some of their points, each curve's on points of its own."""
    count = max(2, width // COLUMNS_PER_GLYPH)
    for number, (curve, stroke) in enumerate(zip(curves, lines, strict=True)):
        if not curve.glyph:
            continue
        places = [place for place, y in enumerate(stroke.line.ys) if y is not None]
        every = max(1, len(places) // count)
        chosen = places[(number * every // len(lines)) % every :: every] or places
        xs, ys = (tuple(values[place] for place in chosen) for values in (stroke.line.xs, stroke.line.ys))
        yield Stroke(Line(tuple(x or 0.0 for x in xs), ys), stroke.color, curve.glyph)


def _ruled(rules: Sequence[Rule], x_axis: Axis, y_axis: Axis, *, rows: int) -> Iterator[Stroke]:
    """Yield a dotted line for each rule that is on the axis."""
    heights = [y_axis.low + (y_axis.high - y_axis.low) * row / (rows - 1) for row in range(rows)]
    for rule in rules:
        if x_axis.low <= rule.x <= x_axis.high:
            yield Stroke(Line((rule.x,) * rows, tuple(heights)), rule.color, RULE)


def _reach(curves: Sequence[Curve]) -> float:
    """Return the width of the x axis, which all curves share."""
    xs = [x for curve in curves for x in curve.xs if math.isfinite(x)]
    return max(xs) - min(xs) if xs else 0.0


def _finite(line: Line) -> Line:
    """Turn points whose x is not finite into gaps."""
    if all(map(math.isfinite, line.xs)):
        return line
    ys = tuple(y if math.isfinite(x) else None for x, y in zip(line.xs, line.ys, strict=True))
    return Line(tuple(x if math.isfinite(x) else 0.0 for x in line.xs), ys)


def _x_axis(low: float, high: float, *, most: int, options: PlotOptions) -> Axis:
    if options.time is not TimeAxis.NONE:
        low, high = (low, high) if low < high else (low - 1, high + 1)
        ticks = time_ticks(low, high, most)
        return Axis(tuple(ticks), tuple(time_labels(ticks, options.time)), low, high)
    if low == high:
        low, high = low - 1, high + 1
    if not options.is_by_size:
        is_whole = float(low).is_integer() and float(high).is_integer()  # steps, of which there are no halves
        return _axis(low, high, most=most, margin=0.0, is_log=False, least_step=1.0 if is_whole else 0.0)
    ticks = size_ticks(low, high, most)
    return Axis(tuple(ticks), tuple(format_bytes(round(2.0**tick)) for tick in ticks), low, high)


def _y_axis(low: float, high: float, *, most: int, is_log: bool) -> Axis:
    """Return the axis of values; those that hardly differ are in its middle: noise must not look like a course."""
    least = math.log10(1 + LEAST_Y_SHARE) if is_log else LEAST_Y_SHARE * max(abs(low), abs(high))
    if 0 < high - low < least:
        middle = (low + high) / 2
        low, high = middle - least / 2, middle + least / 2
    return _axis(low, high, most=most, margin=0.03, is_log=is_log)


def _axis(low: float, high: float, *, most: int, margin: float, is_log: bool, least_step: float = 0.0) -> Axis:
    if low == high:
        pad = abs(low) * 0.1 or 1.0
        low, high = low - pad, high + pad
    pad = (high - low) * margin
    ticks = round_ticks(low, high, most, least_step=least_step)
    shown = [(tick, 10.0 ** min(tick, _MOST_POWER) if is_log else tick) for tick in ticks]
    labels = tick_labels([value for _, value in shown])
    return Axis(tuple(ticks), tuple(labels), low - pad, high + pad)


def place_at(curves: Sequence[Curve], x: float, x_label: str, options: PlotOptions) -> str:
    """Return a place on the x axis in words, with the time of the point there: `step 12,600 (11-20 14:05:07)`.

    Args:
        curves: Over the axis.
        x: The place.
        x_label: Label of an axis that is not a time.
        options: Choose the axis.
    """
    at = time_at(curves, x)
    if options.time is not TimeAxis.NONE:
        return at if options.time is TimeAxis.CLOCK and at else time_labels([x], options.time)[0]
    shown = format_bytes(round(2.0**x)) if options.is_by_size else f"{x:,.10g}"
    return f"{x_label} {shown}{f' ({at})' if at else ''}"


def range_in_words(curves: Sequence[Curve], marks: Sequence[Mark], options: PlotOptions, x_label: str) -> str:
    """Return the second line of a legend: least and greatest value, what is not shown, the x axis, marks."""
    figures = [figures_of(curve, is_log=options.is_log) for curve in curves]
    finite = [each for each in figures if math.isfinite(each.low)]
    parts = []
    if finite:
        low, high = min(each.low for each in finite), max(each.high for each in finite)
        parts.append(f"min {short_number(low)} · max {short_number(high)}")
    unshown = sum(each.unshown for each in figures)
    if unshown:
        parts.append(f"{unshown:,} point{'s' * (unshown > 1)} not shown")
    parts.append(f"over {options.x_label or x_label}")
    if any(is_smoothed(curve, options) for curve in curves):
        parts.append("smoothed")
    if options.window is not None:
        parts.append("part of the axis (= shows all)")
    return " · ".join([*parts, *marks_in_words(marks)])

"""From curves to a finished chart: a pure function of data, size and colours."""

from __future__ import annotations

import math
from collections.abc import Sequence

import msgspec

from actions.fleet.quantity import format_bytes
from tui.present.curves import (
    Curve,
    Line,
    by_size,
    heights_of,
    round_ticks,
    short_number,
    size_ticks,
    smoothed,
    thinned,
)
from tui.widgets.plot_renderer import Axis, Color, PlotRenderer, Stroke

LEAST_WIDTH, LEAST_HEIGHT = 24, 5
COLUMNS_PER_X_TICK = 14
ROWS_PER_Y_TICK = 3
FEW_POINTS = 8
"""Curves of so few points are not smoothed: there is nothing to smooth."""


class PlotOptions(msgspec.Struct, frozen=True):
    """How curves are drawn."""

    is_log: bool = False
    """Whether y is logarithmic."""
    is_by_size: bool = False
    """Whether x is a number of bytes, on a logarithmic axis."""
    is_smoothed: bool = True


class Pen(msgspec.Struct, frozen=True):
    """The colours of one curve: as measured, and smoothed."""

    raw: Color
    bright: Color


def picture_of(
    curves: Sequence[Curve],
    pens: Sequence[Pen],
    *,
    width: int,
    height: int,
    options: PlotOptions,
    renderer: PlotRenderer,
) -> list[str]:
    """Draw the chart.

    Returns:
        `height` lines with SGR colours; one line that says why if there is nothing to draw.

    Raises:
        ValueError: The renderer failed.
    """
    if width < LEAST_WIDTH or height < LEAST_HEIGHT:
        return ["too small for a chart"]
    strokes = _strokes(curves, pens, buckets=max(LEAST_WIDTH, width // 2), options=options)
    xs = [x for stroke in strokes for x, y in zip(stroke.line.xs, stroke.line.ys, strict=True) if y is not None]
    ys = [y for stroke in strokes for y in stroke.line.ys if y is not None]
    if not ys:
        return ["no data yet"]
    x_axis = _x_axis(min(xs), max(xs), most=max(2, width // COLUMNS_PER_X_TICK), is_by_size=options.is_by_size)
    y_axis = _axis(min(ys), max(ys), most=max(2, height // ROWS_PER_Y_TICK), margin=0.03, is_log=options.is_log)
    return renderer.draw(strokes, x_axis, y_axis, width=width, height=height)


def _strokes(curves: Sequence[Curve], pens: Sequence[Pen], *, buckets: int, options: PlotOptions) -> list[Stroke]:
    raw: list[Stroke] = []
    bright: list[Stroke] = []
    for drawn, pen in zip(curves, pens, strict=True):
        curve = by_size(drawn) if options.is_by_size else drawn
        heights = heights_of(curve, is_log=options.is_log)
        if options.is_smoothed and not options.is_by_size and len(heights) > FEW_POINTS:
            raw.append(Stroke(_finite(thinned(curve.xs, heights, buckets)), pen.raw))
            bright.append(Stroke(_finite(thinned(curve.xs, smoothed(heights), buckets)), pen.bright))
        else:
            bright.append(Stroke(_finite(thinned(curve.xs, heights, buckets)), pen.bright))
    return raw + bright


def _finite(line: Line) -> Line:
    """Gaps also where x is no number."""
    if all(map(math.isfinite, line.xs)):
        return line
    ys = tuple(y if math.isfinite(x) else None for x, y in zip(line.xs, line.ys, strict=True))
    return Line(tuple(x if math.isfinite(x) else 0.0 for x in line.xs), ys)


def _x_axis(low: float, high: float, *, most: int, is_by_size: bool) -> Axis:
    if not is_by_size:
        return _axis(low, high, most=most, margin=0.0, is_log=False)
    if low == high:
        low, high = low - 1, high + 1
    ticks = size_ticks(low, high, most)
    return Axis(tuple(ticks), tuple(format_bytes(round(2.0**tick)) for tick in ticks), low, high)


def _axis(low: float, high: float, *, most: int, margin: float, is_log: bool) -> Axis:
    if low == high:
        pad = abs(low) * 0.1 or 1.0
        low, high = low - pad, high + pad
    pad = (high - low) * margin
    ticks = round_ticks(low, high, most)
    labels = (short_number(10.0**tick if is_log else tick) for tick in ticks)
    return Axis(tuple(ticks), tuple(labels), low - pad, high + pad)

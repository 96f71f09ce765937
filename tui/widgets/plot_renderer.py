"""Curves to a chart of characters: a pure function of data, size and colours. The only user of plotext."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TypeAlias

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

Color: TypeAlias = tuple[int, int, int]


class Stroke(msgspec.Struct, frozen=True):
    """A line with its colour."""

    line: Line
    color: Color


class Axis(msgspec.Struct, frozen=True):
    """The ticks of an axis with their labels, and its range."""

    ticks: tuple[float, ...]
    labels: tuple[str, ...]
    low: float
    high: float


def draw_strokes(strokes: Sequence[Stroke], x_axis: Axis, y_axis: Axis, *, width: int, height: int) -> list[str]:
    """Draw strokes with plotext 5.3, whose figure is a global of its module: it is filled and read within one call.

    Returns:
        `height` lines of `width` terminal columns, with SGR colours.

    Raises:
        ValueError: It could not be drawn; the message is the reason.
    """
    import plotext

    plotext.clear_figure()
    plotext.theme("clear")
    plotext.limit_size(False, False)  # else it uses the size of its own terminal
    plotext.plot_size(width, height)
    plotext.xlim(x_axis.low, x_axis.high)
    plotext.ylim(y_axis.low, y_axis.high)
    plotext.xticks(x_axis.ticks, x_axis.labels)
    plotext.yticks(y_axis.ticks, y_axis.labels)
    for stroke in strokes:
        for xs, ys in _pieces(stroke.line):
            plotext.plot(xs, ys, color=stroke.color, marker="braille")
    try:
        drawn = str(plotext.build())
    except (ArithmeticError, IndexError, TypeError) as error:
        message = f"the chart could not be drawn: {error}"
        raise ValueError(message) from error
    finally:
        plotext.clear_figure()
    return drawn.rstrip("\n").split("\n")


def _pieces(line: Line) -> list[tuple[list[float], list[float]]]:
    """Return the pieces between gaps."""
    pieces: list[tuple[list[float], list[float]]] = [([], [])]
    for x, y in zip(line.xs, line.ys, strict=True):
        if y is None:
            pieces.append(([], []))
        else:
            pieces[-1][0].append(x)
            pieces[-1][1].append(y)
    return [piece for piece in pieces if piece[0]]


LEAST_WIDTH, LEAST_HEIGHT = 24, 5
COLUMNS_PER_X_TICK = 14
ROWS_PER_Y_TICK = 3
FEW_POINTS = 8
"""Curves of at most so many points are not smoothed."""


class PlotOptions(msgspec.Struct, frozen=True):
    """The options of a plot."""

    is_log: bool = False
    """The y axis is logarithmic."""
    is_by_size: bool = False
    """The x axis is a number of bytes, and logarithmic."""
    is_smoothed: bool = True


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
) -> list[str]:
    """Draw curves as a chart.

    Returns:
        `height` lines with SGR colours; one line with the reason if there is nothing to draw.

    Raises:
        ValueError: It could not be drawn; the message is the reason.
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
    return draw_strokes(strokes, x_axis, y_axis, width=width, height=height)


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
    """Turn points whose x is not finite into gaps."""
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

"""Curves as a picture for reports, SVG or PNG: the same axes, smoothing and marks as the chart on screen. Pure.

A PNG is drawn by Pillow, which comes with the extra `png`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from html import escape
from io import BytesIO
from typing import TYPE_CHECKING

import msgspec
from rich.cells import cell_len

from actions.base.errors import ConfigError
from actions.telemetry.curves import smoothed
from tui.present.charts.curves import (
    Curve,
    Mark,
    MarkKind,
    figures_of,
    heights_of,
    mark_places,
    on_axis,
    short_number,
)
from tui.present.charts.raster import Axis
from tui.widgets.plot_renderer import PlotOptions, axes_of, is_smoothed

if TYPE_CHECKING:
    from PIL.ImageDraw import ImageDraw
    from PIL.ImageFont import FreeTypeFont
    from PIL.ImageFont import ImageFont as BitmapFont

WIDTH, HEIGHT = 960, 540
_LEFT, _RIGHT, _TOP, _BOTTOM = 80, 20, 60, 60
_COLORS = ("#1f77b4", "#d95f02", "#2ca02c", "#9467bd", "#d62728", "#117a8b")
"""Dark enough for white paper."""
_BLACK, _PALE, _FRAME = "#000000", "#eeeeee", "#888888"
_MARK_COLORS = {MarkKind.EPOCH: "#bbbbbb", MarkKind.RESTART: "#d95f02", MarkKind.ALARM: "#d62728"}
_X_TICKS, _Y_TICKS = 8, 7
_SIZE, _TITLE_SIZE = 13, 16
_LEGEND_AT, _LEGEND_ROW = 46, 18
_EM = 0.62
"""Width of a letter as a share of its size, on the safe side: what draws an SVG has fonts of its own."""
_GLYPH = 2.4 * _SIZE
"""Width of the sign before a name, and of the gap behind it."""
_ANCHORS = {"start": "ls", "middle": "ms", "end": "rs"}
"""SVG's `text-anchor`, and Pillow's anchor for the same: at the base line."""

Point = tuple[float, float]


class Shape(msgspec.Struct, frozen=True):
    """A part of a picture.

    Args:
        points: Corners of a line, or the place of a text.
        color: `#rrggbb`.
        width: Of the line.
        opacity: 1 hides what is below.
        text: The text; empty for a line.
        anchor: The part of the text that is at the place: `start`, `middle`, `end`.
        size: Of the text.
        glyph: The sign of a curve, before its name.
        is_dashed: Of the line.
        meaning: The word of a mark.
    """

    points: tuple[Point, ...]
    color: str = _BLACK
    width: float = 1.0
    opacity: float = 1.0
    text: str = ""
    anchor: str = "start"
    size: int = _SIZE
    glyph: str = ""
    is_dashed: bool = False
    meaning: str = ""


def svg_of(
    curves: Sequence[Curve], *, title: str, x_label: str, options: PlotOptions, marks: Sequence[Mark] = ()
) -> str:
    """Return a picture of curves on white ground, with a legend of their last values.

    Args:
        curves: The curves.
        title: The heading.
        x_label: Label of an x axis that is not a time.
        options: Axes, smoothing, the part to show.
        marks: Vertical marks.
    """
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif"'
        f' font-size="{_SIZE}">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
        *map(_svg_element, _shapes(curves, title=title, x_label=x_label, options=options, marks=marks)),
    ]
    return "\n".join([*lines, "</svg>", ""])


def png_of(
    curves: Sequence[Curve],
    *,
    title: str,
    x_label: str,
    options: PlotOptions,
    marks: Sequence[Mark] = (),
    clean: Callable[[str], str] = str,
) -> bytes:
    """Return the picture of `svg_of` as PNG, twice as many pixels wide and high.

    Args:
        curves: The curves.
        title: The heading.
        x_label: Label of an x axis that is not a time.
        options: Axes, smoothing, the part to show.
        marks: Vertical marks.
        clean: Makes each text what may be shown.

    Raises:
        ConfigError: Pillow is not installed.
    """
    try:
        from PIL import Image, ImageDraw
    except ImportError as error:
        raise ConfigError(
            "A PNG needs Pillow, which is not installed.",
            hint='Install it: pip install "eksml-tui[png]"; .svg and .csv need nothing.',
        ) from error
    image = Image.new("RGB", (WIDTH * _FINE, HEIGHT * _FINE), "white")
    draw = ImageDraw.Draw(image)
    for shape in _shapes(curves, title=title, x_label=x_label, options=options, marks=marks):
        if shape.text or shape.glyph:
            _write(draw, msgspec.structs.replace(shape, text=clean(shape.text)))
        else:
            _draw(draw, shape)
    data = BytesIO()
    image.reduce(_FINE // _SCALE).save(data, "PNG")
    return data.getvalue()


def _shapes(
    curves: Sequence[Curve], *, title: str, x_label: str, options: PlotOptions, marks: Sequence[Mark]
) -> Iterator[Shape]:
    """Yield the parts of the picture, the lowest first."""
    axes = axes_of(curves, options, x_ticks=_X_TICKS, y_ticks=_Y_TICKS)
    yield Shape(((_LEFT, 22),), text=title, size=_TITLE_SIZE)
    if axes is None:
        yield Shape(((_LEFT, HEIGHT // 2),), text="no data yet")
        return
    x_axis, y_axis = axes
    legend = _legend(curves)
    top = _TOP + max((shape.points[0][1] for shape in legend), default=_LEGEND_AT) - _LEGEND_AT
    yield from _grid(x_axis, y_axis, options.x_label or x_label, top)
    for kind in MarkKind:
        for x in mark_places(marks, kind, time=options.time, window=options.window):
            if x_axis.low <= x <= x_axis.high:
                yield _rule(_x(x, x_axis), top, _MARK_COLORS[kind], kind.value)
    shown = [on_axis(curve, is_by_size=options.is_by_size, time=options.time) for curve in curves]
    xs = [x for curve in shown for x in curve.xs if math.isfinite(x)]
    for curve, named in zip(shown, legend, strict=True):
        heights = heights_of(curve, is_log=options.is_log)
        if is_smoothed(curve, options):
            yield from _line(curve.xs, heights, axes, top, Shape((), named.color, opacity=0.35))
            heights = smoothed(curve.xs, heights, reach=max(xs) - min(xs))
        yield from _line(curve.xs, heights, axes, top, Shape((), named.color, width=1.8))
        yield named


def _x(value: float, axis: Axis) -> float:
    return _LEFT + (value - axis.low) / (axis.high - axis.low) * (WIDTH - _LEFT - _RIGHT)


def _y(value: float, axis: Axis, top: float) -> float:
    return HEIGHT - _BOTTOM - (value - axis.low) / (axis.high - axis.low) * (HEIGHT - top - _BOTTOM)


def _grid(x_axis: Axis, y_axis: Axis, x_label: str, top: float) -> Iterator[Shape]:
    right, bottom = WIDTH - _RIGHT, HEIGHT - _BOTTOM
    for tick, label in zip(x_axis.ticks, x_axis.labels, strict=True):
        at = _x(tick, x_axis)
        yield _rule(at, top, _PALE, "")
        yield Shape(((at, bottom + 18),), text=label, anchor="middle")
    for tick, label in zip(y_axis.ticks, y_axis.labels, strict=True):
        at = _y(tick, y_axis, top)
        yield Shape(((_LEFT, at), (right, at)), _PALE)
        yield Shape(((_LEFT - 8, at + 4),), text=label, anchor="end")
    yield Shape(((_LEFT, top), (right, top), (right, bottom), (_LEFT, bottom), (_LEFT, top)), _FRAME)
    yield Shape(((WIDTH // 2, HEIGHT - 16),), text=x_label, anchor="middle")


def _rule(at: float, top: float, color: str, word: str) -> Shape:
    return Shape(((at, top), (at, HEIGHT - _BOTTOM)), color, is_dashed=bool(word), meaning=word)


def _line(
    xs: Sequence[float], heights: Sequence[float | None], axes: tuple[Axis, Axis], top: float, like: Shape
) -> Iterator[Shape]:
    """Yield a line for each piece between gaps."""
    x_axis, y_axis = axes
    piece: list[Point] = []
    for x, height in [*zip(xs, heights, strict=True), (0.0, None)]:
        if height is not None and math.isfinite(x) and x_axis.low <= x <= x_axis.high:
            piece.append((_x(x, x_axis), _y(height, y_axis, top)))
        elif piece:
            yield msgspec.structs.replace(like, points=tuple(piece if len(piece) > 1 else piece * 2))
            piece = []


def _legend(curves: Sequence[Curve]) -> list[Shape]:
    """Return the name of each curve with its last value, beside each other as far as there is room, then below."""
    shapes: list[Shape] = []
    x, y = float(_LEFT), float(_LEGEND_AT)
    for number, curve in enumerate(curves):
        text = f"{curve.name} {short_number(figures_of(curve, is_log=False).last)}".strip()
        width = _GLYPH + cell_len(text) * _EM * _SIZE
        if shapes and x + width > WIDTH - _RIGHT:
            x, y = float(_LEFT), y + _LEGEND_ROW
        color = _COLORS[number % len(_COLORS)]
        shapes.append(Shape(((x, y),), color, text=text, glyph=curve.glyph or "—"))
        x += width
    return shapes


def _svg_element(shape: Shape) -> str:
    """Return a part as an element. A line of two equal points is a dot: its caps are round."""
    x, y = shape.points[0]
    if shape.text or shape.glyph:
        text = escape(f"{shape.glyph} {shape.text}" if shape.glyph not in ("", "—") else shape.text)
        fill = f' fill="{shape.color}"' if shape.color != _BLACK else ""
        size = f' font-size="{shape.size}"' if shape.size != _SIZE else ""
        anchor = f' text-anchor="{shape.anchor}"' if shape.anchor != "start" else ""
        return f'<text x="{x:.1f}" y="{y:.1f}"{anchor}{size}{fill}>{text}</text>'
    points = " ".join(f"{x:.1f},{y:.1f}" for x, y in shape.points)
    dashes = ' stroke-dasharray="3 3"' if shape.is_dashed else ""
    opacity = f' stroke-opacity="{shape.opacity:g}"' if shape.opacity < 1 else ""
    style = f'stroke="{shape.color}"{opacity} stroke-width="{shape.width:g}"{dashes}'
    if shape.meaning or shape.color in (_PALE, _FRAME):
        title = f"<title>{escape(shape.meaning)}</title>" if shape.meaning else ""
        return f'<path fill="none" {style} d="M{points.replace(" ", " L")}">{title}</path>'
    return f'<polyline fill="none" {style} stroke-linecap="round" points="{points}"/>'


_SCALE = 2
"""Pixels of a PNG for a unit of the picture."""
_FINE = 4
"""Pixels for a unit while it is drawn: lines are made smooth by making the picture smaller."""
_DASH = 3.0


def _draw(draw: ImageDraw, shape: Shape) -> None:
    width = max(1, round(shape.width * _FINE))
    color = _mixed(shape.color, shape.opacity)
    points = [(x * _FINE, y * _FINE) for x, y in shape.points]
    if shape.is_dashed:
        (x, low), (_, high) = points
        step = _DASH * _FINE
        for place in range(0, int((high - low) / step), 2):
            draw.line([(x, low + place * step), (x, low + (place + 1) * step)], fill=color, width=width)
    elif len(set(points)) == 1:
        (x, y), radius = points[0], width
        draw.ellipse((x - radius, y - radius, x + radius, y + radius), fill=color)
    else:
        draw.line(points, fill=color, width=width, joint="curve")


def _write(draw: ImageDraw, shape: Shape) -> None:
    """Write a text; before the name of a curve a piece of its line stands for the sign, which few fonts have."""
    x, y = (place * _FINE for place in shape.points[0])
    if shape.glyph:
        long = _SIZE * _FINE
        draw.line([(x, y - long / 3), (x + long, y - long / 3)], fill=shape.color, width=2 * _FINE)
        x += 1.4 * long
    font = _font(shape.size * _FINE)
    draw.text((x, y), shape.text, fill=shape.color, font=font, anchor=_ANCHORS[shape.anchor])


def _font(size: int) -> FreeTypeFont | BitmapFont:
    """Return a font of this machine with most signs, else Pillow's own."""
    from PIL import ImageFont

    try:
        return ImageFont.truetype("DejaVuSans.ttf", size)
    except OSError:
        return ImageFont.load_default(size)


def _mixed(color: str, opacity: float) -> tuple[int, int, int]:
    """Return a colour on white ground."""
    red, green, blue = (int(color[at : at + 2], 16) for at in (1, 3, 5))
    return tuple(round(255 - (255 - part) * opacity) for part in (red, green, blue))  # type: ignore[return-value]

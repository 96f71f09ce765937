"""Strokes on axes to lines of characters: frame and ticks by plotext, whose only user this is, strokes by ourselves.

plotext sets dot by dot, which for a noisy curve over a whole screen takes 40 ms. Here a column of dots is one integer:
a steep line sets its dots of a column at once.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import TypeAlias

import msgspec

from tui.present.charts.curves import Line

Color: TypeAlias = tuple[int, int, int]
Cell: TypeAlias = tuple[str, Color | None]
"""A character with its colour; `None` for a blank."""


class Stroke(msgspec.Struct, frozen=True):
    """A line with its colour."""

    line: Line
    color: Color
    glyph: str = ""
    """Drawn on each of its points, which are not connected then; empty to connect them."""


class Axis(msgspec.Struct, frozen=True):
    """The ticks of an axis with their labels, and its range."""

    ticks: tuple[float, ...]
    labels: tuple[str, ...]
    low: float
    high: float

    def place(self, value: float, count: int) -> int:
        """Return in which of `count` equal parts of the axis a value is; one beyond its ends is in none of them."""
        return math.floor(round(0.5 + (count - 1) * ((value - self.low) / (self.high - self.low)), 8))


def draw_strokes(strokes: Sequence[Stroke], x_axis: Axis, y_axis: Axis, *, width: int, height: int) -> list[str]:
    """Draw strokes, each over those before it.

    Returns:
        `height` lines of `width` terminal columns, with SGR colours; one line with the reason if it cannot draw them.
    """
    try:
        frame = _frame(x_axis, y_axis, width=width, height=height)
        left, right = frame[0].find("┌"), frame[0].find("┐")
        bottom = next((at for at, line in enumerate(frame) if line[left : left + 1] == "└"), 0)
        cells: list[list[Cell]] = [[(" ", None)] * (right - left - 1) for _ in range(bottom - 1)]
        for stroke in strokes if left >= 0 and cells else ():
            (_scatter if stroke.glyph else _connect)(stroke, cells, x_axis, y_axis)
    except (ArithmeticError, ValueError, IndexError, TypeError) as error:
        return [f"the chart could not be drawn: {error}"]
    for row, line in enumerate(cells, start=1):
        frame[row] = frame[row][: left + 1] + _colored(line) + frame[row][right:]
    return frame


def _frame(x_axis: Axis, y_axis: Axis, *, width: int, height: int) -> list[str]:
    """Return the empty chart."""
    columns, rows = width - 2 - max(map(len, y_axis.labels)), height - 3
    return list(_frame_of_places(_in_places(x_axis, columns), _in_places(y_axis, rows), width, height))


def _in_places(axis: Axis, count: int) -> Axis:
    ticks = tuple(float(axis.place(tick, count)) for tick in axis.ticks)
    return Axis(ticks, axis.labels, 0.0, max(1.0, count - 1.0))


@lru_cache(32)
def _frame_of_places(x_axis: Axis, y_axis: Axis, width: int, height: int) -> Sequence[str]:
    """Return the empty chart; its ticks are at characters, where a curve that grows seldom moves them.

    plotext's figure is a global of its module: it is filled and read within one call, which may take 7 ms.
    """
    import plotext

    plotext.terminal.limit(False, False)  # else it uses the size of its own terminal
    figure = plotext.figure
    figure.clear()
    figure.plot_size(width, height)
    figure.ruler("x", "lower").lim(x_axis.low, x_axis.high).ticks(x_axis.ticks, x_axis.labels)
    figure.ruler("y", "left").lim(y_axis.low, y_axis.high).ticks(y_axis.ticks, y_axis.labels)
    try:
        return str(figure.build().string(colorless=True)).rstrip("\n").split("\n")
    finally:
        figure.clear()


def _scatter(stroke: Stroke, cells: list[list[Cell]], x_axis: Axis, y_axis: Axis) -> None:
    """Draw a glyph on each point."""
    rows, columns = len(cells), len(cells[0])
    for x, y in zip(stroke.line.xs, stroke.line.ys, strict=True):
        if y is not None:
            column, row = x_axis.place(x, columns), y_axis.place(y, rows)
            if 0 <= column < columns and 0 <= row < rows:
                cells[rows - 1 - row][column] = (stroke.glyph, stroke.color)


_DOTS_WIDE, _DOTS_HIGH = 2, 4
_BITS = ((0x40, 0x04, 0x02, 0x01), (0x80, 0x20, 0x10, 0x08))
"""Of Unicode's braille patterns (U+2800), the dots of the left and the right column of a cell, the lowest first."""


def _braille() -> Iterator[tuple[tuple[str, str], str]]:
    """Yield each cell by its two columns, each a hexadecimal digit whose lowest bit is the lowest dot."""
    for left in range(16):
        for right in range(16):
            pairs = ((left, _BITS[0]), (right, _BITS[1]))
            code = sum(bit for dots, bits in pairs for at, bit in enumerate(bits) if dots >> at & 1)
            yield (f"{left:x}", f"{right:x}"), chr(0x2800 + code)


_BRAILLE = dict(_braille())


def _connect(stroke: Stroke, cells: list[list[Cell]], x_axis: Axis, y_axis: Axis) -> None:
    """Draw a line through the points between gaps."""
    rows, columns = len(cells), len(cells[0])
    masks, top = [0] * (_DOTS_WIDE * columns), _DOTS_HIGH * rows - 1
    before: tuple[int, int] | None = None
    for x, y in zip(stroke.line.xs, stroke.line.ys, strict=True):
        if y is None:
            before = None
            continue
        dot = x_axis.place(x, len(masks)), y_axis.place(y, top + 1)
        for column, low, high in _spans(before or dot, dot):
            if 0 <= column < len(masks) and high >= 0 and low <= top:
                masks[column] |= (1 << min(top, high) + 1) - (1 << max(0, low))
        before = dot
    digits = zip(*(f"{mask:0{rows}x}" for mask in masks), strict=True)
    for line, row in zip(cells, digits, strict=True):
        pairs = iter(row)
        for column, pair in enumerate(zip(pairs, pairs, strict=True)):
            if pair != ("0", "0"):
                line[column] = (_BRAILLE[pair], stroke.color)


def _spans(begin: tuple[int, int], end: tuple[int, int]) -> Iterator[tuple[int, int, int]]:
    """Yield the column, the lowest and the highest dot of each column of a line between two dots."""
    (left, y), (right, last) = sorted((begin, end))
    wide, rise = right - left, last - y
    steps = max(wide, abs(rise), 1)
    for column in range(wide + 1):
        first = -(-column * steps // wide) if wide else 0
        behind = -(-(column + 1) * steps // wide) if column < wide else steps + 1
        ys = [y + rise * step // steps for step in (first, behind - 1)]
        yield left + column, min(ys), max(ys)


def _colored(line: Sequence[Cell]) -> str:
    """Return the cells with SGR colours; a blank takes that of the cell before it: less to paint, and to send."""
    parts, now = list[str](), None
    for character, color in line:
        if color not in (None, now):
            parts.append("\x1b[38;2;{};{};{}m".format(*color))
            now = color
        parts.append(character)
    return "".join(parts) if now is None else "".join([*parts, "\x1b[0m"])

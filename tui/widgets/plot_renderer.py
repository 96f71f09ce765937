"""Drawing lines into a grid of characters. The only user of plotext."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, TypeAlias

import msgspec

from tui.present.curves import Line

Color: TypeAlias = tuple[int, int, int]


class Stroke(msgspec.Struct, frozen=True):
    """A line with its colour."""

    line: Line
    color: Color


class Axis(msgspec.Struct, frozen=True):
    """Where ticks stand, and what is written at them."""

    ticks: tuple[float, ...]
    labels: tuple[str, ...]
    low: float
    high: float


class PlotRenderer(Protocol):
    """Draws strokes into text with SGR colours."""

    def draw(self, strokes: Sequence[Stroke], x_axis: Axis, y_axis: Axis, *, width: int, height: int) -> list[str]:
        """Draw.

        Returns:
            `height` lines of `width` terminal columns, with SGR colours.

        Raises:
            ValueError: It could not be drawn; the message says why.
        """
        ...


class PlotextRenderer:
    """Plotext 5.3, whose figure is a global of its module: it is filled and read within one call."""

    def draw(self, strokes: Sequence[Stroke], x_axis: Axis, y_axis: Axis, *, width: int, height: int) -> list[str]:
        """See `PlotRenderer.draw`."""
        import plotext

        plotext.clear_figure()
        plotext.theme("clear")
        plotext.limit_size(False, False)  # else it believes in the size of a terminal of its own
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
    """The stretches between gaps."""
    pieces: list[tuple[list[float], list[float]]] = [([], [])]
    for x, y in zip(line.xs, line.ys, strict=True):
        if y is None:
            pieces.append(([], []))
        else:
            pieces[-1][0].append(x)
            pieces[-1][1].append(y)
    return [piece for piece in pieces if piece[0]]

"""A chart of live curves, with a legend of their current values."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import ClassVar

from msgspec.structs import replace
from rich.color import Color as RichColor
from rich.color import blend_rgb
from rich.color_triplet import ColorTriplet
from rich.segment import Segment
from rich.style import Style
from textual.binding import Binding, BindingType
from textual.strip import Strip
from textual.timer import Timer

from tui.present.ansi import segments_of
from tui.present.curves import Curve, clean_name, figures_of, short_number
from tui.widgets.base import LineWidget, ResolvedStyles
from tui.widgets.plot_renderer import Pen, PlotOptions, picture_of

CURVE_COLORS = 6
LEGEND_ROWS = 2
DRAW_SECONDS = 0.5
"""Least time between two drawings: one costs 10–40 ms."""
_MARK = "━━"


class PlotView(LineWidget, can_focus=True):
    """Curves over a common x, the measured values dim, their moving average bright.

        plot = PlotView("loss")
        plot.show([Curve("train_loss", steps, losses)], version=series.version)

    The same `version` is not drawn again, and nothing is drawn while painting: the finished chart is kept until
    version, size, options or theme change, and is redrawn at most twice a second. A value that cannot be
    drawn (NaN, infinite, ≤ 0 on a logarithmic axis) is a gap, counted in the legend. If drawing fails, the reason is
    shown instead.
    """

    PARTS = (*(f"plot--curve-{index}" for index in range(CURVE_COLORS)), "plot--axes")
    COMPONENT_CLASSES: ClassVar[set[str]] = set(PARTS)
    DEFAULT_CSS = """
    PlotView { width: 1fr; height: 1fr; }
    PlotView > .plot--axes { color: $foreground 60%; }
    PlotView > .plot--curve-0 { color: $text-primary; }
    PlotView > .plot--curve-1 { color: $text-warning; }
    PlotView > .plot--curve-2 { color: $text-success; }
    PlotView > .plot--curve-3 { color: $text-accent; }
    PlotView > .plot--curve-4 { color: $text-error; }
    PlotView > .plot--curve-5 { color: $text-secondary; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("L", "switch_log", "log axis", id="plot.log"),
        Binding("E", "switch_smooth", "smooth", id="plot.smooth"),
    ]

    def __init__(
        self,
        y_label: str,
        *,
        x_label: str = "step",
        options: PlotOptions = PlotOptions(),  # noqa: B008 - a frozen value
        id: str | None = None,
        classes: str | None = None,
    ) -> None:
        super().__init__(id=id, classes=classes)
        self._labels = (clean_name(y_label), clean_name(x_label))
        self._options = options
        self._curves: tuple[Curve, ...] = ()
        self._version: object = None
        self._body: list[Strip] = []
        self._legend: list[Strip] = []
        self._drawn_at = -DRAW_SECONDS
        self._draw_timer: Timer | None = None
        self._drawn_skin: ResolvedStyles | None = None

    @property
    def options(self) -> PlotOptions:
        """Axis, smoothing, characters."""
        return self._options

    def show(self, curves: Sequence[Curve], *, version: object) -> None:
        """Draw other data; the same `version` (compared with `==`) means the same data."""
        if version == self._version:
            return
        self._version, self._curves = version, tuple(curves)
        self._draw_when_due()

    def describe(self, y_label: str, x_label: str, *, is_by_size: bool = False) -> None:
        """Set the labels of the axes; `show` draws them."""
        self._labels = (clean_name(y_label), clean_name(x_label))
        self._options = replace(self._options, is_by_size=is_by_size)

    def action_switch_log(self) -> None:
        """Switch between a linear and a logarithmic y axis."""
        self._set(replace(self._options, is_log=not self._options.is_log))

    def action_switch_smooth(self) -> None:
        """Switch the moving average."""
        self._set(replace(self._options, is_smoothed=not self._options.is_smoothed))

    def on_resize(self) -> None:
        """Redraw for the new size."""
        self._draw_when_due()

    def restyled(self) -> None:
        """Draw in the new colours, if they changed: the focus alone changes none."""
        if self._drawn_skin is not None and self._drawn_skin != self.resolved_styles:
            self.call_later(self._draw_when_due)

    def render_line(self, y: int) -> Strip:
        """Render the legend, then the chart."""
        width, base = self.size.width, self.resolved_styles.base
        lines = [*self._legend, *self._body]
        return lines[y].adjust_cell_length(width, base) if y < len(lines) else Strip.blank(width, base)

    def _set(self, options: PlotOptions) -> None:
        self._options = options
        self._drawn_at = -DRAW_SECONDS
        self._draw_when_due()

    def _draw_when_due(self) -> None:
        if self._draw_timer is not None or not self.size.area:
            return
        wait = self._drawn_at + DRAW_SECONDS - asyncio.get_running_loop().time()
        if wait <= 0:
            self._draw()
        else:
            self._draw_timer = self.set_timer(wait, self._timer_fired)

    def _timer_fired(self) -> None:
        self._draw_timer = None
        self._draw()

    def _draw(self) -> None:
        self._drawn_at = asyncio.get_running_loop().time()
        resolved_styles = self._drawn_skin = self.resolved_styles
        styles = [resolved_styles.parts[f"plot--curve-{index % CURVE_COLORS}"] for index in range(len(self._curves))]
        try:
            lines = picture_of(
                self._curves,
                [_pen(style) for style in styles],
                width=self.size.width,
                height=self.size.height - LEGEND_ROWS,
                options=self._options,
            )
        except ValueError as error:
            lines = [str(error)]
        axes = resolved_styles.parts["plot--axes"]
        self._body = [
            Strip([Segment(text, axes + style if style else axes) for text, style, _ in segments_of(line)])
            for line in lines
        ]
        self._legend = [self._legend_strip(styles), self._range_strip()]
        self.refresh()

    def _legend_strip(self, styles: Sequence[Style]) -> Strip:
        """Return the curves' colours with their last values; on a narrow widget the y label is left out first."""
        label = self._labels[0] + (" (log)" if self._options.is_log else "")
        segments = [Segment(label, self.resolved_styles.base)]
        for curve, style in zip(self._curves, styles, strict=True):
            last = short_number(figures_of(curve, is_log=False).last)
            segments.append(Segment(f"  {_MARK} {clean_name(curve.name)} {last}", style))
        strip = Strip(segments)
        return strip if strip.cell_length <= self.size.width else strip.crop(len(label) + 2)

    def _range_strip(self) -> Strip:
        figures = [figures_of(curve, is_log=self._options.is_log) for curve in self._curves]
        finite = [each for each in figures if each.low == each.low]
        parts = []
        if finite:
            low, high = min(each.low for each in finite), max(each.high for each in finite)
            parts.append(f"min {short_number(low)} · max {short_number(high)}")
        unshown = sum(each.unshown for each in figures)
        if unshown:
            parts.append(f"{unshown:,} point{'s' * (unshown > 1)} not shown")
        parts.append(f"over {self._labels[1]}")
        return Strip([Segment(" · ".join(parts), self.resolved_styles.parts["plot--axes"])])


def _pen(style: Style) -> Pen:
    color = style.color or RichColor.default()
    bright = color.get_truecolor()
    ground = style.bgcolor.get_truecolor(foreground=False) if style.bgcolor else ColorTriplet(0, 0, 0)
    dim = blend_rgb(ground, bright, 0.45)
    return Pen((dim.red, dim.green, dim.blue), (bright.red, bright.green, bright.blue))

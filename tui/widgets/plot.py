"""A chart of live curves, with a legend of their current values."""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from msgspec.structs import replace
from rich.color import Color as RichColor
from rich.color import blend_rgb
from rich.color_triplet import ColorTriplet
from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.binding import Binding, BindingType
from textual.geometry import Size
from textual.strip import Strip
from textual.timer import Timer

from actions.base.wording import folded
from tui.defects import shown
from tui.present.ansi import segments_of
from tui.present.charts.curves import (
    Curve,
    Mark,
    MarkKind,
    TimeAxis,
    Window,
    clean_name,
    figures_of,
    mark_places,
    on_axis,
    panned,
    short_number,
    stepped,
    values_at,
    with_point,
    zoomed,
)
from tui.widgets.base import LineWidget, ResolvedStyles, WidgetMessage
from tui.widgets.plot_renderer import (
    Pen,
    PlotOptions,
    Rule,
    Smoothing,
    is_smoothed,
    picture_of,
    place_at,
    range_in_words,
    x_range,
)

CURVE_COLORS = 6
LEGEND_ROWS = 2
DRAW_SECONDS = 0.5
"""Least time between two drawings: one costs 10–40 ms."""
_MARK = "━━"
_REVERSED = Style(reverse=True)
_FRAME = ("┌", "┐")
_PARTS = {MarkKind.EPOCH: "plot--axes", MarkKind.RESTART: "plot--curve-1", MarkKind.ALARM: "plot--curve-4"}
"""The colours of marks."""
_COLUMNS_PER_MARK = 4
_ELSEWHERE = "{} (nearest)", "~{}"
"""The forms of a value that is of the nearest point, the second one on a narrow chart."""
_ZOOM, _PAN = 0.5, 0.25


class _ZoomedByWheel(LineWidget):
    """A widget whose axis the wheel zooms."""

    @abstractmethod
    def action_zoom(self, is_closer: bool) -> None:
        """Show less or more of the axis."""

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        """Zoom in with the wheel."""
        event.stop()
        self.action_zoom(is_closer=True)

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        """Zoom out with the wheel."""
        event.stop()
        self.action_zoom(is_closer=False)


class _Drawn(NamedTuple):
    """The input of a drawing: the same again is the same chart."""

    size: Size
    version: object
    options: PlotOptions
    skin: ResolvedStyles


class PlotView(_ZoomedByWheel, can_focus=True):
    """Curves over a common x. Of a smoothed one the measured values are dim, their moving average bright.

        plot = PlotView("loss")
        plot.show([Curve("train_loss", steps, losses)], version=series.version)

    The same `version` is not drawn again, and nothing is drawn while painting: the finished chart is kept until
    version, size, options or theme change, and is redrawn at most twice a second. A value that cannot be
    drawn (NaN, infinite, ≤ 0 on a logarithmic axis) is a gap, counted in the legend. If drawing fails, the reason is
    shown instead. A cursor stands on a point; moving it draws nothing but its column and the values below the legend.
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
        Binding("L", "switch('log')", "log axis", id="plot.log"),
        Binding("E", "switch('smooth')", "smooth", id="plot.smooth"),
        Binding("t", "switch('time')", "time", id="plot.time"),
        Binding("left", "step(-1)", "left", id="plot.left", show=False),
        Binding("right", "step(1)", "right", id="plot.right", show=False),
        Binding("plus", "zoom(True)", "zoom in", id="plot.in", show=False),
        Binding("minus", "zoom(False)", "zoom out", id="plot.out", show=False),
        Binding("equals_sign", "show_whole", "whole axis", id="plot.whole", show=False),
        Binding("h,shift+left", "pan(-1)", "left", id="plot.pan_left", show=False),
        Binding("l,shift+right", "pan(1)", "right", id="plot.pan_right", show=False),
    ]

    @dataclass
    class CursorMoved(WidgetMessage):
        """The operator moved the cursor, or took it away."""

        x: float | None
        """Its place on the axis of the plot."""

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
        self._marks: tuple[Mark, ...] = ()
        self._cursor: float | None = None
        """Its place on the x axis: that of a point of this plot, or of another one that moves it."""
        self._span: Window | None = None
        """The ends of the x axis as it is drawn."""
        self._time = TimeAxis.CLOCK
        """The time axis that the key switches to."""
        self.empty = ""
        """The text in the place of a chart without curves, from the next `show` on."""
        self._version: object = None
        self._body: list[Strip] = []
        self._legend: list[Strip] = []
        self._drawn_at = -DRAW_SECONDS
        self._draw_timer: Timer | None = None
        self._drawn: _Drawn | None = None
        """The input of the chart on screen; `None` without one."""

    @property
    def options(self) -> PlotOptions:
        """Axis, smoothing, characters."""
        return self._options

    def show(self, curves: Sequence[Curve], *, version: object, marks: Sequence[Mark] = ()) -> None:
        """Draw other data; the same `version` (compared with `==`) means the same data."""
        if version == self._version:
            return
        self._version, self._curves, self._marks = version, tuple(curves), tuple(marks)
        self._draw_when_due()

    def clear(self, *, keeps_axis: bool = False) -> None:
        """Empty the chart at once; what is shown next is drawn at once, too.

        Args:
            keeps_axis: Other curves of the same source follow: the part of the axis and the cursor stay.
        """
        self._version, self._curves, self._marks = None, (), ()
        if not keeps_axis:
            self._cursor = None
            self._options = replace(self._options, window=None)
        self._legend, self._body, self._drawn = [], [], None
        self._drawn_at = -DRAW_SECONDS
        self._stop_timer()
        self.refresh()

    def describe(
        self, y_label: str, x_label: str, *, is_by_size: bool = False, time: TimeAxis = TimeAxis.CLOCK
    ) -> None:
        """Set the labels of the axes; `show` draws them.

        Args:
            y_label: Label of the y axis.
            x_label: Label of the x axis, while it is not a time.
            is_by_size: The x axis is a number of bytes.
            time: The time axis that can be switched to.
        """
        self._labels = (clean_name(y_label), clean_name(x_label))
        is_timed = self._options.time is not TimeAxis.NONE and not is_by_size
        self._time = time
        self._options = replace(self._options, is_by_size=is_by_size, time=time if is_timed else TimeAxis.NONE)

    @property
    def has_curves(self) -> bool:
        """True while there is anything to draw."""
        return bool(self._curves)

    def is_on(self, option: str) -> bool:
        """Return whether `log`, `smooth` or `time` is on: logarithmic axis, smoothing of any curve, time axis."""
        match option:
            case "log":
                return self._options.is_log
            case "smooth":
                return any(is_smoothed(curve, self._options) for curve in self._curves)
            case _:
                return self._options.time is not TimeAxis.NONE

    def action_switch(self, option: str) -> None:
        """Switch the logarithmic y axis (`log`), the moving average of all curves (`smooth`), the x axis (`time`).

        The whole axis is shown when it changes between steps and times; sizes, and points without times, have none.
        """
        is_on = self.is_on(option)
        match option:
            case "log":
                self._set(replace(self._options, is_log=not is_on))
            case "smooth":
                self._set(replace(self._options, smoothing=Smoothing.OFF if is_on else Smoothing.ON))
            case _ if self._options.is_by_size or not any(at is not None for one in self._curves for at in one.times):
                self.app.bell()
            case _:
                self._cursor = None
                self.post_message(self.CursorMoved(self, None))
                self._set(replace(self._options, time=TimeAxis.NONE if is_on else self._time, window=None))

    def action_step(self, count: int) -> None:
        """Move the cursor by some points; the part of the axis that is shown follows it."""
        self._cursor = stepped(self._on_axis(), self._cursor, count, self._options.window)
        whole = self._whole()
        if self._cursor is None or whole is None:
            return
        self.post_message(self.CursorMoved(self, self._cursor))
        window = with_point(whole, self._options.window, self._cursor)
        if window != self._options.window:
            self._set(replace(self._options, window=window))
            return
        self._legend[1:] = [self._reading_strip()]
        self.refresh()

    def place_cursor(self, x: float | None) -> None:
        """Show the cursor at a place of the axis, with the values of the points nearest to it; `None`: no cursor."""
        if x != self._cursor:
            self._cursor = x
            if self._legend:
                self._legend[1:] = [self._reading_strip()]
            self.refresh()

    def action_zoom(self, is_closer: bool) -> None:
        """Show half as much of the x axis, or twice as much, around the cursor."""
        whole = self._whole()
        if whole is not None:
            factor = _ZOOM if is_closer else 1 / _ZOOM
            self._set(replace(self._options, window=zoomed(whole, self._options.window, factor, self._cursor)))

    def action_pan(self, direction: int) -> None:
        """Move along the x axis by a quarter of what is shown."""
        whole, window = self._whole(), self._options.window
        if whole is not None and window is not None:
            self._set(replace(self._options, window=panned(whole, window, direction * _PAN * (window[1] - window[0]))))

    def action_show_whole(self) -> None:
        """Show the whole x axis, without a cursor."""
        self._cursor = None
        self.post_message(self.CursorMoved(self, None))
        self._set(replace(self._options, window=None))

    def on_resize(self) -> None:
        """Redraw for the new size."""
        self._draw_when_due()

    def restyled(self, before: ResolvedStyles | None) -> None:
        """Draw in the new colours, if they changed: the focus alone changes none."""
        if self._drawn is not None and self._drawn.skin != self.resolved_styles:
            self.call_later(self._draw_when_due)

    def render_line(self, y: int) -> Strip:
        """Render the legend, then the chart with the cursor's column."""
        width, base = self.size.width, self.resolved_styles.base
        if y < len(self._legend):
            return self._legend[y].adjust_cell_length(width, base)
        row = y - len(self._legend)
        if row >= len(self._body):
            return Strip.blank(width, base)
        strip = self._body[row].adjust_cell_length(width, base)
        column = self._cursor_column()
        if column is None or not 0 < row < len(self._body) - 2:
            return strip
        cell = strip.crop(column, column + 1)
        if cell.text == " ":  # it has the colour of the curve beside it
            cell = Strip([Segment(" ", self.resolved_styles.parts["plot--axes"])])
        return Strip.join([strip.crop(0, column), cell.apply_style(_REVERSED), strip.crop(column + 1, width)])

    def _on_axis(self) -> list[Curve]:
        options = self._options
        return [on_axis(curve, is_by_size=options.is_by_size, time=options.time) for curve in self._curves]

    def _whole(self) -> Window | None:
        return x_range(self._curves, replace(self._options, window=None))

    def _cursor_column(self) -> int | None:
        """Return the column of the cursor, by the frame that was drawn; `None` if it is not on screen."""
        if self._cursor is None or self._span is None or not self._body:
            return None
        left, right = map(self._body[0].text.find, _FRAME)
        low, high = self._span
        if not 0 <= left < right - 1 or not low <= self._cursor <= high or low == high:
            return None
        return left + 1 + round((self._cursor - low) / (high - low) * (right - left - 2))

    def _set(self, options: PlotOptions) -> None:
        """Draw with other options at once: the operator waits for it."""
        self._options = options
        self._stop_timer()
        self._drawn_at = -DRAW_SECONDS
        self._draw_when_due()

    def _stop_timer(self) -> None:
        if self._draw_timer is not None:
            self._draw_timer.stop()
            self._draw_timer = None

    def _draw_when_due(self) -> None:
        if self._draw_timer is not None or not self.size.area:
            return
        wait = self._drawn_at + DRAW_SECONDS - asyncio.get_running_loop().time()
        if wait <= 0:
            self._draw()
        else:
            self._draw_timer = self.set_timer(wait, self._draw)

    def _draw(self) -> None:
        self._draw_timer = None
        drawn, parts = _Drawn(self.size, self._version, self._options, self.resolved_styles), self.resolved_styles.parts
        styles = [parts[f"plot--curve-{index % CURVE_COLORS}"] for index in range(len(self._curves))]
        if drawn != self._drawn:
            self._drawn, self._drawn_at = drawn, asyncio.get_running_loop().time()
            lines = [] if self._curves else folded(self.empty, max(1, self.size.width - 1))
            with shown(lambda sentence: lines.extend(folded(sentence, max(1, self.size.width - 1)))):
                self._span = x_range(self._curves, self._options)
                lines = lines or picture_of(
                    self._curves,
                    [_pen(style) for style in styles],
                    width=self.size.width,
                    height=self.size.height - LEGEND_ROWS,
                    options=self._options,
                    rules=_rules(self._marks, self._options, self.resolved_styles, self.size.width),
                )
            self._body = _strips(lines, parts["plot--axes"])
        self._legend = [self._legend_strip(styles), self._reading_strip()] if self._curves else []
        self.refresh()

    def _legend_strip(self, styles: Sequence[Style]) -> Strip:
        """Return the curves' colours with their last values; on a narrow widget the y label is left out first."""
        label = self._labels[0] + (" (log)" if self._options.is_log else "")
        segments = [Segment(label, self.resolved_styles.base)]
        for curve, style in zip(self._curves, styles, strict=True):
            if curve.name:
                last = short_number(figures_of(curve, is_log=False).last)
                segments.append(Segment(f"  {_MARK} {clean_name(curve.name)} {last}", style))
        strip = Strip(segments)
        return strip if strip.cell_length <= self.size.width else strip.crop(len(label) + 2)

    def _reading_strip(self) -> Strip:
        """Return the values at the cursor, or the range of all values."""
        if self._cursor is None:
            text = range_in_words(self._curves, self._marks, self._options, self._labels[1])
            return Strip([Segment(text, self.resolved_styles.parts["plot--axes"])])
        on_axes, resolved = self._on_axis(), self.resolved_styles
        place = Segment(place_at(on_axes, self._cursor, self._labels[1], self._options), resolved.base)
        values = values_at(on_axes, self._cursor)
        for elsewhere in _ELSEWHERE:
            segments = [place]
            for number, (curve, (value, is_there)) in enumerate(zip(self._curves, values, strict=True)):
                name = curve.glyph or clean_name(curve.name)
                style = resolved.parts[f"plot--curve-{number % CURVE_COLORS}"]
                segments.append(Segment(f"  {name} {value if is_there else elsewhere.format(value)}", style))
            strip = Strip(segments)
            if strip.cell_length <= self.size.width:
                break
        return strip


def _strips(lines: Sequence[str], axes: Style) -> list[Strip]:
    """Return the lines of a chart, in the colour of its axes where they have none."""
    return [
        Strip([Segment(text, axes + style if style else axes) for text, style, _ in segments_of(line)])
        for line in lines
    ]


def _pen(style: Style) -> Pen:
    color = style.color or RichColor.default()
    bright = color.get_truecolor()
    ground = style.bgcolor.get_truecolor(foreground=False) if style.bgcolor else ColorTriplet(0, 0, 0)
    dim = blend_rgb(ground, bright, 0.45)
    return Pen((dim.red, dim.green, dim.blue), (bright.red, bright.green, bright.blue))


def _rules(marks: Sequence[Mark], options: PlotOptions, styles: ResolvedStyles, width: int) -> list[Rule]:
    """Return the marks on the axis that is shown; of a kind that would fill the chart, none."""
    rules = []
    for kind in MarkKind:
        pen = _pen(styles.parts[_PARTS[kind]])
        places = mark_places(marks, kind, time=options.time, window=options.window)
        if len(places) * _COLUMNS_PER_MARK <= width:
            rules += [Rule(x, pen.raw if kind is MarkKind.EPOCH else pen.bright) for x in places]
    return rules

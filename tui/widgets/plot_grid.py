"""Several charts at once: small plots in a grid, as many as there is room for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar

import msgspec
from textual.binding import Binding, BindingType
from textual.containers import Grid

from tui.present.charts.curves import Curve, Mark, TimeAxis
from tui.present.charts.metrics import MetricChart
from tui.widgets.plot import PlotView

MOST_PLOTS = 9
LEAST_COLUMNS, LEAST_ROWS = 38, 8
"""The size of a plot below which its axes take more room than its curves: four on a screen of 80 by 24."""


class SmallPlot(msgspec.Struct, frozen=True, eq=False):
    """The content of one plot of the grid.

    Args:
        key: Source and chart. Equal for the same ones, whose zoom and cursor stay.
        label: Label of the y axis.
        x_label: Label of the x axis.
        is_by_size: The x axis is a number of bytes.
        curves: The curves.
        marks: The marks.
        version: Equal for the same data.
        time: The time axis that it can be switched to.
    """

    key: tuple[object, MetricChart]
    label: str
    x_label: str
    is_by_size: bool
    curves: Sequence[Curve]
    marks: Sequence[Mark]
    version: object
    time: TimeAxis = TimeAxis.CLOCK


def shape_of(width: int, height: int, count: int) -> tuple[int, int]:
    """Return columns and rows of the grid for `count` plots; one plot if there is no room for two."""
    columns = max(1, min(3, width // LEAST_COLUMNS, count))
    rows = max(1, min(height // LEAST_ROWS, -(-min(count, MOST_PLOTS) // columns)))
    return columns, min(rows, MOST_PLOTS // columns)


class PlotGrid(Grid):
    """A page of plots in rows; `n` and `N` move the focus, whose keys work on that plot alone.

    The cursor is that of all plots with the same x axis: it stands at the same step in each, with the values there.

    Args:
        turn: Shows the next page (1) or the one before (-1).
    """

    DEFAULT_CSS = """
    PlotGrid { width: 1fr; height: 1fr; grid-gutter: 0 1; }
    PlotGrid > PlotView:focus > .plot--axes { text-style: bold; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("n", "next_plot(1)", "next plot", id="plots.next", show=False),
        Binding("N", "next_plot(-1)", "previous plot", id="plots.previous", show=False),
        Binding("pagedown", "turn(1)", "page down", id="plots.page", show=False),
        Binding("pageup", "turn(-1)", "page up", id="plots.page_before", show=False),
    ]

    def __init__(self, turn: Callable[[int], None]) -> None:
        super().__init__()
        self._turn = turn
        self._plots: list[PlotView] = []
        """Made when they are first shown: Textual styles every widget anew at each change of the focus."""
        self._keys: list[object] = []
        self._cursor: tuple[PlotView, float | None] | None = None
        """The plot whose cursor was moved last, and its place."""

    def show(self, contents: Sequence[SmallPlot], columns: int) -> None:
        """Draw so many charts, in so many columns."""
        self.styles.grid_size_columns = columns
        self._have(len(contents))
        for place, plot in enumerate(self._plots):
            plot.display = place < len(contents)
            if not plot.display:
                continue
            one = contents[place]
            if one.key != self._keys[place]:
                self._keys[place] = one.key
                plot.clear()
            plot.describe(one.label, one.x_label, is_by_size=one.is_by_size, time=one.time)
            plot.show(one.curves, version=one.version, marks=one.marks)
        self._share_cursor()

    def _have(self, count: int) -> None:
        """Make the plots that are missing to so many."""
        while len(self._plots) < count:
            self._plots.append(PlotView(""))
            self._keys.append(None)
            self.mount(self._plots[-1])

    def on_plot_view_cursor_moved(self, event: PlotView.CursorMoved) -> None:
        """Show the cursor at the same place of all plots."""
        event.stop()
        if isinstance(event.widget, PlotView):
            self._cursor = event.widget, event.x
            self._share_cursor()

    def _share_cursor(self) -> None:
        if self._cursor is None:
            return
        moved, x = self._cursor
        axis = moved.options.is_by_size, moved.options.time
        for plot in self._plots:
            if plot is not moved and plot.display and (plot.options.is_by_size, plot.options.time) == axis:
                plot.place_cursor(x)

    @property
    def focused(self) -> PlotView:
        """The plot that takes the keys."""
        return self._plots[self.place]

    @property
    def place(self) -> int:
        """The place on the page of the plot that takes the keys: the focused one, else the first."""
        return next((place for place, plot in enumerate(self._plots) if plot.has_focus and plot.display), 0)

    def focus_plot(self, place: int | None = None) -> None:
        """Focus the plot at a place; without one the first plot, unless one has the focus."""
        self._have(1 if place is None else place + 1)
        if place is not None or not any(plot.has_focus and plot.display for plot in self._plots):
            self._plots[place or 0].focus()

    def action_next_plot(self, count: int) -> None:
        """Move the focus to another plot, over the end of the page to that of the next."""
        count_here = sum(plot.display for plot in self._plots)
        to = self.place + count
        if not 0 <= to < count_here:
            self._turn(1 if to > 0 else -1)
            count_here = sum(plot.display for plot in self._plots)
            to = 0 if to > 0 else count_here - 1
        self._plots[to].focus()

    def action_turn(self, pages: int) -> None:
        """Show another page."""
        self._turn(pages)

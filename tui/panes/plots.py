"""The base of a pane with a plot, or several side by side: which is on screen, and what commands do with it."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import ClassVar

from actions.base.errors import MissingError, RefusedError
from tui.feeds.services import ConsoleServices
from tui.panes.base import ON_OFF, Pane
from tui.present.charts.metrics import MetricChart
from tui.widgets.plot import PlotView
from tui.widgets.plot_grid import PlotGrid, SmallPlot, shape_of

STEPS = {"next": 1, "previous": -1}
PAGES = {"next-page": 1, "previous-page": -1}


class PlotPane(Pane):
    """A pane with one plot, or a grid of several where that is wanted and has room.

    Args:
        services: The feeds that it reads.
        label: Of the y axis, before there is a curve.
    """

    OPTIONS: ClassVar = {"log": ON_OFF, "smooth": ON_OFF, "time": ON_OFF}

    def __init__(self, services: ConsoleServices, label: str) -> None:
        super().__init__(services)
        self._plot = PlotView(label)
        self._several = PlotGrid(self.turn_page)
        self._is_several = False
        """All charts are wanted; they are shown where there is room for two."""
        self._metric = ""
        """The name of the chart that is shown; of several, of one on the page."""
        self._on_page = 1
        """The number of charts that are shown at once, where several are."""
        self._drawn: tuple[object, MetricChart] | None = None
        """The source and chart that the plot shows; `None` while it is empty."""
        self.rows_taken = 0
        """Rows of the pane above and below the charts."""

    def focus_content(self) -> None:
        """Focus the plot."""
        if self._several.display:
            self._several.focus_plot()
        else:
            self._plot.focus()

    def set_option(self, option: str, value: str) -> None:
        """Switch the logarithmic axis, smoothing or the time axis of the focused chart; see `Pane.set_option`."""
        plot = self._in_use()
        if value != ON_OFF[not plot.is_on(option)]:
            plot.action_switch(option)

    def move_axis(self, move: str) -> None:
        """Zoom the x axis of the focused chart, move along it, or move its cursor.

        Raises:
            MissingError: There is no curve yet.
        """
        plot = self._in_use()
        if not plot.has_curves:
            raise MissingError("There is no curve yet.")
        acts: Mapping[str, Callable[[], None]] = {
            "in": partial(plot.action_zoom, True),
            "out": partial(plot.action_zoom, False),
            "whole": plot.action_show_whole,
            "left": partial(plot.action_pan, -1),
            "right": partial(plot.action_pan, 1),
            "next": partial(plot.action_step, 1),
            "previous": partial(plot.action_step, -1),
        }
        acts[move]()

    def next_plot(self, count: int) -> None:
        """Move the focus to another one of several charts.

        Raises:
            RefusedError: Only one is shown.
        """
        if not self._several.display:
            raise RefusedError("Only one chart is shown.", hint="Show several side by side: :chart all.")
        self._several.action_next_plot(count)

    def turn_page(self, pages: int) -> None:
        """Show the next page of charts, or the one before; behind the last one comes the first."""
        charts, (chart, _) = self._charts_now(), self._chart()
        if chart is None:
            return
        count = -(-len(charts) // self._on_page)
        to = (charts.index(chart) // self._on_page + pages) % count
        self._metric = charts[to * self._on_page].name
        self.refresh_data()

    @abstractmethod
    def _charts_now(self) -> list[MetricChart]:
        """Return the charts that can be shown."""

    def _chart(self) -> tuple[MetricChart | None, str]:
        """Return the current chart, its index and the number of charts."""
        charts = self._charts_now()
        if not charts:
            return None, ""
        at = next((place for place, chart in enumerate(charts) if chart.name == self._metric), 0)
        return charts[at], f" ({at + 1}/{len(charts)})" if len(charts) > 1 else ""

    def _draw(self, content: Callable[[MetricChart], SmallPlot], of: str) -> None:
        """Draw the chosen chart; or the page of charts that it is on, where several are wanted and have room."""
        charts, (chart, place) = self._charts_now(), self._chart()
        if chart is None:
            return
        columns, rows = self._shape(charts)
        was_one, has_focus = not self._several.display, self.has_focus_within
        if self._show_several(columns=columns if columns * rows > 1 else 0):
            self._on_page = columns * rows
            begin = charts.index(chart) // self._on_page * self._on_page
            shown = charts[begin : begin + self._on_page]
            is_all = len(shown) == len(charts)
            which = "" if is_all else f"charts {begin + 1}–{begin + len(shown)} of "
            self.entitle(f"{which}{len(charts)}{' charts' * is_all} of {of}")
            self._several.show([content(one) for one in shown], columns)
            if was_one and has_focus:
                self._several.focus_plot(charts.index(chart) - begin)
            return
        self.entitle(f"{chart.name}{place} of {of}")
        one = content(chart)
        self._clear_for(one.key, is_by_size=one.is_by_size)
        self._plot.describe(one.label, one.x_label, is_by_size=one.is_by_size, time=one.time)
        self._plot.show(one.curves, version=one.version, marks=one.marks)

    def _shape(self, charts: Sequence[MetricChart]) -> tuple[int, int]:
        """Return the columns and rows of charts that there is room for."""
        return shape_of(self.size.width, self.size.height - self.rows_taken, len(charts))

    def _leave_grid(self) -> None:
        """Go on with the one chart that had the focus."""
        charts, (chart, _) = self._charts_now(), self._chart()
        if chart is not None and self._several.display:
            begin = charts.index(chart) // self._on_page * self._on_page
            self._metric = charts[min(begin + self._several.place, len(charts) - 1)].name
        self._is_several = False

    def _clear_for(self, key: tuple[object, MetricChart], *, is_by_size: bool) -> None:
        """Empty the plot before it shows another chart; of the same source, its part of the axis stays."""
        if key == self._drawn:
            return
        was, self._drawn = self._drawn, key
        self._plot.clear(keeps_axis=was is not None and was[0] == key[0] and was[1].is_by_size == is_by_size)

    def _show_several(self, *, columns: int) -> bool:
        """Show the grid if it is wanted and has room, else the one plot; return whether it is the grid."""
        is_grid = self._is_several and columns > 0
        if self._several.display != is_grid or self._plot.display == is_grid:
            had_focus = self.has_focus_within
            self._several.display, self._plot.display = is_grid, not is_grid
            if had_focus:
                self.focus_content()
        return is_grid

    def _in_use(self) -> PlotView:
        return self._several.focused if self._several.display else self._plot

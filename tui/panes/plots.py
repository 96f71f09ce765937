"""The base of a pane with a plot, or several side by side: which is on screen, and what commands do with it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import ClassVar

from actions.base.errors import MissingError, RefusedError
from tui.feeds.services import ConsoleServices
from tui.panes.base import ON_OFF, Pane
from tui.widgets.plot import PlotView
from tui.widgets.plot_grid import PlotGrid

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
        """Show the next page of charts, or the one before; of a single page, nothing changes."""

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

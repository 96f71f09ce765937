"""The panes of the console: which there are, which are seen, which has the focus."""

from __future__ import annotations

from collections.abc import Mapping
from typing import get_args

from actions.base.errors import ConsoleError, MissingError
from actions.base.untrusted import one_line, redact
from actions.command.registry import LayoutName, nearest_hint
from tui.live.desk import Desk
from tui.live.health import FeedHealth, FeedState
from tui.panes.accelerators import AcceleratorsPane
from tui.panes.blueprints import BlueprintsPane
from tui.panes.charts import ChartsPane
from tui.panes.cost import CostPane
from tui.panes.events import EventsPane
from tui.panes.logs import LogsPane
from tui.panes.nodes import NodesPane
from tui.panes.pane import Pane
from tui.panes.pods import PodsPane
from tui.panes.run import RunPane
from tui.panes.runs import RunsPane
from tui.widgets.split import Split
from tui.widgets.split_tree import Direction, Leaf, Tree, quad, side_by_side, stacked

PANES: tuple[type[Pane], ...] = (
    NodesPane,
    PodsPane,
    BlueprintsPane,
    RunPane,
    LogsPane,
    AcceleratorsPane,
    ChartsPane,
    EventsPane,
    CostPane,
    RunsPane,
)
"""In the order of the digits that open them, 1 to 9 and 0."""

_DIRECTIONS: tuple[Direction, ...] = get_args(Direction)


def layout_of(name: LayoutName, current: str) -> Tree:
    """The arrangement called `name`; `single` keeps the current pane."""
    match name:
        case "watch":
            return side_by_side("run", stacked("logs", side_by_side("accelerators", "charts"), share=0.55), share=0.38)
        case "quad":
            return quad("nodes", "run", "pods", "events")
        case "single":
            return Leaf(current)


class Workspace:
    """Panes and their arrangement. Made by the console screen; used on the loop only.

    Args:
        desk: What panes look at.
    """

    def __init__(self, desk: Desk) -> None:
        self.panes: Mapping[str, Pane] = {pane.CONTEXT.value: pane(desk) for pane in PANES}
        self.split = Split(Leaf("nodes"), *self.panes.values())
        self._past: list[str] = []

    @property
    def current(self) -> Pane:
        """The pane that has, or had last, the focus."""
        return self.panes[self.split.current]

    @property
    def visible(self) -> tuple[Pane, ...]:
        """The panes that can be seen."""
        return tuple(self.panes[key] for key in self.split.visible_keys)

    def open(self, name: str, of: str) -> None:
        """Show a pane, pointed at `of`, and give it the focus.

        Raises:
            ConsoleError: The pane cannot show that.
        """
        pane = self.panes[name]
        pane.point_at(of)
        self._move(name)

    def focus(self, where: str) -> None:
        """Give the focus to the next, previous or neighbouring pane, or to one by its name or number.

        Raises:
            MissingError: There is no such pane.
        """
        if where in ("next", "previous"):
            self.split.cycle(1 if where == "next" else -1)
        elif where in _DIRECTIONS:
            self.split.go(where)
        elif where.isdecimal() and int(where) < len(PANES):
            self._move(PANES[int(where) - 1].CONTEXT.value)
        elif where in self.panes:
            self._move(where)
        else:
            raise MissingError(f"There is no pane {where!r}.", hint=nearest_hint(where, dict(self.panes)))
        self.current.focus_content()

    def arrange(self, name: LayoutName) -> None:
        """Put the panes into one of the known arrangements."""
        self.split.arrangement = layout_of(name, self.split.current)
        self.current.focus_content()
        self.pull()

    def zoom(self) -> None:
        """Give the current pane all the room, or back."""
        self.split.zoom()
        self.pull()

    def back(self) -> bool:
        """Undo the nearest of: filter, zoom, way.

        Returns:
            Whether there was anything to undo.
        """
        if self.current.narrowed_by:
            self.current.narrow("")
            return True
        if self.split.is_zoomed:
            self.split.zoom()
            return True
        if self._past:
            self.split.reveal(self._past.pop())
            self.current.focus_content()
            self.pull()
            return True
        return False

    def pull(self) -> None:
        """Let every visible pane look at its sources."""
        for pane in self.visible:
            try:
                pane.pull()
            except ConsoleError as error:
                pane.show_health(FeedHealth(FeedState.REFUSED, one_line(redact(error.sentence()))))

    def _move(self, name: str) -> None:
        if self.split.current != name:
            self._past = [*self._past[-20:], self.split.current]
        self.split.reveal(name)
        self.current.focus_content()
        self.pull()

"""The workspace: all panes of the console, their arrangement, and the focus."""

from __future__ import annotations

import importlib
from typing import get_args

from actions.base.errors import ConsoleError, MissingError
from actions.base.untrusted import one_line, redact
from actions.command.verbs import LayoutName, PaneName, nearest_hint
from tui.feeds.services import ConsoleServices
from tui.feeds.supervisor import FeedHealth, FeedState
from tui.panes.base import Pane
from tui.widgets.split import Direction, Leaf, Split, Tree, leaves, quad, side_by_side, stacked

PANES: tuple[PaneName, ...] = get_args(PaneName)

_DIRECTIONS: tuple[Direction, ...] = get_args(Direction)


def layout_of(name: LayoutName, current: str) -> Tree:
    """Return the arrangement called `name`; `single` is the current pane alone."""
    match name:
        case "watch":
            return side_by_side("run", stacked("logs", side_by_side("accelerators", "charts"), share=0.55), share=0.38)
        case "job":
            panels = side_by_side("accelerators", "charts")
            return side_by_side("pods", stacked("logs", panels, share=0.55), share=0.38)
        case "quad":
            return quad("nodes", "run", "pods", "events")
        case "single":
            return Leaf(current)


def _pane_class(name: str) -> type[Pane]:
    """Import the class of a pane: of `nodes`, `NodesPane` in `tui.panes.nodes`.

    Called when it is first shown: only the first pane may delay the first frame.
    """
    found: object = getattr(importlib.import_module(f"tui.panes.{name}"), f"{name.capitalize()}Pane")
    if not isinstance(found, type) or not issubclass(found, Pane):
        raise TypeError(f"tui.panes.{name} has no pane")
    return found


class PaneWorkspace:
    """Panes and their arrangement. A pane is made when it is first shown. Used on the loop only.

    Args:
        services: The data behind the panes.
    """

    def __init__(self, services: ConsoleServices) -> None:
        first = PANES[0]
        self._services = services
        self._made: dict[str, Pane] = {first: _pane_class(first)(services)}
        self.split = Split(Leaf(first), self._made[first])
        self._past: list[str] = []

    def pane(self, name: str) -> Pane:
        """Return the pane called `name`; make it if it was never shown.

        Raises:
            MissingError: There is no such pane.
        """
        if name not in PANES:
            raise MissingError(f"There is no pane {name!r}.", hint=nearest_hint(name, PANES))
        if name not in self._made:
            self._made[name] = pane = _pane_class(name)(self._services)
            self.split.mount(pane)
        return self._made[name]

    @property
    def current(self) -> Pane:
        """The pane that has the focus, or had it last."""
        return self._made[self.split.current]

    @property
    def visible(self) -> tuple[Pane, ...]:
        """The panes that are on screen."""
        return tuple(self._made[key] for key in self.split.visible_keys)

    def open(self, name: str, of: str) -> None:
        """Show `of` in a pane, and give the pane the focus.

        Raises:
            ConsoleError: The pane cannot show that.
        """
        self.pane(name).show_target(of)
        self._move(name)

    def focus(self, where: str) -> None:
        """Focus the next, previous or neighbouring pane, or one by name or number.

        Raises:
            MissingError: There is no such pane.
        """
        if where in ("next", "previous"):
            self.split.cycle(1 if where == "next" else -1)
        elif where in _DIRECTIONS:
            self.split.go(where)
        else:
            self._move(PANES[int(where) - 1] if where.isdecimal() and int(where) < len(PANES) else where)
        self.current.take_focus()

    def arrange(self, name: LayoutName) -> None:
        """Put the panes into the arrangement called `name`."""
        tree = layout_of(name, self.split.current)
        for key in leaves(tree):
            self.pane(key)
        self.split.arrangement = tree
        self.current.take_focus()
        self.refresh_data()

    def zoom(self) -> None:
        """Give the current pane the whole screen, or undo that."""
        self.split.zoom()
        self.refresh_data()

    def back(self) -> bool:
        """Clear the filter, else unzoom, else return to the previous pane.

        Returns:
            Whether there was anything to undo.
        """
        if self.current.active_filter:
            self.current.filter("")
            return True
        if self.split.is_zoomed:
            self.split.zoom()
            return True
        if self._past:
            self.split.reveal(self._past.pop())
            self.current.take_focus()
            self.refresh_data()
            return True
        return False

    def refresh_data(self) -> None:
        """Refresh every visible pane; show an error at the border of its pane."""
        for pane in self.visible:
            if not pane.is_mounted:
                continue  # it refreshes itself when it is mounted
            try:
                pane.refresh_data()
            except ConsoleError as error:
                pane.show_health(FeedHealth(FeedState.REFUSED, one_line(redact(error.sentence()))))

    def _move(self, name: str) -> None:
        self.pane(name)
        if self.split.current != name:
            self._past = [*self._past[-20:], self.split.current]
        self.split.reveal(name)
        self.current.take_focus()
        self.refresh_data()

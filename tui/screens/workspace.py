"""The workspace: all panes of the console, their arrangement, and the focus."""

from __future__ import annotations

import asyncio
import importlib
from collections.abc import Callable
from functools import cached_property, partial
from typing import TYPE_CHECKING, get_args

from textual.geometry import Size

from actions.base.errors import MissingError, RefusedError, nearest_hint
from actions.base.executors import NamedExecutor
from actions.command.arguments import (
    LayoutName,
    PaneName,
)
from tui.defects import shown
from tui.feeds.services import ConsoleServices
from tui.feeds.supervisor import FeedHealth, FeedState
from tui.panes.base import Pane
from tui.settings.keys import PANE_KEYS
from tui.widgets.arrangement import (
    Direction,
    LayoutForm,
    Leaf,
    Tree,
    equalized,
    is_cramped,
    leaves,
    neighbour,
    place,
    quad,
    renamed,
    resized,
    side_by_side,
    split_at,
    stacked,
    without,
)
from tui.widgets.split import Split, make_own

if TYPE_CHECKING:
    from tui.screens.kept_panes import KeptPanes

PANES: tuple[PaneName, ...] = get_args(PaneName)

LAYOUTS: tuple[LayoutName, ...] = get_args(LayoutName)

_SETTLE_SECONDS = 10.0
_BETWEEN_IMPORTS_SECONDS = 0.05
"""Pause in which keys and paints have their turn."""
_DIRECTIONS: tuple[Direction, ...] = get_args(Direction)
_BESIDE = {"left": "to the left of", "right": "to the right of", "up": "above", "down": "below"}


def _no_room() -> RefusedError:
    return RefusedError("There is no room to show the panes at once.", hint="Enlarge the terminal.")


_FOUR = Size(96, 21)
"""The least room for four panes of a run or a job: half a laptop's screen; on smaller ones they are tabs."""
_WIDE = Size(132, 21)
"""The least room for a rail beside a log over two panes."""


_YIELDING = frozenset({"run", "accelerators", "charts"})
"""Panes of the console's layouts that give their room away while they have nothing to show."""


def layout_of(name: LayoutName, current: str) -> tuple[LayoutForm, ...]:
    """Return the forms of the arrangement called `name`, from wide to narrow; `single` is the current pane alone."""
    match name:
        case "watch":
            return _watching("run")
        case "job":
            return _watching("pods")
        case "quad":
            return (LayoutForm(quad("nodes", "run", "pods", "events"), Size(80, 21)),)
        case "single":
            return (LayoutForm(Leaf(current)),)


def forms_of(tree: Tree) -> tuple[LayoutForm, ...]:
    """Return the forms of a kept arrangement: all those of the console's layout that it is one of, else itself."""
    for name in LAYOUTS:
        forms = layout_of(name, "")
        if tree in [form.tree for form in forms]:
            return forms
    return (LayoutForm(tree),)


def _watching(first: PaneName) -> tuple[LayoutForm, ...]:
    """A list beside the log, over accelerators and curves: those below the log where the screen is wide."""
    panels = side_by_side("accelerators", "charts")
    wide = side_by_side(first, stacked("logs", panels, share=0.55), share=0.38)
    narrow = stacked(side_by_side(first, "logs"), panels)
    return LayoutForm(wide, _WIDE, _YIELDING), LayoutForm(narrow, _FOUR, _YIELDING)


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
        first = services.settings.first_pane
        self._services = services
        self._made: dict[str, Pane] = {first: _pane_class(first)(services)}
        self.split = Split(Leaf(first), self._made[first])
        self._past: list[str] = []
        self._is_arranged = False
        self.arranged: Callable[[], object] = lambda: None
        """Called after every change of the arrangement; the app keeps it for the next session."""

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

    async def import_panes(self) -> None:
        """Import the panes that were not shown yet, in a thread: on a busy machine a key would wait for one.

        Begins when the cluster is on screen, or does not come for a while.
        """
        await self._services.cluster.settle(at_most_seconds=_SETTLE_SECONDS)
        thread = NamedExecutor("panes")
        try:
            for name in PANES:
                await thread.call(_pane_class, name)
                await asyncio.sleep(_BETWEEN_IMPORTS_SECONDS)
        finally:
            thread.close()

    @cached_property
    def kept(self) -> KeptPanes:
        """The files in which the panes are kept for the next session."""
        from tui.screens.kept_panes import KeptPanes

        return KeptPanes(self._services.settings.layout_folder)

    async def restore(self, *, is_shown: bool = True) -> None:
        """Arrange the panes as in the last session, behind home if that is there, and read the charts that were picked.

        Args:
            is_shown: Arrange them, unless something has been opened or arranged meanwhile.

        Raises:
            ConfigError: A file cannot be read.
        """
        tree = await self.kept.last()
        if tree is not None and is_shown and not self._is_arranged and not self._past:
            self.take(*forms_of(tree))
            if self._services.settings.first_pane == "home":
                self._move("home")
        for of, names in (await self.kept.charts()).items():
            self._services.picked_charts.setdefault(of, names)

    async def keep(self) -> None:
        """Keep the arrangement for the next session.

        Raises:
            ConfigError: It cannot be written.
        """
        await self.kept.keep_last(self.split.placing.whole_for(self.split.size))

    @property
    def current(self) -> Pane:
        """The pane that has the focus, or had it last."""
        return self._made[self.split.current]

    @property
    def visible(self) -> tuple[Pane, ...]:
        """The panes that are on screen."""
        return tuple(self._made[key] for key in self.split.visible_keys)

    def open(self, name: str, of: str, *, is_of_it: bool = False) -> None:
        """Show `of` in a pane, and give the pane the focus.

        Args:
            name: The pane.
            of: What it shows; empty for the usual.
            is_of_it: That was chosen in the current pane, to which `back` returns, also to one in front.

        Raises:
            ConsoleError: The pane cannot show that.
        """
        self.pane(name).show_target(of)
        self._move(name, is_of_it=is_of_it or bool(of))

    def focus(self, where: str, *, is_of_it: bool = False) -> None:
        """Focus the next, previous or neighbouring pane, or one by name or key.

        Args:
            where: The pane.
            is_of_it: It shows what was chosen in the current pane, to which `back` returns, also to one in front.

        Raises:
            MissingError: There is no such pane.
        """
        if where in ("next", "previous"):
            self.split.cycle(1 if where == "next" else -1)
        elif where in _DIRECTIONS:
            self.split.go(where)
        else:
            self._move(PANE_KEYS.get(where, where), is_of_it=is_of_it)
        self.current.take_focus()

    def arrange(self, name: LayoutName) -> None:
        """Put the panes into the arrangement called `name`; `watch` is of the pods of a job that is watched alone."""
        services = self._services  # the job of a run of another machine is watched, too, but with its run
        is_of_job = name == "watch" and services.watched is not None and services.runs.remote is None
        self.take(*layout_of("job" if is_of_job else name, self.split.current))

    def take(self, *forms: LayoutForm) -> None:
        """Put the panes into an arrangement: the first form that the screen is large enough for."""
        for key in leaves(forms[0].tree):
            self.pane(key)
        self._past.clear()
        self.split.take_forms(*forms)
        self._arranged()

    def cut(self, direction: Direction, name: str = "") -> None:
        """Show pane `name` beside the focused one, or below it; without a name, the last one that is not shown.

        A pane in front is put beside the pane that had the focus before.

        Raises:
            ConsoleError: There is no such pane, or no room for it.
        """
        split = self.split
        if split.is_tabbed:
            raise _no_room()
        make_own(split)
        beside = split.placing.behind
        new = name or (split.current if split.placing.has_front else self._next_to_show())
        self.pane(new)
        if new == beside:
            raise RefusedError(f"{new} is the pane that is split.", hint="Name another one.")
        tree = split_at(split.arrangement, beside, new, is_side_by_side=direction == "right")
        if is_cramped(tree, split.size):
            raise RefusedError("There is no room for another pane.", hint="Close one, or enlarge the terminal.")
        split.arrangement = tree
        split.reveal(new)
        self._arranged()

    def resize(self, direction: Direction, cells: int) -> None:
        """Move the nearest border of the focused pane.

        Raises:
            RefusedError: There is none, or no room.
        """
        self._require_panes()
        make_own(self.split)
        before = self.split.arrangement
        after = resized(before, self.split.size, self.split.current, direction, cells)
        if after is before:
            raise RefusedError(f"No border of {self.split.current} can move {direction}.")
        self.split.arrangement = after
        self._arranged()

    def swap(self, where: str) -> None:
        """Exchange the focused pane with another one of the arrangement; the focus stays on the pane.

        Raises:
            ConsoleError: There is no such pane.
        """
        self._require_panes()
        make_own(self.split)
        tree, current = self.split.arrangement, self.split.current
        keys = leaves(tree)
        if where in ("next", "previous"):
            other = keys[(keys.index(current) + (1 if where == "next" else -1)) % len(keys)]
        elif where in _DIRECTIONS:
            found = neighbour(place(tree, self.split.size.region), current, where)
            if found is None:
                raise RefusedError(f"There is no pane {_BESIDE[where]} {current}.")
            other = found
        elif where in keys and where != current:
            other = where
        else:
            raise MissingError(f"The layout has no other pane {where!r}.", hint=nearest_hint(where, keys))
        self.split.arrangement = renamed(tree, {current: other, other: current})
        self._arranged()

    def close(self) -> None:
        """Take the focused pane out of the arrangement; one in front gives way to what is behind it.

        Raises:
            RefusedError: It is the last one.
        """
        split = self.split
        if split.placing.has_front:
            split.zoom()
            self._arranged()
            return
        make_own(split)
        if (rest := without(split.arrangement, split.current)) is not None:
            keys = leaves(split.arrangement)
            after = keys[(keys.index(split.current) + 1) % len(keys)]
            split.arrangement = rest
            split.reveal(after)
        else:
            raise RefusedError("The last pane stays open.", hint="q leaves the console.")
        self._arranged()

    def equalize(self) -> None:
        """Make all panes of a row equally wide, all of a column equally high.

        Raises:
            RefusedError: There is one pane only, or no room for all.
        """
        self._require_panes()
        make_own(self.split)
        self.split.arrangement = equalized(self.split.arrangement)
        self._arranged()

    def zoom(self) -> None:
        """Give the current pane the whole screen, or undo that."""
        self.split.zoom()
        self.refresh_data()

    def back(self) -> bool:
        """Drop the marks, else the filter, else what the pane shows for a while, else unzoom, else the previous pane.

        Returns:
            Whether there was anything to undo.
        """
        if self.current.clear_marks():
            return True
        if self.current.active_filter:
            self.current.filter("")
            return True
        if self.current.leave():
            return True
        if self.split.placing.is_zoomed:
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
        form = self.split.placing.forms[0]
        yielding = form.yielding.intersection(leaves(form.tree))
        self.split.yield_room(frozenset(key for key in yielding if self._made[key].has_nothing()))
        for pane in self.visible:
            if not pane.is_mounted:
                continue  # it refreshes itself when it is mounted
            with shown(partial(_show_trouble, pane)):
                pane.refresh_data()

    def _move(self, name: str, *, is_of_it: bool = False) -> None:
        """Go to a pane. A pane in front is closed by that, unless the other one shows something chosen in it."""
        self.pane(name)
        split = self.split
        is_closed = split.placing.has_front and name in leaves(split.arrangement) and not is_of_it
        if is_closed:
            self._past = [key for key in self._past if key in leaves(split.arrangement)]
        elif split.current != name:
            self._past = [*self._past[-20:], split.current]
        split.reveal(name)
        self.current.take_focus()
        self.refresh_data()

    def _arranged(self) -> None:
        self._is_arranged = True
        self.arranged()
        self.current.take_focus()
        self.refresh_data()

    def _next_to_show(self) -> str:
        """Return the pane that was seen last of those that are not in the arrangement, else the first of them.

        Raises:
            RefusedError: All panes are there.
        """
        shown = leaves(self.split.arrangement)
        found = next((key for key in (*reversed(self._past), *PANES) if key not in shown), None)
        if found is None:
            raise RefusedError("All panes are shown.")
        return found

    def _require_panes(self) -> None:
        split = self.split
        if split.placing.has_front:
            raise RefusedError(f"{split.current} is in front of the layout.", hint="Go back with esc first.")
        if isinstance(split.arrangement, Leaf):
            raise RefusedError(
                f"{split.current} is the only pane.", hint="Split it with `split right` or `split down`."
            )
        if split.is_tabbed:
            raise _no_room()


def _show_trouble(pane: Pane, sentence: str) -> None:
    pane.show_health(FeedHealth(FeedState.REFUSED, sentence, since=pane.services.clock.monotonic()))

"""The split: a tree of cuts, and the widget that lays panes out by it without remounting them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import msgspec
from msgspec.structs import replace
from textual import events
from textual.app import ComposeResult
from textual.geometry import NULL_OFFSET, Region, Size, Spacing
from textual.layout import Layout, WidgetPlacement
from textual.widget import Widget

from tui.textual_private import forget_arrangement
from tui.widgets.base import WidgetMessage

Direction: TypeAlias = Literal["left", "right", "up", "down"]


class Leaf(msgspec.Struct, frozen=True):
    """A pane, by its key."""

    key: str


class Cut(msgspec.Struct, frozen=True):
    """Two trees, side by side or one above the other; `share` of the room goes to the first."""

    is_side_by_side: bool
    first: Tree
    second: Tree
    share: float = 0.5


Tree: TypeAlias = Leaf | Cut


def leaves(tree: Tree) -> tuple[str, ...]:
    """Return the keys of the panes, left to right and top to bottom."""
    match tree:
        case Leaf(key):
            return (key,)
        case Cut():
            return leaves(tree.first) + leaves(tree.second)


def place(tree: Tree, region: Region) -> dict[str, Region]:
    """Return the region of each pane when the tree fills `region`; every cell belongs to one pane."""
    match tree:
        case Leaf(key):
            return {key: region}
        case Cut():
            first, second = _cut(region, tree)
            return place(tree.first, first) | place(tree.second, second)


def _cut(region: Region, cut: Cut) -> tuple[Region, Region]:
    x, y, width, height = region
    if cut.is_side_by_side:
        left = max(0, min(width, round(width * cut.share)))
        return Region(x, y, left, height), Region(x + left, y, width - left, height)
    top = max(0, min(height, round(height * cut.share)))
    return Region(x, y, width, top), Region(x, y + top, width, height - top)


def renamed(tree: Tree, names: Mapping[str, str]) -> Tree:
    """Return the same tree with other panes in its places."""
    match tree:
        case Leaf(key):
            return Leaf(names.get(key, key))
        case Cut():
            return replace(tree, first=renamed(tree.first, names), second=renamed(tree.second, names))


def neighbour(regions: Mapping[str, Region], key: str, direction: Direction) -> str | None:
    """Return the pane in `direction` from the middle of pane `key`, or `None` at the border."""
    here = regions[key]
    ahead = {other: region for other, region in regions.items() if other != key and _is_ahead(here, region, direction)}
    return min(ahead, key=lambda other: _distance(here, ahead[other], direction), default=None)


def _is_ahead(here: Region, there: Region, direction: Direction) -> bool:
    match direction:
        case "left":
            return there.right <= here.x
        case "right":
            return there.x >= here.right
        case "up":
            return there.bottom <= here.y
        case "down":
            return there.y >= here.bottom


def _distance(here: Region, there: Region, direction: Direction) -> tuple[int, float]:
    gaps = {
        "left": here.x - there.right,
        "right": there.x - here.right,
        "up": here.y - there.bottom,
        "down": there.y - here.bottom,
    }
    (x, y), (other_x, other_y) = here.center, there.center
    return gaps[direction], abs(y - other_y) if direction in ("left", "right") else abs(x - other_x)


def side_by_side(*trees: Tree | str, share: float | None = None) -> Tree:
    """Return a row of panes with equal shares; `share` is that of the first of two."""
    return _row(trees, share, is_side_by_side=True)


def stacked(*trees: Tree | str, share: float | None = None) -> Tree:
    """Return a column of panes with equal shares; `share` is that of the first of two."""
    return _row(trees, share, is_side_by_side=False)


def quad(one: str, two: str, three: str, four: str) -> Tree:
    """Return four panes in two rows."""
    return stacked(side_by_side(one, two), side_by_side(three, four))


def _row(trees: Sequence[Tree | str], share: float | None, *, is_side_by_side: bool) -> Tree:
    first, *rest = (Leaf(tree) if isinstance(tree, str) else tree for tree in trees)
    if not rest:
        return first
    second = _row(rest, None, is_side_by_side=is_side_by_side)
    return Cut(is_side_by_side, first, second, 1 / len(trees) if share is None else share)


LEAST_PANE = Size(40, 7)
"""Minimum size of a pane; on smaller screens one pane is shown at a time, under a row of tabs."""


class Split(Widget):
    """Panes, placed by a tree of cuts. Each pane is a child whose id is its key in the tree.

        split = Split(side_by_side("nodes", stacked("run", "logs")), NodesPane(…), RunPane(…), LogsPane(…))
        split.go("right")            # focus
        split.zoom()                 # and back
        split.reveal("events")       # focus it, in place of the current one if not in the tree
        split.arrangement = quad("nodes", "run", "logs", "charts")
        split.arrangement = Leaf(split.current)

    Panes that are not placed have the class `-parked` (not displayed, keep their state); the focused one has
    `-current`, which the style sheet should show by more than a colour. On a screen too small for the tree, and when
    zoomed, only the current pane is placed; the owner shows the names of the others.
    """

    DEFAULT_CSS = """
    Split { width: 1fr; height: 1fr; overflow: hidden hidden; }
    Split > .-parked { display: none; }
    """

    @dataclass
    class Changed(WidgetMessage):
        """The visible panes or the focused one changed."""

        current: str
        visible: tuple[str, ...]

    def __init__(self, tree: Tree, *panes: Widget, id: str | None = None) -> None:
        super().__init__(id=id)
        self._panes = panes
        self._tree = tree
        self._current = leaves(tree)[0]
        self._is_zoomed = False
        self._layout = _TreeLayout(self._places)
        self._told: tuple[str, tuple[str, ...]] = ("", ())

    def compose(self) -> ComposeResult:
        """Yield all panes, visible or not."""
        yield from self._panes

    @property
    def layout(self) -> Layout:
        """The split's own layout, which has no name in style sheets."""
        return self._layout

    @property
    def arrangement(self) -> Tree:
        """The tree of cuts."""
        return self._tree

    @arrangement.setter
    def arrangement(self, tree: Tree) -> None:
        self._tree = tree
        self._is_zoomed = False
        if self._current not in leaves(tree):
            self._current = leaves(tree)[0]
        self._rearrange()

    @property
    def current(self) -> str:
        """The key of the pane that has, or last had, the focus."""
        return self._current

    @property
    def is_zoomed(self) -> bool:
        """True if the operator zoomed the current pane."""
        return self._is_zoomed

    @property
    def is_single(self) -> bool:
        """True if only the current pane is visible, by zoom or for lack of room."""
        return len(leaves(self._tree)) > 1 and (self._is_zoomed or _is_cramped(self._tree, self.size))

    @property
    def visible_keys(self) -> tuple[str, ...]:
        """The keys of the visible panes."""
        return (self._current,) if self.is_single else leaves(self._tree)

    def go_to(self, key: str) -> None:
        """Focus a pane of the tree."""
        if key in leaves(self._tree):
            self._current = key
            self._rearrange()

    def go(self, direction: Direction) -> None:
        """Focus the neighbour; with one pane at a time, the next or previous one."""
        if self.is_single:
            self.cycle(1 if direction in ("right", "down") else -1)
            return
        other = neighbour(place(self._tree, self.size.region), self._current, direction)
        if other is not None:
            self.go_to(other)

    def cycle(self, step: int) -> None:
        """Focus the next pane of the tree, wrapping around."""
        keys = leaves(self._tree)
        self.go_to(keys[(keys.index(self._current) + step) % len(keys)])

    def reveal(self, key: str) -> None:
        """Focus a pane; if it is not in the tree, it replaces the current one."""
        if key not in leaves(self._tree):
            self._tree = renamed(self._tree, {self._current: key})
        self.go_to(key)

    def zoom(self) -> None:
        """Switch the zoom of the current pane."""
        self._is_zoomed = not self._is_zoomed
        self._rearrange()

    def on_mount(self) -> None:
        """Park the panes that are not in the tree."""
        self._park()

    def on_resize(self) -> None:
        """Rearrange, as one pane or all may fit now."""
        self._park()

    def on_descendant_focus(self, event: events.DescendantFocus) -> None:
        """Make the pane around the focus the current one."""
        pane = next((node for node in event.widget.ancestors_with_self if node.parent is self), None)
        if pane is not None and pane.id in leaves(self._tree) and pane.id != self._current:
            self._current = pane.id or ""
            self._park()

    def _places(self, size: Size) -> dict[Widget, Region]:
        """Return the regions of the children on a screen of `size`."""
        panes = {pane.id: pane for pane in self.children}
        if len(leaves(self._tree)) > 1 and (self._is_zoomed or _is_cramped(self._tree, size)):
            pane = panes.get(self._current)
            return {} if pane is None else {pane: size.region}
        regions = place(self._tree, size.region)
        return {panes[key]: region for key, region in regions.items() if key in panes}

    def _rearrange(self) -> None:
        """Place the panes again, and move the focus into the current one."""
        self._park()
        forget_arrangement(self)
        self.refresh(layout=True)
        pane = next((child for child in self.children if child.id == self._current), None)
        if pane is not None and not pane.has_focus_within:
            target = next((node for node in pane.walk_children(Widget, with_self=True) if node.can_focus), None)
            if target is not None:
                target.focus(scroll_visible=False)

    def _park(self) -> None:
        visible = self.visible_keys
        for pane in self.children:
            pane.set_class(pane.id not in visible, "-parked")
            pane.set_class(pane.id == self._current, "-current")
        if self._told != (self._current, visible):
            self._told = (self._current, visible)
            self.post_message(self.Changed(self, self._current, visible))


def _is_cramped(tree: Tree, size: Size) -> bool:
    return any(
        region.width < LEAST_PANE.width or region.height < LEAST_PANE.height
        for region in place(tree, size.region).values()
    )


class _TreeLayout(Layout):
    """A Textual layout that places children by the split's tree."""

    name = "split"

    def __init__(self, places: Callable[[Size], dict[Widget, Region]]) -> None:
        self._places = places

    def arrange(self, parent: Widget, children: list[Widget], size: Size, greedy: bool = True) -> list[WidgetPlacement]:
        """Place the children that have a region."""
        places = self._places(size)
        return [WidgetPlacement(places[child], NULL_OFFSET, Spacing(), child) for child in children if child in places]

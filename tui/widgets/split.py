"""The split: the widget that lays panes out by a tree of cuts, without remounting them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from rich.segment import Segment
from textual import events
from textual.app import ComposeResult
from textual.geometry import NULL_OFFSET, Offset, Region, Size, Spacing
from textual.layout import Layout, WidgetPlacement
from textual.strip import Strip
from textual.widget import Widget

from tui.textual_private import forget_arrangement
from tui.widgets.arrangement import (
    CutPath,
    Direction,
    LayoutForm,
    Placing,
    Tree,
    border_at,
    bordered,
    cut_at,
    leaves,
    neighbour,
    place,
    region_of,
)
from tui.widgets.base import WidgetMessage


class Split(Widget):
    """Panes, placed by a tree of cuts. Each pane is a child whose id is its key in the tree.

        split = Split(side_by_side("nodes", stacked("run", "logs")), NodesPane(…), RunPane(…), LogsPane(…))
        split.go("right")            # focus
        split.zoom()                 # and back
        split.reveal("events")       # focus it; one that is not in the tree is shown in front of the others
        split.arrangement = quad("nodes", "run", "logs", "charts")
        split.take_forms(LayoutForm(wide, Size(130, 24)), LayoutForm(narrow))     # by the size of the screen
        split.arrangement = Leaf(split.current)

    Panes that are not placed have the class `-parked` (not displayed, keep their state); the focused one has
    `-current`, which the style sheet should show by more than a colour. On a screen too small for the tree, and when
    zoomed, only the current pane is placed; the owner shows the names of the others. A pane *in front* is shown alone,
    too, and the tree behind it stays as it is.

    Panes of a form's `yielding` that are said to be empty are not placed, until they have something to show, are
    focused, or the operator changes the arrangement, which is whole and the operator's own from then on.

    With the mouse a click focuses a pane, and a border can be dragged.
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

    @dataclass
    class Dragged(WidgetMessage):
        """The operator has moved a border with the mouse, and let it go."""

    def __init__(self, tree: Tree, *panes: Widget, id: str | None = None) -> None:
        super().__init__(id=id)
        self._panes = panes
        self.placing = Placing(tree)
        self._layout = _TreeLayout(self._places)
        self._told: tuple[str, tuple[str, ...]] = ("", ())
        self._dragged: CutPath | None = None

    def compose(self) -> ComposeResult:
        """Yield all panes, visible or not."""
        yield from self._panes

    @property
    def layout(self) -> Layout:
        """The split's own layout, which has no name in style sheets."""
        return self._layout

    @property
    def arrangement(self) -> Tree:
        """The tree of cuts: of several forms the one for the present size."""
        return self.placing.tree_for(self.size)

    @arrangement.setter
    def arrangement(self, tree: Tree) -> None:
        self.take_forms(LayoutForm(tree))

    def take_forms(self, *forms: LayoutForm) -> None:
        """Place the panes by the first form that the screen is large enough for; all forms have the same panes.

        If the screen is too small for the last one as well, one pane is shown at a time.
        """
        self.placing.take(*forms)
        self._rearrange()

    def yield_room(self, empty: frozenset[str]) -> None:
        """Give the room of panes without anything to show to the others, or take it back; the focus stays."""
        if empty != self.placing.empty and self._dragged is None:
            self.placing.empty = empty
            _place_anew(self)

    @property
    def current(self) -> str:
        """The key of the pane that has, or last had, the focus."""
        return self.placing.current

    @property
    def is_tabbed(self) -> bool:
        """True if the tree has several panes, and the screen is too small to show them at once."""
        return self.placing.is_tabbed(self.size)

    @property
    def is_single(self) -> bool:
        """True if only the current pane is visible, of several: in front, by zoom or for lack of room."""
        return self.placing.is_single(self.size)

    @property
    def visible_keys(self) -> tuple[str, ...]:
        """The keys of the visible panes."""
        return (self.current,) if self.is_single else leaves(self.arrangement)

    def go(self, direction: Direction) -> None:
        """Focus the neighbour; with one pane at a time, the next or previous one."""
        if self.is_single:
            self.cycle(1 if direction in ("right", "down") else -1)
            return
        other = neighbour(place(self.arrangement, self.size.region), self.current, direction)
        if other is not None:
            self.reveal(other)

    def cycle(self, step: int) -> None:
        """Focus the next pane of the tree, wrapping around; from a pane in front, return to the tree."""
        keys = leaves(self.arrangement)
        if self.placing.has_front:
            self.reveal(self.placing.behind)
        else:
            self.reveal(keys[(keys.index(self.current) + step) % len(keys)])

    def reveal(self, key: str) -> None:
        """Focus a pane. One that is not in the tree is shown in front of it, or takes the place of a single pane."""
        self.placing.reveal(key)
        self._rearrange()

    def zoom(self) -> None:
        """Switch the zoom of the current pane; a pane in front gives way to the tree."""
        if self.placing.has_front:
            self.reveal(self.placing.behind)
            return
        self.placing.is_zoomed = not self.placing.is_zoomed
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
        if pane is not None and pane.id in self.visible_keys and pane.id != self.current:
            self.placing.current = pane.id or ""
            _place_anew(self)

    def on_mouse_down(self, event: events.MouseDown) -> None:
        """Focus the pane under the pointer, and take hold of a border that is there."""
        if self.is_single:
            return
        tree, at = self.arrangement, event.screen_offset - self.region.offset
        key = next((key for key, region in place(tree, self.size.region).items() if region.contains_point(at)), None)
        if key is not None and key != self.current:
            self.reveal(key)
        if border_at(tree, self.size.region, at.x, at.y) is not None:
            make_own(self)
        self._dragged = border_at(self.arrangement, self.size.region, at.x, at.y)
        if self._dragged is not None:
            self.capture_mouse()
            event.stop()

    def on_mouse_move(self, event: events.MouseMove) -> None:
        """Move the border that is held to the pointer, as far as its panes keep their minimum sizes."""
        if self._dragged is None:
            return
        event.stop()
        tree, at = self.arrangement, event.screen_offset - self.region.offset
        after = bordered(tree, self.size, self._dragged, _position(tree, self.size, self._dragged, at))
        if after != tree:
            self.arrangement = after

    def on_mouse_up(self, event: events.MouseUp) -> None:
        """Let the border go."""
        if self._dragged is not None:
            self._dragged = None
            self.release_mouse()
            event.stop()
            self.post_message(self.Dragged(self))

    def render_line(self, y: int) -> Strip:
        """Name the panes that are about to be shown.

        Textual lays a widget out when all its parts are mounted; on a busy machine its place is empty for that long.
        """
        coming = [(region, pane) for pane, region in self._places(self.size).items() if not pane.is_mounted]
        texts = ((region, f"Opening {pane.id}.") for region, pane in coming if y == region.y + 1)
        line = ""
        for region, text in sorted(texts, key=lambda one: one[0].x):
            line = line.ljust(region.x + 2) + text[: max(0, region.width - 2)]
        return Strip([Segment(line, self.rich_style)]).adjust_cell_length(self.size.width, self.rich_style)

    def _places(self, size: Size) -> dict[Widget, Region]:
        """Return the regions of the children on a screen of `size`."""
        panes = {pane.id: pane for pane in self.children}
        return {panes[key]: region for key, region in self.placing.places(size).items() if key in panes}

    def _rearrange(self) -> None:
        """Place the panes again, and move the focus into the current one."""
        _place_anew(self)
        pane = next((child for child in self.children if child.id == self.current), None)
        if pane is not None and not pane.has_focus_within:
            target = next((node for node in pane.walk_children(Widget, with_self=True) if node.can_focus), None)
            if target is not None:
                target.focus(scroll_visible=False)

    def _park(self) -> None:
        visible = self.visible_keys
        for pane in self.children:
            pane.set_class(pane.id not in visible, "-parked")
            pane.set_class(pane.id == self.current, "-current")
        if self._told != (self.current, visible):
            self._told = (self.current, visible)
            self.post_message(self.Changed(self, self.current, visible))


def make_own(split: Split) -> None:
    """Bring all panes of the arrangement back for good: the operator is about to change it."""
    whole = split.placing.whole_for(split.size)
    if whole != split.arrangement:
        split.take_forms(LayoutForm(whole))


def _place_anew(split: Split) -> None:
    split._park()  # noqa: SLF001 - a part of it
    forget_arrangement(split)
    split.refresh(layout=True)


def _position(tree: Tree, size: Size, path: CutPath, at: Offset) -> int:
    """Return the cells that the first part of a cut has when its border is at the pointer."""
    region = region_of(tree, size.region, path)
    return at.x - region.x if cut_at(tree, path).is_side_by_side else at.y - region.y


class _TreeLayout(Layout):
    """A Textual layout that places children by the split's tree."""

    name = "split"

    def __init__(self, places: Callable[[Size], dict[Widget, Region]]) -> None:
        self._places = places

    def arrange(self, parent: Widget, children: list[Widget], size: Size, greedy: bool = True) -> list[WidgetPlacement]:
        """Place the children that have a region."""
        places = self._places(size)
        return [WidgetPlacement(places[child], NULL_OFFSET, Spacing(), child) for child in children if child in places]

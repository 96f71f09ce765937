"""Arrangements of panes: a tree of cuts, and what can be done with it; functions return new trees."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, TypeAlias

import msgspec
from msgspec.structs import replace
from textual.geometry import Region, Size

Direction: TypeAlias = Literal["left", "right", "up", "down"]

CutPath: TypeAlias = tuple[int, ...]
"""The way from the root of a tree to a cut in it: 0 for the first part, 1 for the second."""

LEAST_PANE = Size(24, 5)
"""Minimum size of a pane; where an arrangement needs more room than there is, one pane is shown at a time."""


class Leaf(msgspec.Struct, frozen=True, tag_field="is", tag="pane", rename={"key": "pane"}):
    """A pane, by its key."""

    key: str


class Cut(msgspec.Struct, frozen=True, tag_field="is", tag="cut", rename={"is_side_by_side": "side_by_side"}):
    """Two trees, side by side or one above the other; `share` of the room goes to the first."""

    is_side_by_side: bool
    first: Tree
    second: Tree
    share: float = 0.5


Tree: TypeAlias = Leaf | Cut


class LayoutForm(msgspec.Struct, frozen=True):
    """An arrangement for screens of a minimum size.

    Args:
        tree: The arrangement.
        least: Terminal columns and rows of the smallest screen that it is for.
        yielding: Panes that give their room away while they have nothing to show.
    """

    tree: Tree
    least: Size = Size(0, 0)
    yielding: frozenset[str] = frozenset()


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
            first, second = _parts(region, tree)
            return place(tree.first, first) | place(tree.second, second)


def _parts(region: Region, cut: Cut) -> tuple[Region, Region]:
    x, y, width, height = region
    if cut.is_side_by_side:
        left = max(0, min(width, round(width * cut.share)))
        return Region(x, y, left, height), Region(x + left, y, width - left, height)
    top = max(0, min(height, round(height * cut.share)))
    return Region(x, y, width, top), Region(x, y + top, width, height - top)


def is_cramped(tree: Tree, size: Size) -> bool:
    """Return whether a pane of `tree` would be smaller than `LEAST_PANE` on a screen of `size`."""
    return any(
        region.width < LEAST_PANE.width or region.height < LEAST_PANE.height
        for region in place(tree, size.region).values()
    )


def renamed(tree: Tree, names: Mapping[str, str]) -> Tree:
    """Return the same tree with other panes in its places."""
    match tree:
        case Leaf(key):
            return Leaf(names.get(key, key))
        case Cut():
            return replace(tree, first=renamed(tree.first, names), second=renamed(tree.second, names))


def without(tree: Tree, key: str) -> Tree | None:
    """Return the tree without a pane, whose room goes to what was cut off beside it; `None` if no pane is left."""
    match tree:
        case Leaf():
            return None if tree.key == key else tree
        case Cut():
            first, second = without(tree.first, key), without(tree.second, key)
            if first is None or second is None:
                return second if first is None else first
            return replace(tree, first=first, second=second)


def split_at(tree: Tree, key: str, new: str, *, is_side_by_side: bool) -> Tree:
    """Return the tree with pane `new` in the second half of the place of pane `key`.

    A pane `new` that is in the tree already leaves its place for the new one.
    """
    return _with_split(without(tree, new) or tree, key, new, is_side_by_side=is_side_by_side)


def _with_split(tree: Tree, key: str, new: str, *, is_side_by_side: bool) -> Tree:
    match tree:
        case Leaf():
            return Cut(is_side_by_side, tree, Leaf(new)) if tree.key == key else tree
        case Cut():
            first = _with_split(tree.first, key, new, is_side_by_side=is_side_by_side)
            second = _with_split(tree.second, key, new, is_side_by_side=is_side_by_side)
            return replace(tree, first=first, second=second)


def equalized(tree: Tree) -> Tree:
    """Return the tree with equal shares: panes in one row are equally wide, panes in one column equally high."""
    match tree:
        case Leaf():
            return tree
        case Cut():
            first = _panes_along(tree.first, is_side_by_side=tree.is_side_by_side)
            second = _panes_along(tree.second, is_side_by_side=tree.is_side_by_side)
            share = first / (first + second)
            return replace(tree, first=equalized(tree.first), second=equalized(tree.second), share=share)


def _panes_along(tree: Tree, *, is_side_by_side: bool) -> int:
    if isinstance(tree, Leaf) or tree.is_side_by_side != is_side_by_side:
        return 1
    return _panes_along(tree.first, is_side_by_side=is_side_by_side) + _panes_along(
        tree.second, is_side_by_side=is_side_by_side
    )


def resized(tree: Tree, size: Size, key: str, direction: Direction, cells: int) -> Tree:
    """Move the nearest border of pane `key` that can move in `direction`, by at most `cells` terminal cells.

    Returns:
        The new tree; the same one if there is no such border, or no room: no pane gets smaller than `LEAST_PANE`.
    """
    path = _cut_around(tree, key, is_side_by_side=direction in ("left", "right"))
    if path is None:
        return tree
    region = region_of(tree, size.region, path)
    cut = cut_at(tree, path)
    first, _ = _parts(region, cut)
    now = first.width if cut.is_side_by_side else first.height
    step = -1 if direction in ("left", "up") else 1
    for moved in range(cells, 0, -1):
        changed = bordered(tree, size, path, now + step * moved)
        if changed is not tree:
            return changed
    return tree


def bordered(tree: Tree, size: Size, path: CutPath, position: int) -> Tree:
    """Give the first part of a cut `position` cells; return the same tree if a pane would get too small."""
    region, cut = region_of(tree, size.region, path), cut_at(tree, path)
    whole = region.width if cut.is_side_by_side else region.height
    if not 0 < position < whole:
        return tree
    changed = _replaced(tree, path, replace(cut, share=position / whole))
    return tree if is_cramped(changed, size) else changed


def border_at(tree: Tree, region: Region, x: int, y: int) -> CutPath | None:
    """Return the cut whose border is at a cell: the last cells of its first part and the first ones of its second."""
    if isinstance(tree, Leaf) or not region.contains(x, y):
        return None
    first, second = _parts(region, tree)
    begins, at = (second.x, x) if tree.is_side_by_side else (second.y, y)
    if at in (begins - 1, begins):
        return ()
    turn, part, inside = (0, tree.first, first) if first.contains(x, y) else (1, tree.second, second)
    deeper = border_at(part, inside, x, y)
    return None if deeper is None else (turn, *deeper)


def cut_at(tree: Tree, path: CutPath) -> Cut:
    """Return the cut at the end of a path.

    Raises:
        LookupError: There is none.
    """
    if isinstance(tree, Leaf):
        raise LookupError(path)
    return cut_at(tree.second if path[0] else tree.first, path[1:]) if path else tree


def region_of(tree: Tree, region: Region, path: CutPath) -> Region:
    """Return the region of the cut at the end of a path."""
    if isinstance(tree, Leaf) or not path:
        return region
    parts = _parts(region, tree)
    return region_of(tree.second if path[0] else tree.first, parts[path[0]], path[1:])


def _replaced(tree: Tree, path: CutPath, new: Tree) -> Tree:
    if isinstance(tree, Leaf) or not path:
        return new
    if path[0]:
        return replace(tree, second=_replaced(tree.second, path[1:], new))
    return replace(tree, first=_replaced(tree.first, path[1:], new))


def _cut_around(tree: Tree, key: str, *, is_side_by_side: bool) -> CutPath | None:
    """Return the path to the innermost cut of one kind around a pane."""
    if isinstance(tree, Leaf) or key not in leaves(tree):
        return None
    turn = 0 if key in leaves(tree.first) else 1
    deeper = _cut_around(tree.second if turn else tree.first, key, is_side_by_side=is_side_by_side)
    if deeper is not None:
        return (turn, *deeper)
    return () if tree.is_side_by_side == is_side_by_side else None


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


class Placing:
    """The panes of a split as they are placed: an arrangement, the current pane, the zoom.

    Args:
        tree: The arrangement.
    """

    def __init__(self, tree: Tree) -> None:
        self.forms: tuple[LayoutForm, ...] = (LayoutForm(tree),)
        self.current = leaves(tree)[0]
        """The pane that has, or last had, the focus."""
        self.is_zoomed = False
        self.empty: frozenset[str] = frozenset()
        """Panes that have nothing to show."""
        self._behind = self.current

    @property
    def has_several(self) -> bool:
        """True if the arrangement has several panes."""
        return not isinstance(self.forms[0].tree, Leaf)

    @property
    def has_front(self) -> bool:
        """True if the current pane is not in the arrangement, but in front of it."""
        return self.current not in leaves(self.forms[0].tree)

    @property
    def behind(self) -> str:
        """The pane of the arrangement that has, or last had, the focus."""
        return self._behind if self.has_front else self.current

    def take(self, *forms: LayoutForm) -> None:
        """Take another arrangement in some forms, from large to small, with the same panes; unzoom."""
        behind, keys = self.behind, leaves(forms[0].tree)
        self.forms = forms
        self.is_zoomed = False
        if self.current not in keys:
            self.current = behind if behind in keys else keys[0]

    def reveal(self, key: str) -> None:
        """Make a pane the current one: of the arrangement, else in front of it, or in the place of a single one."""
        if not self.has_several:
            self.forms = (LayoutForm(Leaf(key)),)
        elif key not in leaves(self.forms[0].tree):
            self._behind = self.behind
        self.current = key

    def tree_for(self, size: Size) -> Tree:
        """Return the first form that a screen is large enough for, else the last one, without panes that give way.

        The current pane never does: keys go there.
        """
        form = self._form_for(size)
        tree: Tree = form.tree
        for key in form.yielding & self.empty - {self.current}:
            tree = without(tree, key) or tree
        return tree

    def whole_for(self, size: Size) -> Tree:
        """Return the form for a screen with all its panes."""
        return self._form_for(size).tree

    def _form_for(self, size: Size) -> LayoutForm:
        return next((form for form in self.forms if _has_room(form, size)), self.forms[-1])

    def is_tabbed(self, size: Size) -> bool:
        """Return whether a screen is too small for all panes at once."""
        return self.has_several and not any(_has_room(form, size) for form in self.forms)

    def is_single(self, size: Size) -> bool:
        """Return whether one pane of several is shown: in front, by zoom or for lack of room."""
        return self.has_several and (self.is_zoomed or self.has_front or self.is_tabbed(size))

    def places(self, size: Size) -> dict[str, Region]:
        """Return the regions of the visible panes."""
        return {self.current: size.region} if self.is_single(size) else place(self.tree_for(size), size.region)


def _has_room(form: LayoutForm, size: Size) -> bool:
    is_large_enough = size.width >= form.least.width and size.height >= form.least.height
    return is_large_enough and not is_cramped(form.tree, size)

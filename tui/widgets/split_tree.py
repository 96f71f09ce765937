"""How panes share a screen: a tree of cuts, as a value."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, TypeAlias

import msgspec
from msgspec.structs import replace
from textual.geometry import Region

Direction: TypeAlias = Literal["left", "right", "up", "down"]


class Leaf(msgspec.Struct, frozen=True):
    """One pane, by its key."""

    key: str


class Cut(msgspec.Struct, frozen=True):
    """Two trees, side by side or one above the other; `share` of the room goes to the first."""

    is_side_by_side: bool
    first: Tree
    second: Tree
    share: float = 0.5


Tree: TypeAlias = Leaf | Cut


def leaves(tree: Tree) -> tuple[str, ...]:
    """Keys of the panes, left to right and top to bottom."""
    match tree:
        case Leaf(key):
            return (key,)
        case Cut():
            return leaves(tree.first) + leaves(tree.second)


def place(tree: Tree, region: Region) -> dict[str, Region]:
    """Where each pane stands when the tree fills `region`; every cell belongs to one pane."""
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
    """Put other panes in the same places."""
    match tree:
        case Leaf(key):
            return Leaf(names.get(key, key))
        case Cut():
            return replace(tree, first=renamed(tree.first, names), second=renamed(tree.second, names))


def neighbour(regions: Mapping[str, Region], key: str, direction: Direction) -> str | None:
    """The pane one meets going `direction` from the middle of pane `key`, or `None` at the border."""
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
    """A row of panes with equal shares; `share` is that of the first of two."""
    return _row(trees, share, is_side_by_side=True)


def stacked(*trees: Tree | str, share: float | None = None) -> Tree:
    """A column of panes with equal shares; `share` is that of the first of two."""
    return _row(trees, share, is_side_by_side=False)


def quad(one: str, two: str, three: str, four: str) -> Tree:
    """Four panes in two rows."""
    return stacked(side_by_side(one, two), side_by_side(three, four))


def _row(trees: Sequence[Tree | str], share: float | None, *, is_side_by_side: bool) -> Tree:
    first, *rest = (Leaf(tree) if isinstance(tree, str) else tree for tree in trees)
    if not rest:
        return first
    second = _row(rest, None, is_side_by_side=is_side_by_side)
    return Cut(is_side_by_side, first, second, 1 / len(trees) if share is None else share)

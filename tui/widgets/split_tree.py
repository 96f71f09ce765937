"""How panes share a screen: a tree of cuts, as a value."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

from textual.geometry import Region

Direction: TypeAlias = Literal["left", "right", "up", "down"]

LEAST_SHARE = 0.1


@dataclass(frozen=True, slots=True)
class Leaf:
    """One pane, by its key."""

    key: str


@dataclass(frozen=True, slots=True)
class Cut:
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


def with_pane(tree: Tree, beside: str, key: str, *, is_side_by_side: bool) -> Tree:
    """Give pane `key` half the room of pane `beside`."""
    match tree:
        case Leaf(present):
            return Cut(is_side_by_side, tree, Leaf(key)) if present == beside else tree
        case Cut():
            return replace(
                tree,
                first=with_pane(tree.first, beside, key, is_side_by_side=is_side_by_side),
                second=with_pane(tree.second, beside, key, is_side_by_side=is_side_by_side),
            )


def without_pane(tree: Tree, key: str) -> Tree | None:
    """Take a pane away; its room goes to its neighbour. `None` if it was the last one."""
    match tree:
        case Leaf(present):
            return None if present == key else tree
        case Cut():
            first, second = without_pane(tree.first, key), without_pane(tree.second, key)
            if first is None or second is None:
                return second if first is None else first
            return replace(tree, first=first, second=second)


def renamed(tree: Tree, names: Mapping[str, str]) -> Tree:
    """Put other panes in the same places."""
    match tree:
        case Leaf(key):
            return Leaf(names.get(key, key))
        case Cut():
            return replace(tree, first=renamed(tree.first, names), second=renamed(tree.second, names))


def swapped(tree: Tree, one: str, other: str) -> Tree:
    """Exchange two panes."""
    return renamed(tree, {one: other, other: one})


def even(tree: Tree) -> Tree:
    """Give all panes along a line the same share of it."""
    match tree:
        case Leaf():
            return tree
        case Cut(is_side_by_side, first, second):
            here, there = _along(first, is_side_by_side), _along(second, is_side_by_side)
            return Cut(is_side_by_side, even(first), even(second), here / (here + there))


def _along(tree: Tree, is_side_by_side: bool) -> int:
    """How many panes follow each other in one direction."""
    if isinstance(tree, Cut) and tree.is_side_by_side == is_side_by_side:
        return _along(tree.first, is_side_by_side) + _along(tree.second, is_side_by_side)
    return 1


def grown(tree: Tree, key: str, by: float, *, is_side_by_side: bool) -> Tree:
    """Move the nearest cut of that kind around pane `key` so that it gets `by` (a share of that cut) more."""
    if not isinstance(tree, Cut):
        return tree
    in_first = key in leaves(tree.first)
    if not in_first and key not in leaves(tree.second):
        return tree
    inner = tree.first if in_first else tree.second
    deeper = grown(inner, key, by, is_side_by_side=is_side_by_side)
    if deeper != inner:
        return replace(tree, first=deeper) if in_first else replace(tree, second=deeper)
    if tree.is_side_by_side != is_side_by_side:
        return tree
    share = tree.share + (by if in_first else -by)
    return replace(tree, share=max(LEAST_SHARE, min(1 - LEAST_SHARE, share)))


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


TreeData: TypeAlias = "str | dict[str, object]"


def to_data(tree: Tree) -> TreeData:
    """The tree as JSON values, for `from_data`."""
    match tree:
        case Leaf(key):
            return key
        case Cut(is_side_by_side, first, second, share):
            kind = "beside" if is_side_by_side else "above"
            return {kind: [to_data(first), to_data(second)], "share": round(share, 4)}


def from_data(data: object) -> Tree:
    """Read what `to_data` wrote.

    Raises:
        ValueError: It is something else, or a pane occurs twice.
    """
    tree = _read(data)
    keys = leaves(tree)
    if len(set(keys)) != len(keys):
        message = f"a pane occurs twice in the layout: {', '.join(keys)}"
        raise ValueError(message)
    return tree


def _read(data: object) -> Tree:
    match data:
        case str() if data:
            return Leaf(data)
        case {"beside": [first, second], "share": float() | int() as share}:
            return Cut(True, _read(first), _read(second), max(LEAST_SHARE, min(1 - LEAST_SHARE, float(share))))
        case {"above": [first, second], "share": float() | int() as share}:
            return Cut(False, _read(first), _read(second), max(LEAST_SHARE, min(1 - LEAST_SHARE, float(share))))
        case _:
            message = f"no layout of panes: {data!r}"
            raise ValueError(message)

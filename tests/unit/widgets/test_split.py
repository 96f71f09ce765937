"""Panes on a shared screen."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from textual.app import App, ComposeResult
from textual.geometry import Region
from textual.widget import Widget

from tests.support.waiting import settle, wait_for
from tui.widgets.split import (
    Cut,
    Direction,
    Leaf,
    Split,
    Tree,
    leaves,
    neighbour,
    place,
    side_by_side,
    stacked,
)

SCREEN = Region(0, 0, 120, 40)


@st.composite
def trees(draw: st.DrawFn) -> Tree:
    def of(keys: list[str]) -> Tree:
        if len(keys) == 1:
            return Leaf(keys[0])
        at = draw(st.integers(1, len(keys) - 1))
        return Cut(draw(st.booleans()), of(keys[:at]), of(keys[at:]), draw(st.floats(0.1, 0.9)))

    return of([f"p{number}" for number in range(draw(st.integers(1, 8)))])


@given(trees())
def test_every_cell_of_the_screen_belongs_to_one_pane(tree: Tree) -> None:
    regions = place(tree, SCREEN)
    assert sum(region.area for region in regions.values()) == SCREEN.area
    assert set(regions) == set(leaves(tree))


@given(trees())
def test_going_one_way_and_back_never_meets_oneself(tree: Tree) -> None:
    regions = place(tree, SCREEN)
    for key in regions:
        for direction in ("left", "right", "up", "down"):
            assert neighbour(regions, key, direction) != key


def test_three_in_a_row_share_evenly() -> None:
    widths = [region.width for region in place(side_by_side("a", "b", "c"), SCREEN).values()]
    assert widths == [40, 40, 40]


class Box(Widget, can_focus=True):
    DEFAULT_CSS = "Box { border: round $foreground; }"

    def __init__(self, key: str) -> None:
        super().__init__(id=key)
        self.mounts = 0

    def on_mount(self) -> None:
        self.mounts += 1

    def render(self) -> str:
        return f"this is {self.id}"


class SplitApp(App[None]):
    def compose(self) -> ComposeResult:
        yield Split(side_by_side("a", stacked("b", "c")), *(Box(key) for key in "abcd"))

    @property
    def split(self) -> Split:
        return self.query_one(Split)

    def regions(self) -> dict[str, tuple[int, int, int, int]]:
        boxes = [box for box in self.query(Box) if box.display]
        return {box.id or "": (box.region.x, box.region.y, box.region.width, box.region.height) for box in boxes}

    def focused_key(self) -> str:
        return (self.focused.id or "") if self.focused else ""


@pytest.mark.parametrize(
    ("moves", "ends_at"),
    [(["right"], "b"), (["right", "down"], "c"), (["right", "down", "left"], "a"), (["left"], "a"), (["up"], "a")],
)
async def test_the_focus_moves_by_direction(moves: list[Direction], ends_at: str) -> None:
    app = SplitApp()
    async with app.run_test(size=(120, 40)) as pilot:
        app.split.go_to("a")
        await wait_for(pilot, lambda: app.focused_key() == "a", "the first pane")
        for move in moves:
            app.split.go(move)
            await settle(pilot)
        await wait_for(pilot, lambda: app.focused_key() == ends_at, f"pane {ends_at}")
        assert app.split.current == ends_at
        assert app.query_one(f"#{ends_at}").has_class("-current")


async def test_zoom_gives_all_the_room_and_takes_it_back() -> None:
    app = SplitApp()
    async with app.run_test(size=(120, 40)) as pilot:
        before = {"a": (0, 0, 60, 40), "b": (60, 0, 60, 20), "c": (60, 20, 60, 20)}
        await wait_for(pilot, lambda: app.regions() == before, "three panes")
        app.split.go_to("c")
        app.split.zoom()
        await wait_for(pilot, lambda: app.regions() == {"c": (0, 0, 120, 40)}, "one pane alone")
        app.split.zoom()
        await wait_for(pilot, lambda: app.regions() == before, "three panes again")
        assert all(box.mounts == 1 for box in app.query(Box))


async def test_a_small_screen_shows_one_pane_at_a_time() -> None:
    app = SplitApp()
    async with app.run_test(size=(60, 20)) as pilot:
        await wait_for(pilot, lambda: app.regions() == {"a": (0, 0, 60, 20)}, "the first pane alone")
        app.split.go("right")
        await wait_for(pilot, lambda: app.regions() == {"b": (0, 0, 60, 20)}, "the second pane")
        app.split.go_to("c")
        await wait_for(pilot, lambda: app.regions() == {"c": (0, 0, 60, 20)}, "the third pane")
        await pilot.resize_terminal(120, 40)
        await wait_for(pilot, lambda: set(app.regions()) == {"a", "b", "c"}, "all of them on a large screen")


async def test_another_pane_takes_the_place_of_the_current_one() -> None:
    app = SplitApp()
    async with app.run_test(size=(120, 40)) as pilot:
        app.split.go_to("b")
        app.split.reveal("d")
        await wait_for(pilot, lambda: set(app.regions()) == {"a", "c", "d"}, "the other pane")
        await wait_for(pilot, lambda: app.focused_key() == "d", "the focus on it")

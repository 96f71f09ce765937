"""Panes on a shared screen."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from textual.app import App, ComposeResult
from textual.geometry import Region
from textual.widget import Widget

from tests.support.waiting import settle, wait_for
from tui.seams import screen_text
from tui.widgets.split import Split
from tui.widgets.split_tree import (
    Cut,
    Direction,
    Leaf,
    Tree,
    even,
    from_data,
    grown,
    leaves,
    neighbour,
    place,
    quad,
    side_by_side,
    stacked,
    swapped,
    to_data,
    with_pane,
    without_pane,
)

SCREEN = Region(0, 0, 120, 40)


@st.composite
def trees(draw: st.DrawFn) -> Tree:
    tree: Tree = Leaf("p0")
    for number in range(draw(st.integers(0, 7))):
        beside = draw(st.sampled_from(leaves(tree)))
        tree = with_pane(tree, beside, f"p{number + 1}", is_side_by_side=draw(st.booleans()))
        tree = grown(tree, beside, draw(st.floats(-0.3, 0.3)), is_side_by_side=draw(st.booleans()))
    return tree


@given(trees())
def test_every_cell_of_the_screen_belongs_to_one_pane(tree: Tree) -> None:
    regions = place(tree, SCREEN)
    assert sum(region.area for region in regions.values()) == SCREEN.area
    assert set(regions) == set(leaves(tree))


@given(trees())
def test_a_tree_survives_being_written_down(tree: Tree) -> None:
    again = from_data(json.loads(json.dumps(to_data(tree))))
    assert leaves(again) == leaves(tree)
    assert to_data(again) == to_data(tree)


@given(trees())
def test_going_one_way_and_back_never_meets_oneself(tree: Tree) -> None:
    regions = place(tree, SCREEN)
    for key in regions:
        for direction in ("left", "right", "up", "down"):
            assert neighbour(regions, key, direction) != key


@pytest.mark.parametrize(
    ("data", "says"),
    [
        ({"beside": ["a", "a"], "share": 0.5}, "twice"),
        ({"beside": ["a"]}, "no layout"),
        (None, "no layout"),
        ("", "no layout"),
    ],
)
def test_a_broken_layout_file_is_refused_with_a_reason(data: object, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        from_data(data)


def test_a_pane_that_goes_leaves_its_room_to_its_neighbour() -> None:
    assert without_pane(quad("a", "b", "c", "d"), "b") == Cut(False, Leaf("a"), side_by_side("c", "d"))
    assert without_pane(Leaf("a"), "a") is None


def test_three_in_a_row_share_evenly() -> None:
    widths = [region.width for region in place(side_by_side("a", "b", "c"), SCREEN).values()]
    assert widths == [40, 40, 40]
    lopsided = grown(side_by_side("a", "b", "c"), "a", 0.2, is_side_by_side=True)
    assert even(lopsided) == side_by_side("a", "b", "c")


def test_growing_moves_the_nearest_cut_of_that_kind() -> None:
    tree = side_by_side("a", stacked("b", "c"))
    assert place(grown(tree, "b", 0.1, is_side_by_side=True), SCREEN)["b"].width == 72
    assert place(grown(tree, "b", 0.1, is_side_by_side=False), SCREEN)["b"].height == 24
    assert grown(tree, "a", 0.1, is_side_by_side=False) == tree


def test_swapped_panes_take_each_others_places() -> None:
    assert leaves(swapped(quad("a", "b", "c", "d"), "a", "d")) == ("d", "b", "c", "a")


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
        await wait_for(pilot, lambda: app.regions() == {"c": (0, 1, 120, 39)}, "one pane under the tabs")
        assert screen_text(app).splitlines()[0].split() == ["a", "b", "[c]", "zoomed"]
        app.split.zoom()
        await wait_for(pilot, lambda: app.regions() == before, "three panes again")
        assert all(box.mounts == 1 for box in app.query(Box))


async def test_a_small_screen_shows_one_pane_and_names_the_others() -> None:
    app = SplitApp()
    async with app.run_test(size=(60, 20)) as pilot:
        await wait_for(pilot, lambda: app.regions() == {"a": (0, 1, 60, 19)}, "the first pane alone")
        assert screen_text(app).splitlines()[0].split() == ["[a]", "b", "c"]
        app.split.go("right")
        await wait_for(pilot, lambda: app.regions() == {"b": (0, 1, 60, 19)}, "the second pane")
        await pilot.click("SplitTabs", offset=(7, 0))
        await wait_for(pilot, lambda: app.regions() == {"c": (0, 1, 60, 19)}, "the third pane, by its tab")
        await pilot.resize_terminal(120, 40)
        await wait_for(pilot, lambda: set(app.regions()) == {"a", "b", "c"}, "all of them on a large screen")


async def test_another_pane_takes_the_place_of_the_current_one() -> None:
    app = SplitApp()
    async with app.run_test(size=(120, 40)) as pilot:
        app.split.go_to("b")
        app.split.reveal("d")
        await wait_for(pilot, lambda: set(app.regions()) == {"a", "c", "d"}, "the other pane")
        await wait_for(pilot, lambda: app.focused_key() == "d", "the focus on it")


async def test_panes_split_close_swap_and_grow_without_a_remount() -> None:
    app = SplitApp()
    async with app.run_test(size=(160, 40)) as pilot:
        app.split.go_to("a")
        app.split.split("d", is_side_by_side=False)
        await wait_for(pilot, lambda: app.regions().get("d") == (0, 20, 80, 20), "the new pane below")
        app.split.swap("up")
        await wait_for(pilot, lambda: app.regions().get("d") == (0, 0, 80, 20), "the two exchanged")
        app.split.grow("right")
        await wait_for(pilot, lambda: app.regions().get("d") == (0, 0, 88, 20), "a wider pane")
        app.split.close()
        await wait_for(pilot, lambda: set(app.regions()) == {"a", "b", "c"}, "the pane gone")
        assert all(box.mounts == 1 for box in app.query(Box))


async def test_the_last_pane_cannot_be_closed() -> None:
    app = SplitApp()
    async with app.run_test(size=(120, 40)) as pilot:
        app.split.arrangement = Leaf("a")
        app.split.close()
        await wait_for(pilot, lambda: app.regions() == {"a": (0, 0, 120, 40)}, "the pane")

"""Panes on a shared screen."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from textual.app import App, ComposeResult
from textual.geometry import Region, Size
from textual.widget import Widget

from tests.support.waiting import settle, wait_for
from tui.widgets.arrangement import (
    LEAST_PANE,
    Cut,
    Direction,
    LayoutForm,
    Leaf,
    Tree,
    border_at,
    equalized,
    is_cramped,
    leaves,
    neighbour,
    place,
    resized,
    side_by_side,
    split_at,
    stacked,
    without,
)
from tui.widgets.split import Split

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
        app.split.reveal("a")
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
        app.split.reveal("c")
        app.split.zoom()
        await wait_for(pilot, lambda: app.regions() == {"c": (0, 0, 120, 40)}, "one pane alone")
        app.split.zoom()
        await wait_for(pilot, lambda: app.regions() == before, "three panes again")
        assert all(box.mounts == 1 for box in app.query(Box))


async def test_a_small_screen_shows_one_pane_at_a_time() -> None:
    app = SplitApp()
    async with app.run_test(size=(40, 9)) as pilot:
        await wait_for(pilot, lambda: app.regions() == {"a": (0, 0, 40, 9)}, "the first pane alone")
        app.split.go("right")
        await wait_for(pilot, lambda: app.regions() == {"b": (0, 0, 40, 9)}, "the second pane")
        app.split.reveal("c")
        await wait_for(pilot, lambda: app.regions() == {"c": (0, 0, 40, 9)}, "the third pane")
        await pilot.resize_terminal(120, 40)
        await wait_for(pilot, lambda: set(app.regions()) == {"a", "b", "c"}, "all of them on a large screen")


async def test_a_pane_that_is_not_in_the_tree_is_shown_in_front_of_it() -> None:
    app = SplitApp()
    async with app.run_test(size=(120, 40)) as pilot:
        before = {"a": (0, 0, 60, 40), "b": (60, 0, 60, 20), "c": (60, 20, 60, 20)}
        app.split.reveal("b")
        app.split.reveal("d")
        await wait_for(pilot, lambda: app.regions() == {"d": (0, 0, 120, 40)}, "the other pane alone")
        await wait_for(pilot, lambda: app.focused_key() == "d", "the focus on it")
        assert app.split.placing.has_front
        app.split.zoom()
        await wait_for(pilot, lambda: app.regions() == before, "the tree as it was")
        await wait_for(pilot, lambda: app.focused_key() == "b", "the focus where it was")


async def test_another_pane_takes_the_place_of_a_single_one() -> None:
    app = SplitApp()
    async with app.run_test(size=(120, 40)) as pilot:
        app.split.arrangement = Leaf("a")
        app.split.reveal("d")
        await wait_for(pilot, lambda: app.regions() == {"d": (0, 0, 120, 40)}, "the other pane")
        assert app.split.arrangement == Leaf("d")
        assert not app.split.placing.has_front


async def test_the_form_of_an_arrangement_follows_the_size_of_the_screen() -> None:
    wide, narrow = side_by_side("a", "b", "c"), stacked("a", side_by_side("b", "c"))
    app = SplitApp()
    async with app.run_test(size=(120, 40)) as pilot:
        app.split.take_forms(LayoutForm(wide, Size(100, 20)), LayoutForm(narrow, Size(60, 20)))
        await wait_for(pilot, lambda: app.regions() == placed(wide, 120, 40), "three in a row")
        await pilot.resize_terminal(80, 40)
        await wait_for(pilot, lambda: app.regions() == placed(narrow, 80, 40), "two rows")
        await pilot.resize_terminal(50, 40)
        await wait_for(pilot, lambda: len(app.regions()) == 1, "one at a time")
        assert app.split.is_tabbed


async def test_a_border_is_dragged_and_a_click_focuses() -> None:
    app = SplitApp()
    async with app.run_test(size=(120, 40)) as pilot:
        await wait_for(pilot, lambda: len(app.regions()) == 3, "three panes")
        await pilot.mouse_down(offset=(60, 10))
        await pilot.hover(offset=(80, 12))
        await pilot.mouse_up(offset=(80, 12))
        await wait_for(pilot, lambda: app.regions()["a"] == (0, 0, 80, 40), "a wider pane")
        await pilot.mouse_down(offset=(90, 19))
        await pilot.hover(offset=(90, 39))
        await pilot.mouse_up(offset=(90, 39))
        await settle(pilot)
        assert app.regions()["b"] == (80, 0, 40, 20), "no pane gets smaller than the least"
        await pilot.click(offset=(100, 30))
        await wait_for(pilot, lambda: app.split.current == "c", "the focus on the clicked pane")


def placed(tree: Tree, width: int, height: int) -> dict[str, tuple[int, int, int, int]]:
    places = place(tree, Region(0, 0, width, height))
    return {key: (x, y, wide, high) for key, (x, y, wide, high) in places.items()}


@given(trees(), st.data())
def test_a_split_adds_one_pane_and_a_close_takes_it_away(tree: Tree, data: st.DataObject) -> None:
    key = data.draw(st.sampled_from(leaves(tree)))
    split = split_at(tree, key, "new", is_side_by_side=data.draw(st.booleans()))
    assert sorted(leaves(split)) == sorted([*leaves(tree), "new"])
    assert without(split, "new") == tree


def test_the_last_pane_leaves_nothing() -> None:
    assert without(Leaf("a"), "a") is None


def test_a_pane_that_is_there_already_moves_to_the_new_place() -> None:
    tree = split_at(side_by_side("a", "b", "c"), "a", "c", is_side_by_side=False)
    assert tree == side_by_side(stacked("a", "c"), "b", share=1 / 3)


@given(trees(), st.data())
def test_resizing_keeps_every_pane_and_the_least_size(tree: Tree, data: st.DataObject) -> None:
    key = data.draw(st.sampled_from(leaves(tree)))
    direction: Direction = data.draw(st.sampled_from(("left", "right", "up", "down")))
    changed = resized(tree, SCREEN.size, key, direction, data.draw(st.integers(1, 60)))
    assert leaves(changed) == leaves(tree)
    assert changed is tree or not is_cramped(changed, SCREEN.size)


def test_the_nearest_border_moves_by_cells_and_no_further_than_there_is_room() -> None:
    tree = side_by_side("a", stacked("b", "c"))
    assert place(resized(tree, SCREEN.size, "c", "left", 7), SCREEN)["a"].width == 53
    assert place(resized(tree, SCREEN.size, "c", "down", 4), SCREEN)["b"].height == 24
    assert place(resized(tree, SCREEN.size, "b", "up", 100), SCREEN)["b"].height == LEAST_PANE.height
    assert resized(tree, SCREEN.size, "a", "down", 4) is tree


def test_equal_shares_count_the_panes_of_a_row() -> None:
    tree = equalized(side_by_side("a", side_by_side("b", stacked("c", "d"), share=0.9), share=0.1))
    assert {key: region.width for key, region in place(tree, SCREEN).items()} == dict.fromkeys("abcd", 40)


@given(trees())
def test_every_border_is_found_where_two_panes_meet(tree: Tree) -> None:
    regions = place(tree, SCREEN)
    for region in regions.values():
        if region.right < SCREEN.right and region.area:
            assert border_at(tree, SCREEN, region.right - 1, region.y) is not None
        if region.area:
            x, y = region.center
            inner = region.width > 3 and region.height > 3
            assert not inner or border_at(tree, SCREEN, int(x), int(y)) is None

"""The tree of owners on a screen."""

from __future__ import annotations

from textual.app import App

from actions.cluster.objects.owner_tree import OwnerTree, TreeEntry
from tests.support.waiting import settle, wait_for
from tui.screens.tree import TreeScreen
from tui.textual_private import screen_text

TREE = OwnerTree(
    (
        TreeEntry(0, "rayjobs.ray.io", "RayJob", "work", "tune", "running"),
        TreeEntry(1, "pods", "Pod", "work", "tune-head", "failed", "OOMKilled: exit code 137"),
        TreeEntry(2, "nodes", "Node", "", "node-10", "running"),
        TreeEntry(2, "nodes", "Node", "", "node-2", "unknown"),
    ),
    ("podgroups.scheduling.volcano.sh",),
)


async def test_lines_are_in_the_order_of_the_tree_and_enter_describes() -> None:
    lines: list[str] = []
    app: App[None] = App()
    async with app.run_test(size=(100, 12)) as pilot:
        app.push_screen(TreeScreen("tree of RayJob work/tune", TREE, lines.append))
        await wait_for(pilot, lambda: "node-2" in screen_text(app), "the tree")
        shown = [line.strip("│ ") for line in screen_text(app).splitlines()]
        names = ("RayJob tune", "Pod tune-head", "Node node-10", "Node node-2")
        places = [next(place for place, line in enumerate(shown) if name in line) for name in names]
        assert [place - places[0] for place in places] == [0, 1, 2, 3]
        assert shown[places[2]].endswith("Ready")
        assert "OOMKilled: exit code 137" in shown[places[1]]
        assert "may not be listed: podgroups.scheduling.volcano.sh" in screen_text(app)
        await pilot.press("down", "enter", "down", "enter")
        await wait_for(pilot, lambda: len(lines) == 2, "two lines were opened")
        assert lines == ["describe pods/work/tune-head", "describe nodes/node-10"]
        await pilot.press("escape")
        await settle(pilot)
        assert not isinstance(app.screen, TreeScreen)

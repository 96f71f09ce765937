"""The table on a screen."""

from __future__ import annotations

from dataclasses import dataclass, replace
from operator import attrgetter

from textual.app import App, ComposeResult

from tests.support.waiting import settle, wait_for
from tui.present.cells import CellValue, Span, Tone
from tui.textual_private import screen_text
from tui.widgets.table import KeyedTable
from tui.widgets.table_model import Column


@dataclass(frozen=True)
class Node:
    name: str
    gpus: int = 0
    is_ready: bool = True


def state_of(node: Node) -> CellValue:
    return Span("● ready", Tone.GOOD) if node.is_ready else Span("✗ not ready", Tone.BAD)


COLUMNS = [
    Column[Node](id="name", title="NODE", cell=lambda node: node.name, width=12, flex=1),
    Column[Node](
        id="gpus", title="GPUS", cell=lambda n: str(n.gpus), width=6, align="right", sort_key=attrgetter("gpus")
    ),
    Column[Node](id="state", title="STATE", cell=state_of, width=11, drop=1),
]


class TableApp(App[None]):
    def __init__(self) -> None:
        super().__init__()
        self.chosen: list[str] = []
        self.highlighted: list[str] = []

    def compose(self) -> ComposeResult:
        yield KeyedTable(COLUMNS, key=lambda node: node.name, noun="nodes", empty="no nodes yet", id="nodes")

    @property
    def table(self) -> KeyedTable[Node]:
        return self.query_one("#nodes", KeyedTable)

    def on_keyed_table_selected(self, message: KeyedTable.Selected) -> None:
        self.chosen.append(message.key)

    def on_keyed_table_highlighted(self, message: KeyedTable.Highlighted) -> None:
        self.highlighted.append(message.key)


def some_nodes(count: int) -> list[Node]:
    return [Node(f"node-{number:04}", gpus=number % 8) for number in range(count)]


async def test_it_shows_header_rows_and_count() -> None:
    app = TableApp()
    async with app.run_test(size=(60, 10)) as pilot:
        app.table.reconcile([Node("alpha", 4), Node("beta", is_ready=False)])
        await wait_for(pilot, lambda: "alpha" in screen_text(app), "the first row")
        lines = screen_text(app).splitlines()
        assert lines[0].split() == ["NODE", "GPUS", "STATE"]
        assert lines[1].split() == ["alpha", "4", "●", "ready"]
        assert lines[2].split() == ["beta", "0", "✗", "not", "ready"]
        assert "2 nodes" in lines[-1]


async def test_an_empty_table_says_so() -> None:
    app = TableApp()
    async with app.run_test(size=(60, 10)) as pilot:
        await wait_for(pilot, lambda: "no nodes yet" in screen_text(app), "the empty text")


async def test_it_drops_a_column_on_a_narrow_screen_and_says_so() -> None:
    app = TableApp()
    async with app.run_test(size=(25, 10)) as pilot:
        app.table.reconcile(some_nodes(3))
        await wait_for(pilot, lambda: "node-0001" in screen_text(app), "rows")
        assert "STATE" not in screen_text(app)
        assert "+1 column" in screen_text(app)


async def test_the_cursor_follows_its_row_through_inserts_and_sorts() -> None:
    app = TableApp()
    async with app.run_test(size=(60, 10)) as pilot:
        app.table.reconcile(some_nodes(20))
        assert app.table.select("node-0010")
        app.table.reconcile([Node("aaaa"), *some_nodes(20)])
        assert app.table.selected_key == "node-0010"
        app.table.sort_by("gpus", reverse=True)
        assert app.table.selected_key == "node-0010"
        await wait_for(pilot, lambda: "node-0010" in screen_text(app), "the row under the cursor in sight")
        assert app.table.sort_state == ("gpus", True)


async def test_keys_move_the_cursor_and_enter_chooses() -> None:
    app = TableApp()
    async with app.run_test(size=(60, 12)) as pilot:
        app.table.reconcile(some_nodes(100))
        app.table.focus()
        await wait_for(pilot, lambda: app.table.has_focus, "focus")
        await pilot.press("j", "j", "k", "enter")
        await wait_for(pilot, lambda: app.chosen == ["node-0001"], "the second row chosen")
        await pilot.press("G")
        await wait_for(pilot, lambda: app.table.selected_key == "node-0099", "the last row")
        await pilot.press("pageup")
        await wait_for(pilot, lambda: app.table.selected_key == "node-0090", "one page up, with a line of overlap")
        await pilot.press("g")
        await wait_for(pilot, lambda: app.highlighted[-1] == "node-0000", "the first row told")


async def test_a_filter_keeps_what_matches_and_counts_it() -> None:
    app = TableApp()
    async with app.run_test(size=(60, 12)) as pilot:
        app.table.reconcile(some_nodes(30))
        app.table.filter_text = "0007"
        await wait_for(pilot, lambda: "1 of 1 · 30 nodes" in screen_text(app), "the filtered count")
        assert app.table.shown_keys == ("node-0007",)


async def test_a_click_on_a_header_sorts_and_a_double_click_on_a_row_chooses() -> None:
    app = TableApp()
    async with app.run_test(size=(60, 12)) as pilot:
        app.table.reconcile(some_nodes(16))
        await settle(pilot)
        await pilot.click("#nodes", offset=(44, 0))
        await wait_for(pilot, lambda: app.table.sort_state == ("gpus", False), "sorted by GPUs")
        await pilot.click("#nodes", offset=(2, 3), times=2)
        await wait_for(pilot, lambda: app.chosen == ["node-0001"], "the third row chosen")


async def test_changed_values_are_seen_at_once_and_move_rows_later() -> None:
    app = TableApp()
    async with app.run_test(size=(60, 12)) as pilot:
        rows = [Node("a", 1), Node("b", 2), Node("c", 3)]
        app.table.sort_by("gpus")
        app.table.reconcile(rows)
        app.table.reconcile([replace(rows[0], gpus=9), *rows[1:]])
        assert app.table.shown_keys == ("a", "b", "c")
        await wait_for(pilot, lambda: "9" in screen_text(app).splitlines()[1], "the new value in its old place")
        await wait_for(pilot, lambda: app.table.shown_keys == ("b", "c", "a"), "the order within about a second")


async def test_only_visible_rows_are_formatted() -> None:
    formatted: set[str] = set()

    def name_of(node: Node) -> str:
        formatted.add(node.name)
        return node.name

    class CountingApp(App[None]):
        def compose(self) -> ComposeResult:
            columns = [Column[Node](id="name", title="NODE", cell=name_of, width=12)]
            yield KeyedTable(columns, key=lambda node: node.name, search=lambda node: node.name, id="nodes")

    app = CountingApp()
    async with app.run_test(size=(40, 12)) as pilot:
        app.query_one(KeyedTable).reconcile(some_nodes(5_000))
        await wait_for(pilot, lambda: "5,000" in screen_text(app), "the table")
        assert len(formatted) <= 12

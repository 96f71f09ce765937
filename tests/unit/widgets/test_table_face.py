"""The parts of a table that look different when rows change, and the cells that are computed again."""

from __future__ import annotations

from operator import attrgetter

import msgspec
from textual.geometry import Region

from tests.unit.widgets.painting import Painter
from tui.present.cells import text_of
from tui.widgets.table_model import Column, RowOrder
from tui.widgets.table_renderer import TableRenderer


class Row(msgspec.Struct, frozen=True):
    key: str
    facts: tuple[str, ...]
    used: int


class Asked:
    """Cells that count how often they are asked."""

    def __init__(self) -> None:
        self.facts = 0

    def facts_cell(self, row: Row) -> str:
        self.facts += 1
        return row.facts[0]


def _renderer(asked: Asked) -> TableRenderer[Row]:
    columns = (
        Column[Row]("key", "KEY", lambda row: row.key, width=6),
        Column[Row]("facts", "FACTS", asked.facts_cell, width=6, source=attrgetter("facts")),
        Column[Row]("used", "USED", lambda row: str(row.used), width=5),
    )
    renderer = TableRenderer(columns)
    renderer.fit_to(20)
    return renderer


async def test_only_the_columns_that_say_something_else_are_painted_again() -> None:
    renderer, facts = _renderer(Asked()), ("a100",)
    rows = {"n1": Row("n1", facts, 1), "n2": Row("n2", facts, 1)}
    async with Painter.running() as painter:
        for key, row in rows.items():
            renderer.row(painter, key, row, painter.resolved_styles.base)
        rows["n2"] = Row("n2", facts, 20)
        assert renderer.differences(["n1", "n2"], {"n2"}, rows) == [Region(14, 2, 6, 1)]
        segments = renderer.row(painter, "n2", rows["n2"], painter.resolved_styles.base)
        assert "".join(text for text, _, _ in segments) == "n2     a100   20    "


async def test_a_hidden_change_paints_nothing() -> None:
    renderer, facts = _renderer(Asked()), ("a100",)
    async with Painter.running() as painter:
        renderer.row(painter, "n1", Row("n1", facts, 1), painter.resolved_styles.base)
        assert renderer.differences(["n1"], {"n1"}, {"n1": Row("n1", ("a100",), 1)}) == []


async def test_a_row_that_was_never_drawn_is_painted_whole() -> None:
    renderer = _renderer(Asked())
    assert renderer.differences(["n1"], {"n1"}, {"n1": Row("n1", ("a",), 1)}) == [Region(0, 1, 20, 1)]


async def test_a_cell_whose_source_is_the_same_is_not_asked_again() -> None:
    asked, facts = Asked(), ("a100",)
    renderer = _renderer(asked)
    async with Painter.running() as painter:
        for used in range(5):
            renderer.row(painter, "n1", Row("n1", facts, used), painter.resolved_styles.base)
        assert asked.facts == 1
        segments = renderer.row(painter, "n1", Row("n1", ("h100",), 5), painter.resolved_styles.base)
        assert asked.facts == 2
        assert "h100" in "".join(text for text, _, _ in segments)


def test_a_title_that_fills_its_column_is_whole_beside_its_arrow() -> None:
    """`RESTAR…▼` was a title."""
    columns = (
        Column[Row]("key", "RESTARTS", lambda row: row.key, width=8),
        Column[Row]("used", "USED", lambda row: str(row.used), width=6),
    )
    order = RowOrder[Row](key=lambda row: row.key, search=lambda row: row.key)
    for place, shown in ((0, "RESTARTS▼USED   "), (1, "RESTARTS USED▼  ")):
        renderer = TableRenderer(columns)
        renderer.fit_to(16)
        order.sort_on(columns[place], reverse=True)
        assert text_of(renderer.header(order))[:16] == shown

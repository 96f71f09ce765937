"""Our table beside Textual's own, and our form, without a terminal: processor time until a frame is painted.

    python -m tests.bench.widgets

Every figure is the least of five, in milliseconds of processor time of this process.
"""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import Awaitable, Callable

import msgspec
from textual.app import App, ComposeResult
from textual.pilot import Pilot
from textual.widget import Widget
from textual.widgets import DataTable, Label

from actions.blueprint.model import Parameter, ParameterType
from tui.textual_private import screen_strips
from tui.widgets.form import ParameterForm
from tui.widgets.table import KeyedTable
from tui.widgets.table_model import Column

ROWS, COLUMNS, CHANGED = 5_000, 10, 500
SIZE = (160, 50)
TURNS = 5


class Row(msgspec.Struct, frozen=True):
    """One row of the table: a key, and the cells beside it."""

    key: str
    cells: tuple[str, ...]


class Bare(App[None]):
    """Shows one widget."""

    def __init__(self, shown: Widget) -> None:
        super().__init__()
        self.shown = shown

    def compose(self) -> ComposeResult:
        yield self.shown


def rows_at(version: int) -> list[Row]:
    """All rows; the first ones differ by version."""
    return [
        Row(
            f"node-{at:05d}",
            tuple(f"{at * column % 977}.{version if at < CHANGED else 0}" for column in range(COLUMNS - 1)),
        )
        for at in range(ROWS)
    ]


def our_table() -> KeyedTable[Row]:
    """An empty table of ours."""
    first = Column[Row](id="key", title="NODE", cell=lambda row: row.key, width=14)
    others = [
        Column[Row](id=f"c{at}", title=f"C{at}", cell=lambda row, at=at: row.cells[at], width=12)  # type: ignore[misc]
        for at in range(COLUMNS - 1)
    ]
    return KeyedTable([first, *others], key=lambda row: row.key)


class TheirTable(DataTable[str]):
    """A table of Textual's with the same columns."""

    def on_mount(self) -> None:
        """Add the columns, which takes an app."""
        self.add_column("NODE", key="key", width=14)
        for at in range(COLUMNS - 1):
            self.add_column(f"C{at}", key=f"c{at}", width=12)


def our_form(count: int, shown: int) -> ParameterForm:
    """A launch form with three texts to one choice, of which some are not folded."""
    text = ParameterType.TEXT
    fields = {
        f"f{at}": Parameter(type=text, title=f"Field {at}", default="a", choices=("a", "b"), group=f"G{at % 9}")
        if at % 4 == 3
        else Parameter(type=text, title=f"Field {at}", default="some text", group=f"G{at % 9}")
        for at in range(count)
    }
    return ParameterForm(fields, shown=tuple(fields)[:shown])


async def painted(app: App[None], pilot: Pilot[None]) -> None:
    """Wait until all that is due has been laid out, and draw the screen."""
    await pilot.pause()
    screen_strips(app)


async def spent(work: Callable[[], Awaitable[None]]) -> float:
    """Milliseconds of processor time of `work`."""
    gc.collect()
    begun = time.process_time()
    await work()
    return (time.process_time() - begun) * 1_000


async def of_opening(make: Callable[[], Widget]) -> float:
    """From an empty screen to one with the widget on it."""
    app = Bare(Label("nothing"))
    async with app.run_test(size=SIZE) as pilot:
        await painted(app, pilot)

        async def show() -> None:
            await app.mount(make())
            await painted(app, pilot)

        return await spent(show)


async def of_table(table: Widget, fill: Callable[[], None], change: Callable[[], None]) -> tuple[float, float]:
    """Filling the table, and changing a part of its rows."""
    app = Bare(table)
    async with app.run_test(size=SIZE) as pilot:
        await painted(app, pilot)

        async def then_paint(step: Callable[[], None]) -> None:
            step()
            await painted(app, pilot)

        return await spent(lambda: then_paint(fill)), await spent(lambda: then_paint(change))


async def ours() -> tuple[float, float]:
    """Figures of our table."""
    table, before, after = our_table(), rows_at(0), rows_at(1)
    return await of_table(table, lambda: table.reconcile(before), lambda: table.update_rows(after[:CHANGED]))


async def theirs() -> tuple[float, float]:
    """Figures of Textual's table."""
    table, before, after = TheirTable(), rows_at(0), rows_at(1)

    def fill() -> None:
        for row in before:
            table.add_row(row.key, *row.cells, key=row.key)

    def change() -> None:
        for row in after[:CHANGED]:
            for at, cell in enumerate(row.cells):
                table.update_cell(row.key, f"c{at}", cell)

    return await of_table(table, fill, change)


async def main() -> None:
    """Measure, and print a line for each figure."""
    for name, measure in (("KeyedTable", ours), ("DataTable", theirs)):
        figures = [await measure() for _ in range(TURNS)]
        print(f"{name}: fill {min(f[0] for f in figures):.1f}, change {CHANGED} rows {min(f[1] for f in figures):.1f}")  # noqa: T201
    for shown in (10, 60):
        figure = min([await of_opening(lambda shown=shown: our_form(60, shown)) for _ in range(TURNS)])  # type: ignore[misc]
        print(f"ParameterForm: open {shown} of 60 fields {figure:.1f}")  # noqa: T201


if __name__ == "__main__":
    asyncio.run(main())

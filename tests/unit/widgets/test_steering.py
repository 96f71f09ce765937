"""Movement keys are carried out at once."""

from __future__ import annotations

from collections.abc import Sequence

from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType

from tests.support.waiting import settle
from tui.screens.viewer import TextView
from tui.widgets.base import NavigableWidget
from tui.widgets.log import LogLines
from tui.widgets.stage_rail import StageRail
from tui.widgets.table import KeyedTable
from tui.widgets.table_model import Column

LETTERS = Column[str]("letter", "LETTER", lambda letter: letter, width=8)


class LettersApp(App[None]):
    """A table of nine rows, five of them seen."""

    def __init__(self) -> None:
        super().__init__()
        self.table: KeyedTable[str] = KeyedTable([LETTERS], key=lambda letter: letter)

    def compose(self) -> ComposeResult:
        yield self.table


async def test_a_movement_key_has_moved_when_the_call_returns() -> None:
    app = LettersApp()
    async with app.run_test(size=(20, 7)) as pilot:
        await settle(pilot)
        app.table.reconcile("abcdefghi")
        for key, reached in (("j", "b"), ("down", "c"), ("k", "b"), ("G", "i"), ("pageup", "e"), ("home", "a")):
            assert app.table.move_by(key)
            assert app.table.selected_key == reached


async def test_any_other_key_is_left_to_others() -> None:
    app = LettersApp()
    async with app.run_test(size=(20, 7)):
        app.table.reconcile("abc")

        assert not app.table.move_by("enter")
        assert app.table.selected_key == "a"


def test_no_widget_binds_a_movement_key_to_something_else() -> None:
    moves = keys_of(NavigableWidget.BINDINGS)
    for widget in (KeyedTable, LogLines, StageRail, TextView):
        assert not keys_of(widget.BINDINGS) & moves, widget


def keys_of(bindings: Sequence[BindingType]) -> set[str]:
    """All keys that are bound."""
    return {key for binding in bindings if isinstance(binding, Binding) for key in binding.key.split(",")}

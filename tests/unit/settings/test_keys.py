"""The table of keys."""

from __future__ import annotations

import importlib
import pkgutil
import string
from collections.abc import Iterator
from pathlib import Path

import pytest
from textual.binding import Binding
from textual.widget import Widget

import tui.widgets
from actions.command.parse import parse_line
from tui.present.text import wrapped_lines
from tui.screens.viewer import TextView
from tui.settings.keymap import Keymap
from tui.settings.keys import (
    ASIDES,
    ENTERED,
    KEYS,
    Key,
    KeyContext,
    explanation,
    footer,
    free_letters,
    help_page,
    key_name,
    keys_of,
    keys_page,
)
from tui.widgets.form import ChoiceInput, ParameterForm
from tui.widgets.prompt import PromptLine

PANES_WITH_HELP = [context for context in KeyContext if context not in (KeyContext.EVERYWHERE, KeyContext.PANES)]
PAGE = Path(__file__).parents[3] / "docs" / "keys.md"


def test_the_page_of_keys_is_current() -> None:
    assert PAGE.read_text(encoding="utf-8") == keys_page(), "run: make reference"


@pytest.mark.parametrize("row", [row for row in KEYS if not row.is_aside], ids=lambda row: f"{row.context}-{row.does}")
def test_every_key_stands_for_a_command_that_can_be_typed(row: Key) -> None:
    assert parse_line(row.does).command.id == row.does.split()[0]


def test_no_key_means_two_things_in_one_context() -> None:
    for context in KeyContext:
        names = [name for row in keys_of(context) for name in row.keys]
        assert len(names) == len(set(names)), f"{context}: {names}"


def test_w_asks_why_wherever_something_can_be_stuck() -> None:
    stuck = {
        KeyContext.HOME,
        KeyContext.NODES,
        KeyContext.PODS,
        KeyContext.ACCELERATORS,
        KeyContext.EVENTS,
        KeyContext.QUEUES,
        KeyContext.LOGS,
        KeyContext.RUN,
        KeyContext.RUNS,
    }
    assert {row.context for row in KEYS if row.keys == ("w",) and row.does == "why"} == stuck


@pytest.mark.parametrize(
    "context", [context for context in KeyContext if context not in (KeyContext.RUN, KeyContext.RUNS)]
)
def test_footers_fit_into_eighty_columns(context: KeyContext) -> None:
    width = sum(len(name) + len(label) + 3 for name, label in footer(context)) + 1
    assert width <= 80


def test_enter_is_in_the_footer_where_it_leads_somewhere() -> None:
    led = {context for context in KeyContext if "enter" in dict(footer(context))}

    assert led == set(ENTERED)
    assert dict(footer(KeyContext.BLUEPRINTS))["enter"] == "launch"


def test_the_filter_is_not_offered_where_there_is_nothing_to_narrow() -> None:
    assert dict(footer(KeyContext.NODES))["/"] == "filter"
    assert dict(footer(KeyContext.LOGS))["/"] == "search"
    assert "/" not in dict(footer(KeyContext.CHARTS))


def test_footer_and_names_are_those_of_the_operators_keymap() -> None:
    keymap = Keymap(moved={"pods.shell": "S,f9", "everywhere.filter-line": "f"})

    assert dict(footer(KeyContext.PODS, keymap))["S"] == "shell"
    assert "s" not in dict(footer(KeyContext.PODS, keymap))
    assert dict(footer(KeyContext.NODES, keymap))["f"] == "filter"
    assert key_name(KeyContext.RUN, "approve", keymap) == "a"


def test_no_sentence_about_a_key_ends_twice() -> None:
    assert not [explanation(row) for row in KEYS if "?." in explanation(row) or ".." in explanation(row)]


def test_every_aside_is_explained_and_used() -> None:
    assert {row.does for row in KEYS if row.is_aside} == set(ASIDES)


TYPED_INTO = (ChoiceInput, ParameterForm, PromptLine)
"""Widgets of dialogs, whose keys are those of editors."""
UNAVOIDABLE = {
    "l": "vi's key to the right in a log, where there is no object whose logs to open",
    "n": "vi's next: a match in a text, a chart among charts",
    "N": "vi's previous, as n",
    "enter": "it opens the selection, whatever that is",
    "tab": "the next section of Home; past the last one, the next pane",
    "shift+tab": "as tab",
    "slash": "a table is filtered, a text searched: both look for what is typed",
    "escape": "a log's search is taken away before the screen goes back",
}


def meanings_of_keys() -> dict[str, set[str]]:
    """The meanings of each key, in panes and in all widgets that panes may have.

    Keys after ctrl+w are a table of their own, as in vim.
    """
    meanings: dict[str, set[str]] = {}
    for row in KEYS:
        for name in row.keys if row.context is not KeyContext.PANES else ():
            meanings.setdefault(name, set()).add(row.does)
    for widget in widgets_with_keys():
        for binding in widget.BINDINGS:
            assert isinstance(binding, Binding)
            for name in binding.key.split(","):
                meanings.setdefault(name, set()).add(binding.description)
    return meanings


def widgets_with_keys() -> Iterator[type[Widget]]:
    """Texts, and all classes of `tui/widgets` with keys of their own, but for those that are typed into."""
    yield TextView
    for module in pkgutil.iter_modules(tui.widgets.__path__, "tui.widgets."):
        for one in vars(importlib.import_module(module.name)).values():
            is_widget = isinstance(one, type) and issubclass(one, Widget) and one.__module__ == module.name
            if is_widget and "BINDINGS" in vars(one) and one not in TYPED_INTO:
                yield one


def test_a_key_means_one_thing_in_every_pane() -> None:
    meanings = meanings_of_keys()
    several = {name: sorted(found) for name, found in meanings.items() if len(found) > 1 and name not in UNAVOIDABLE}
    assert several == {}, f"letters that are free: {' '.join(free_letters())}"
    assert all(len(meanings[name]) > 1 for name in UNAVOIDABLE), "a reason for nothing"


def test_the_letters_of_the_page_are_free_in_every_pane_and_there_are_no_others() -> None:
    assert set(free_letters()) == set(string.ascii_letters) - set(meanings_of_keys())


def test_letters_that_stop_or_remove_are_capitals() -> None:
    stops = {row.keys for row in KEYS if row.does in ("cancel", "park", "teardown")}
    assert stops == {("C",), ("P",), ("T",)}


@pytest.mark.parametrize(
    ("pane", "keys"), [("logs", ("/ n N", "&", "b B")), ("charts", ("left right", "+ - =", "L E t"))]
)
def test_the_help_of_a_pane_begins_with_the_keys_of_its_widget(pane: str, keys: tuple[str, ...]) -> None:
    """They were sixty lines further down."""
    section = help_page(KeyContext(pane)).split("\n\n")[0]
    assert section.startswith(f"In the {pane} pane")
    assert all(f"\n  {name} " in section for name in keys)


@pytest.mark.parametrize("context", PANES_WITH_HELP)
@pytest.mark.parametrize(("width", "rows"), [(155, 42), (77, 2 * 21)], ids=["160x45", "80x24"])
def test_the_help_is_one_large_screen_or_two_small_ones(context: KeyContext, width: int, rows: int) -> None:
    page = help_page(context, width=width)
    assert len(wrapped_lines(page.splitlines(), width)) <= rows


def test_a_key_of_several_panes_and_neighbours_of_one_command_are_a_row_each() -> None:
    page = keys_page()
    assert page.count("`:why`") == page.count("`:describe`") == 1
    assert "| `v`, `s` | Split the pane: right, down. | `:split right`, `:split down` |" in page
    assert "| `P` | Park the run. Free the accelerators; keep cluster and data. | home, run, runs | `:park` |" in page

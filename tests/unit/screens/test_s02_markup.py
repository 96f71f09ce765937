"""S2: what comes from elsewhere is never markup, whatever draws it: it is shown as it is, and makes nothing happen."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace
from textual.app import App
from textual.widgets import Input

from tests.support.builders import a_node, a_pod, a_run, a_snapshot, a_stage, an_event, console_services
from tests.support.waiting import settle, wait_for
from tests.unit.panes.alone import WIDE, PaneApp, text_of
from tui.panes.base import Pane
from tui.panes.events import EventsPane
from tui.panes.nodes import NodesPane
from tui.panes.pods import PodsPane
from tui.panes.run import RunPane
from tui.present.cells import Span
from tui.screens.confirm import Confirmation, ConfirmModal, TypeNameModal
from tui.screens.viewer import Viewer
from tui.textual_private import screen_text

ROOT = Path(__file__).parents[3]

HOSTILE = [
    "[red]x",
    "[b]x[/b]",
    "[/]",
    "[/nope]",
    "[@click=app.quit]go[/]",
    "[link=http://e.x]y[/link]",
    "a[0]=[1,2]",
    "\\[x]",
]
"""Short, as narrow columns cut what is long."""


class BorderedApp(App[None]):
    """An app whose widgets show their titles, as with the console's own style sheet."""

    CSS = "Vertical, TextView { border: round white; }"


def nodes(text: str) -> Pane:
    return NodesPane(console_services(a_snapshot([a_node(text, instance_type=text)])))


def pods(text: str) -> Pane:
    return PodsPane(console_services(a_snapshot([a_node()], [a_pod(text, reason=text, phase="Pending")])))


def events(text: str) -> Pane:
    return EventsPane(console_services(a_snapshot([], [], [replace(an_event(), message=text, reason=text)])))


def run(text: str) -> Pane:
    stage = replace(a_stage(message=text), title=text)
    return RunPane(console_services(None, replace(a_run(stage), id=text, title=text)))


@pytest.mark.parametrize("text", HOSTILE)
@pytest.mark.parametrize("pane", [nodes, pods, events, run])
async def test_s02_a_pane_shows_markup_as_it_is(pane: Callable[[str], Pane], text: str) -> None:
    assert text in await text_of(pane(text))


@pytest.mark.parametrize("text", HOSTILE)
async def test_s02_a_border_shows_markup_as_it_is(text: str) -> None:
    pane = EventsPane(console_services(a_snapshot()))
    app = PaneApp(pane)
    async with app.run_test(size=WIDE) as pilot:
        pane.show_target(f"node/{text.replace('/', '')}")
        await settle(pilot)
        assert f"events of {text.replace('/', '')}" in screen_text(app)


@pytest.mark.parametrize("text", HOSTILE)
@pytest.mark.parametrize("modal", [ConfirmModal, TypeNameModal])
async def test_s02_a_question_shows_markup_as_it_is(modal: type[ConfirmModal] | type[TypeNameModal], text: str) -> None:
    app = BorderedApp()
    async with app.run_test(size=WIDE) as pilot:
        app.push_screen(
            modal(Confirmation(f"Tear {text} down?", [(Span(f"It is {text}"),)], word=text, word_is="a word"))
        )
        await wait_for(pilot, lambda: f"It is {text}" in screen_text(app), "the question")
        assert f"Tear {text} down?" in screen_text(app)


@pytest.mark.parametrize("text", HOSTILE)
async def test_s02_what_is_searched_for_in_a_text_is_no_markup(text: str) -> None:
    app = BorderedApp()
    async with app.run_test(size=WIDE) as pilot:
        app.push_screen(Viewer(f"YAML of {text}", f"one\n{text}\n"))
        await settle(pilot)
        assert f"YAML of {text}" in screen_text(app)
        await pilot.press("slash")
        app.screen.query_one(Input).value = text
        await pilot.press("enter")
        await wait_for(pilot, lambda: f"1 line with {text!r}" in screen_text(app), "the count")


def test_s02_nothing_in_the_console_can_be_taken_for_markup() -> None:
    """Widgets that read markup are told not to, and titles are content."""
    assert [place for path in sorted((ROOT / "tui").rglob("*.py")) for place in _risks(path)] == []


def _risks(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if _reads_markup(node) or _entitles(node):
            yield f"{path.relative_to(ROOT)}:{getattr(node, 'lineno', 0)} {ast.unparse(node)}"


def _reads_markup(node: ast.AST) -> bool:
    if not isinstance(node, ast.Call) or _name(node.func) not in _READERS:
        return False
    return not any(word.arg == "markup" and _is_false(word.value) for word in node.keywords)


def _entitles(node: ast.AST) -> bool:
    return (
        isinstance(node, ast.Assign)
        and any(_name(item) in _TITLES for item in node.targets)
        and not _is_plain(node.value)
    )


_READERS = ("Static", "Label", "Button", "notify", "from_markup")
_TITLES = ("border_title", "border_subtitle", "tooltip")


def _name(node: ast.expr) -> str:
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def _is_false(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is False


def _is_plain(node: ast.expr) -> bool:
    """Our own words, a member of an enumeration of ours, or content."""
    return (
        isinstance(node, ast.Constant)
        or ast.unparse(node) == "self.CONTEXT.value"
        or (isinstance(node, ast.Call) and _name(node.func) == "Content")
    )

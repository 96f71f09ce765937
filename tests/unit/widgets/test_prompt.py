"""The line of input that comes and goes."""

from __future__ import annotations

from collections.abc import Sequence

from textual.app import App, ComposeResult
from textual.geometry import Region
from textual.widgets import Static

from tests.support.waiting import wait_for
from tui.textual_private import screen_text
from tui.widgets.prompt import PromptLine

COMMANDS = ("open run of=one", "open run of=two", "nodes", "node ip-10-0-0-1", "launch bionemo-esm1nv", "logs", "quit")


def completions(text: str) -> Sequence[str]:
    return [command for command in COMMANDS if command.startswith(text)]


class PromptApp(App[None]):
    def __init__(self) -> None:
        super().__init__()
        self.said: list[str] = []

    def compose(self) -> ComposeResult:
        yield PromptLine(":", hint="command", completer=completions)

    @property
    def prompt(self) -> PromptLine:
        return self.query_one(PromptLine)

    def on_prompt_line_changed(self, message: PromptLine.Changed) -> None:
        self.said.append(f"changed {message.text}")

    def on_prompt_line_submitted(self, message: PromptLine.Submitted) -> None:
        self.said.append(f"submitted {message.text}")

    def on_prompt_line_cancelled(self) -> None:
        self.said.append("cancelled")


async def test_it_is_hidden_until_opened_and_after_enter() -> None:
    app = PromptApp()
    async with app.run_test(size=(70, 4)) as pilot:
        assert not app.prompt.display
        app.prompt.open()
        await wait_for(pilot, lambda: app.prompt.has_focus_within, "focus")
        await pilot.press("q", "enter")
        await wait_for(pilot, lambda: app.said == ["changed q", "submitted q"], "the line")
        assert not app.prompt.is_open


async def test_escape_closes_it_without_a_result() -> None:
    app = PromptApp()
    async with app.run_test(size=(70, 4)) as pilot:
        app.prompt.open("abc")
        await wait_for(pilot, lambda: app.prompt.has_focus_within, "focus")
        await pilot.press("escape")
        await wait_for(pilot, lambda: app.said[-1:] == ["cancelled"], "the message")
        assert not app.prompt.is_open


class BesideApp(PromptApp):
    CSS = "Screen { layers: below prompt; } Static { height: 1fr; }"

    def compose(self) -> ComposeResult:
        yield from super().compose()
        yield Static("what lies below", id="below")


async def test_it_lies_over_the_last_line_and_nothing_below_changes_its_size() -> None:
    app = BesideApp()
    async with app.run_test(size=(70, 4)) as pilot:
        assert app.focused is None, "a closed prompt takes no focus"
        for is_open in (True, False):
            app.prompt.open() if is_open else app.prompt.close()
            await wait_for(pilot, lambda: (": command" in screen_text(app)) == app.prompt.is_open, "the prompt or none")
            assert app.query_one("#below").region == Region(0, 0, 70, 4)
        app.prompt.open()
        await wait_for(pilot, lambda: ": command" in screen_text(app).splitlines()[-1], "the last line")


async def test_completions_are_shown_and_tab_takes_the_first() -> None:
    app = PromptApp()
    async with app.run_test(size=(70, 4)) as pilot:
        app.prompt.open()
        await wait_for(pilot, lambda: app.prompt.has_focus_within, "focus")
        await pilot.press("l")
        await wait_for(pilot, lambda: "launch bionemo-esm1nv  logs" in screen_text(app), "the candidates")
        await pilot.press("tab")
        await wait_for(pilot, lambda: app.prompt.text == "launch bionemo-esm1nv", "the first of them")


async def test_completions_of_a_value_do_not_repeat_the_line() -> None:
    app = PromptApp()
    async with app.run_test(size=(70, 4)) as pilot:
        app.prompt.open("open run of=")
        await wait_for(pilot, lambda: "one  two" in screen_text(app), "the values")


async def test_what_was_entered_can_be_recalled() -> None:
    app = PromptApp()
    async with app.run_test(size=(70, 4)) as pilot:
        for line in ("nodes", "logs"):
            app.prompt.open(line)
            await wait_for(pilot, lambda: app.prompt.has_focus_within, "focus")
            await pilot.press("enter")
            await wait_for(pilot, lambda: not app.prompt.is_open, "closed")
        app.prompt.open()
        await wait_for(pilot, lambda: app.prompt.has_focus_within, "focus")
        await pilot.press("up", "up")
        await wait_for(pilot, lambda: app.prompt.text == "nodes", "the line before the last")
        await pilot.press("down", "down")
        await wait_for(pilot, lambda: app.prompt.text == "", "the empty line")

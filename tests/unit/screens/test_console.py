"""The console with nothing to look at: keys, lines, modals. No cluster, no run."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

import pytest

from actions.base.errors import ConfigError, ConsoleError
from actions.cluster.auth.kubeconfig import ClusterTarget
from tests.support.waiting import settle, wait_for
from tui.app import ConsoleApp
from tui.panes.base import Pane
from tui.screens.console import ConsoleScreen
from tui.script_driver import ScriptDriver
from tui.settings.appearance import tokens
from tui.settings.keys import PANE_KEYS, WITHOUT_FILTER, KeyContext
from tui.settings.settings import ConsoleSettings, DemoBadge
from tui.textual_private import screen_text
from tui.widgets.prompt import PromptLine

SIZE = (120, 36)


def an_app(*, readonly: bool = False) -> ConsoleApp:
    """A console for which there is no kubeconfig."""
    target = ClusterTarget()
    return ConsoleApp(ConsoleSettings(target=target, readonly=readonly, demo=DemoBadge(20)))


pytestmark = pytest.mark.usefixtures("own_home")


async def test_the_header_carries_the_badges_from_the_first_frame() -> None:
    app = an_app(readonly=True)
    async with app.run_test(size=SIZE) as pilot:
        await settle(pilot)
        first = screen_text(app).splitlines()[0]

    assert "demo ×20" in first
    assert "read-only" in first


async def test_only_a_script_without_a_terminal_plays_on_an_unseen_screen() -> None:
    seen = []

    async def play(driver: ScriptDriver) -> None:
        await driver.show()
        seen.append(app.services.ticker.is_seen)
        assert driver.screen_text()

    app = ConsoleApp(ConsoleSettings(target=ClusterTarget()), play=play)
    await app.run_async(headless=True, size=SIZE)
    assert seen == [False]
    operated = an_app()
    async with operated.run_test(size=SIZE) as pilot:
        await settle(pilot)
        assert operated.services.ticker.is_seen


async def test_where_the_locale_has_nothing_else_all_is_drawn_in_ascii() -> None:
    target = ClusterTarget()
    app = ConsoleApp(ConsoleSettings(target=target, is_ascii=True))
    async with app.run_test(size=SIZE) as pilot:
        await settle(pilot)
        await app.script_driver.press(["4", "?"])
        await wait_for(pilot, lambda: "+- help -" in screen_text(app), "the help is shown")
        assert screen_text(app).isascii()
        await app.script_driver.press(["q", "7"])
        await wait_for(pilot, lambda: "[7 ch" in screen_text(app), "the charts are shown")
        assert screen_text(app).isascii()


async def test_colours_on_screen_are_those_of_the_tokens() -> None:
    app = an_app()
    async with app.run_test(size=SIZE) as pilot:
        await settle(pilot)
        assert app.screen.styles.background.hex.lower() == tokens()["background"]


async def test_a_missing_kubeconfig_is_told_at_the_border_in_one_sentence() -> None:
    app = an_app()
    async with app.run_test(size=SIZE) as pilot:
        await wait_for(pilot, lambda: "refused" in screen_text(app), "the border tells what is wrong")

        assert "Traceback" not in screen_text(app)


async def test_a_kubeconfig_that_cannot_be_used_ends_the_console_with_its_sentence(tmp_path: Path) -> None:
    app = ConsoleApp(ConsoleSettings(target=ClusterTarget(kubeconfig=tmp_path / "none")))
    async with app.run_test(size=SIZE) as pilot:
        await wait_for(pilot, lambda: app.return_value is not None, "the console ends")

    assert isinstance(app.return_value, ConfigError)
    assert "none does not exist" in app.return_value.message


async def test_digits_open_panes_and_escape_goes_back() -> None:
    app = an_app()
    async with app.run_test(size=SIZE) as pilot:
        await settle(pilot)
        await app.script_driver.press(["8"])
        await wait_for(pilot, lambda: app.workspace.split.current == "events", "the events are shown")
        await app.script_driver.press(["escape"])
        await wait_for(pilot, lambda: app.workspace.split.current == "home", "home is shown again")


async def test_a_typed_line_is_carried_out() -> None:
    app = an_app()
    async with app.run_test(size=SIZE) as pilot:
        await settle(pilot)
        await app.script_driver.press([":", *"cost", "enter"])
        await wait_for(pilot, lambda: app.workspace.split.current == "cost", "the costs are shown")


async def test_an_unknown_command_is_told_with_what_is_near() -> None:
    app = an_app()
    async with app.run_test(size=SIZE, notifications=True) as pilot:
        await settle(pilot)
        await app.script_driver.press([":", *"teardwon", "enter"])
        await wait_for(pilot, lambda: "Did you mean teardown" in screen_text(app), "the hint is shown")


async def test_a_mutation_of_a_read_only_console_is_one_sentence() -> None:
    app = an_app(readonly=True)
    async with app.run_test(size=SIZE, notifications=True) as pilot:
        await settle(pilot)
        await app.script_driver.press([":", *"launch", "space", *"bionemo-esm1nv", "enter"])
        await wait_for(pilot, lambda: "read-only: launch was not" in screen_text(app), "the refusal is shown")


async def test_a_bug_in_a_command_is_one_sentence_and_the_console_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    async def broken(arguments: object) -> None:
        raise NameError("name 'nothing' is not defined")

    app = an_app()
    make = app.dispatcher._make_handlers
    monkeypatch.setattr(app.dispatcher, "_make_handlers", lambda: {**make(), "help": broken})
    async with app.run_test(size=SIZE, notifications=True) as pilot:
        await settle(pilot)
        await app.script_driver.press(["?"])
        await wait_for(pilot, lambda: "help failed: a bug of eksml-tui" in screen_text(app), "the bug is told")
        await app.script_driver.press([":", *"cost", "enter"])
        await wait_for(pilot, lambda: app.workspace.split.current == "cost", "the costs are shown")


async def test_a_bug_in_an_action_ends_the_console_and_whoever_waits_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    async def broken(screen: object) -> None:
        raise NameError("name 'nothing' is not defined")

    monkeypatch.setattr(ConsoleScreen, "action_command_line", broken)
    app, seen, begun = an_app(), [], []

    async def import_panes() -> None:
        begun.append(True)

    monkeypatch.setattr(app.workspace, "import_panes", import_panes)  # the last that a console begins

    async def pressed() -> None:
        async with asyncio.timeout(60), app.run_test(size=SIZE) as pilot:
            await wait_for(pilot, lambda: begun, "all has begun")
            try:
                await app.script_driver.press([":"])
            except ConsoleError as error:
                seen.append(error.sentence())

    with pytest.raises(NameError, match="nothing"):
        await pressed()
    assert (seen, app.return_code) == (["The console has ended."], 1)


async def test_the_prefix_key_arranges_panes() -> None:
    app = an_app()
    async with app.run_test(size=(200, 50)) as pilot:
        await settle(pilot)
        await app.script_driver.press(["ctrl+w"])
        await wait_for(pilot, lambda: "split right" in screen_text(app), "the keys after ctrl+w are shown")
        await app.script_driver.press(["v"])
        await wait_for(pilot, lambda: len(app.workspace.visible) == 2, "two panes are seen")


async def test_zoom_gives_one_pane_the_room_and_takes_it_back() -> None:
    app = an_app()
    async with app.run_test(size=(200, 50)) as pilot:
        await settle(pilot)
        app.dispatcher.submit("layout quad")
        await wait_for(pilot, lambda: len(app.workspace.visible) == 4, "four panes are seen")
        await app.script_driver.press(["z"])
        await wait_for(pilot, lambda: len(app.workspace.visible) == 1, "one pane is seen")
        await app.script_driver.press(["z"])
        await wait_for(pilot, lambda: len(app.workspace.visible) == 4, "four panes are seen again")


async def test_the_palette_finds_a_command_by_a_part_of_its_name() -> None:
    app = an_app()
    async with app.run_test(size=SIZE) as pilot:
        await settle(pilot)
        await pilot.press("ctrl+p", *"tear")
        await wait_for(pilot, lambda: "Tear the run down (teardown [CONFIRM]" in screen_text(app), "it is found")


async def test_the_palette_lists_first_what_begins_with_the_typed_word() -> None:
    app = an_app()
    async with app.run_test(size=SIZE) as pilot:
        await settle(pilot)
        for typed, first in (("t", "Tear the run down (teardown"), ("pa", "Pause the run (pause")):
            await pilot.press("ctrl+p", *typed)
            await wait_for(pilot, lambda first=first: first in screen_text(app), "it is found")  # type: ignore[misc]
            found = [line for line in screen_text(app).splitlines() if re.search(r"\w \([a-z]+( |\))", line)]
            assert first in found[0]
            await pilot.press("escape")


async def test_the_palette_starts_a_command_without_arguments() -> None:
    app = an_app()
    async with app.run_test(size=SIZE, notifications=True) as pilot:
        await settle(pilot)
        await app.script_driver.press(["1"])
        await pilot.press("ctrl+p", *"describe")
        await wait_for(pilot, lambda: "Describe (describe" in screen_text(app), "it is found")
        await pilot.press("enter")
        await wait_for(pilot, lambda: "Nothing is selected." in screen_text(app), "it was started")


async def test_the_palette_opens_the_line_for_a_command_with_arguments() -> None:
    app = an_app()
    async with app.run_test(size=SIZE) as pilot:
        await settle(pilot)
        await pilot.press("ctrl+p", *"launch")
        await wait_for(pilot, lambda: "Launch a blueprint (launch" in screen_text(app), "it is found")
        await pilot.press("enter")
        await wait_for(pilot, lambda: ":launch" in screen_text(app).replace(" ", ""), "its name is on the line")


async def test_a_filter_may_hold_an_equals_sign() -> None:
    app = an_app()
    async with app.run_test(size=SIZE) as pilot:
        await settle(pilot)
        await app.script_driver.press(["1", "/", *"a=b"])
        await wait_for(pilot, lambda: app.workspace.current.active_filter == "a=b", "the pane is filtered")


@pytest.mark.parametrize("context", sorted(set(PANE_KEYS.values()) - {KeyContext.LOGS}))
async def test_the_filter_line_opens_where_the_pane_has_a_filter_and_is_refused_once_elsewhere(
    context: KeyContext,
) -> None:
    def is_open() -> bool:
        return any(prompt.is_open for prompt in app.screen.query(PromptLine))

    app = an_app()
    async with app.run_test(size=SIZE, notifications=True) as pilot:
        await settle(pilot)
        await app.script_driver.press([next(key for key, pane in PANE_KEYS.items() if pane == context), "/"])
        pane = app.workspace.current
        assert context == pane.CONTEXT
        has_filter = type(pane).filter is not Pane.filter
        assert has_filter == (context not in WITHOUT_FILTER)
        refusal = f"The {pane.CONTEXT} pane has nothing to filter."
        if has_filter:
            await wait_for(pilot, is_open, "the filter line")
        else:
            await wait_for(pilot, lambda: refusal in screen_text(app), "the refusal")
            assert not is_open()
        await app.script_driver.press(["escape"])
        await wait_for(pilot, lambda: not is_open(), "it is left")
        await settle(pilot)
        assert refusal not in screen_text(app), "nothing is refused at the end"


async def test_help_names_the_keys_of_the_focused_pane_first() -> None:
    app = an_app()
    async with app.run_test(size=SIZE) as pilot:
        await settle(pilot)
        await app.script_driver.press(["4", "?"])
        await wait_for(pilot, lambda: "In the run pane" in screen_text(app), "the help is shown")
        assert "Everywhere" not in screen_text(app).partition("In the run pane")[0]
        await app.script_driver.press(["escape"])
        await wait_for(pilot, lambda: "In the run pane" not in screen_text(app), "the help is gone")


async def test_the_launch_form_shows_plan_and_cost_and_needs_a_yes() -> None:
    app = an_app()
    async with app.run_test(size=SIZE) as pilot:
        await settle(pilot)
        app.dispatcher.submit("launch bionemo-esm1nv")
        await wait_for(pilot, lambda: "Total:" in screen_text(app), "the plan is computed")
        await app.script_driver.press(["enter"])
        await wait_for(pilot, lambda: "Launch bionemo-esm1nv?" in screen_text(app), "it is asked once more")
        await app.script_driver.press(["n"])
        await wait_for(pilot, lambda: "Launch bionemo-esm1nv?" not in screen_text(app), "the question is gone")

    assert not list(Path(app.services.runs.folder or "/nonexistent").glob("*"))


async def test_describe_with_nothing_selected_says_what_to_do() -> None:
    app = an_app()
    async with app.run_test(size=SIZE, notifications=True) as pilot:
        await settle(pilot)
        await app.script_driver.press(["1", "d"])
        await wait_for(pilot, lambda: "Nothing is selected." in screen_text(app), "the sentence is shown")


async def test_heavy_libraries_are_not_there_at_the_first_frame() -> None:
    from actions.base.process import own_module, run_tool

    heavy = ("aiohttp", "kubernetes", "boto3", "plotext", "pyte", "yaml", "sqlite3")
    ours = ("actions.blueprint", "actions.cluster.diagnose", "actions.run.journal.reader")
    code = f"import sys, tui.app, tui.panes.home; print([name for name in {heavy + ours} if name in sys.modules])"
    argv = [*own_module("x")[:2], "-c", code]

    assert (await run_tool(argv, deadline_seconds=120)).decode().strip() == "[]"

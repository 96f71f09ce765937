"""Keys that come faster than screens: each goes where the one before it leads."""

from __future__ import annotations

import asyncio
import re
import time
from pathlib import Path

import pytest
from textual import events

from actions.cluster.auth.kubeconfig import ClusterTarget
from tests.support import fixed_runs
from tests.support.fixed_console import Scene, a_fixed_console
from tests.support.waiting import settle, wait_for
from tui.app import ConsoleApp
from tui.base_app import KeyOrClick, TypeAhead
from tui.panes.runs import RunsPane
from tui.screens.launch import LaunchScreen
from tui.settings.settings import ConsoleSettings, DemoBadge
from tui.textual_private import screen_text

SIZE = (120, 36)


pytestmark = pytest.mark.usefixtures("own_home")


def an_app() -> ConsoleApp:
    """A console for which there is no kubeconfig."""
    target = ClusterTarget()
    return ConsoleApp(ConsoleSettings(target=target, demo=DemoBadge(20)))


def type_at_once(app: ConsoleApp, *keys: str) -> None:
    """All keys in one go, as a slow line delivers them."""
    for key in keys:
        app.post_message(events.Key(key, key if len(key) == 1 else None))


@pytest.fixture
def _held_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    """However long a busy machine takes to make a form or a plan, keys are kept; that a hold ends is tested below."""
    monkeypatch.setattr("tui.base_app.LONGEST_HOLD_SECONDS", 60.0)


@pytest.mark.usefixtures("_held_for_long")
async def test_keys_typed_while_the_launch_form_opens_go_to_the_form() -> None:
    app = an_app()
    async with app.run_test(size=SIZE) as pilot:
        await settle(pilot)
        app.dispatcher.submit("open blueprints")
        await wait_for(pilot, lambda: "bionemo-esm1nv" in screen_text(app), "the blueprints are read")
        type_at_once(app, "enter", "down", "right")
        await wait_for(pilot, lambda: isinstance(app.screen, LaunchScreen), "the form is open")
        await wait_for(
            pilot,
            lambda: re.search(r"Use this cluster +yes ", screen_text(app)) is not None,
            "the second field got the third key",
        )


@pytest.mark.usefixtures("_held_for_long")
async def test_an_enter_before_the_plan_is_computed_waits_for_it() -> None:
    app = an_app()
    async with app.run_test(size=SIZE, notifications=True) as pilot:
        await settle(pilot)
        await app.services.blueprints.find("bionemo-esm1nv")  # reading it may take longer than keys are kept
        app.dispatcher.submit("launch bionemo-esm1nv")
        type_at_once(app, "enter")
        await wait_for(pilot, lambda: "Launch bionemo-esm1nv?" in screen_text(app), "it is asked with the plan")


async def test_a_command_typed_at_once_opens_what_it_says() -> None:
    app = an_app()
    async with app.run_test(size=SIZE) as pilot:
        await settle(pilot)
        type_at_once(app, "8", "colon", *"run", "enter", "question_mark")
        await wait_for(pilot, lambda: "In the run pane" in screen_text(app), "the help of the last pane is shown")
        await pilot.press("escape")
        await wait_for(pilot, lambda: app.workspace.split.current == "run", "the last pane is shown")


async def test_a_line_typed_while_a_pane_is_made_is_not_taken_for_keys_of_the_pane() -> None:
    app = an_app()
    async with app.run_test(size=SIZE) as pilot:
        await settle(pilot)
        type_at_once(app, "8", "slash", *"backoff")
        await wait_for(pilot, lambda: app.workspace.current.active_filter == "backoff", "the filter has every letter")

        assert app.workspace.split.current == "events"


async def test_a_hold_ends_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tui.base_app.LONGEST_HOLD_SECONDS", 0.01)
    handed: list[KeyOrClick] = []
    keys = TypeAhead(handed.append)
    keys.hold()
    first, second = events.Key("a", "a"), events.Key("b", "b")

    assert keys.keeps(first)
    assert keys.keeps(second)
    while not handed:
        await asyncio.sleep(0)

    assert handed == [first]
    assert not keys.keeps(first)


async def test_a_hold_lasts_longer_where_the_loop_gets_no_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tui.base_app.LONGEST_HOLD_SECONDS", 0.03)
    monkeypatch.setattr("tui.base_app._TURN_SECONDS", 0.01)
    handed: list[KeyOrClick] = []
    keys = TypeAhead(handed.append)
    keys.hold()
    assert keys.keeps(events.Key("a", "a"))
    for _ in range(6):
        time.sleep(0.05)
        await asyncio.sleep(0)
    assert not handed
    while not handed:
        await asyncio.sleep(0)


async def test_keys_are_handed_over_in_order_and_one_at_a_time() -> None:
    handed: list[KeyOrClick] = []
    keys = TypeAhead(handed.append)
    release = keys.hold()
    first, second = events.Key("a", "a"), events.Key("b", "b")
    assert keys.keeps(first)
    assert keys.keeps(second)

    release()
    assert handed == [first]
    assert not keys.keeps(first)
    release = keys.hold()
    release()
    assert handed == [first, second]
    assert not keys.keeps(second)
    keys.hold()()
    await keys.wait_until_quiet()


def click_at_once(app: ConsoleApp, x: int, y: int) -> None:
    """Press and release the first button at a cell, as the driver does."""
    for kind in (events.MouseDown, events.MouseUp):
        app.post_message(kind(None, x, y, 0, 0, 1, shift=False, meta=False, ctrl=False, screen_x=x, screen_y=y))


async def test_a_click_does_not_overtake_keys_and_keys_do_not_overtake_a_click(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene = Scene(summaries=fixed_runs.summaries(tmp_path), is_busy=False)
    async with a_fixed_console(scene, monkeypatch, size=SIZE) as console:
        await console.line("open runs")
        await console.calm("AGE▲")
        app, table = console.app, console.app.query_one(RunsPane).table
        first, fourth = table.shown_keys[0], table.shown_keys[3]
        table.select(first)
        release = app.type_ahead.hold()  # a command is carried out
        type_at_once(app, "j")
        click_at_once(app, 10, table.region.y + 3)
        type_at_once(app, "j")
        await wait_for(console.pilot, lambda: app.type_ahead.kept == 4, "all of them wait")
        assert table.selected_key == first
        release()
        await asyncio.wait_for(app.type_ahead.wait_until_quiet(), 60)
        assert table.selected_key == fourth, "down, a click on the third row, down"

"""Limits and home in the launch form: by default from the settings, with what they mean for the launch."""

from __future__ import annotations

from pathlib import Path

import pytest

from actions.base.errors import ConsoleError
from actions.cluster.auth.kubeconfig import ClusterTarget
from actions.command.arguments import LaunchArguments
from actions.run.limits.options import LimitTexts
from tests.support.waiting import settle, wait_for
from tui.app import ConsoleApp
from tui.present.blueprints import store_of_command
from tui.screens.launch import LaunchScreen
from tui.settings.settings import ConsoleSettings
from tui.textual_private import screen_text


@pytest.fixture(autouse=True)
def _home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("HOME", "XDG_STATE_HOME", "XDG_CONFIG_HOME"):
        monkeypatch.setenv(name, str(tmp_path))
    for name in ("AWS_ACCESS_KEY_ID", "AWS_PROFILE", "AWS_ENDPOINT_URL"):
        monkeypatch.delenv(name, raising=False)


def console(limits: LimitTexts | None = None, home: str = "") -> ConsoleApp:
    return ConsoleApp(ConsoleSettings(target=ClusterTarget(), checks_launches=False, limits=limits, store=home))


async def open_form(app: ConsoleApp, pilot: object, line: str = "launch bionemo-esm1nv preset=rehearsal") -> None:
    await settle(pilot)  # type: ignore[arg-type]
    app.dispatcher.submit(line)
    await wait_for(pilot, lambda: isinstance(app.screen, LaunchScreen), "the form is open")  # type: ignore[arg-type]


OPEN_LIMITS = ("shift+tab", "enter", "tab")
"""From the first field to the last group, and into its first field."""


async def test_limits_but_for_the_budget_are_a_folded_group() -> None:
    app = console()
    async with app.run_test(size=(120, 90)) as pilot:
        await open_form(app, pilot)
        await wait_for(pilot, lambda: "Limits: 8 fields" in screen_text(app), "the group")
        assert "Budget" in screen_text(app)
        assert "Before credentials end" not in screen_text(app)
        assert "enter launch" in screen_text(app)
        await pilot.press(OPEN_LIMITS[0])
        await wait_for(pilot, lambda: "enter show or hide" in screen_text(app), "what enter does on a heading")
        await pilot.press(*OPEN_LIMITS[1:], *"noon")
        await wait_for(pilot, lambda: "'noon' is not a time" in screen_text(app), "its first field is edited")


async def test_limits_of_the_settings_are_in_the_form_and_in_the_launch(monkeypatch: pytest.MonkeyPatch) -> None:
    app = console(LimitTexts(budget="0.05", before_capacity_end=True))
    launched: list[LaunchArguments] = []
    async with app.run_test(size=(120, 90)) as pilot:
        await open_form(app, pilot)
        await wait_for(pilot, lambda: "Limits: park at: budget $0.05" in screen_text(app), "what they mean")
        screen = app.screen
        assert isinstance(screen, LaunchScreen)
        monkeypatch.setattr(screen, "dismiss", launched.append)
        await pilot.press("enter")
        await wait_for(pilot, lambda: "Launch bionemo-esm1nv?" in screen_text(app), "it asks")
        await pilot.press("y")
        await wait_for(pilot, lambda: launched, "it is launched")
    assert (launched[0].budget, launched[0].before_capacity_end, launched[0].until) == ("0.05", "yes", "")


NO_LIMITS = (
    *(*("down",) * 9, "backspace"),  # the budget
    *(*("up",) * 9, *OPEN_LIMITS, "backspace", "tab", "tab", "tab", "right"),  # until, and the end of a block
)
USUAL = LimitTexts(until="+8h", budget="40", before_capacity_end=True, at_limit="teardown")


@pytest.mark.parametrize(
    ("line", "keys", "stated", "shown"),
    [
        ("", NO_LIMITS, ("none", "none", "no", ""), ""),
        (" budget=9 at_limit=park", (), ("+8h", "9", "yes", "park"), "Limits: park at: until"),
        (" budget=9", (), ("+8h", "9", "yes", ""), "Limits: tear down at: until"),
    ],
)
async def test_a_launch_has_the_limits_that_the_form_shows(
    monkeypatch: pytest.MonkeyPatch, line: str, keys: tuple[str, ...], stated: tuple[str, ...], shown: str
) -> None:
    app = console(USUAL)
    launched: list[LaunchArguments] = []
    async with app.run_test(size=(120, 90)) as pilot:
        await open_form(app, pilot, f"launch bionemo-esm1nv preset=rehearsal{line}")
        await wait_for(pilot, lambda: "Limits: tear down at" in screen_text(app) or line, "those of the settings")
        screen = app.screen
        assert isinstance(screen, LaunchScreen)
        monkeypatch.setattr(screen, "dismiss", launched.append)
        await pilot.press(*keys)
        await wait_for(pilot, lambda: (shown or "Limits: 8 fields (2 changed)") in screen_text(app), "what they mean")
        await pilot.press("enter")
        await wait_for(pilot, lambda: "Launch bionemo-esm1nv?" in screen_text(app), "it asks")
        assert (" at: until" in screen_text(app)) is bool(shown)
        await pilot.press("y")
        await wait_for(pilot, lambda: launched, "it is launched")
    got = launched[0]
    assert (got.until, got.budget, got.before_capacity_end, got.at_limit) == stated


async def test_a_limit_that_cannot_be_read_is_said_beside_its_field() -> None:
    app = console()
    async with app.run_test(size=(120, 90)) as pilot:
        await open_form(app, pilot, "launch bionemo-esm1nv preset=rehearsal until=noon")
        await wait_for(pilot, lambda: "'noon' is not a time" in screen_text(app), "the sentence")


async def launched_with(app: ConsoleApp, monkeypatch: pytest.MonkeyPatch, line: str, *keys: str) -> LaunchArguments:
    """Open the form, press keys in its field of the store, and launch."""
    launched: list[LaunchArguments] = []
    async with app.run_test(size=(120, 90)) as pilot:
        await open_form(app, pilot, line)
        await wait_for(pilot, lambda: "Run: 2 fields" in screen_text(app), "the group")
        screen = app.screen
        assert isinstance(screen, LaunchScreen)
        monkeypatch.setattr(screen, "dismiss", launched.append)
        await pilot.press("shift+tab", "shift+tab", "enter", "tab", *keys)
        await wait_for(pilot, lambda: screen._planning is not None and screen._planning.is_finished, "the plan")
        await pilot.press("enter")
        await wait_for(pilot, lambda: "Launch bionemo-esm1nv?" in screen_text(app), "it asks")
        await pilot.press("y")
        await wait_for(pilot, lambda: launched, "it is launched")
    return launched[0]


async def test_what_was_typed_is_in_the_form_as_its_type(monkeypatch: pytest.MonkeyPatch) -> None:
    line = "launch bionemo-esm1nv preset=rehearsal wandb_logger=true flow_logs=Yes workers=4"
    arguments = await launched_with(console(), monkeypatch, line)
    assert arguments.set == {"wandb_logger": True, "flow_logs": True, "workers": 4}


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ("wandb_logger=maybe", "wandb_logger is 'maybe'; it must be true or false."),
        ("worker=4", "bionemo-esm1nv has no parameter 'worker'."),
        ("preset=rehersal", "has no preset 'rehersal'"),
    ],
)
async def test_what_no_form_can_show_is_refused(typed: str, said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    app = console()
    errors: list[ConsoleError] = []
    monkeypatch.setattr(app, "notify_error", errors.append)
    async with app.run_test() as pilot:
        await settle(pilot)
        app.dispatcher.submit(f"launch bionemo-esm1nv {typed}")
        await wait_for(pilot, lambda: errors or isinstance(app.screen, LaunchScreen), "an answer")
    assert said in errors[0].sentence()


LINE = "launch bionemo-esm1nv preset=rehearsal"
HOMES = (
    ("s3://team-runs/ml", LINE, (), "", "s3://team-runs/ml"),  # that of the settings stays unsaid
    ("s3://team-runs/ml", LINE, ("backspace",), "none", ""),
    ("s3://team-runs/ml", f"{LINE} store=s3://own-runs/x", (), "s3://own-runs/x", "s3://own-runs/x"),
)


@pytest.mark.parametrize("case", range(len(HOMES)))
async def test_the_home_is_a_field_that_begins_with_that_of_the_settings(
    monkeypatch: pytest.MonkeyPatch, case: int
) -> None:
    usual, line, keys, stated, home = HOMES[case]
    arguments = await launched_with(console(home=usual), monkeypatch, line, *keys)
    assert arguments.store == stated
    assert store_of_command(arguments.store, usual) == home


async def test_what_is_no_home_is_said_below_the_form() -> None:
    app = console()
    async with app.run_test(size=(120, 90)) as pilot:
        await open_form(app, pilot, f"{LINE} store=team-runs")
        await wait_for(pilot, lambda: "'team-runs' is not a store for runs." in screen_text(app), "the sentence")

"""The rail of stages on a screen."""

from __future__ import annotations

import pytest
from msgspec.structs import replace
from textual.app import App, ComposeResult

from actions.base.wording import brief_duration, duration, duration_range
from tests.support.waiting import wait_for
from tui.present.cells import bar
from tui.present.rail import GLYPHS, StageLine, StageLook
from tui.present.text import clock_of
from tui.textual_private import screen_text
from tui.widgets.stage_rail import StageRail

STAGES = [
    StageLine("provision", "Provision the cluster", StageLook.DONE, 2_405, (2_100, 2_700)),
    StageLine("data", "Prepare the data", StageLook.RUNNING, 60, (100, 240), note="step 3 of 9"),
    StageLine("train", "Train", StageLook.PENDING, None, (259_200, 345_600)),
]


class RailApp(App[None]):
    def __init__(self) -> None:
        super().__init__()
        self.chosen: list[str] = []

    def compose(self) -> ComposeResult:
        yield StageRail()

    @property
    def rail(self) -> StageRail:
        return self.query_one(StageRail)

    def on_stage_rail_selected(self, message: StageRail.Selected) -> None:
        self.chosen.append(message.key)


async def test_each_stage_tells_state_time_and_expectation() -> None:
    app = RailApp()
    async with app.run_test(size=(80, 6)) as pilot:
        app.rail.show(STAGES)
        await wait_for(pilot, lambda: "Train" in screen_text(app), "the stages")
        lines = [" ".join(line.split()) for line in screen_text(app).splitlines()]
        assert lines[0] == "✔ Provision the cluster 40m05s expected 35m–45m done"
        assert lines[1] == "▶ Prepare the data 1m00s ██▌······· expected 1m–4m step 3 of 9"
        assert lines[2] == "○ Train expected 3d–4d"


async def test_it_fits_a_narrow_pane() -> None:
    app = RailApp()
    async with app.run_test(size=(40, 6)) as pilot:
        app.rail.show(STAGES)
        await wait_for(pilot, lambda: "▶ Prepare the data" in screen_text(app), "the stages")
        text = screen_text(app)
        assert "1m00s" in text
        assert "1m–4m" not in text
        assert "✔ Provision" in text


async def test_the_cursor_goes_along_until_the_operator_moves_it() -> None:
    app = RailApp()
    async with app.run_test(size=(80, 6)) as pilot:
        app.rail.show(STAGES)
        assert app.rail.selected_key == "data"
        done = StageLine("data", "Prepare the data", StageLook.DONE, 200, (100, 240))
        app.rail.show([STAGES[0], done, StageLine("train", "Train", StageLook.RUNNING, 1)])
        assert app.rail.selected_key == "train"
        app.rail.focus()
        await wait_for(pilot, lambda: app.rail.has_focus, "focus")
        await pilot.press("g", "enter")
        await wait_for(pilot, lambda: app.chosen == ["provision"], "the first stage chosen")
        app.rail.show(STAGES)
        assert app.rail.selected_key == "provision"
        await pilot.press("G")
        await wait_for(pilot, lambda: app.rail.selected_key == "data", "the stage at work")


async def test_another_run_is_followed_again() -> None:
    """The cursor that was moved in one run stayed on the last stage of the next one, out of sight of what worked."""
    app = RailApp()
    async with app.run_test(size=(80, 6)) as pilot:
        app.rail.show(STAGES, "one")
        app.rail.step(1)
        assert app.rail.selected_key == "train"
        app.rail.show(list(STAGES), "one")
        assert app.rail.selected_key == "train"
        app.rail.show(STAGES, "two")
        assert app.rail.selected_key == "data"
        app.rail.show([replace(STAGES[0], look=StageLook.RUNNING)], "two")
        await wait_for(pilot, lambda: app.rail.selected_key == "provision", "it follows")


async def test_a_row_of_skipped_stages_takes_the_whole_line() -> None:
    app = RailApp()
    async with app.run_test(size=(60, 6)) as pilot:
        titles = "3 skipped: Network, Cluster, Operator of the jobs"
        app.rail.show([*STAGES, StageLine(":skipped", titles, StageLook.SKIPPED)])
        await wait_for(pilot, lambda: f"– {titles}" in screen_text(app), "the row")
        assert "Train " in screen_text(app)


async def test_a_stage_that_takes_too_long_says_so() -> None:
    app = RailApp()
    async with app.run_test(size=(90, 6)) as pilot:
        app.rail.show([StageLine("data", "Data", StageLook.RUNNING, 500, (100, 240))])
        await wait_for(pilot, lambda: "longer than expected" in screen_text(app), "the words")


def test_every_look_has_a_sign_of_its_own() -> None:
    assert set(GLYPHS) == set(StageLook)
    signs = [GLYPHS[look].sign for look in StageLook]
    assert len(set(signs)) == len(signs)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0s"), (0.4, "0.4s"), (42, "42s"), (192, "3m12s"), (7_500, "2h05m"), (371_000, "4d07h"), (-3, "0s")],
)
def test_durations_have_two_units_at_most(seconds: float, text: str) -> None:
    assert duration(seconds) == text


def test_a_range_of_equal_ends_is_one_value() -> None:
    assert duration_range(100, 119) == "1m"
    assert duration_range(180_000, 216_000) == "2d"
    assert duration_range(6_600, 10_800, is_rough=False) == "1h50m–3h"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0s"), (90, "1m30s"), (600, "10m"), (1_234, "21m"), (3_600, "1h"), (9_000, "2h30m"), (100 * 86_400, "100d")],
)
def test_a_duration_that_stands_still_has_no_second_part_of_zero(seconds: float, text: str) -> None:
    assert brief_duration(seconds) == text


def test_an_unknown_moment_is_blank() -> None:
    assert clock_of(0).strip() == ""
    assert len(clock_of(0)) == len(clock_of(1))


@pytest.mark.parametrize("width", [1, 5, 10])
def test_a_bar_shows_a_sliver_early_and_fills_only_at_the_end(width: int) -> None:
    assert bar(0, width) == ""
    assert len(bar(0.001, width)) == 1
    assert bar(0.999, width) != bar(1, width) == bar(7, width) == "█" * width
    assert bar(float("nan"), width) == ""


@pytest.mark.parametrize(("width", "cells"), [(80, 10), (160, 36), (300, 60)])
async def test_the_bar_takes_the_width_that_there_is(width: int, cells: int) -> None:
    app = RailApp()
    async with app.run_test(size=(width, 6)) as pilot:
        app.rail.show(STAGES)
        await wait_for(pilot, lambda: "Train" in screen_text(app), "the stages")
        line = screen_text(app).splitlines()[1]
        assert abs(sum(line.count(sign) for sign in "█▌▏▎▍▋▊▉·") - cells) <= 1
        assert "expected 1m–4m" in line
        assert "step 3 of 9" in line

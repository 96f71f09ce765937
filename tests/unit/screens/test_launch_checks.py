"""The launch form shows what the doctor finds, refuses what would fail, and takes the name of a check as a waiver."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import ClassVar

import pytest

from actions.cluster.auth.kubeconfig import ClusterTarget
from actions.run.doctor.report import DoctorLine
from actions.run.state.records import CheckResult
from tests.support.waiting import settle, wait_for
from tui.app import ConsoleApp
from tui.screens.confirm import ConfirmModal, TypeNameModal
from tui.screens.launch import LaunchScreen
from tui.settings.settings import ConsoleSettings, DemoBadge
from tui.textual_private import screen_text

PASSED = DoctorLine("git", CheckResult.PASSED, "/usr/bin/git.")
WARNS = DoctorLine("GPU quota", CheckResult.FAILED, "8 of 8 are in use.", "Ask for more.")
REFUSES = DoctorLine("name of EKS cluster", CheckResult.FAILED, "bionemo exists already.", "Choose another.", True)
UNKNOWN = DoctorLine("credentials", CheckResult.UNKNOWN, "No answer.", "Log in.")


class FakeSurvey:
    """A survey whose lines a test gives, and that ends when the test lets it."""

    lines: ClassVar[Sequence[DoctorLine]] = ()
    is_over: ClassVar[asyncio.Event]
    started: ClassVar[list[str]] = []

    asked_as_simulated: ClassVar[list[bool]] = []
    cost_text = ""

    def __init__(
        self, target: object, blueprint: object, bound: object, *, is_simulated: bool = False, **_: object
    ) -> None:
        self.asked_as_simulated.append(is_simulated)
        self.waiting: Sequence[str] = ("one", "two")
        self.started.append(str(getattr(bound, "values", {}).get("workers", "")))

    async def run(self, changed: Callable[[], None]) -> None:
        changed()
        await self.is_over.wait()
        self.waiting = ()
        changed()


@pytest.fixture(autouse=True)
def _fake(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("HOME", "XDG_STATE_HOME", "XDG_CONFIG_HOME"):
        monkeypatch.setenv(name, str(tmp_path))
    for name in ("AWS_ACCESS_KEY_ID", "AWS_PROFILE", "AWS_ENDPOINT_URL"):
        monkeypatch.delenv(name, raising=False)
    FakeSurvey.is_over = asyncio.Event()
    FakeSurvey.lines = (PASSED, WARNS, UNKNOWN)
    FakeSurvey.started, FakeSurvey.asked_as_simulated = [], []
    monkeypatch.setattr("actions.run.doctor.survey.LaunchSurvey", FakeSurvey)


async def open_form(app: ConsoleApp, pilot: object) -> None:
    await settle(pilot)  # type: ignore[arg-type]
    app.dispatcher.submit("launch bionemo-esm1nv")
    await wait_for(pilot, lambda: isinstance(app.screen, LaunchScreen), "the form is open")  # type: ignore[arg-type]


async def test_lines_come_while_others_are_waited_for() -> None:
    app = ConsoleApp(ConsoleSettings(target=ClusterTarget()))
    async with app.run_test(size=(120, 50)) as pilot:
        await open_form(app, pilot)
        await wait_for(pilot, lambda: "1 pass, 1 fail, 1 unknown, asking 2" in screen_text(app), "the counts")
        shown = screen_text(app)
        assert "▲ GPU quota: 8 of 8 are in use." in shown, "a cross refuses"
        assert "→ Ask for more." in shown
        assert shown.index("GPU quota") < shown.index("STAGE"), "above the plan, where it is seen"
        FakeSurvey.is_over.set()
        await wait_for(pilot, lambda: "asking" not in screen_text(app), "all have answered")


async def test_a_launch_for_real_takes_the_clusters_name_and_its_title_the_cost() -> None:
    app = ConsoleApp(ConsoleSettings(target=ClusterTarget()))
    async with app.run_test(size=(120, 50)) as pilot:
        await open_form(app, pilot)
        await pilot.press("enter")
        await wait_for(pilot, lambda: "asking 2" in screen_text(app), "it is submitted, and asks at once")
        await pilot.press("y")  # too early: it is neither an answer nor text in a field
        assert isinstance(app.screen, LaunchScreen)
        FakeSurvey.is_over.set()
        await wait_for(pilot, lambda: isinstance(app.screen, TypeNameModal), "it asks")
        await wait_for(pilot, lambda: "▲ Failed: GPU quota" in screen_text(app), "what has failed stands there too")
        shown = screen_text(app)
        assert re.search(r"Launch bionemo-esm1nv for real: \$[\d,.]+–[\d,.]+ \+ traffic ─", shown)
        assert "Type the cluster's name, bionemo-on-eks" in shown
        assert re.search(r"≥ \$[\d.]+/h at the peak, with .*g5\.12xlarge", shown)
        assert "scroll" not in shown
        await pilot.press("y", "enter")
        await wait_for(pilot, lambda: "That is not the cluster's name." in screen_text(app), "a yes is none")
        await pilot.press("escape")
        await wait_for(pilot, lambda: isinstance(app.screen, LaunchScreen), "the form is back")
        assert set(FakeSurvey.started) == {"8"}, "no field has changed"


async def test_a_refused_launch_takes_the_name_of_the_check(monkeypatch: pytest.MonkeyPatch) -> None:
    FakeSurvey.lines = (PASSED, WARNS, REFUSES)
    FakeSurvey.is_over.set()
    launched: list[str] = []
    app = ConsoleApp(ConsoleSettings(target=ClusterTarget()))
    async with app.run_test(size=(120, 50)) as pilot:
        await open_form(app, pilot)
        screen = app.screen
        assert isinstance(screen, LaunchScreen)
        monkeypatch.setattr(screen, "dismiss", lambda result: launched.extend([result.blueprint, result.waive]))
        await pilot.press("enter")
        await wait_for(pilot, lambda: isinstance(app.screen, TypeNameModal), "it refuses")
        await wait_for(pilot, lambda: "✘ name of EKS cluster: bionemo" in screen_text(app), "with what refuses")
        shown = screen_text(app)
        assert "Type the name of the failed check, name of EKS cluster" in shown
        await pilot.press("enter")
        await wait_for(pilot, lambda: "That is not the name of the failed check." in screen_text(app), "not so")
        assert launched == []
        await pilot.press(*("space" if key == " " else key for key in "name of EKS cluster"), "enter")
        await wait_for(pilot, lambda: launched == ["bionemo-esm1nv", REFUSES.check], "it is waived")


async def test_a_demo_asks_for_other_runs_of_this_machine_alone() -> None:
    FakeSurvey.lines = ()
    FakeSurvey.is_over.set()
    app = ConsoleApp(ConsoleSettings(target=ClusterTarget(), demo=DemoBadge()))
    async with app.run_test(size=(120, 50)) as pilot:
        await open_form(app, pilot)
        await wait_for(pilot, lambda: "Total:" in screen_text(app), "the plan is there")
        await pilot.press("enter")
        await wait_for(pilot, lambda: isinstance(app.screen, ConfirmModal), "it asks for a yes")
        assert set(FakeSurvey.asked_as_simulated) == {True}


async def test_a_console_that_checks_no_launch_asks_nothing() -> None:
    app = ConsoleApp(ConsoleSettings(target=ClusterTarget(), checks_launches=False))
    async with app.run_test(size=(120, 50)) as pilot:
        await open_form(app, pilot)
        await wait_for(pilot, lambda: "Total:" in screen_text(app), "the plan is there")
        await pilot.press("enter")
        await wait_for(pilot, lambda: isinstance(app.screen, TypeNameModal), "it asks at once")
        assert FakeSurvey.started == []

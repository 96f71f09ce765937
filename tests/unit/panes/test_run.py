"""The pane of one run."""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path

from msgspec.structs import replace

from actions.base.clock import SystemClock
from actions.run.journal.store import append_record
from actions.run.state.records import RequestKind, RunRequest
from actions.run.state.view import TEARDOWN_PREFIX, RunState, StageState
from tests.support import fixed_runs
from tests.support.builders import a_plan, a_run, a_stage, console_services
from tests.support.waiting import settle, wait_for
from tests.unit.panes.alone import PaneApp, text_of
from tests.unit.run.world import make_run
from tui.panes.run import RunPane
from tui.present.subject import Subject
from tui.screens.status_lines import selected_run
from tui.textual_private import screen_text

SIZE = (80, 22)


async def test_a_plan_that_waits_is_on_screen_with_its_key() -> None:
    stage = a_stage("network", StageState.AWAITING_APPROVAL, started_seconds_ago=5, plan=a_plan())
    app = PaneApp(RunPane(console_services(view=a_run(stage, a_stage("train")))))

    async with app.run_test(size=SIZE) as pilot:
        app.pane.refresh_data()
        await wait_for(pilot, lambda: "press a to approve" in screen_text(app), "the rail is laid out")
        text = screen_text(app)

    assert "+ aws_vpc.main" in text
    assert "bionemo-1121-ab12" in text


async def test_a_read_only_console_names_no_key_that_it_refuses() -> None:
    stage = a_stage("network", StageState.AWAITING_APPROVAL, started_seconds_ago=5, plan=a_plan())
    app = PaneApp(RunPane(console_services(view=a_run(stage), readonly=True)))
    async with app.run_test(size=SIZE) as pilot:
        app.pane.refresh_data()
        await wait_for(pilot, lambda: "waits for approval" in screen_text(app), "the rail is laid out")
        assert "This console is read-only: nothing can be approved or changed." in screen_text(app)
        assert "ress a" not in screen_text(app)

    run = replace(a_run(a_stage("train", StageState.UNKNOWN), state=RunState.UNKNOWN), last_seq=7)
    text = await text_of(RunPane(console_services(view=run, readonly=True)), size=SIZE)
    assert "▲ its runner has died" in text
    assert "to resume" not in text


async def test_a_run_whose_runner_has_died_says_so_with_the_key_that_starts_it_again() -> None:
    run = replace(a_run(a_stage("train", StageState.UNKNOWN), state=RunState.UNKNOWN), last_seq=7)
    app = PaneApp(RunPane(console_services(view=run)))

    async with app.run_test(size=SIZE) as pilot:
        app.pane.refresh_data()
        await wait_for(pilot, lambda: "unknown · ▲ its runner has died; press R to resume" in screen_text(app), "it")


async def test_a_runner_that_was_just_requested_is_not_said_to_have_died(tmp_path: Path) -> None:
    services, clock = console_services(), _LaterClock()
    folder = make_run(tmp_path, clock)
    append_record(folder, RunRequest(RequestKind.TEARDOWN), deed="asked for", clock=clock)
    services.runs._clock = clock
    services.runs.choose(folder)
    app = PaneApp(RunPane(services))

    async with app.run_test(size=SIZE) as pilot:
        app.pane.refresh_data()
        await wait_for(pilot, lambda: "tearing down · its runner starts" in screen_text(app), "it starts")
        selected = selected_run(services, Subject("Run", folder.name))
        assert selected is not None
        assert not selected.is_resumable

        clock.later = 60.0  # whoever wrote the request has not started it
        services.runs.catch_up()
        app.pane.refresh_data()
        await wait_for(
            pilot, lambda: "tearing down · ▲ it has no runner; press R to resume" in screen_text(app), "none"
        )
    services.runs.close()


class _LaterClock(SystemClock):
    later = 0.0

    def now(self) -> datetime:
        return super().now() + timedelta(seconds=self.later)


async def test_without_a_run_the_pane_says_what_to_press(tmp_path: Path) -> None:
    services = console_services()
    services.runs.is_listed = True
    assert "No run yet. Press 3 for the blueprints" in await text_of(RunPane(services), size=SIZE)
    services.runs.summaries = tuple(fixed_runs.summaries(tmp_path))
    assert "No run is at work. Press 3 for the blueprints" in await text_of(RunPane(services), size=SIZE)


async def test_the_reason_of_a_failure_is_on_the_first_screen() -> None:
    reason = "PyTorchJob default/esm1nv failed: BackoffLimitExceeded. Container pytorch ended with 137, OOMKilled."
    stages = [a_stage(f"s{number}", StageState.SUCCEEDED, started_seconds_ago=900) for number in range(10)]
    nodes = replace(a_stage("pool", StageState.SUCCEEDED), title="GPU pool", holds_accelerators=True)
    failed = replace(a_stage("train", StageState.FAILED, started_seconds_ago=90), message=reason)
    view = a_run(*stages, nodes, failed, state=RunState.FAILED)

    text = await text_of(RunPane(console_services(view=view)), size=(80, 21))

    shown = " ".join(text.replace("│", " ").split())
    assert reason in shown
    assert "It still holds accelerators" in await text_of(RunPane(console_services(view=view)), size=(80, 40))


async def test_a_stage_of_a_stalled_run_is_not_said_to_run() -> None:
    view = a_run(a_stage("train", StageState.RUNNING, started_seconds_ago=90), state=RunState.STALLED)

    text = await text_of(RunPane(console_services(view=view)), size=SIZE)

    assert "? Train · unknown, was running when its runner stalled" in text
    assert "▶" not in text


async def test_a_stage_can_be_opened_before_the_pane_was_ever_shown() -> None:
    view = a_run(*(a_stage(name, StageState.SUCCEEDED, started_seconds_ago=90) for name in ("data", "train", "eval")))
    pane = RunPane(console_services(view=view))
    pane.show_target("train")
    app = PaneApp(pane)

    async with app.run_test(size=SIZE) as pilot:
        pane.refresh_data()
        await settle(pilot)
        assert pane.subject() == Subject("Stage", "train")
        await wait_for(pilot, lambda: "✔ Train · succeeded" in screen_text(app), "its details are shown")


async def test_going_into_a_stage_opens_its_log() -> None:
    app = PaneApp(RunPane(console_services(view=a_run(a_stage("train", StageState.RUNNING, started_seconds_ago=5)))))

    async with app.run_test(size=SIZE) as pilot:
        app.pane.refresh_data()
        app.pane.focus_content()
        await settle(pilot)
        await pilot.press("enter")
        await wait_for(pilot, lambda: app.entered, "the stage was entered")

    assert app.entered == ["open logs of=train"]


async def test_the_detail_of_a_stage_keeps_its_place_below_a_long_warning() -> None:
    app = PaneApp(RunPane(console_services(view=fixed_runs.a_crashing_run())))
    async with app.run_test(size=(58, 18)) as pilot:  # a quarter of a screen of 120 columns and 36 lines
        app.pane.refresh_data()
        pane = app.pane
        assert isinstance(pane, RunPane)
        pane._rail.select("train")
        pane.refresh_data()
        await wait_for(pilot, lambda: "▶ Pre-training · running" in screen_text(app), "the detail")


async def test_a_step_that_removes_a_stage_is_not_taken_for_the_stage() -> None:
    view = fixed_runs.a_torn_down_run()
    app = PaneApp(RunPane(console_services(view=view)))
    async with app.run_test(size=(80, 40)) as pilot:
        pane = app.pane
        assert isinstance(pane, RunPane)
        pane.refresh_data()
        await settle(pilot)
        step = next(one for one in view.teardown if one.kind not in ("drain", "audit"))
        assert pane._rail.select(f"{TEARDOWN_PREFIX}{step.id}")
        pane.refresh_data()
        await wait_for(
            pilot, lambda: screen_text(app).count(f" undo {step.title} ") == 2, "in the rail and in the detail"
        )


async def test_the_result_of_an_audit_is_told_once() -> None:
    view = fixed_runs.a_torn_down_run()
    said = "Nothing is left except what is kept on purpose."
    teardown = tuple(replace(step, message=said) if step.kind == "audit" else step for step in view.teardown)
    app = PaneApp(RunPane(console_services(view=replace(view, teardown=teardown))))
    async with app.run_test(size=(80, 40)) as pilot:
        pane = app.pane
        assert isinstance(pane, RunPane)
        pane.refresh_data()
        await settle(pilot)
        assert pane._rail.select(f"{TEARDOWN_PREFIX}{next(step.id for step in teardown if step.kind == 'audit')}")
        pane.refresh_data()
        await wait_for(pilot, lambda: "✔ Audit · succeeded" in screen_text(app), "the detail of the audit")
        assert "The audit " in screen_text(app)
        assert said not in screen_text(app)
        assert "· audit" not in screen_text(app)


async def test_the_rail_has_the_room_that_details_leave() -> None:
    """Never more than three fifths: of 24 stages eighteen were shown, above nine empty rows."""
    stages = [a_stage(f"s{number:02}", StageState.SUCCEEDED, started_seconds_ago=900) for number in range(24)]
    app = PaneApp(RunPane(console_services(view=a_run(*stages))))
    async with app.run_test(size=(100, 34)) as pilot:
        app.pane.refresh_data()
        await wait_for(pilot, lambda: screen_text(app).count("done  ") == 24, "all stages")
    reason = " ".join(f"word{number}" for number in range(90))
    failed = replace(a_stage("train", StageState.FAILED, started_seconds_ago=90), message=reason)
    app = PaneApp(RunPane(console_services(view=a_run(*stages, failed, state=RunState.FAILED))))
    async with app.run_test(size=(58, 30)) as pilot:
        app.pane.refresh_data()
        await wait_for(pilot, lambda: "word89" in screen_text(app) and screen_text(app).count("done  ") >= 9, "both")

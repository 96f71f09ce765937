"""A run in words."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal

from msgspec.structs import replace

from actions.fleet.cost import FleetCost
from actions.run.state.records import CheckResult, HeldPrice, StageFinding
from actions.run.state.view import Audit, Notice, NoticeKind, RunState, StageState
from tests.support.builders import NOW, a_plan, a_run, a_stage
from tui.present.cells import Cells, text_of
from tui.present.rail import KEPT, SKIPPED, StageLook, rail_of, row_key, skipped_lines
from tui.present.run import ending_lines, idle_lines, run_heading, stage_detail, store_words

NOW_SECONDS = NOW.timestamp()


def texts(lines: list[Cells]) -> str:
    return "\n".join(text_of(line) for line in lines)


def test_a_running_stage_counts_up_and_a_finished_one_stands() -> None:
    running = a_stage("train", StageState.RUNNING, started_seconds_ago=90)
    done = a_stage("data", StageState.SUCCEEDED, started_seconds_ago=200, ended_seconds_ago=150)

    rail = rail_of(a_run(done, running), now=NOW_SECONDS)

    assert [(line.look, line.elapsed_seconds) for line in rail] == [(StageLook.DONE, 50), (StageLook.RUNNING, 90)]


def test_stages_that_are_skipped_and_what_a_teardown_keeps_are_one_row_each() -> None:
    """They took three of eight rows, each with an expected time."""
    skipped = [a_stage(name, StageState.SKIPPED) for name in ("network", "cluster")]
    kept = replace(a_stage("volume", StageState.SKIPPED), message="Kept: it holds data.")
    view = replace(
        a_run(skipped[0], a_stage("data", StageState.SUCCEEDED), skipped[1], a_stage("train")),
        teardown=(a_stage("data", StageState.SUCCEEDED), kept),
    )

    rows = rail_of(view, now=NOW_SECONDS)

    assert [row.title for row in rows] == [
        "Data",
        "Train",
        "2 skipped: Network, Cluster",
        "undo Data",
        "1 kept: Volume",
    ]
    assert [rows[2].expected_seconds, rows[4].expected_seconds] == [None, None]
    assert row_key(view, "network") == SKIPPED
    assert row_key(view, "train") == "train"
    assert texts(skipped_lines(view, SKIPPED, 80)) == "– Network\n– Cluster"
    assert texts(skipped_lines(view, KEPT, 80)) == "– Volume Kept: it holds data."


def test_the_heading_says_what_is_still_to_come() -> None:
    view = a_run(a_stage("data", StageState.RUNNING, started_seconds_ago=30), a_stage("train"))

    assert "about 1m–3m left" in texts(run_heading(view, now=NOW_SECONDS))


def test_a_heading_leaves_out_what_does_not_fit_and_cuts_no_word() -> None:
    view = a_run(a_stage("train", StageState.RUNNING, started_seconds_ago=10))

    wide, narrow = (run_heading(view, now=NOW_SECONDS, width=width) for width in (160, 30))

    assert "UTC" in texts(wide)
    assert "of 1 stages" in texts(narrow)
    assert "UTC" not in texts(narrow)
    assert all(len(text_of(line)) <= 30 for line in narrow[1:])


def test_the_money_of_a_run_is_said_on_narrow_screens_too() -> None:
    view = a_run(a_stage("train", StageState.RUNNING, started_seconds_ago=360), a_stage("check"))
    view = replace(view, prices=(HeldPrice("nodes", "train", "100", source="list"),), is_cost_simulated=True)
    wide, narrow = (text_of(run_heading(view, now=NOW_SECONDS, width=width)[1]) for width in (160, 66))
    assert "$0.00 spent (simulated) · started" in wide
    assert narrow.endswith(" · $0.00 spent")


def test_a_start_on_another_day_has_a_date() -> None:
    started = replace(a_run(a_stage("train")), created_at=NOW_SECONDS - 60)
    assert "started 11:59:00 UTC" in texts(run_heading(started, now=NOW_SECONDS))
    before = replace(started, created_at=NOW_SECONDS - 3 * 86_400)
    date = f"{NOW - timedelta(days=3):%Y-%m-%d}"
    assert f"started {date} 12:00 UTC" in texts(run_heading(before, now=NOW_SECONDS))


def test_where_a_run_is_kept_is_named() -> None:
    run = a_run(a_stage("train"))
    assert store_words(run) == ""
    kept = replace(run, store="s3://team-runs/ml")
    assert store_words(kept) == "store s3://team-runs/ml"
    away = Notice(NoticeKind.STORE_AWAY, "It does not answer.", NOW_SECONDS)
    assert store_words(replace(kept, notices=(away,))) == "store s3://team-runs/ml away since 12:00"
    refused = Notice(NoticeKind.STORE_REFUSED, "It refuses.")
    assert store_words(replace(kept, notices=(refused,))) == "store s3://team-runs/ml refuses"


def test_a_plan_that_waits_names_its_resources_and_the_key() -> None:
    stage = a_stage("network", StageState.AWAITING_APPROVAL, plan=a_plan())

    text = texts(stage_detail(stage, now=NOW_SECONDS))

    assert "2 to add" in text
    assert "+ aws_vpc.main" in text
    assert "Press a" in text


def test_a_plan_that_waits_says_for_how_long() -> None:
    planned = a_stage("network", StageState.AWAITING_APPROVAL, started_seconds_ago=605, plan=a_plan())
    planned = replace(planned, ended_at=NOW_SECONDS - 600)
    assert text_of(stage_detail(planned, now=NOW_SECONDS)[0]).startswith(
        "◆ Network · awaiting approval for 10m00s · 5s"
    )


def test_on_a_narrow_screen_a_plan_that_waits_is_told_in_whole_words() -> None:
    stage = a_stage("network", StageState.AWAITING_APPROVAL, started_seconds_ago=5, plan=a_plan())

    lines = [text_of(line) for line in stage_detail(stage, now=NOW_SECONDS, width=46)]

    assert max(map(len, lines)) <= 46
    assert lines[0].endswith("awaiting approval · 5s")
    assert lines[1:3] == ["Plan: 2 to add, 0 to change, 0 to destroy.", "Press a to approve."]
    narrow = [text_of(line) for line in stage_detail(stage, now=NOW_SECONDS, width=34)]
    assert max(map(len, narrow)) <= 34
    assert "0 to destroy." in " ".join(narrow)


def test_a_run_whose_pods_crash_without_progress_has_no_time_left() -> None:
    view = a_run(a_stage("data", StageState.RUNNING, started_seconds_ago=30), a_stage("train"))
    crashing = replace(view, notices=(Notice(NoticeKind.PODS, "Training: worker-7 restarted 7×"),))

    assert " left" not in texts(run_heading(crashing, now=NOW_SECONDS))
    assert "left" in texts(run_heading(crashing, now=NOW_SECONDS, left={"data": 30.0}))


def test_where_no_approval_is_taken_no_key_is_named() -> None:
    stage = a_stage("network", StageState.AWAITING_APPROVAL, started_seconds_ago=5, plan=a_plan())
    told = "This console is read-only: nothing can be approved or changed."

    text = texts(stage_detail(stage, now=NOW_SECONDS, no_changes=told))

    assert told in text
    assert "Press" not in text
    assert [line.note for line in rail_of(a_run(stage), now=NOW_SECONDS, approve_key="")] == ["waits for approval"]
    nodes = replace(a_stage("nodes", StageState.SUCCEEDED), holds_accelerators=True)
    run = a_run(nodes, state=RunState.SUCCEEDED)
    assert "Press" not in texts(idle_lines(run, None, park_key="P", teardown_key="T", no_changes=told))


def test_a_wished_approval_is_not_drawn_as_a_fact() -> None:
    stage = replace(a_stage("network", StageState.AWAITING_APPROVAL, plan=a_plan()), is_approval_wished=True)

    text = texts(stage_detail(stage, now=NOW_SECONDS))

    assert "awaiting approval" in text
    assert "waiting for the runner" in text


def test_a_failed_check_comes_with_its_cure() -> None:
    finding = StageFinding(
        CheckResult.FAILED, "nvidia-device-plugin", "0 of 1 pods are ready", "Install the device plugin."
    )
    stage = replace(a_stage("preflight", StageState.FAILED), findings=(finding,))

    text = texts(stage_detail(stage, now=NOW_SECONDS))

    assert "✗ nvidia-device-plugin" in text
    assert "→ Install the device plugin." in text


def test_steps_of_a_teardown_stand_below_the_stages() -> None:
    view = a_run(a_stage("train", StageState.UNDONE), teardown=(a_stage("train", StageState.RUNNING),))

    rail = rail_of(view, now=NOW_SECONDS)

    assert [line.key for line in rail] == ["train", "teardown:train"]
    assert rail[1].look is StageLook.UNDOING
    assert view.step("teardown:train") is view.teardown[0]


def test_an_audit_that_found_something_names_it() -> None:
    view = replace(a_run(state=RunState.TORN_DOWN), audit=Audit(at=NOW_SECONDS, leftovers=("Pod a/b",), retained=()))

    assert "Pod a/b" in texts(ending_lines(view))


def test_an_audit_that_could_not_ask_does_not_read_as_clean() -> None:
    audit = Audit(at=NOW_SECONDS, leftovers=(), retained=(), unknown=("This user may not list secrets.",))
    view = replace(a_run(state=RunState.TORN_DOWN), audit=audit)

    text = texts(ending_lines(view))

    assert "nothing left" not in text
    assert "This user may not list secrets." in text
    assert "leftovers unknown" in texts(run_heading(view, now=NOW_SECONDS))


def test_a_clean_audit_says_so() -> None:
    view = replace(a_run(state=RunState.TORN_DOWN), audit=Audit(at=NOW_SECONDS, leftovers=(), retained=("FSx fs-1",)))

    text = texts(ending_lines(view))

    assert "✓ Nothing is left." in text
    assert "kept: FSx fs-1" in text


def test_a_stage_that_ended_well_with_a_finding_against_it_is_a_warning_of_the_run() -> None:
    wrong = StageFinding(CheckResult.FAILED, "train_loss", "is nan since step 120.", "Go on from a checkpoint.")
    stage = replace(a_stage(state=StageState.SUCCEEDED), findings=(wrong,))
    run = a_run(stage, state=RunState.SUCCEEDED)

    assert rail_of(run, now=NOW.timestamp())[0].note == "▲ train_loss is nan since step 120."
    assert "succeeded · ▲ 1 warning · 1 of 1 stages done" in text_of(run_heading(run, now=NOW.timestamp())[1])


def test_idle_accelerators_after_a_run_are_told_with_the_keys_that_free_them() -> None:
    cost = FleetCost(4, 0, Decimal("11.73"), 8, 8, Decimal("11.34"), 0)

    def told(state: RunState, known: FleetCost | None = cost) -> str:
        lines = idle_lines(a_run(state=state), known, park_key="P", teardown_key="T", width=40)
        return " ".join(text_of(line) for line in lines)

    text = told(RunState.SUCCEEDED)

    assert "▲ $11.34/h idle (8 of 8 accelerators)." in " ".join(text.split())
    nodes = replace(a_stage("nodes", StageState.SUCCEEDED), holds_accelerators=True)
    held = idle_lines(a_run(nodes, state=RunState.SUCCEEDED), None, park_key="P", teardown_key="T")
    assert text_of(held[0]) == "▲ It still holds accelerators: Nodes."
    assert "Press P to park the run" in text
    assert idle_lines(a_run(state=RunState.FAILED), cost, park_key="P", teardown_key="T", width=-6)
    assert told(RunState.RUNNING) == ""
    assert told(RunState.SUCCEEDED, None) == ""


def test_what_a_stage_is_expected_to_take_is_told_before_it_begins() -> None:
    pending, running = a_stage(), a_stage(state=StageState.RUNNING, started_seconds_ago=5)

    assert "pending · expected 1m–2m" in text_of(stage_detail(pending, now=NOW.timestamp())[0])
    assert "running · 5s · expected 1m–2m" in text_of(stage_detail(running, now=NOW.timestamp())[0])


def test_a_teardown_counts_its_own_steps() -> None:
    steps = (a_stage("train", StageState.SUCCEEDED), a_stage("network", StageState.RUNNING))
    run = a_run(a_stage("train", StageState.UNDONE), state=RunState.TEARING_DOWN, teardown=steps)

    assert "1 of 2 teardown steps done" in text_of(run_heading(run, now=NOW.timestamp())[1])


def test_a_long_finding_is_wrapped_and_not_cut() -> None:
    found = StageFinding(
        CheckResult.FAILED, "bandwidth", "peak 3 GB/s at 4 MiB; from 128 MiB on 40 %", "Look at the fabric."
    )
    stage = replace(a_stage(state=StageState.SUCCEEDED), findings=(found,))
    said = [text_of(line) for line in stage_detail(stage, now=NOW.timestamp(), width=30)][1:]

    assert said == ["✗ bandwidth peak 3 GB/s at 4", "  MiB; from 128 MiB on 40 %", "  → Look at the fabric."]


def test_stages_that_are_left_out_do_not_count_as_done() -> None:
    run = a_run(a_stage("a", StageState.SKIPPED), a_stage("b", StageState.SUCCEEDED), a_stage("c"))

    assert "1 of 2 stages done" in text_of(run_heading(run, now=NOW.timestamp())[1])


def test_a_step_that_undoes_no_stage_is_not_said_to_undo() -> None:
    audit = replace(a_stage("audit", StageState.RUNNING, started_seconds_ago=1), kind="audit")
    data = a_stage("data", StageState.RUNNING, started_seconds_ago=1)
    run = a_run(a_stage("data", StageState.SUCCEEDED), state=RunState.TEARING_DOWN, teardown=(data, audit))

    assert [line.note for line in rail_of(run, now=NOW_SECONDS)[1:]] == ["", "auditing"]


def test_a_check_that_holds_nothing_is_not_among_what_is_kept() -> None:
    capacity = replace(a_stage("capacity", StageState.SUCCEEDED), kind="capacity")
    disk = a_stage("filesystem", StageState.SUCCEEDED)
    steps = tuple(replace(stage, state=StageState.SKIPPED) for stage in (disk, capacity))
    run = replace(a_run(capacity, disk, state=RunState.TORN_DOWN, teardown=steps), audit=Audit(0.0, (), ("data",)))

    text = texts(ending_lines(run))
    assert "kept on purpose: Filesystem." in text
    assert "Capacity" not in text


def test_what_an_audit_lists_is_folded_so_that_no_command_is_cut() -> None:
    kept = (
        "Terraform network: terraform_data.nat_gateway; remove: eksml-tui runs teardown bionemo-1121-ab12 --delete-data"
    )
    left = f"AWS arn:aws:ec2:us-west-2:111122223333:natgateway/nat-0a1b; remove: {'aws ec2 delete-nat-gateway ' * 2}"
    view = replace(a_run(a_stage("train")), audit=Audit(NOW_SECONDS, (left,), (kept,)))
    lines = [text_of(line) for line in ending_lines(view, width=60)]
    assert max(map(len, lines)) <= 60
    assert " ".join(" ".join(lines).split()).endswith(f"kept: {kept}")
    assert left.rsplit(maxsplit=1)[-1] in " ".join(lines)

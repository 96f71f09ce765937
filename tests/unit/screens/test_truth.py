"""Nothing on screen is false: what the panes, banners and dialogs say is about the run that they name."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

import pytest
from msgspec.structs import replace

from actions.base.clock import SystemClock
from actions.command.arguments import LaunchArguments
from actions.run.client import list_runs, load_run
from actions.run.journal.store import append_record
from actions.run.state.records import (
    Action,
    CheckResult,
    HeldPrice,
    Intent,
    Outcome,
    RequestKind,
    Result,
    RunRequest,
    StageFinding,
)
from actions.run.state.view import OwnedObject, RunState, RunView, StageState
from actions.telemetry.tools.bandwidth import judge_bandwidth
from actions.telemetry.tools.collectives import read_nccl
from actions.telemetry.tools.devices import read_devices
from tests.support import fixed_runs
from tests.support.builders import a_pod
from tests.support.fixed_cluster import RUN, picture, workers
from tests.support.fixed_console import ACCOUNT, FixedConsole, Scene, a_fixed_console
from tests.unit.run.world import make_run
from tui.cli.main import main
from tui.feeds.accelerators import WorkerReading
from tui.present.accelerators import device_rows, summary
from tui.present.cells import text_of
from tui.screens.confirm import ConfirmModal, TypeNameModal
from tui.screens.launch import LaunchScreen
from tui.textual_private import screen_text

SIZE = (120, 36)
SLEEPING = "0, NVIDIA A10G, 0, 20480, 23028, 61, 52.10, 300.00, P8"


pytestmark = pytest.mark.usefixtures("own_home")


def after_the_job() -> Scene:
    """A failed run whose workers are gone, beside nodes of others."""
    whole = picture()
    gone = {pod.key for pod in workers()}
    pods = {key: pod for key, pod in whole.pods.items() if key not in gone}
    usage = {name: use for name, use in whole.usage.items() if name not in {pod.node for pod in workers()}}
    return Scene(replace(whole, pods=pods, usage=usage), view=fixed_runs.a_failed_run(), is_busy=False)


async def test_the_banner_counts_the_accelerators_of_the_run_not_those_of_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    scene = after_the_job()
    async with a_fixed_console(scene, monkeypatch, size=SIZE) as console:
        await console.line("open run")
        await console.calm("idle (12 of 12 accelerators)")  # three g5.12xlarge of its NodePool

        assert scene.view is not None
        others = replace(scene.view, owned=tuple(one for one in scene.view.owned if one.kind != "NodePool"))
        scene.view = replace(others, stages=tuple(replace(one, holds_accelerators=False) for one in others.stages))
        await console.calm("failed")
        assert "parks the run" not in screen_text(console.app)
        assert "of 12 accelerators)" not in screen_text(console.app)


async def test_the_teardown_dialog_names_the_runs_that_count_on_what_it_deletes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    view = replace(fixed_runs.a_failed_run(), existing_cluster=True)
    claim = next(item for item in view.owned if item.kind == "PersistentVolumeClaim")
    used = OwnedObject("volumes", "v1", claim.kind, "default", claim.name, claim.uid, existed=True, is_deleted=False)
    other: RunView = replace(view, id="llama2-trn1-ray-1122-aaaa", state=RunState.FAILED, owned=(used,))
    monkeypatch.setattr("actions.run.teardown.sharing._other_runs", lambda _folder: [other])
    scene = Scene(picture(), view=view, folder=tmp_path / RUN, summaries=fixed_runs.summaries(tmp_path), is_busy=False)
    async with a_fixed_console(scene, monkeypatch, size=(80, 24)) as console:
        await console.line("open run")
        await console.calm("failed")
        await console.line("teardown")  # refused before a name is typed, with the ways on
        await console.calm("Others use what")
        shown = " ".join(re.findall(r"▌ (\S.*?) *│?\n", screen_text(console.app)))
        assert "run llama2-trn1-ray-1122-aaaa uses PersistentVolumeClaim" in shown
        assert re.search(r":teardown\W+run=llama2-trn1-ray-1122-aaaa;", shown)
        assert ":teardown even_if_shared=true" in shown
        assert not isinstance(console.app.screen, TypeNameModal)
        await console.line("teardown even_if_shared=true")
        await console.calm(TypeNameModal)


async def test_the_time_to_go_is_that_of_the_jobs_own_progress(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fixed_runs.store_training(tmp_path / RUN)
    scene = Scene(picture(), view=fixed_runs.a_training_run(), folder=tmp_path / RUN)
    async with a_fixed_console(scene, monkeypatch, size=SIZE) as console:
        await console.line("open run")
        await console.calm("about 22d13h left")  # not the three days that the blueprint expects of other hardware
        assert "22d13h to go by its own progress" in screen_text(console.app)
        await console.line("open charts")
        await console.calm("22d13h to go")


async def test_what_a_teardown_keeps_is_named_with_what_it_costs(monkeypatch: pytest.MonkeyPatch) -> None:
    view = fixed_runs.a_torn_down_run()
    assert view.audit is not None
    prices = (
        HeldPrice("NAT gateway", "network", "0.05", source="test"),
        HeldPrice("FSx for Lustre", "filesystem", "1.17", source="test"),
        HeldPrice("2 × m5.xlarge", "provision", "0.38", source="test"),
    )
    clean = replace(view.audit, leftovers=(), unknown=(), retained=("Terraform filesystem: aws_fsx_lustre",))
    scene = Scene(picture(), view=replace(view, audit=clean, prices=prices), is_busy=False)
    async with a_fixed_console(scene, monkeypatch, size=SIZE) as console:
        await console.line("open run")
        await console.calm("goes on for what is kept on purpose")
        shown = " ".join(screen_text(console.app).replace("│", " ").split())
        assert "File system $1.17/h" in shown
        assert "Network $0.05/h" in shown
        assert "m5.xlarge" not in shown
        assert re.search(r"(\d+) of \1 teardown steps done", shown)


async def test_the_peak_of_the_chart_is_that_of_the_verdict(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = (fixed_runs.CORPUS / "nccl" / "two_nodes_all_reduce.txt").read_text()
    text = re.sub(r"( float +sum .* )\S+( +\d+)$", r"\g<1>999.9\2", text, flags=re.MULTILINE)  # in place is faster
    fixed_runs.store_text(tmp_path / RUN, "nccl", "nccl-tests-launcher-7xk4d", text)
    verdict = judge_bandwidth(read_nccl(text), None, at_least_percent=80, from_bytes=1 << 20)
    found = tuple(StageFinding(CheckResult.PASSED, one.subject, one.detail) for one in verdict)
    view = fixed_runs.a_bandwidth_run()
    view = replace(view, stages=(replace(view.stages[0], findings=found),))
    scene = Scene(picture(), view=view, folder=tmp_path / RUN)
    async with a_fixed_console(scene, monkeypatch, size=SIZE) as console:
        await console.line("open charts")
        await console.calm("✓ bus bandwidth: peak")
        peaks = re.findall(r"peak [\d.]+ GB/s at \d+ [KMG]iB", screen_text(console.app))
        assert len(peaks) == 2
        assert len(set(peaks)) == 1


async def test_the_header_and_the_plan_say_what_their_dollars_are_of(monkeypatch: pytest.MonkeyPatch) -> None:
    async with a_fixed_console(Scene(picture()), monkeypatch, size=(200, 100)) as console:
        await console.line("open nodes")
        await console.calm("≥ $26.93/h")
        await console.line("launch bionemo-esm1nv")
        await console.calm("$/h is of nodes and of")
        shown = " ".join(screen_text(console.app).replace("│", " ").split())
        assert "EKS control plane" in shown[shown.index("$/h is of nodes and of") :]


async def test_a_narrow_pane_says_all_of_what_it_has_to_say(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    view = fixed_runs.a_training_run()
    stages = tuple(replace(stage, state=StageState.PENDING, started_at=None) for stage in view.stages)
    summaries = fixed_runs.summaries(tmp_path)
    scene = Scene(picture(), view=replace(view, stages=stages), summaries=summaries, is_busy=False)
    async with a_fixed_console(scene, monkeypatch, size=SIZE) as console:
        await console.line("layout watch")
        await console.line("resize right 1")  # panes without anything to show stay
        await console.calm(("No log yet", "No curve yet", " accelerators of "))
        rows = [row.strip() for row in screen_text(console.app).replace("││", "│").split("│")]
        assert any(row.endswith("of a workload.") for row in rows), "the end of the hint"
        assert any(row.startswith("No curve yet. Curves are read from the logs of jobs:") for row in rows)
        assert any(row.endswith("Pre-training.") for row in rows)
        short = "bionemo-esm1nv-1121-k3v7"
        assert f" {short} ─" in screen_text(console.app)
        assert " accelerators of …k3v7/train · " in screen_text(console.app), "stage and job, not the run's whole name"


def dialog_of(console: FixedConsole) -> str:
    """The lines of the dialog in front, joined by blanks."""
    assert isinstance(console.app.screen, TypeNameModal)
    return " ".join(" ".join(map(text_of, console.app.screen._question.lines)).split())


async def test_the_question_before_a_launch_names_account_region_and_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    async with a_fixed_console(Scene(picture()), monkeypatch, size=SIZE) as console:
        await console.line("launch efa-nccl-tests auto_approve=true region=us-west-2")
        await console.calm("launch efa-nccl-tests")
        await console.press("enter")
        await console.calm(TypeNameModal)
        shown = dialog_of(console)
        assert "Makes cluster nvidia-gpu-efa · region us-west-2" in shown
        assert f"account {ACCOUNT}" in shown
        assert "All plans of Terraform are carried out without asking." in shown
        await console.press("escape")
        await console.calm(LaunchScreen)
        await console.press("escape")
        await console.line("launch bionemo-esm1nv existing_cluster=true")
        await console.calm("launch bionemo-esm1nv")
        await console.press("enter")
        await console.calm(TypeNameModal)
        shown = dialog_of(console)
        assert f"In cluster arn:aws:eks:us-west-2:{ACCOUNT}:cluster/bionemo-on-eks" in shown
        assert "without asking" not in shown
        await console.press("escape")
        await console.calm(LaunchScreen)
        await console.press("escape")
        await console.line("launch efa-nccl-tests")
        await console.calm("Cluster name")
        assert "us-east-1" in screen_text(console.app)
        await console.press("escape")
        await console.line("launch efa-nccl-tests existing_cluster=true")  # which makes its own in us-east-1
        await console.calm("launch efa-nccl-tests")
        assert "Cluster name" not in screen_text(console.app)
        assert "us-east-1" not in screen_text(console.app)
        await console.press("enter")
        await console.calm(TypeNameModal)
        shown = dialog_of(console)
        assert "region us-west-2" in shown
        assert "us-east-1" not in shown


async def test_a_form_that_cannot_be_launched_names_the_key_that_goes_to_what_to_change(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with a_fixed_console(Scene(picture()), monkeypatch, size=SIZE) as console:
        await console.line("launch bionemo-esm1nv existing_cluster=true max_steps=60")
        await console.calm("Lower val_check_interval")
        await console.calm("ctrl+n what to change")
        assert "Steps between validations" not in screen_text(console.app)
        await console.press("ctrl+n")  # first to one that is in sight, then to the folded one
        await console.press("ctrl+n")
        await console.calm("Steps between validations")


async def test_a_launch_says_at_once_that_it_is_under_way(monkeypatch: pytest.MonkeyPatch) -> None:
    async def takes_long(*_: object, **__: object) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr("actions.run.launch.launch_run", takes_long)
    async with a_fixed_console(Scene(picture()), monkeypatch, size=SIZE) as console:
        await console.line("launch efa-nccl-tests")
        await console.calm("launch efa-nccl-tests")
        await console.press("enter")
        await console.calm(TypeNameModal)
        await console.press(*("-" if letter == "-" else letter for letter in "nvidia-gpu-efa"), "enter")
        await console.calm("Launching efa-nccl-tests.")


async def test_all_plans_can_be_approved_in_the_form(monkeypatch: pytest.MonkeyPatch) -> None:
    launched: list[LaunchArguments] = []
    async with a_fixed_console(Scene(picture()), monkeypatch, size=SIZE) as console:
        await console.line("launch efa-nccl-tests")
        await console.calm("launch efa-nccl-tests")
        screen = console.app.screen
        assert isinstance(screen, LaunchScreen)
        monkeypatch.setattr(screen, "dismiss", launched.append)
        await console.press("shift+tab", "shift+tab", "enter", "tab", "tab", "right")  # the group before that of limits
        await console.calm("Run: 2 fields (1 changed)")
        await console.press("enter")
        await console.calm(TypeNameModal)
        await console.press(*("-" if letter == "-" else letter for letter in "nvidia-gpu-efa"), "enter")
        await console.calm(LaunchScreen)
    assert [one.auto_approve for one in launched] == [True]


async def test_the_preset_is_reset_to_the_usual_one(monkeypatch: pytest.MonkeyPatch) -> None:
    async with a_fixed_console(Scene(picture()), monkeypatch, size=SIZE) as console:
        await console.line("launch bionemo-esm1nv")
        await console.calm("Preset                    none ")
        await console.press("right")
        await console.calm("● default none")
        await console.press("ctrl+r")
        await console.calm("Preset                    none ")
        assert "● default none" not in screen_text(console.app)


async def test_lines_that_a_filter_leaves_out_are_not_counted_as_new(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fixed_runs.store_training(tmp_path / RUN)
    scene = Scene(picture(), view=fixed_runs.a_training_run(), folder=tmp_path / RUN)
    async with a_fixed_console(scene, monkeypatch, size=SIZE) as console:
        await console.line("open logs")
        await console.calm("● following")
        await console.press("k")
        await console.calm("‖ paused")
        await console.line("filter Epoch")
        await console.calm("Epoch")
        assert "new lines" not in screen_text(console.app)


async def test_the_arrow_of_a_sorted_column_is_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    async with a_fixed_console(Scene(picture()), monkeypatch, size=SIZE) as console:
        await console.line("open pods")
        await console.calm("NAME")
        await console.line("sort restarts descending=true")
        await console.calm("▼")


async def test_escape_takes_a_message_away_before_it_leaves_the_pane(monkeypatch: pytest.MonkeyPatch) -> None:
    async with a_fixed_console(Scene(picture()), monkeypatch, size=SIZE) as console:
        await console.line("open pods")
        await console.line("launche")
        await console.calm("There is no command")
        await console.press("escape")
        await console.calm("[2 pods]")
        assert "There is no command" not in screen_text(console.app)
        await console.press("escape")
        await console.calm("[H home]")


async def test_a_teardown_that_names_a_run_in_the_place_of_its_cluster_is_refused_with_how_to_name_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tui.base_app._ERROR_SECONDS", 600.0)
    scene = after_the_job()
    scene.folder, scene.summaries = tmp_path / RUN, fixed_runs.summaries(tmp_path)
    async with a_fixed_console(scene, monkeypatch, size=SIZE) as console:
        await console.line("open run")
        await console.line("teardown efa-nccl-tests-1121-2x")
        await console.calm(("The teardown was not confirmed", "run=ID"))
        assert not isinstance(console.app.screen, TypeNameModal)


async def test_a_message_leaves_the_command_line_free(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tui.base_app._ERROR_SECONDS", 600.0)  # longer than it takes to type
    async with a_fixed_console(Scene(picture()), monkeypatch, size=(80, 24)) as console:
        await console.line("launche")
        await console.calm("There is no command")
        typed = "context arn:aws:eks:us-west-2:111122223333:cluster/bionemo"
        await console.press(":", *typed)
        await console.calm((f": {typed}", "There is no command"))


def test_a_device_that_is_requested_and_stands_still_is_a_figure_of_its_own() -> None:
    feed_rows = device_rows([WorkerReading(pod, read_devices(SLEEPING), 0.0) for pod in workers()[:2]])
    (first, *_) = summary(feed_rows, zeros=[300.0, 30.0])
    assert "1 requested, but at 0% for 5m" in text_of(first)
    (first, *_) = summary(feed_rows, zeros=[30.0])
    assert "requested" not in text_of(first)


async def test_a_resume_of_a_parked_run_asks_first_and_names_what_follows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent: list[tuple[str, RequestKind]] = []

    def send(folder: Path, kind: RequestKind, **_: object) -> str:
        sent.append((folder.name, kind))
        return ""

    monkeypatch.setattr("actions.run.client.send_request", send)
    folder = make_run(tmp_path, SystemClock())
    for body in (RunRequest(RequestKind.PARK), Intent(Action.DRAIN), Outcome(Action.DRAIN, Result.DONE)):
        append_record(folder, body, deed="the park")
    scene = Scene(
        picture(), view=load_run(folder), folder=folder, summaries=tuple(list_runs(folder.parent)), is_busy=False
    )
    async with a_fixed_console(scene, monkeypatch, size=(80, 24)) as console:
        await console.line("open run")
        await console.calm("parked")
        await console.pilot.press("R")
        await console.calm(ConfirmModal)
        shown = screen_text(console.app)
        assert f"Resume {folder.name}?" in shown
        assert "Left to do: Provision, Operators, Train" in shown
        assert "scroll" not in shown
        assert sent == []
        await console.pilot.press("y")
        await console.calm(f"Run {folder.name} continues")
    assert sent == [(folder.name, RequestKind.RETRY)]


def test_a_process_whose_gpu_is_not_known_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    capture = fixed_runs.CORPUS / "nvidia_smi" / "csv_h200_apps.csv"
    assert main(["read", "nvidia-smi", str(capture)]) == 0
    told = capsys.readouterr().out
    assert "python3" in told
    assert "None" not in told


async def test_the_takeover_dialog_names_who_has_the_run_and_where(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene = Scene(picture(), summaries=fixed_runs.summaries(tmp_path))
    scene.remotes = fixed_runs.remote_runs()
    async with a_fixed_console(scene, monkeypatch, size=(80, 24)) as console:
        await console.line("open runs")
        await console.calm("linus@")
        await console.line(f"takeover {scene.remotes[0].id}")
        await console.calm(TypeNameModal)
        shown = " ".join(screen_text(console.app).replace("│", " ").split())
        assert "grace@bastion-2 has it, last heartbeat 11:59:48 UTC." in shown
        assert "cluster bionemo-on-eks · region us-west-2" in shown
        assert "account 111122223333" in shown


@pytest.mark.parametrize("size", [(80, 24), (120, 36)])
async def test_a_crash_loop_of_a_run_of_another_machine_is_red_for_the_colleague(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: tuple[int, int]
) -> None:
    """It was healthy in rail, tab, list and Home, while the same screen had the error of its pods as a problem."""
    remote = next(run for run in fixed_runs.remote_runs() if run.lease is not None and not run.is_over)
    labels = {"run": remote.id, "stage": remote.status.stage, "owner_kind": "PyTorchJob", "owner_name": "esm"}
    loop = replace(a_pod("esm-worker-7", reason="CrashLoopBackOff"), restarts=12, ready=0, **labels)
    snapshot = picture()
    snapshot = replace(snapshot, pods={**snapshot.pods, loop.key: loop})
    scene = Scene(snapshot, summaries=fixed_runs.summaries(tmp_path), remotes=(remote,))
    async with a_fixed_console(scene, monkeypatch, size=size) as console:
        await console.line("open home")
        await console.calm(("▲ bionemo-e", "0 runs▲"))
        await console.line("open runs")
        await console.calm(("▲ running", "train"))
        await console.line(f"open run of={remote.id}")
        await console.calm(("worker-7 restarted 12×, CrashLoopBackOff", "run▲"))
        rail = next(row for row in screen_text(console.app).splitlines() if "│ ▲ " in row and "worker-7" in row)
        assert "12×" in rail or size[0] < 100
        assert "cause unknown, log not read" in " ".join(screen_text(console.app).replace("│", " ").split())


async def test_w_on_a_step_of_a_teardown_tells_its_state_and_no_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene = Scene(picture(), view=fixed_runs.a_torn_down_run(), folder=tmp_path / RUN, is_busy=False)
    async with a_fixed_console(scene, monkeypatch, size=SIZE) as console:
        await console.line("why stage/teardown:audit")
        await console.calm("Why: Audit")
        shown = screen_text(console.app)
        assert "Audit, succeeded" in shown
        assert "has no stage" not in shown
        assert "Nothing is wrong" not in shown, "that was not looked at"
